package ovn

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// subnetsOverdue says that a node has waited long enough for its subnets.
var subnetsOverdue = part.NewSignal("subnets overdue of Node", part.Patience)

// nodeBook is what is known of nodes: their switches, numbers and subnets, their systems, and where their tunnels may
// end.
type nodeBook struct {
	part.Immediate
	*part.Outbox
	settings *settings.Settings
	around   surroundings
	pods     podsOnNodes
	recorded map[string]nodeRecord // of earlier terms, as far as no node has claimed it yet

	all       map[string]*nodeState
	ids       *ipam.NumberPool // node ID n is number n-1
	cuts      []*ipam.SubnetAllocator
	names     []string            // of the nodes that have a switch, sorted
	unsettled map[string]struct{} // nodes that something is wrong with
	vacated   bool                // a node has given up what one of those may have
	windows   map[string]struct{} // nodes that run Windows
	tunnels   tunnelBook
	onlyOne   onlyOne

	dirty map[string]struct{}
}

func newNodeBook(o *part.Outbox, s *settings.Settings, around surroundings, self *nodeBook, pods podsOnNodes) nodeBook {
	b := nodeBook{Outbox: o, settings: s, around: around, pods: pods,
		all: map[string]*nodeState{}, ids: ipam.NewPool(max(s.MaxNodeID(), 0)), unsettled: map[string]struct{}{},
		windows: map[string]struct{}{}, onlyOne: newOnlyOne(),
		tunnels: tunnelBook{settings: s, nodes: self, lines: map[netip.Addr][]string{}},
		dirty:   map[string]struct{}{}}
	if s.Allocate {
		for _, pods := range s.Pods {
			b.cuts = append(b.cuts, ipam.NewSubnetAllocator(pods, s.Mask(pods)))
		}
	}
	return b
}

// Take is part of [part.Part].
func (b *nodeBook) Take(batch *part.Batch) {
	names := batch.Looks(objects.NodeKind)
	for _, name := range batch.Signals(subnetsOverdue) {
		if n := b.all[name]; n != nil && n.expects == expecting {
			n.expects = overdue
			names = append(slices.Clone(names), name)
		}
	}
	slices.Sort(names)
	b.around.nodesChanged(b.update(slices.Compact(names), batch))
}

// Dirty is part of [part.Part].
func (b *nodeBook) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, b.all, b.dirty, part.Nodes, northbound.NodeOwner)
}

// Change is part of [part.Part].
func (b *nodeBook) Change(owner ovsdb.Owner) part.Outcome {
	_, name := part.Split(owner)
	n := b.all[name]
	if n == nil || !n.Placed {
		return part.Rows(ovsdb.Change{Owner: owner})
	}
	change := topology.NodeChange(b.settings, &n.Node, b.around.hasSharedGateway())
	b.around.addToNode(&n.Node, &change)
	return part.Rows(change)
}

// Clean is part of [part.Part].
func (b *nodeBook) Clean() { part.Empty(&b.dirty) }

func (b *nodeBook) At(name string) *topology.Node {
	if n := b.all[name]; n != nil {
		return &n.Node
	}
	return nil
}

func (b *nodeBook) node(name string) *topology.Node { return &b.state(name).Node }

func (b *nodeBook) Placed() iter.Seq[*topology.Node] {
	return func(yield func(*topology.Node) bool) {
		for _, name := range b.names {
			if !yield(&b.all[name].Node) {
				return
			}
		}
	}
}

// HasWindows is part of [policies.Nodes].
func (b *nodeBook) HasWindows() bool { return len(b.windows) > 0 }

func (b *nodeBook) touch(name string) { b.dirty[name] = struct{}{} }

func (b *nodeBook) ReleaseNumber(number int) {
	b.ids.Release(number - 1)
	b.vacated = true
}

// tell tells the owner of a node that is there what is wrong with it, and what is so for other parts.
func (b *nodeBook) tell(n *topology.Node, others []objects.Problem) {
	b.Tell(northbound.NodeOwner(n.Name), slices.Concat(b.all[n.Name].problems, others, datapathProblems(n))...)
}
