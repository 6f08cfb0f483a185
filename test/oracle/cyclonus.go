package oracle

import (
	"slices"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cyclonus judges by NetworkPolicies. It departs from Kubernetes in what an absent label means: for it, NotIn
// does not match one, and an empty value in matchLabels does. So each selector is written out as those that
// mean the same to both.
type cyclonus struct{ policy *matcher.Policy }

func newCyclonus(s *scene) cyclonus {
	var list []*networkingv1.NetworkPolicy
	for _, p := range s.policies {
		for _, pods := range written(p.Spec.PodSelector) {
			o := defaulted(p)
			o.Spec.PodSelector = pods
			for i := range o.Spec.Ingress {
				o.Spec.Ingress[i].From = writtenPeers(o.Spec.Ingress[i].From)
			}
			for i := range o.Spec.Egress {
				o.Spec.Egress[i].To = writtenPeers(o.Spec.Egress[i].To)
			}
			list = append(list, o)
		}
	}
	return cyclonus{matcher.BuildNetworkPolicies(false, list)}
}

func writtenPeers(peers []networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyPeer {
	var list []networkingv1.NetworkPolicyPeer
	for _, p := range peers {
		for _, pods := range writtenOptional(p.PodSelector) {
			for _, namespaces := range writtenOptional(p.NamespaceSelector) {
				list = append(list, networkingv1.NetworkPolicyPeer{PodSelector: pods, NamespaceSelector: namespaces,
					IPBlock: p.IPBlock})
			}
		}
	}
	return list
}

func writtenOptional(s *metav1.LabelSelector) []*metav1.LabelSelector {
	if s == nil {
		return []*metav1.LabelSelector{nil}
	}
	var list []*metav1.LabelSelector
	for _, one := range written(*s) {
		list = append(list, &one)
	}
	return list
}

// written are selectors of which one matches where a selector does.
func written(s metav1.LabelSelector) []metav1.LabelSelector {
	all := []metav1.LabelSelector{{}}
	both := func(alternatives ...metav1.LabelSelectorRequirement) {
		var next []metav1.LabelSelector
		for _, one := range all {
			for _, e := range alternatives {
				next = append(next, metav1.LabelSelector{MatchExpressions: append(slices.Clone(one.MatchExpressions), e)})
			}
		}
		all = next
	}
	for key, value := range s.MatchLabels {
		both(metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	for _, e := range s.MatchExpressions {
		if e.Operator == metav1.LabelSelectorOpNotIn {
			both(e, metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOpDoesNotExist})
		} else {
			both(e)
		}
	}
	return all
}

// allows takes several names for a port, one after another: rules only allow, so that one of them is enough.
func (o cyclonus) allows(p *packet) bool {
	names := []string{""}
	if p.to.pod != nil {
		for _, c := range containers(p.to.pod) {
			for _, port := range c.Ports {
				if port.Name != "" && port.ContainerPort == int32(p.port) && port.Protocol == p.protocol {
					names = append(names, port.Name)
				}
			}
		}
	}
	ingress, egress := false, false
	for _, name := range names {
		r := o.policy.IsTrafficAllowed(&matcher.Traffic{Source: p.from.peer(), Destination: p.to.peer(),
			ResolvedPort: int(p.port), ResolvedPortName: name, Protocol: p.protocol})
		ingress, egress = ingress || r.Ingress.IsAllowed(), egress || r.Egress.IsAllowed()
	}
	return ingress && egress
}

func (e *end) peer() *matcher.TrafficPeer {
	peer := &matcher.TrafficPeer{IP: e.address.String()}
	if e.pod != nil {
		peer.Internal = &matcher.InternalPeer{PodLabels: e.pod.Labels, Namespace: e.pod.Namespace,
			NamespaceLabels: e.namespace.Labels}
	}
	return peer
}

// defaulted is a copy as the API server keeps it.
func defaulted(p *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicy {
	o := p.DeepCopy()
	if len(o.Spec.PolicyTypes) == 0 {
		if o.Spec.PolicyTypes = []networkingv1.PolicyType{"Ingress"}; len(o.Spec.Egress) > 0 {
			o.Spec.PolicyTypes = append(o.Spec.PolicyTypes, "Egress")
		}
	}
	ports := func(list []networkingv1.NetworkPolicyPort) {
		for i := range list {
			if list[i].Protocol == nil {
				list[i].Protocol = &protocols[0]
			}
		}
	}
	for i := range o.Spec.Ingress {
		ports(o.Spec.Ingress[i].Ports)
	}
	for i := range o.Spec.Egress {
		ports(o.Spec.Egress[i].Ports)
	}
	return o
}
