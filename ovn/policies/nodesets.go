package policies

import (
	"iter"
	"net/netip"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// nodesLingering ends the time in which a set of nodes lingers.
var nodesLingering = part.NewSignal("Nodes", part.Patience)

// NodeSets are what is known of the sets of nodes that policies name. They are a part of their own.
type NodeSets struct {
	part.Immediate
	*part.Outbox
	nodes Nodes

	all   map[policy.Nodes]*nodeSetState
	dirty map[policy.Nodes]struct{}
}

// NewNodeSets are none.
func NewNodeSets(o *part.Outbox, nodes Nodes) *NodeSets {
	return &NodeSets{Outbox: o, nodes: nodes, all: map[policy.Nodes]*nodeSetState{}, dirty: map[policy.Nodes]struct{}{}}
}

// Take is part of [part.Part].
func (b *NodeSets) Take(batch *part.Batch) {
	for _, nodes := range batch.Signals(nodesLingering) {
		b.settleUse(policy.Nodes(nodes))
	}
	for _, name := range batch.Again("Nodes") {
		nodes := policy.Nodes(name)
		if b.dirty[nodes] = struct{}{}; b.all[nodes] != nil {
			b.touch(b.all[nodes])
		}
	}
}

// Dirty is part of [part.Part].
func (b *NodeSets) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, b.all, b.dirty, part.Sets, northbound.NodeSetOwner)
}

// Change is part of [part.Part]. The set is filled by nodes.
func (b *NodeSets) Change(owner ovsdb.Owner) part.Outcome {
	_, name := part.Split(owner)
	r, nodes := northbound.NewBuilder(owner), policy.Nodes(name)
	if b.all[nodes] != nil {
		for _, ipv4 := range []bool{true, false} {
			r.Add(nb.AddressSetTable, northbound.IPWord(ipv4), &nb.AddressSet{Name: nodeSetName(nodes, ipv4)})
		}
	}
	return part.Rows(r.Change)
}

// Clean is part of [part.Part].
func (b *NodeSets) Clean() { part.Empty(&b.dirty) }

// nodeSetState is a set of nodes' addresses that some policy uses.
type nodeSetState struct {
	selector labels.Selector
	usage
}

// take counts a user.
func (b *NodeSets) take(nodes policy.Nodes) {
	s := b.all[nodes]
	if s == nil {
		s = &nodeSetState{selector: nodes.Selector()}
		b.all[nodes] = s
		b.dirty[nodes] = struct{}{}
		b.touch(s)
	}
	s.users++
}

// drop ends a use. The rows stay for now.
func (b *NodeSets) drop(nodes policy.Nodes) {
	s := b.all[nodes]
	if s.users--; s.users == 0 {
		s.lingering = true
		b.Expect(part.Signal{What: nodesLingering, Name: string(nodes)})
	}
}

// settleUse drops a set of nodes that nobody has come to need again.
func (b *NodeSets) settleUse(nodes policy.Nodes) {
	s := b.all[nodes]
	if s == nil || !s.lingering {
		return
	}
	if s.lingering = false; s.live() {
		return
	}
	delete(b.all, nodes)
	b.dirty[nodes] = struct{}{}
	b.touch(s)
}

// touch has the nodes of a set looked at again.
func (b *NodeSets) touch(s *nodeSetState) {
	for name, labels := range b.nodes.All() {
		if s.selector.Matches(labels) {
			b.nodes.Touch(name)
		}
	}
}

// AddTo puts the addresses of a node with some labels into the sets that select it.
func (b *NodeSets) AddTo(set labels.Labels, addresses []netip.Addr, change *ovsdb.Change) {
	r := northbound.Extend(*change)
	for nodes, s := range b.all {
		if !s.selector.Matches(set) {
			continue
		}
		for _, addr := range addresses {
			r.Member(nb.AddressSetTable, ovsdb.ID(nb.AddressSetTable, northbound.NodeSetOwner(nodes),
				northbound.IPWord(addr.Is4())), "addresses", addr.String())
		}
	}
	*change = r.Change
}
