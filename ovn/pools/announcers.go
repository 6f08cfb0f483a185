package pools

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/rendezvous"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
)

// announcers knows by which nodes' gateway routers the addresses of Services are answered on the network that has
// them.
type announcers struct {
	nodes    Nodes
	services Services
	hosts    Hosts
	liveness *Liveness
	outside  networks

	turned []*topology.Node // may announce now, or may no more: another choice among the same nodes
	// announced says by which node's gateway router an address is answered, "" by none.
	announced map[netip.Addr]string
	byNode    map[string]map[netip.Addr]struct{}
}

func newAnnouncers(s *settings.Settings, nodes Nodes, services Services, hosts Hosts,
	liveness *Liveness) announcers {
	return announcers{nodes: nodes, services: services, hosts: hosts, liveness: liveness,
		outside:   newNetworks(s, liveness),
		announced: map[netip.Addr]string{}, byNode: map[string]map[netip.Addr]struct{}{}}
}

// turn takes in that a node may announce now, or may no more.
func (b *announcers) turn(n *topology.Node) { b.turned = append(b.turned, n) }

// takeTurned are the nodes that have turned since the last call.
func (b *announcers) takeTurned() []*topology.Node {
	turned := b.turned
	b.turned = nil
	return turned
}

// of is the node whose gateway router answers for a load balancer's address on the nodes' network. ok is false for an
// address that Weft did not allocate, and which others announce, as a host its own; node is "" while no node can.
func (b *announcers) of(vip netip.Addr) (node string, ok bool) {
	node, ok = b.announced[vip]
	return node, ok && !b.hosts.IsHosts(vip)
}

// ofNode are the addresses that a node's gateway router answers for, sorted. A host answers for its own.
func (b *announcers) ofNode(node string) []netip.Addr {
	return slices.DeleteFunc(slices.SortedFunc(maps.Keys(b.byNode[node]), netip.Addr.Compare), b.hosts.IsHosts)
}

// hostsHave has the rows follow of a node whose gateway router answers for an address, of which it makes a difference
// whether it is a host's.
func (b *announcers) hostsHave(addr netip.Addr) {
	if node := b.announced[addr]; node != "" {
		b.nodes.Touch(node)
	}
}

// forget has nobody answer for an address that no Service has.
func (b *announcers) forget(addr netip.Addr) {
	delete(b.outside.ways, addr)
	b.set(addr, "", false, "")
}

// set has a node answer for an address of a Service's, and the rows follow that name the node.
func (b *announcers) set(addr netip.Addr, node string, ok bool, service string) {
	before, had := b.announced[addr]
	if had == ok && before == node {
		return
	}
	if before != "" {
		delete(b.byNode[before], addr)
		if len(b.byNode[before]) == 0 {
			delete(b.byNode, before)
		}
		b.nodes.Touch(before)
	}
	delete(b.announced, addr)
	if ok {
		b.announced[addr] = node
	}
	if node != "" {
		if b.byNode[node] == nil {
			b.byNode[node] = map[netip.Addr]struct{}{}
		}
		b.byNode[node][addr] = struct{}{}
		b.nodes.Touch(node)
	}
	if service != "" {
		b.services.Touch(service)
	}
}

// choose is the node whose gateway router answers for an address of a Service's, "" for none.
func (b *announcers) choose(addr netip.Addr, p *state, name string, s *objects.Service) string {
	way, known := b.outside.ways[addr]
	if !known {
		way = b.outside.wayIn(addr, p)
		b.outside.ways[addr] = way
	}
	if !s.Balancer.Local {
		return way.node
	}
	return b.outside.preferred(addr, p, way.network, b.serving(name, s, addr.Is4()))
}

// networks finds the nodes whose gateways are on networks outside, by the subnets of these.
type networks struct {
	settings *settings.Settings
	liveness *Liveness

	nodes   map[netip.Prefix]map[string]*topology.Node // by subnet and name
	lengths [2]map[int]int                             // of IPv4 and IPv6: how many subnets have a prefix length
	of      map[string][]netip.Prefix                  // a node's, at most one a family, IPv4 first
	ways    map[netip.Addr]wayIn                       // as far as somebody asked
}

// wayIn is where an address of a pool comes into the cluster.
type wayIn struct {
	network string // outside, "" while no node is on one that has the address
	node    string // that answers for it where all may, "" for none
}

func newNetworks(s *settings.Settings, liveness *Liveness) networks {
	return networks{settings: s, liveness: liveness, nodes: map[netip.Prefix]map[string]*topology.Node{},
		lengths: [2]map[int]int{{}, {}}, of: map[string][]netip.Prefix{}, ways: map[netip.Addr]wayIn{}}
}

// update takes in on which subnets outside a node's gateway is.
func (b *networks) update(n *topology.Node) {
	var now []netip.Prefix
	if n.Placed && n.Outside != "" {
		for _, p := range ipam.Firsts(n.Facts.Gateway.Addresses) {
			now = append(now, p.Masked())
		}
	}
	was := b.of[n.Name]
	if slices.Equal(was, now) {
		return
	}
	for _, p := range was {
		if delete(b.nodes[p], n.Name); len(b.nodes[p]) == 0 {
			delete(b.nodes, p)
			lengths := b.lengths[ipam.FamilyIndex(p.Addr().Is4())]
			if lengths[p.Bits()]--; lengths[p.Bits()] == 0 {
				delete(lengths, p.Bits())
			}
		}
	}
	for _, p := range now {
		if b.nodes[p] == nil {
			b.nodes[p] = map[string]*topology.Node{}
			b.lengths[ipam.FamilyIndex(p.Addr().Is4())][p.Bits()]++
		}
		b.nodes[p][n.Name] = n
	}
	if b.of[n.Name] = now; len(now) == 0 {
		delete(b.of, n.Name)
	}
}

// around are the nodes on subnets outside that hold an address.
func (b *networks) around(addr netip.Addr) (list []*topology.Node) {
	for bits := range b.lengths[ipam.FamilyIndex(addr.Is4())] {
		subnet := netip.PrefixFrom(addr, bits).Masked()
		list = slices.AppendSeq(list, maps.Values(b.nodes[subnet]))
	}
	return list
}

// moves says whether a node that may announce now, or may no more, makes a difference to an address of a Service's.
func (b *announcers) moves(addr netip.Addr, name string, s *objects.Service, n *topology.Node) bool {
	way := b.outside.ways[addr]
	switch {
	case n.Name == way.node || n.Name == b.announced[addr]:
		return true
	case n.Object == nil || n.Outside != way.network || !b.liveness.mayAnnounce(n, addr):
		return false
	case s != nil && s.Balancer.Local:
		return slices.Contains(b.serving(name, s, addr.Is4()), n)
	}
	return way.node == "" || rendezvous.ForRows(addr.String(), n.Name) > rendezvous.ForRows(addr.String(), way.node)
}

// wayIn decides where an address comes in: by the nodes of one network whose subnets hold it. Which subnet it has says
// a node itself, and on a network of another name that counts for nothing.
func (b *networks) wayIn(addr netip.Addr, p *state) wayIn {
	nodes := slices.DeleteFunc(b.around(addr),
		func(n *topology.Node) bool { return !p.object.Nodes.Matches(n.Object.Labels) })
	network := topology.NetworkOf(b.settings, p.object.Network, nodes)
	return wayIn{network, b.preferred(addr, p, network, nodes)}
}

// preferred is the one of nodes that answers for an address on a network, "" for none.
func (b *networks) preferred(addr netip.Addr, p *state, network string, nodes []*topology.Node) string {
	best, most := "", uint64(0)
	for _, n := range nodes {
		if n.Outside != network || !b.liveness.mayAnnounce(n, addr) ||
			n.Object.Labels.Has(corev1.LabelNodeExcludeBalancers) || !p.object.Nodes.Matches(n.Object.Labels) {
			continue
		}
		if rank := rendezvous.ForRows(addr.String(), n.Name); best == "" || rank > most {
			best, most = n.Name, rank
		}
	}
	return best
}

// serving are the nodes that have an endpoint of a Service that gets its traffic.
func (b *announcers) serving(name string, s *objects.Service, ipv4 bool) (list []*topology.Node) {
	seen := map[string]bool{}
	for _, sl := range b.services.SlicesOf(name) {
		if sl.IPv6 == ipv4 {
			continue
		}
		for _, e := range sl.Endpoints {
			if n := b.nodes.At(e.Node); n != nil && n.Placed && !seen[e.Node] && (e.Ready || e.Serving && e.Terminating ||
				s.PublishNotReady) {
				seen[e.Node] = true
				list = append(list, n)
			}
		}
	}
	return list
}
