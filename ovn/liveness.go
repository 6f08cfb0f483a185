package ovn

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// watchers is how many other nodes watch each.
const watchers = 2

// watched says whether a node is one that others watch, and that watches others. Windows nodes are, too: BFD
// is ovs-vswitchd's, and the port forwards nothing.
func watched(n *placement) bool {
	return n.placed && n.outside != "" && n.facts.Chassis != ""
}

// livenessMoved says that another chassis than before has the port that shows whether a node lives.
var livenessMoved = part.NewSignal("liveness of Node", part.Patience)

// livenessBook is what is known of the ports that show which nodes live: see [northbound.LivenessOwner].
type livenessBook struct {
	part.Immediate
	settings *settings.Settings
	nodes    nodeView
	pools    poolView
	hosting  map[string]string // the chassis that have the ports, by node
	dirty    bool
}

func newLivenessBook(s *settings.Settings, nodes nodeView, pools poolView) livenessBook {
	return livenessBook{settings: s, nodes: nodes, pools: pools, hosting: map[string]string{}}
}

// Take is part of [part.Part].
func (b *livenessBook) Take(batch *part.Batch) {
	for _, node := range batch.Signals(livenessMoved) {
		if b.update(node, batch.Text(livenessMoved, node)) && b.nodes.at(node) != nil {
			b.pools.turn(b.nodes.at(node))
		}
	}
	b.dirty = b.dirty || batch.AsksFor(northbound.LivenessOwner)
}

// Dirty is part of [part.Part].
func (b *livenessBook) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Once(all || b.dirty, part.Common, northbound.LivenessOwner)
}

// Change is part of [part.Part].
func (b *livenessBook) Change(ovsdb.Owner) part.Outcome { return part.Rows(b.change()) }

// Clean is part of [part.Part].
func (b *livenessBook) Clean() { b.dirty = false }

// touch has the rows made again, if there are any.
func (b *livenessBook) touch() { b.dirty = b.dirty || b.pools.any() }

// change are the rows, which are there while there are AddressPools.
func (b *livenessBook) change() ovsdb.Change {
	r := northbound.NewBuilder(northbound.LivenessOwner)
	var all []*placement
	for n := range b.nodes.placed() {
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
		group := r.Add(nb.HAChassisGroupTable, n.name, &nb.HAChassisGroup{Name: "alive-" + n.name})
		member := func(m *placement, priority int) {
			r.Member(nb.HAChassisGroupTable, group, "ha_chassis", r.Add(nb.HAChassisTable, n.name+"/"+m.name,
				&nb.HAChassis{ChassisName: m.chassis(), Priority: priority}))
		}
		member(n, northbound.MaxPriority)
		for j, o := range following(ring, i) {
			member(o, northbound.MaxPriority-1-j)
		}
		own := b.settings.JoinAddresses(n.id)[0].Addr()
		port := northbound.RouterPort("alive-"+n.name, []netip.Prefix{netip.PrefixFrom(own, own.BitLen())})
		port.HaChassisGroup = &group
		r.Member(nb.LogicalRouterTable, id, "ports", r.Add(nb.LogicalRouterPortTable, n.name, port))
	}
	return r.Change
}

// ringOf orders nodes so that a node that comes or goes changes the watchers of few.
func ringOf(nodes []*placement) []*placement {
	at := make(map[*placement]uint64, len(nodes))
	for _, n := range nodes {
		at[n] = rendezvous("alive", n.name)
	}
	slices.SortFunc(nodes, func(a, b *placement) int {
		return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(a.name, b.name))
	})
	return nodes
}

// following are a node's watchers: the next in the ring, those that are ready before others, and of these
// those before others that run an ovn-controller of their own: one that is hosted may die with the very node.
func following(ring []*placement, i int) []*placement {
	var list []*placement
	for _, best := range []func(*placement) bool{
		func(n *placement) bool { return n.object.Ready && n.facts.Hosted == nil },
		func(n *placement) bool { return n.object.Ready && n.facts.Hosted != nil },
		func(n *placement) bool { return !n.object.Ready },
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
func (b *livenessBook) update(node, chassis string) (moved bool) {
	if b.hosting[node] == chassis {
		return false
	}
	if b.hosting[node] = chassis; chassis == "" {
		delete(b.hosting, node)
	}
	return true
}

// lost says that another node has taken what a node that lives would have.
func (b *livenessBook) lost(n *placement) bool {
	chassis := b.hosting[n.name]
	return chassis != "" && watched(n) && chassis != n.chassis()
}

// mayAnnounce says whether a node's gateway router may answer for an address.
func (b *livenessBook) mayAnnounce(n *placement, addr netip.Addr) bool {
	if n.outside == "" || !n.object.Ready || b.lost(n) {
		return false
	}
	on := ipam.Family(n.facts.Gateway.Addresses, addr)
	return on != nil && on.Contains(addr)
}
