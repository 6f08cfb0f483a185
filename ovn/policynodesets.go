package ovn

import (
	"iter"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// nodesLingering ends the time in which a set of nodes lingers.
var nodesLingering = part.NewSignal("Nodes", part.Patience)

// nodeSetBook is what is known of the sets of nodes that policies name.
type nodeSetBook struct {
	*part.Outbox
	nodes nodeView

	all   map[policy.Nodes]*nodeSetState
	dirty map[policy.Nodes]struct{}
}

func newNodeSetBook(o *part.Outbox, nodes nodeView) nodeSetBook {
	return nodeSetBook{Outbox: o, nodes: nodes, all: map[policy.Nodes]*nodeSetState{}, dirty: map[policy.Nodes]struct{}{}}
}

// Take is part of [part.Part].
func (b *nodeSetBook) Take(batch *part.Batch) {
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

// Settle is part of [part.Part].
func (b *nodeSetBook) Settle() {}

// Dirty is part of [part.Part].
func (b *nodeSetBook) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, b.all, b.dirty, part.Sets, northbound.NodeSetOwner)
}

// Change is part of [part.Part]. The set is filled by nodes.
func (b *nodeSetBook) Change(owner ovsdb.Owner) part.Outcome {
	_, name := part.Split(owner)
	r, nodes := newRows(owner), policy.Nodes(name)
	if b.all[nodes] != nil {
		for _, ipv4 := range []bool{true, false} {
			r.Add(nb.AddressSetTable, northbound.IPWord(ipv4), &nb.AddressSet{Name: nodeSetName(nodes, ipv4)})
		}
	}
	return part.Rows(r.Change)
}

// Clean is part of [part.Part].
func (b *nodeSetBook) Clean() { part.Empty(&b.dirty) }

// nodeSetState is a set of nodes' addresses that some policy uses.
type nodeSetState struct {
	selector labels.Selector
	usage
}

// take counts a user.
func (b *nodeSetBook) take(nodes policy.Nodes) {
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
func (b *nodeSetBook) drop(nodes policy.Nodes) {
	s := b.all[nodes]
	if s.users--; s.users == 0 {
		s.lingering = true
		b.Expect(part.Signal{What: nodesLingering, Name: string(nodes)})
	}
}

// settleUse drops a set of nodes that nobody has come to need again.
func (b *nodeSetBook) settleUse(nodes policy.Nodes) {
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
func (b *nodeSetBook) touch(s *nodeSetState) {
	for n := range b.nodes.placed() {
		if s.selector.Matches(n.object.Labels) {
			b.nodes.touch(n.name)
		}
	}
}

// addTo puts a node's addresses into the sets that select it.
func (b *nodeSetBook) addTo(n *nodeState, change *ovsdb.Change) {
	r := rows{Builder: northbound.Extend(*change)}
	for nodes, s := range b.all {
		if !s.selector.Matches(n.object.Labels) {
			continue
		}
		for _, addr := range n.policyAddresses() {
			r.Member(nb.AddressSetTable, ovsdb.ID(nb.AddressSetTable, northbound.NodeSetOwner(nodes), northbound.IPWord(addr.Is4())), "addresses", addr.String())
		}
	}
	*change = r.Change
}

// hostAddresses are those that a node's host has by its status and its agent's facts.
func (n *nodeState) hostAddresses() []netip.Addr {
	list := slices.Concat(n.object.Addresses, n.facts.Addresses)
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// policyAddresses are all by which a node's host is known to policies: those, and what it has among the pods.
func (n *nodeState) policyAddresses() []netip.Addr {
	list := n.hostAddresses()
	for _, subnet := range n.subnets {
		list = append(list, contract.ManagementAddress(subnet))
	}
	return list
}
