package ovn

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/settings"
	corev1 "k8s.io/api/core/v1"
)

// outsideBook finds the nodes whose gateways are on networks outside, by the subnets of these.
type outsideBook struct {
	settings *settings.Settings
	alive    *aliveBook

	nodes   map[netip.Prefix]map[string]*nodeState // by subnet and name
	lengths [2]map[int]int                         // of IPv4 and IPv6: how many subnets have a prefix length
	of      map[string][]netip.Prefix              // a node's, at most one a family, IPv4 first
	ways    map[netip.Addr]wayIn                   // as far as somebody asked
}

// wayIn is where an address of a pool comes into the cluster.
type wayIn struct {
	network string // outside, "" while no node is on one that has the address
	node    string // that answers for it where all may, "" for none
}

func newOutsideBook(s *settings.Settings, alive *aliveBook) outsideBook {
	return outsideBook{settings: s, alive: alive, nodes: map[netip.Prefix]map[string]*nodeState{}, lengths: [2]map[int]int{{}, {}}, of: map[string][]netip.Prefix{}, ways: map[netip.Addr]wayIn{}}
}

// update takes in on which subnets outside a node's gateway is.
func (b *outsideBook) update(n *nodeState) {
	var now []netip.Prefix
	if n.placed && n.outside != "" {
		for _, p := range ipam.Firsts(n.facts.Gateway.Addresses) {
			now = append(now, p.Masked())
		}
	}
	was := b.of[n.name]
	if slices.Equal(was, now) {
		return
	}
	for _, p := range was {
		if delete(b.nodes[p], n.name); len(b.nodes[p]) == 0 {
			delete(b.nodes, p)
			lengths := b.lengths[ipam.FamilyIndex(p.Addr().Is4())]
			if lengths[p.Bits()]--; lengths[p.Bits()] == 0 {
				delete(lengths, p.Bits())
			}
		}
	}
	for _, p := range now {
		if b.nodes[p] == nil {
			b.nodes[p] = map[string]*nodeState{}
			b.lengths[ipam.FamilyIndex(p.Addr().Is4())][p.Bits()]++
		}
		b.nodes[p][n.name] = n
	}
	if b.of[n.name] = now; len(now) == 0 {
		delete(b.of, n.name)
	}
}

// around are the nodes on subnets outside that hold an address.
func (b *outsideBook) around(addr netip.Addr) (list []*nodeState) {
	for bits := range b.lengths[ipam.FamilyIndex(addr.Is4())] {
		subnet := netip.PrefixFrom(addr, bits).Masked()
		list = slices.AppendSeq(list, maps.Values(b.nodes[subnet]))
	}
	return list
}

// chooseAnnouncer is the node whose gateway router answers for an address of a Service's, "" for none.
func (b *poolBook) chooseAnnouncer(addr netip.Addr, s *serviceState) string {
	p := b.inPool(addr)
	if _, reserved := b.reserved[addr]; p == nil || reserved {
		return ""
	}
	way, known := b.outside.ways[addr]
	if !known {
		way = b.outside.wayIn(addr, p)
		b.outside.ways[addr] = way
	}
	if !s.object.Balancer.Local {
		return way.node
	}
	return b.outside.preferred(addr, p, way.network, b.serving(s, addr.Is4()))
}

// moveAnnouncers has the Services looked at again whose addresses some nodes have announced, or may take over. Where the
// addresses come in stays as it is.
func (b *poolBook) moveAnnouncers(nodes []*nodeState) {
	if len(nodes) == 0 {
		return
	}
	for name, h := range b.of {
		s := b.services.at(name)
		for _, addr := range h.addresses {
			if slices.ContainsFunc(nodes, func(n *nodeState) bool { return b.moves(addr, s, n) }) {
				delete(b.outside.ways, addr)
				b.touched[name] = struct{}{}
			}
		}
	}
}

// reannounce has the Services looked at again whose addresses are of pools that select other nodes than before.
func (b *poolBook) reannounce() {
	if len(b.reselected) == 0 {
		return
	}
	for name, h := range b.of {
		for _, addr := range h.addresses {
			if _, other := b.reselected[b.inPool(addr)]; other {
				delete(b.outside.ways, addr)
				b.touched[name] = struct{}{}
			}
		}
	}
}

// moves says whether a node that may announce now, or may no more, makes a difference to an address of a Service's.
func (b *poolBook) moves(addr netip.Addr, s *serviceState, n *nodeState) bool {
	way := b.outside.ways[addr]
	switch {
	case n.name == way.node || n.name == b.announced[addr]:
		return true
	case n.object == nil || n.outside != way.network || !b.alive.mayAnnounce(n, addr):
		return false
	case s != nil && s.object != nil && s.object.Balancer.Local:
		return slices.Contains(b.serving(s, addr.Is4()), n)
	}
	return way.node == "" || rendezvous(addr.String(), n.name) > rendezvous(addr.String(), way.node)
}

// wayIn decides where an address comes in: by the nodes of one network whose subnets hold it. Which subnet it has says a
// node itself, and on a network of another name that counts for nothing.
func (b *outsideBook) wayIn(addr netip.Addr, p *poolState) wayIn {
	nodes := slices.DeleteFunc(b.around(addr), func(n *nodeState) bool { return !p.object.Nodes.Matches(n.object.Labels) })
	network := networkOf(b.settings, p.object.Network, nodes)
	return wayIn{network, b.preferred(addr, p, network, nodes)}
}

// preferred is the one of nodes that answers for an address on a network, "" for none.
func (b *outsideBook) preferred(addr netip.Addr, p *poolState, network string, nodes []*nodeState) string {
	best, most := "", uint64(0)
	for _, n := range nodes {
		if n.outside != network || !b.alive.mayAnnounce(n, addr) || n.object.Labels.Has(corev1.LabelNodeExcludeBalancers) || !p.object.Nodes.Matches(n.object.Labels) {
			continue
		}
		if rank := rendezvous(addr.String(), n.name); best == "" || rank > most {
			best, most = n.name, rank
		}
	}
	return best
}

// serving are the nodes that have an endpoint of a Service that gets its traffic.
func (b *poolBook) serving(s *serviceState, ipv4 bool) (list []*nodeState) {
	seen := map[string]bool{}
	for _, sl := range s.slices {
		if sl.IPv6 == ipv4 {
			continue
		}
		for _, e := range sl.Endpoints {
			if n := b.nodes.at(e.Node); n != nil && n.placed && !seen[e.Node] && (e.Ready || e.Serving && e.Terminating || s.object.PublishNotReady) {
				seen[e.Node] = true
				list = append(list, n)
			}
		}
	}
	return list
}
