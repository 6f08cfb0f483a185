package nodes

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// subnetsOverdue says that a node has waited long enough for its subnets.
var subnetsOverdue = part.NewSignal("subnets overdue of Node", part.Patience)

// Part is what is known of nodes: their switches, numbers and subnets, their systems, and where their tunnels may
// end.
type Part struct {
	part.Immediate
	*part.Outbox
	settings *settings.Settings
	around   Surroundings
	pods     Pods
	recorded map[string]records.Node // of earlier terms, as far as no node has claimed it yet

	all       map[string]*state
	ids       *ipam.NumberPool // node ID n is number n-1
	cuts      []*ipam.SubnetAllocator
	names     []string            // of the nodes that have a switch, sorted
	unsettled map[string]struct{} // nodes that something is wrong with
	vacated   bool                // a node has given up what one of those may have
	moved     bool                // a node has another zone than before
	windows   map[string]struct{} // nodes that run Windows
	tunnels   tunnelBook
	onlyOne   onlyOne

	dirty map[string]struct{}
}

// New knows of no node yet.
func New(o *part.Outbox, s *settings.Settings, around Surroundings, pods Pods) *Part {
	b := &Part{Outbox: o, settings: s, around: around, pods: pods,
		all: map[string]*state{}, ids: ipam.NewPool(max(s.MaxNodeID(), 0)), unsettled: map[string]struct{}{},
		windows: map[string]struct{}{}, onlyOne: newOnlyOne(),
		dirty: map[string]struct{}{}}
	b.tunnels = tunnelBook{settings: s, nodes: b, lines: map[netip.Addr][]string{}}
	if s.Allocate {
		for _, pods := range s.Pods {
			b.cuts = append(b.cuts, ipam.NewSubnetAllocator(pods, s.Mask(pods)))
		}
	}
	return b
}

// Take is part of [part.Part].
func (b *Part) Take(batch *part.Batch) {
	names := batch.Looks(objects.NodeKind)
	for _, name := range batch.Signals(subnetsOverdue) {
		if n := b.all[name]; n != nil && n.expects == expecting {
			n.expects = overdue
			names = append(slices.Clone(names), name)
		}
	}
	slices.Sort(names)
	touched := b.update(slices.Compact(names), batch)
	for _, n := range touched {
		b.updateDatapath(n)
	}
	b.around.NodesChanged(touched)
}

// Dirty is part of [part.Part].
func (b *Part) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, b.all, b.dirty, part.Nodes, northbound.NodeOwner)
}

// Change is part of [part.Part].
func (b *Part) Change(owner ovsdb.Owner) part.Outcome {
	_, name := part.Split(owner)
	n := b.all[name]
	if n == nil || !n.Placed {
		return part.Rows(ovsdb.Change{Owner: owner})
	}
	change := topology.NodeChange(b.settings, &n.Node, b.around.HasSharedGateway())
	b.around.AddToNode(&n.Node, &change)
	return part.Rows(change)
}

// Clean is part of [part.Part].
func (b *Part) Clean() { part.Empty(&b.dirty) }

// At is what is known of a node, nil for nothing.
func (b *Part) At(name string) *topology.Node {
	if n := b.all[name]; n != nil {
		return &n.Node
	}
	return nil
}

// Node is what is known of a node, or will be.
func (b *Part) Node(name string) *topology.Node { return &b.state(name).Node }

// Placed are the nodes that have a switch, in the order of their names.
func (b *Part) Placed() iter.Seq[*topology.Node] {
	return func(yield func(*topology.Node) bool) {
		for _, name := range b.names {
			if !yield(&b.all[name].Node) {
				return
			}
		}
	}
}

// Existing are all Nodes, in the order of their names: also one without a switch, whose host is there.
func (b *Part) Existing() iter.Seq[*topology.Node] {
	return func(yield func(*topology.Node) bool) {
		for _, name := range slices.Sorted(maps.Keys(b.all)) {
			if n := &b.all[name].Node; n.Object != nil && !yield(n) {
				return
			}
		}
	}
}

// HasWindows is part of [policies.Nodes].
func (b *Part) HasWindows() bool { return len(b.windows) > 0 }

// Touch has a node's rows made again.
func (b *Part) Touch(name string) { b.dirty[name] = struct{}{} }

// ReleaseNumber gives back a router's number on the join switch.
func (b *Part) ReleaseNumber(number int) {
	b.ids.Release(number - 1)
	b.vacated = true
}

// All are the labels of the nodes that have a switch, by name.
func (b *Part) All() iter.Seq2[string, objects.LabelSet] {
	return func(yield func(string, objects.LabelSet) bool) {
		for n := range b.Placed() {
			if !yield(n.Name, n.Object.Labels) {
				return
			}
		}
	}
}

// Begin takes in what earlier terms have decided, before the first batch.
func (b *Part) Begin(recorded map[string]records.Node, batch *part.Batch) {
	b.recorded = recorded
	b.tunnels.claim(recorded, batch)
}

// Known is how many nodes are known.
func (b *Part) Known() int { return len(b.all) }

// Names are the nodes that have a switch, in order.
func (b *Part) Names() []string { return b.names }

// Windows are those that run Windows.
func (b *Part) Windows() map[string]struct{} { return b.windows }

// Numbers are those of all routers on the join switch. A node's number n is number n-1 there.
func (b *Part) Numbers() *ipam.NumberPool { return b.ids }

// Report tells the owner of a node that is there what is wrong with it, and what is so for other parts.
func (b *Part) Report(n *topology.Node, others []objects.Problem) {
	b.Tell(northbound.NodeOwner(n.Name), slices.Concat(b.all[n.Name].problems, others, datapathProblems(n))...)
}
