package policy

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// FromAdminNetworkPolicy reads an AdminNetworkPolicy: a ClusterNetworkPolicy of the tier Admin in older words.
func FromAdminNetworkPolicy(o *v1alpha1.AdminNetworkPolicy) (*Policy, []Problem) {
	c := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: o.ObjectMeta}
	c.Spec.Tier, c.Spec.Priority, c.Spec.Subject = v1alpha2.AdminTier, o.Spec.Priority, olderSubject(o.Spec.Subject)
	for _, rule := range o.Spec.Ingress {
		c.Spec.Ingress = append(c.Spec.Ingress, v1alpha2.ClusterNetworkPolicyIngressRule{Name: rule.Name,
			Action: olderAction(string(rule.Action)), From: olderFrom(rule.From), Protocols: olderPorts(rule.Ports)})
	}
	for _, rule := range o.Spec.Egress {
		var to []v1alpha2.ClusterNetworkPolicyEgressPeer
		for _, p := range rule.To {
			peer := v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: p.Namespaces, Pods: olderPods(p.Pods), Nodes: p.Nodes,
				Networks: renamed[v1alpha2.CIDR](p.Networks)}
			peer.DomainNames = renamed[v1alpha2.DomainName](p.DomainNames)
			to = append(to, peer)
		}
		c.Spec.Egress = append(c.Spec.Egress, v1alpha2.ClusterNetworkPolicyEgressRule{Name: rule.Name,
			Action: olderAction(string(rule.Action)), To: to, Protocols: olderPorts(rule.Ports)})
	}
	return older(AdminNetworkPolicy, c)
}

// FromBaselineAdminNetworkPolicy reads a BaselineAdminNetworkPolicy: the last that is asked.
func FromBaselineAdminNetworkPolicy(o *v1alpha1.BaselineAdminNetworkPolicy) (*Policy, []Problem) {
	c := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: o.ObjectMeta}
	c.Spec.Tier, c.Spec.Subject = v1alpha2.BaselineTier, olderSubject(o.Spec.Subject)
	for _, rule := range o.Spec.Ingress {
		c.Spec.Ingress = append(c.Spec.Ingress, v1alpha2.ClusterNetworkPolicyIngressRule{Name: rule.Name,
			Action: olderAction(string(rule.Action)), From: olderFrom(rule.From), Protocols: olderPorts(rule.Ports)})
	}
	for _, rule := range o.Spec.Egress {
		var to []v1alpha2.ClusterNetworkPolicyEgressPeer
		for _, p := range rule.To {
			to = append(to, v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: p.Namespaces, Pods: olderPods(p.Pods),
				Nodes: p.Nodes, Networks: renamed[v1alpha2.CIDR](p.Networks)})
		}
		c.Spec.Egress = append(c.Spec.Egress, v1alpha2.ClusterNetworkPolicyEgressRule{Name: rule.Name,
			Action: olderAction(string(rule.Action)), To: to, Protocols: olderPorts(rule.Ports)})
	}
	p, problems := older(BaselineAdminNetworkPolicy, c)
	if p != nil {
		p.Priority = MaxPriority + 1
	}
	return p, problems
}

// older reads what was made of an older kind, in whose words problems speak.
func older(kind Kind, o *v1alpha2.ClusterNetworkPolicy) (*Policy, []Problem) {
	p, problems := FromClusterNetworkPolicy(o)
	words := strings.NewReplacer(".protocols[", ".ports[", ".destinationPort", "", "destinationNamedPort", "namedPort")
	for i := range problems {
		problems[i].Field = words.Replace(problems[i].Field)
		problems[i].Text = strings.NewReplacer("none of Accept,", "none of Allow,", "in Accept rules", "in Allow rules",
			"one of tcp, udp, sctp and destinationNamedPort", "one of portNumber, portRange and namedPort").Replace(
			problems[i].Text)
	}
	if p != nil {
		p.Kind = kind
	}
	return p, problems
}

func olderAction(action string) v1alpha2.ClusterNetworkPolicyRuleAction {
	switch action {
	case string(v1alpha1.AdminNetworkPolicyRuleActionAllow):
		return v1alpha2.ClusterNetworkPolicyRuleActionAccept
	case string(v1alpha2.ClusterNetworkPolicyRuleActionAccept): // not a word of that API
		return "accept"
	}
	return v1alpha2.ClusterNetworkPolicyRuleAction(action)
}

func olderSubject(o v1alpha1.AdminNetworkPolicySubject) v1alpha2.ClusterNetworkPolicySubject {
	return v1alpha2.ClusterNetworkPolicySubject{Namespaces: o.Namespaces, Pods: olderPods(o.Pods)}
}

func olderPods(o *v1alpha1.NamespacedPod) *v1alpha2.NamespacedPod {
	if o == nil {
		return nil
	}
	return &v1alpha2.NamespacedPod{NamespaceSelector: o.NamespaceSelector, PodSelector: o.PodSelector}
}

func olderFrom(list []v1alpha1.AdminNetworkPolicyIngressPeer) []v1alpha2.ClusterNetworkPolicyIngressPeer {
	var from []v1alpha2.ClusterNetworkPolicyIngressPeer
	for _, p := range list {
		from = append(from, v1alpha2.ClusterNetworkPolicyIngressPeer{Namespaces: p.Namespaces, Pods: olderPods(p.Pods)})
	}
	return from
}

// renamed is a list of texts of one type as one of another; nil stays nil.
func renamed[To, From ~string](list []From) []To {
	var to []To
	for _, text := range list {
		to = append(to, To(text))
	}
	return to
}

// olderPorts turns ports, each with its protocol, into protocols, each with its port. What it cannot turn
// becomes a protocol without any field, which is an error there.
func olderPorts(ports *[]v1alpha1.AdminNetworkPolicyPort) []v1alpha2.ClusterNetworkPolicyProtocol {
	if ports == nil {
		return nil
	}
	var list []v1alpha2.ClusterNetworkPolicyProtocol
	for _, p := range *ports {
		set, out := 0, v1alpha2.ClusterNetworkPolicyProtocol{}
		if p.PortNumber != nil {
			set++
			out = protocolWith(p.PortNumber.Protocol, &v1alpha2.Port{Number: p.PortNumber.Port})
		}
		if p.PortRange != nil {
			set++
			out = protocolWith(p.PortRange.Protocol, &v1alpha2.Port{Range: &v1alpha2.PortRange{Start: p.PortRange.Start,
				End: p.PortRange.End}})
		}
		if p.NamedPort != nil {
			set++
			out.DestinationNamedPort = *p.NamedPort
		}
		if set != 1 {
			out = v1alpha2.ClusterNetworkPolicyProtocol{}
		}
		list = append(list, out)
	}
	return list
}

func protocolWith(protocol corev1.Protocol, port *v1alpha2.Port) (out v1alpha2.ClusterNetworkPolicyProtocol) {
	switch protocol {
	case corev1.ProtocolTCP, "":
		out.TCP = &v1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: port}
	case corev1.ProtocolUDP:
		out.UDP = &v1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: port}
	case corev1.ProtocolSCTP:
		out.SCTP = &v1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: port}
	}
	return out
}
