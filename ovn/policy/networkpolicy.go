package policy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FromNetworkPolicy reads a NetworkPolicy. What is wrong with a part of it leaves the rest in force; it
// returns nil where nobody can say whom the policy selects.
func FromNetworkPolicy(o *networkingv1.NetworkPolicy) (*Policy, []Problem) {
	r := &reader{}
	p := &Policy{Kind: NetworkPolicy, Namespace: o.Namespace, Name: o.Name, Tier: Tenant}
	pods, ok := r.selector("spec.podSelector", &o.Spec.PodSelector)
	if !ok {
		return nil, r.told()
	}
	p.Subject = Selection{Namespace: o.Namespace, Pods: pods}
	p.Isolates = isolates(r, o)
	if p.Isolates[Ingress] {
		for i, rule := range o.Spec.Ingress {
			p.Rules = append(p.Rules, r.tenantRule(o.Namespace, Ingress, i, "from", rule.From, rule.Ports))
		}
	}
	if p.Isolates[Egress] {
		for i, rule := range o.Spec.Egress {
			p.Rules = append(p.Rules, r.tenantRule(o.Namespace, Egress, i, "to", rule.To, rule.Ports))
		}
	}
	return p, r.told()
}

// isolates are the directions that a NetworkPolicy is about.
func isolates(r *reader, o *networkingv1.NetworkPolicy) (is [2]bool) {
	if len(o.Spec.PolicyTypes) == 0 {
		return [2]bool{Ingress: true, Egress: len(o.Spec.Egress) > 0}
	}
	for i, t := range o.Spec.PolicyTypes {
		switch t {
		case networkingv1.PolicyTypeIngress:
			is[Ingress] = true
		case networkingv1.PolicyTypeEgress:
			is[Egress] = true
		default:
			r.wrong(fmt.Sprintf("spec.policyTypes[%d]", i), "%q is neither Ingress nor Egress, and is left out; correct or "+
				"remove it", quoted(string(t)))
		}
	}
	return is
}

func (r *reader) tenantRule(namespace string, d Direction, index int, peers string,
	from []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) Rule {
	rule := Rule{Direction: d, Index: index, Action: Accept}
	if r.rules++; r.beyond(rule.Field(), r.rules, maxTenantRules, "rules") {
		return rule
	}
	rule.Anyone, rule.AnyPort = len(from) == 0, len(ports) == 0
	for i := range from {
		if peer, ok := r.tenantPeer(fmt.Sprintf("%s.%s[%d]", rule.Field(), peers, i), namespace, &from[i]); ok {
			rule.Peers = append(rule.Peers, peer)
		}
	}
	for i := range ports {
		if port, ok := r.tenantPort(fmt.Sprintf("%s.ports[%d]", rule.Field(), i), &ports[i]); ok {
			rule.Ports = append(rule.Ports, port)
		}
	}
	if d == Egress {
		r.boundPairs(&rule)
	}
	return rule
}

// boundPairs leaves out named ports beyond those that a policy may have together with its peers.
func (r *reader) boundPairs(rule *Rule) {
	peers := 0
	for _, peer := range rule.Peers {
		if peer.Pods != nil {
			peers++
		}
	}
	rule.Ports = slices.DeleteFunc(rule.Ports, func(port Port) bool {
		if port.Name == "" {
			return false
		}
		r.pairs += max(1, peers)
		return r.beyond(fmt.Sprintf("%s.ports: %q", rule.Field(), quoted(port.Name)), r.pairs, maxTenantPairs,
			"pairs of a named port and a peer by selectors")
	})
}

func (r *reader) tenantPeer(field, namespace string, o *networkingv1.NetworkPolicyPeer) (Peer, bool) {
	switch {
	case o.IPBlock != nil && (o.PodSelector != nil || o.NamespaceSelector != nil):
		r.wrong(field, "has both ipBlock and a selector, which no peer can match; write two peers")
		return Peer{}, false
	case o.IPBlock != nil:
		blocks, ok := r.block(field+".ipBlock", o.IPBlock.CIDR, o.IPBlock.Except)
		return Peer{Blocks: blocks}, ok && len(blocks) > 0
	case o.PodSelector == nil && o.NamespaceSelector == nil:
		r.wrong(field, "has none of podSelector, namespaceSelector and ipBlock, and matches nothing; give one, or update "+
			"Weft if it has a field of a newer API")
		return Peer{}, false
	}
	if r.selections++; r.beyond(field, r.selections, maxTenantPeers, "peers by selectors") {
		return Peer{}, false
	}
	s, ok := Selection{}, true
	if o.NamespaceSelector == nil {
		s.Namespace = namespace
	} else {
		if r.abroad++; r.beyond(field, r.abroad, maxTenantAbroad, "peers with a namespaceSelector") {
			return Peer{}, false
		}
		s.Namespaces, ok = r.selector(field+".namespaceSelector", o.NamespaceSelector)
	}
	if o.PodSelector != nil && ok {
		s.Pods, ok = r.selector(field+".podSelector", o.PodSelector)
	}
	return Peer{Pods: &s}, ok
}

func (r *reader) tenantPort(field string, o *networkingv1.NetworkPolicyPort) (Port, bool) {
	if r.listed++; r.beyond(field, r.listed, maxTenantPorts, "ports") {
		return Port{}, false
	}
	protocol, ok := r.protocol(field+".protocol", o.Protocol)
	if !ok {
		return Port{}, false
	}
	if o.Port == nil {
		if o.EndPort != nil {
			r.wrong(field+".endPort", "is set without port, and matches nothing; give the first port of the range, too")
			return Port{}, false
		}
		return Port{Protocol: protocol}, true
	}
	if o.Port.Type == intstr.String {
		if o.EndPort != nil {
			r.wrong(field+".endPort", "is set beside the named port %q, and matches nothing; a range needs numbers",
				quoted(o.Port.StrVal))
			return Port{}, false
		}
		return Port{Protocol: protocol, Name: o.Port.StrVal}, true
	}
	last := o.Port.IntVal
	if o.EndPort != nil {
		last = *o.EndPort
	}
	return r.ports(protocol, field+".port", o.Port.IntVal, field+".endPort", last)
}

// ports reads a range.
func (r *reader) ports(protocol Protocol, field string, first int32, lastField string, last int32) (Port, bool) {
	switch {
	case first < 1 || first > 65535:
		r.wrong(field, "%d is not a port number from 1 to 65535; it matches nothing until it is corrected", first)
	case last > 65535:
		r.wrong(lastField, "%d is not a port number from 1 to 65535; it matches nothing until it is corrected", last)
	case last < first:
		r.wrong(lastField, "%d is below the first port %d, so that the range is empty; exchange them", last, first)
	default:
		return Port{Protocol: protocol, First: uint16(first), Last: uint16(last)}, true
	}
	return Port{}, false
}

func (r *reader) protocol(field string, o *corev1.Protocol) (Protocol, bool) {
	if o == nil {
		return TCP, true
	}
	switch *o {
	case corev1.ProtocolTCP, "":
		return TCP, true
	case corev1.ProtocolUDP:
		return UDP, true
	case corev1.ProtocolSCTP:
		return SCTP, true
	}
	r.wrong(field, "%q is none of TCP, UDP and SCTP; the port matches nothing until it is corrected", quoted(string(*o)))
	return "", false
}
