package oracle

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// clusterPolicies are of both tiers. Some have the priority of another: of objects without a date of birth, as
// these, Weft asks the one first whose name is first, and so does kube-network-policies.
func (g *generator) clusterPolicies() []*v1alpha2.ClusterNetworkPolicy {
	var list []*v1alpha2.ClusterNetworkPolicy
	for i := range 1 + g.IntN(4) {
		p := &v1alpha2.ClusterNetworkPolicy{TypeMeta: metav1.TypeMeta{Kind: "ClusterNetworkPolicy",
			APIVersion: v1alpha2.GroupVersion.String()}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cnp%d", i)}}
		p.Spec.Tier = pick(g, v1alpha2.AdminTier, v1alpha2.BaselineTier)
		p.Spec.Priority = pick[int32](g, 0, 1, 2, 999, 1000)
		p.Spec.Subject.Namespaces, p.Spec.Subject.Pods = g.namespacesOrPods()
		for j := range g.IntN(4) {
			p.Spec.Ingress = append(p.Spec.Ingress, v1alpha2.ClusterNetworkPolicyIngressRule{Name: g.ruleName(j),
				Action: g.action(),
				From:   atLeastOne(g, 2, g.ingressPeer), Protocols: several(g, 3, func() v1alpha2.ClusterNetworkPolicyProtocol {
					return g.protocol(true)
				})})
		}
		for j := range g.IntN(4) {
			p.Spec.Egress = append(p.Spec.Egress, g.egressRule(j))
		}
		list = append(list, p)
	}
	return list
}

func atLeastOne[T any](g *generator, most int, one func() T) []T {
	return append(several(g, most-1, one), one())
}

func (g *generator) ruleName(i int) string {
	if g.one(2) {
		return ""
	}
	return fmt.Sprintf("rule-%d", i)
}

func (g *generator) action() v1alpha2.ClusterNetworkPolicyRuleAction {
	return pick(g, v1alpha2.ClusterNetworkPolicyRuleActionAccept, v1alpha2.ClusterNetworkPolicyRuleActionDeny,
		v1alpha2.ClusterNetworkPolicyRuleActionPass)
}

func (g *generator) namespacesOrPods() (*metav1.LabelSelector, *v1alpha2.NamespacedPod) {
	if g.one(2) {
		return g.namespaceSelector(), nil
	}
	return nil, &v1alpha2.NamespacedPod{NamespaceSelector: *g.namespaceSelector(), PodSelector: *g.selector()}
}

func (g *generator) ingressPeer() (p v1alpha2.ClusterNetworkPolicyIngressPeer) {
	p.Namespaces, p.Pods = g.namespacesOrPods()
	return p
}

// egressRule keeps to what the API allows: names of ports with peers of pods alone, domain names in rules that
// accept.
func (g *generator) egressRule(i int) v1alpha2.ClusterNetworkPolicyEgressRule {
	rule := v1alpha2.ClusterNetworkPolicyEgressRule{Name: g.ruleName(i), Action: g.action()}
	beyond := g.one(2)
	rule.To = atLeastOne(g, 3, func() (p v1alpha2.ClusterNetworkPolicyEgressPeer) {
		kind := g.IntN(4)
		switch {
		case beyond && kind == 0:
			p.Nodes = g.selector()
		case beyond && kind == 1:
			p.Networks = atLeastOne(g, 3, func() v1alpha2.CIDR { return v1alpha2.CIDR(g.cidr(0).String()) })
		case beyond && kind == 2 && rule.Action == v1alpha2.ClusterNetworkPolicyRuleActionAccept:
			p.DomainNames = []v1alpha2.DomainName{"example.com", "*.example.org"} // of which nobody knows an address
		default:
			p.Namespaces, p.Pods = g.namespacesOrPods()
		}
		return p
	})
	rule.Protocols = several(g, 3, func() v1alpha2.ClusterNetworkPolicyProtocol { return g.protocol(!beyond) })
	return rule
}

func (g *generator) protocol(named bool) (p v1alpha2.ClusterNetworkPolicyProtocol) {
	if named && g.one(3) {
		p.DestinationNamedPort = pick(g, append(portNames, "nobodys")...)
		return p
	}
	port := &v1alpha2.Port{}
	switch first, last := g.ports(); {
	case g.one(3): // all of them, which the API wants to be said
		port.Range = &v1alpha2.PortRange{Start: 1, End: 65535}
	case first < last && g.one(2):
		port.Range = &v1alpha2.PortRange{Start: first, End: last}
	default:
		port.Number = first
	}
	switch g.IntN(3) {
	case 0:
		p.TCP = &v1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: port}
	case 1:
		p.UDP = &v1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: port}
	case 2:
		p.SCTP = &v1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: port}
	}
	return p
}
