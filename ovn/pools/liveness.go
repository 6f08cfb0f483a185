package pools

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/rendezvous"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// watchers is how many other nodes watch each.
const watchers = 2

// watched says whether a node is one that others watch, and that watches others. Windows nodes are, too: BFD
// is ovs-vswitchd's, and the port forwards nothing.
func watched(n *topology.Node) bool {
	return n.Placed && n.Outside != "" && n.Facts.Chassis != ""
}

// LivenessMoved says that another chassis than before has the port that shows whether a node lives.
var LivenessMoved = part.NewSignal("liveness of Node", part.Patience)

// Liveness is what is known of the ports that show which nodes live: see [northbound.LivenessOwner].
type Liveness struct {
	part.Immediate
	settings *settings.Settings
	nodes    Nodes
	pools    *Part
	hosting  map[string]string // the chassis that have the ports, by node
	dirty    bool
}

func newLiveness(s *settings.Settings, nodes Nodes, pools *Part) *Liveness {
	return &Liveness{settings: s, nodes: nodes, pools: pools, hosting: map[string]string{}}
}

// Take is part of [part.Part].
func (b *Liveness) Take(batch *part.Batch) {
	for _, node := range batch.Signals(LivenessMoved) {
		if b.update(node, batch.Text(LivenessMoved, node)) && b.nodes.At(node) != nil {
			b.pools.Turn(b.nodes.At(node))
		}
	}
	b.dirty = b.dirty || batch.AsksFor(northbound.LivenessOwner)
}

// Dirty is part of [part.Part].
func (b *Liveness) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Once(all || b.dirty, part.Common, northbound.LivenessOwner)
}

// Change is part of [part.Part].
func (b *Liveness) Change(ovsdb.Owner) part.Outcome { return part.Rows(b.change()) }

// Clean is part of [part.Part].
func (b *Liveness) Clean() { b.dirty = false }

// Touch has the rows made again, if there are any.
func (b *Liveness) Touch() { b.dirty = b.dirty || b.pools.any() }

// change are the rows, which are there while there are AddressPools.
func (b *Liveness) change() ovsdb.Change {
	r := northbound.NewBuilder(northbound.LivenessOwner)
	var all []*topology.Node
	for n := range b.nodes.Placed() {
		if watched(n) {
			all = append(all, n)
		}
	}
	if !b.pools.any() || len(all) <= watchers {
		return r.Change
	}
	ring := ringOf(all)
	id := r.LogicalRouter("router", "alive", nil)
	for i, n := range ring {
		group := r.Add(nb.HAChassisGroupTable, n.Name, &nb.HAChassisGroup{Name: "alive-" + n.Name})
		member := func(m *topology.Node, priority int) {
			r.Member(nb.HAChassisGroupTable, group, "ha_chassis", r.Add(nb.HAChassisTable, n.Name+"/"+m.Name,
				&nb.HAChassis{ChassisName: m.Chassis(), Priority: priority}))
		}
		member(n, northbound.MaxPriority)
		for j, o := range following(ring, i) {
			member(o, northbound.MaxPriority-1-j)
		}
		own := b.settings.JoinAddresses(n.ID)[0].Addr()
		port := northbound.RouterPort("alive-"+n.Name, []netip.Prefix{netip.PrefixFrom(own, own.BitLen())})
		port.HaChassisGroup = &group
		r.Member(nb.LogicalRouterTable, id, "ports", r.Add(nb.LogicalRouterPortTable, n.Name, port))
	}
	return r.Change
}

// ringOf orders nodes so that a node that comes or goes changes the watchers of few.
func ringOf(nodes []*topology.Node) []*topology.Node {
	at := make(map[*topology.Node]uint64, len(nodes))
	for _, n := range nodes {
		at[n] = rendezvous.ForRows("alive", n.Name)
	}
	slices.SortFunc(nodes, func(a, b *topology.Node) int {
		return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(a.Name, b.Name))
	})
	return nodes
}

// following are a node's watchers: the next in the ring, those that are ready before others, and of these
// those before others that run an ovn-controller of their own: one that is hosted may die with the very node.
func following(ring []*topology.Node, i int) []*topology.Node {
	var list []*topology.Node
	for _, best := range []func(*topology.Node) bool{
		func(n *topology.Node) bool { return n.Object.Ready && n.Facts.Hosted == nil },
		func(n *topology.Node) bool { return n.Object.Ready && n.Facts.Hosted != nil },
		func(n *topology.Node) bool { return !n.Object.Ready },
	} {
		for step := 1; step < len(ring) && len(list) < watchers; step++ {
			if o := ring[(i+step)%len(ring)]; best(o) {
				list = append(list, o)
			}
		}
	}
	return list
}

// update takes in which chassis has the port that shows whether a node lives, and says whether that is another one.
func (b *Liveness) update(node, chassis string) (moved bool) {
	if b.hosting[node] == chassis {
		return false
	}
	if b.hosting[node] = chassis; chassis == "" {
		delete(b.hosting, node)
	}
	return true
}

// lost says that another node has taken what a node that lives would have.
func (b *Liveness) lost(n *topology.Node) bool {
	chassis := b.hosting[n.Name]
	return chassis != "" && watched(n) && chassis != n.Chassis()
}

// mayAnnounce says whether a node's gateway router may answer for an address.
func (b *Liveness) mayAnnounce(n *topology.Node, addr netip.Addr) bool {
	if n.Outside == "" || !n.Object.Ready || b.lost(n) {
		return false
	}
	on := ipam.Family(n.Facts.Gateway.Addresses, addr)
	return on != nil && on.Contains(addr)
}
