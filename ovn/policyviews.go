package ovn

import (
	"iter"
	"maps"
	"net/netip"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policies"
)

// Object is part of [policies.Pod].
func (p *podState) Object() *objects.Pod { return p.object }

// Addresses is part of [policies.Pod].
func (p *podState) Addresses() []netip.Prefix { return p.addresses }

// Selected is part of [policies.Pod].
func (p *podState) Selected() *policies.Selected { return &p.selected }

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
	return seen(maps.All(b.namespaces[namespace]))
}

// Touched is part of [policies.Pods].
func (b podsOfPolicies) Touched() iter.Seq2[string, policies.Pod] { return seen(b.touched()) }

// Touch is part of [policies.Pods].
func (b podsOfPolicies) Touch(key string) { b.touch(key) }

func seen(pods iter.Seq2[string, *podState]) iter.Seq2[string, policies.Pod] {
	return func(yield func(string, policies.Pod) bool) {
		for key, p := range pods {
			if !yield(key, p) {
				return
			}
		}
	}
}

// nodesOfPolicies are nodes as policies see them.
type nodesOfPolicies struct{ *nodeBook }

// All is part of [policies.Nodes].
func (b nodesOfPolicies) All() iter.Seq2[string, objects.LabelSet] {
	return func(yield func(string, objects.LabelSet) bool) {
		for n := range b.placed() {
			if !yield(n.Name, n.Object.Labels) {
				return
			}
		}
	}
}

// Touch is part of [policies.Nodes].
func (b nodesOfPolicies) Touch(name string) { b.touch(name) }
