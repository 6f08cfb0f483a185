package ovn

import (
	"iter"
	"maps"
	"net/netip"

	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policies"
)

// Object is part of [policies.Pod].
func (p *podState) Object() *objects.Pod { return p.object }

// Addresses is part of [policies.Pod].
func (p *podState) Addresses() []netip.Prefix { return p.addresses }

// Selected is part of [policies.Pod].
func (p *podState) Selected() *policies.Selected { return &p.selected }

// Leaving is part of [egress.Pod].
func (p *podState) Leaving() *egress.Leaving { return &p.leaving }

// podsOfEgress are pods as EgressIPs see them.
type podsOfEgress struct{ *podBook }

// All is part of [egress.Pods].
func (b podsOfEgress) All() iter.Seq2[string, egress.Pod] { return seen[egress.Pod](maps.All(b.all)) }

// In is part of [egress.Pods].
func (b podsOfEgress) In(namespace string) iter.Seq2[string, egress.Pod] {
	return seen[egress.Pod](maps.All(b.namespaces[namespace]))
}

// Touched is part of [egress.Pods].
func (b podsOfEgress) Touched() iter.Seq2[string, egress.Pod] { return seen[egress.Pod](b.touched()) }

// Touch is part of [egress.Pods].
func (b podsOfEgress) Touch(key string) { b.touch(key) }

// podsOfPolicies are pods as policies see them.
type podsOfPolicies struct{ *podBook }

// At is part of [policies.Pods].
func (b podsOfPolicies) At(key string) (policies.Pod, bool) {
	p, there := b.all[key]
	return p, there
}

// Namespaces is part of [policies.Pods].
func (b podsOfPolicies) Namespaces() iter.Seq[string] { return maps.Keys(b.namespaces) }

// In is part of [policies.Pods].
func (b podsOfPolicies) In(namespace string) iter.Seq2[string, policies.Pod] {
	return seen[policies.Pod](maps.All(b.namespaces[namespace]))
}

// Touched is part of [policies.Pods].
func (b podsOfPolicies) Touched() iter.Seq2[string, policies.Pod] {
	return seen[policies.Pod](b.touched())
}

// Touch is part of [policies.Pods].
func (b podsOfPolicies) Touch(key string) { b.touch(key) }

// seen are pods as somebody sees them, by an interface that they have.
func seen[P any](pods iter.Seq2[string, *podState]) iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		for key, p := range pods {
			if !yield(key, any(p).(P)) {
				return
			}
		}
	}
}
