package pods

import (
	"iter"
	"maps"
	"net/netip"

	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policies"
	"github.com/weftnet/weft/ovn/topology"
)

// Object is part of [policies.Pod].
func (p *Pod) Object() *objects.Pod { return p.object }

// Addresses is part of [policies.Pod].
func (p *Pod) Addresses() []netip.Prefix { return p.addresses }

// Selected is part of [policies.Pod].
func (p *Pod) Selected() *policies.Selected { return &p.selected }

// Leaving is part of [egress.Pod].
func (p *Pod) Leaving() *egress.Leaving { return &p.leaving }

// ForEgress are the pods as EgressIPs see them.
func (b *Part) ForEgress() egress.Pods { return egressView{b} }

// egressView are pods as EgressIPs see them.
type egressView struct{ *Part }

// All is part of [egress.Pods].
func (b egressView) All() iter.Seq2[string, egress.Pod] { return seen[egress.Pod](maps.All(b.all)) }

// In is part of [egress.Pods].
func (b egressView) In(namespace string) iter.Seq2[string, egress.Pod] {
	return seen[egress.Pod](maps.All(b.namespaces[namespace]))
}

// Touched is part of [egress.Pods].
func (b egressView) Touched() iter.Seq2[string, egress.Pod] { return seen[egress.Pod](b.touched()) }

// ForPolicies are the pods as policies see them.
func (b *Part) ForPolicies() policies.Pods { return policiesView{b} }

// policiesView are pods as policies see them.
type policiesView struct{ *Part }

// At is part of [policies.Pods].
func (b policiesView) At(key string) (policies.Pod, bool) {
	p, there := b.all[key]
	return p, there
}

// Namespaces is part of [policies.Pods].
func (b policiesView) Namespaces() iter.Seq[string] { return maps.Keys(b.namespaces) }

// In is part of [policies.Pods].
func (b policiesView) In(namespace string) iter.Seq2[string, policies.Pod] {
	return seen[policies.Pod](maps.All(b.namespaces[namespace]))
}

// Touched is part of [policies.Pods].
func (b policiesView) Touched() iter.Seq2[string, policies.Pod] {
	return seen[policies.Pod](b.touched())
}

// seen are pods as somebody sees them, by an interface that they have.
func seen[P any](pods iter.Seq2[string, *Pod]) iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		for key, p := range pods {
			if !yield(key, any(p).(P)) {
				return
			}
		}
	}
}

// Nodes are what the part sees of nodes.
type Nodes interface {
	// Node is what is known of a node, or will be. Forget drops it where it is nothing any more.
	Node(name string) *topology.Node
	Forget(name string)
	// NoteNode has a node told by its annotation whether it has PodNetworks.
	NoteNode(name string)
}

// Services are what the part sees of Services.
type Services interface {
	// TouchSticky has the rows made again of the sticky ones that depend on what is balanced.
	TouchSticky()
}

// Claims are what the part sees of who has which address and port outside.
type Claims interface {
	// Has says whether a Service has an address and port of a node's.
	Has(wanted objects.Claim) bool
	// HostsKeep says whether an address and port stays the hosts' own.
	HostsKeep(protocol string, at netip.AddrPort) bool
}

// Policies are what the part sees of policies.
type Policies interface {
	// Lacks says whether pods of a namespace wait until it is there.
	Lacks(namespace string) bool
}

// Surroundings is what the part sees of all others.
type Surroundings interface {
	// PodSeen is told of each pod that is there or gone (nil), whether it wants a port or not, and PodEnds of one that
	// wanted one.
	PodSeen(key string, object *objects.Pod)
	PodEnds(p *Pod)
}
