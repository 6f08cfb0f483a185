package policy

import (
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// MaxPriority is the largest of a ClusterNetworkPolicy, asked last.
const MaxPriority = 1000

// maxRules is how many rules of a direction the API allows.
const maxRules = 25

// FromClusterNetworkPolicy reads a ClusterNetworkPolicy. A rule of which a part cannot be read fails closed,
// as the API asks: it accepts nothing, or denies everything. It returns nil where nobody can say whom, when
// or how the policy selects.
func FromClusterNetworkPolicy(o *v1alpha2.ClusterNetworkPolicy) (*Policy, []Problem) {
	r := &reader{}
	p := &Policy{Kind: ClusterNetworkPolicy, Name: o.Name, Priority: int(o.Spec.Priority)}
	switch o.Spec.Tier {
	case v1alpha2.AdminTier:
		p.Tier = Admin
	case v1alpha2.BaselineTier:
		p.Tier = Baseline
	default:
		r.wrong("spec.tier", "%q is neither Admin nor Baseline; the policy is not in force until it is corrected",
			quoted(string(o.Spec.Tier)))
	}
	if p.Priority < 0 || p.Priority > MaxPriority {
		r.wrong("spec.priority", "%d is not from 0 to %d; the policy is not in force until it is corrected", p.Priority,
			MaxPriority)
	}
	for _, list := range []struct {
		field string
		rules int
	}{{"spec.ingress", len(o.Spec.Ingress)}, {"spec.egress", len(o.Spec.Egress)}} {
		if list.rules > maxRules {
			r.wrong(list.field, "has %d rules, more than the API's %d; the policy is not in force until it has fewer",
				list.rules, maxRules)
		}
	}
	subject, ok := r.subject(o.Spec.Subject)
	if len(r.problems) > 0 || !ok {
		return nil, r.told()
	}
	p.Subject = subject
	for i := range o.Spec.Ingress {
		p.Rules = append(p.Rules, r.clusterIngress(i, &o.Spec.Ingress[i]))
	}
	for i := range o.Spec.Egress {
		p.Rules = append(p.Rules, r.clusterEgress(i, &o.Spec.Egress[i]))
	}
	return p, r.told()
}

func (r *reader) subject(o v1alpha2.ClusterNetworkPolicySubject) (Selection, bool) {
	const field = "spec.subject"
	s, set, ok := r.pods(field, o.Namespaces, o.Pods)
	if set != 1 {
		r.wrong(field, "needs exactly one of namespaces and pods; the policy is not in force until it has it")
	}
	return s, set == 1 && ok
}

// pods reads a selection of all pods of some namespaces, or of some pods; set is how many of the two there are.
func (r *reader) pods(field string, namespaces *metav1.LabelSelector, pods *v1alpha2.NamespacedPod) (s Selection,
	set int, ok bool) {
	ok = true
	if namespaces != nil {
		set++
		s.Namespaces, ok = r.selector(field+".namespaces", namespaces)
	}
	if pods != nil {
		set++
		var both bool
		s.Namespaces, ok = r.selector(field+".pods.namespaceSelector", &pods.NamespaceSelector)
		s.Pods, both = r.selector(field+".pods.podSelector", &pods.PodSelector)
		ok = ok && both
	}
	return s, set, ok
}

func (r *reader) clusterIngress(index int, o *v1alpha2.ClusterNetworkPolicyIngressRule) Rule {
	rule := r.clusterRule(Ingress, index, o.Name, o.Action)
	before := len(r.problems) // an action that cannot be read is a Deny, and the rule stands
	for i, from := range o.From {
		field := fmt.Sprintf("%s.from[%d]", rule.Field(), i)
		s, set, _ := r.pods(field, from.Namespaces, from.Pods)
		r.one(field, set)
		rule.Peers = append(rule.Peers, Peer{Pods: &s})
	}
	if len(o.From) == 0 {
		r.wrong(rule.Field()+".from", "is empty; give at least one peer")
	}
	r.protocols(&rule, o.Protocols)
	return r.closed(rule, before)
}

func (r *reader) clusterEgress(index int, o *v1alpha2.ClusterNetworkPolicyEgressRule) Rule {
	rule := r.clusterRule(Egress, index, o.Name, o.Action)
	before := len(r.problems)
	for i := range o.To {
		rule.Peers = append(rule.Peers, r.egressPeers(fmt.Sprintf("%s.to[%d]", rule.Field(), i), rule.Action, &o.To[i])...)
	}
	if len(o.To) == 0 {
		r.wrong(rule.Field()+".to", "is empty; give at least one peer")
	}
	r.protocols(&rule, o.Protocols)
	for _, port := range rule.Ports {
		for i, peer := range rule.Peers {
			if port.Name != "" && peer.Pods == nil {
				r.wrong(fmt.Sprintf("%s.to[%d]", rule.Field(), min(i, len(o.To)-1)),
					"is not of pods, which alone have named ports like %q; give a number", quoted(port.Name))
				return r.closed(rule, before)
			}
		}
	}
	return r.closed(rule, before)
}

func (r *reader) egressPeers(field string, action Action, o *v1alpha2.ClusterNetworkPolicyEgressPeer) []Peer {
	var peers []Peer
	s, set, _ := r.pods(field, o.Namespaces, o.Pods)
	if set > 0 {
		peers = append(peers, Peer{Pods: &s})
	}
	if o.Nodes != nil {
		set++
		text, _ := r.selector(field+".nodes", o.Nodes)
		nodes := Nodes(text)
		peers = append(peers, Peer{Nodes: &nodes})
	}
	if len(o.Networks) > 0 {
		set++
		for i, cidr := range o.Networks {
			prefix, why := parsePrefix(string(cidr))
			if why != "" {
				r.wrong(fmt.Sprintf("%s.networks[%d]", field, i), "%q %s", quoted(string(cidr)), why)
				continue
			}
			peers = append(peers, Peer{Blocks: []netip.Prefix{prefix}})
		}
	}
	if len(o.DomainNames) > 0 {
		set++
		if action != Accept {
			r.wrong(field+".domainNames", "stands in a rule of action %s; the API knows domain names in Accept rules only",
				action)
		}
		for i, name := range o.DomainNames {
			domain, ok := parseDomain(string(name))
			if !ok {
				r.wrong(fmt.Sprintf("%s.domainNames[%d]", field, i), "%q is not a domain name, like kubernetes.io or "+
					"*.kubernetes.io", quoted(string(name)))
				continue
			}
			peers = append(peers, Peer{Domain: domain})
		}
	}
	r.one(field, set)
	return peers
}

func (r *reader) one(field string, set int) {
	if set != 1 {
		r.wrong(field, "needs exactly one kind of peer and has %d; write one, "+
			"or update Weft if it has a field of a newer API", set)
	}
}

func (r *reader) clusterRule(d Direction, index int, name string, action v1alpha2.ClusterNetworkPolicyRuleAction) Rule {
	rule := Rule{Direction: d, Index: index, Name: name}
	switch action {
	case v1alpha2.ClusterNetworkPolicyRuleActionAccept:
		rule.Action = Accept
	case v1alpha2.ClusterNetworkPolicyRuleActionPass:
		rule.Action = Pass
	case v1alpha2.ClusterNetworkPolicyRuleActionDeny:
		rule.Action = Deny
	default:
		rule.Action = Deny
		r.wrong(rule.Field()+".action", "%q is none of Accept, Deny and Pass, and is taken for Deny; correct it",
			quoted(string(action)))
	}
	return rule
}

func (r *reader) protocols(rule *Rule, list []v1alpha2.ClusterNetworkPolicyProtocol) {
	rule.AnyPort = len(list) == 0
	for i, o := range list {
		field := fmt.Sprintf("%s.protocols[%d]", rule.Field(), i)
		set := 0
		take := func(protocol Protocol, word string, port *v1alpha2.Port) {
			set++
			if p, ok := r.clusterPort(protocol, field+"."+word+".destinationPort", port); ok {
				rule.Ports = append(rule.Ports, p)
			}
		}
		if o.TCP != nil {
			take(TCP, "tcp", o.TCP.DestinationPort)
		}
		if o.UDP != nil {
			take(UDP, "udp", o.UDP.DestinationPort)
		}
		if o.SCTP != nil {
			take(SCTP, "sctp", o.SCTP.DestinationPort)
		}
		if o.DestinationNamedPort != "" {
			set++
			rule.Ports = append(rule.Ports, Port{Name: o.DestinationNamedPort})
		}
		if set != 1 {
			r.wrong(field, "needs exactly one of tcp, udp, sctp and destinationNamedPort and has %d; write one, or update "+
				"Weft if it has a field of a newer API", set)
		}
	}
}

func (r *reader) clusterPort(protocol Protocol, field string, o *v1alpha2.Port) (Port, bool) {
	switch {
	case o == nil:
		return Port{Protocol: protocol}, true
	case o.Range != nil && o.Number == 0:
		return r.ports(protocol, field+".range.start", o.Range.Start, field+".range.end", o.Range.End)
	case o.Range == nil:
		return r.ports(protocol, field+".number", o.Number, field+".number", o.Number)
	}
	r.wrong(field, "has both number and range; write one of them")
	return Port{}, false
}

// closed is a rule as it stands, or, where something has been wrong with it since before, what lets through
// least: "fail closed" in the API's words.
func (r *reader) closed(rule Rule, before int) Rule {
	if len(r.problems) == before {
		return rule
	}
	still := "accepts nothing"
	if rule.Action == Accept {
		rule.Peers, rule.Ports = nil, nil
	} else {
		still = "denies everything"
		rule.Action, rule.Anyone, rule.Peers, rule.AnyPort, rule.Ports = Deny, true, nil, true, nil
	}
	for i := before; i < len(r.problems); i++ {
		r.problems[i].Text += "; until then the rule " + still
	}
	return rule
}

// parseDomain reads a domain name into lower case, without its final dot.
func parseDomain(text string) (string, bool) {
	name := strings.ToLower(strings.TrimSuffix(text, "."))
	list := strings.Split(strings.TrimPrefix(name, "*."), ".")
	if len(name) > 253 || len(list) < 2 {
		return "", false
	}
	for _, label := range list {
		word := strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_")
		if label == "" || len(label) > 63 || word != "" || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return "", false
		}
	}
	return name, true
}
