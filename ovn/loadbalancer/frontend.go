package loadbalancer

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
)

// AttachPoint is where load balancers are, and so whose packets they see.
type AttachPoint int

const (
	OnSwitches AttachPoint = iota // of the nodes: what pods and the nodes' hosts send
	OnRouters                     // gateway routers of nodes: what comes from outside
)

// elsewhere is the scope of the nodes that have no endpoint of a Service that is served by local ones
// only. No node has this name.
const elsewhere = "*"

// Nodes are what a Service's rows depend on of all nodes.
type Nodes struct {
	Names    []string            // that have a switch, sorted
	Gateways []string            // that have a gateway router, sorted
	Windows  map[string]struct{} // with the Hyper-V datapath, see capability.Limits
	Zones    map[string][]string // those that have a switch by their zone, which is "" where there is none, sorted
	ZoneOf   map[string]string
	Hosts    map[netip.Addr][]string // nodes by the addresses that their gateway routers share with their hosts
	Widths   [2]int                  // of IPv4 and IPv6: the most addresses that a node has for NodePorts
	Own      [2][]OwnAddress         // of IPv4 and IPv6: all nodes' addresses for NodePorts
	Pods     []netip.Prefix          // the ranges of pods' addresses
	// Balanced says whether load balancers have an address and port.
	Balanced func(objects.Claim) bool
	// Announcer says which node's gateway router answers for an address. ok is false for one that no router answers for
	// alone.
	Announcer func(netip.Addr) (node string, ok bool)
}

// OwnAddress is one of a node's that its NodePorts have.
type OwnAddress struct {
	Addr netip.Addr
	Node string
}

// Variables of nodes, which the load balancers of NodePorts name in place of addresses.
const (
	nodeVariable = "NODEIP" // then 4 or 6, an underscore and a number from 0
	hostVariable = "HOSTIP" // then 4 or 6: see [contract.HostVIPs]
)

// HostVariable stands for the address by which a node's host is known to its own pods.
func HostVariable(ipv4 bool) string { return hostVariable + northbound.IPVersion(ipv4) }

// NodePortVariable stands for one of a node's addresses that NodePorts have.
func NodePortVariable(ipv4 bool, number int) string {
	return nodeVariable + northbound.IPVersion(ipv4) + "_" + strconv.Itoa(number)
}

func (n *Nodes) isWindows(name string) bool {
	_, ok := n.Windows[name]
	return ok
}

// at are the nodes that have a place.
func (n *Nodes) at(p AttachPoint) []string {
	if p == OnRouters {
		return n.Gateways
	}
	return n.Names
}

// frontend is by what clients know a Service: addresses and ports of one protocol and one sort.
type frontend struct {
	sort     string // part of its load balancers' names, "" for ClusterIPs
	protocol objects.Protocol
	template string // the address family of a template: "ipv4" or "ipv6"; "" is none
	vips     []vip
	places   []AttachPoint
	local    [2]bool // by place: clients get the endpoints of the node alone where they come in
	// aliased: some gateway routers have an alias for an endpoint on their hosts.
	aliased bool
	// written: addresses of nodes are written out, and each is on its own node alone.
	written bool
	// owner is the node whose gateway router alone has it, and answers for its addresses; "" is every node's.
	owner string
	own   *own // see ownOf
	// ofNodes are those of vips that a node has of a frontend that is written out, see ofNode.
	ofNodes map[string][]int
}

// vip is an address and port with all that the Service's slices know to stand behind it.
type vip struct {
	at       string // as a load balancer has it
	backends []backend
	node     string // the one whose address it is, of those that are written out
	refused  bool   // of a view: nobody serves it on any node, and its clients are told
}

// frontends are a Service's of one protocol, with so many endpoints of each port at most.
func frontends(s *objects.Service, kind objects.Protocol, from []*objects.EndpointSlice, nodes *Nodes,
	most int) []frontend {
	if !s.Uses(kind) {
		return nil
	}
	behind := &serviceEndpoints{behind: behindService(from), most: most, known: map[endpointsKey][]backend{}}
	switch kind {
	case "sctp":
		behind.without = func(_ netip.AddrPort, node string) bool { return nodes.isWindows(node) }
	case "udp":
		behind.without = func(at netip.AddrPort, _ string) bool { return nodes.isTunnel(at) }
	}
	list := []frontend{clusterFrontend(s, kind, behind)}
	if !s.IsInside() {
		for _, ipv4 := range []bool{true, false} {
			list = append(list, nodePortFrontend(s, kind, ipv4, behind, nodes))
		}
		list = append(list, externalFrontends(s, kind, behind, nodes)...)
	}
	list = slices.DeleteFunc(list, func(f frontend) bool { return len(f.vips) == 0 })
	for i := range list {
		list[i].findAliases(nodes)
	}
	return list
}

func clusterFrontend(s *objects.Service, kind objects.Protocol, behind *serviceEndpoints) frontend {
	f := frontend{protocol: kind, places: []AttachPoint{OnSwitches}, local: [2]bool{OnSwitches: s.InternalLocal}}
	for _, port := range s.Ports {
		for _, ip := range s.ClusterIPs {
			f.serve(port, ip, port.Port, behind)
		}
	}
	return f
}

// nodePortFrontend has the NodePorts of a family on all nodes: variables stand for the nodes' addresses.
// On a switch its clients are within the cluster, and get every endpoint whatever the policy
// for those outside is.
//
// A sticky Service's are written out: OVN remembers no client of a variable's, for which its flows have a
// match that no packet fits (ip6 and an IPv4 address; build_lb_affinity_lr_flows in northd.c of 25.03).
func nodePortFrontend(s *objects.Service, kind objects.Protocol, ipv4 bool, endpoints *serviceEndpoints,
	nodes *Nodes) frontend {
	f := frontend{sort: "nodeport" + northbound.IPVersion(ipv4), protocol: kind,
		template: "ipv" + northbound.IPVersion(ipv4), places: []AttachPoint{OnSwitches, OnRouters},
		local: [2]bool{OnRouters: s.ExternalLocal}}
	if !s.HasFamily(ipv4) {
		return f
	}
	for _, port := range s.NodePorts {
		if port.Protocol != kind || s.Rejected.Rejects(objects.Claim{Port: port.Number, Protocol: kind}) {
			continue
		}
		behind, number := endpoints.of(port.ServicePort, !ipv4), ":"+strconv.Itoa(int(port.Number))
		if s.ClientIP {
			f.template, f.written = "", true
			at := func(addr netip.Addr) string { return netip.AddrPortFrom(addr, port.Number).String() }
			f.vips = append(f.vips, vip{at: at(contract.HostVIPs[ipam.FamilyIndex(ipv4)]), backends: behind})
			for _, own := range nodes.Own[ipam.FamilyIndex(ipv4)] {
				f.vips = append(f.vips, vip{at: at(own.Addr), backends: behind, node: own.Node})
			}
			continue
		}
		f.vips = append(f.vips, vip{at: "^" + HostVariable(ipv4) + number, backends: behind})
		for i := range nodes.Widths[ipam.FamilyIndex(ipv4)] {
			f.vips = append(f.vips, vip{at: "^" + NodePortVariable(ipv4, i) + number, backends: behind})
		}
	}
	return f
}

// externalFrontends have the addresses by which a Service is known outside. Those that weft announces are
// on the gateway router of the node that answers for them, and on no other.
func externalFrontends(s *objects.Service, kind objects.Protocol, behind *serviceEndpoints, nodes *Nodes) []frontend {
	everywhere := frontend{sort: "external", protocol: kind, places: []AttachPoint{OnSwitches, OnRouters},
		local: [2]bool{OnRouters: s.ExternalLocal}}
	within := frontend{sort: "announced", protocol: kind, places: []AttachPoint{OnSwitches}}
	var announced []frontend
	for _, ip := range s.ExternalAddresses() {
		if !s.HasFamily(ip.Is4()) {
			continue
		}
		node, ok := nodes.Announcer(ip)
		to := &everywhere
		if ok {
			to = &within
		}
		ports := s.PortsAt(ip)
		for _, port := range ports {
			to.serve(port, ip, port.Port, behind)
		}
		if !ok || node == "" {
			continue
		}
		i := slices.IndexFunc(announced, func(f frontend) bool { return f.owner == node })
		if i < 0 {
			i = len(announced)
			announced = append(announced, frontend{sort: "announced", protocol: kind, places: []AttachPoint{OnRouters},
				local: [2]bool{OnRouters: s.ExternalLocal}, owner: node})
		}
		for _, port := range ports {
			announced[i].serve(port, ip, port.Port, behind)
		}
	}
	return append([]frontend{everywhere, within}, announced...)
}

// serve adds an address and port for a Service's port, if that is of the frontend's protocol.
func (f *frontend) serve(port objects.ServicePort, ip netip.Addr, number uint16, behind *serviceEndpoints) {
	if port.Protocol == f.protocol {
		f.vips = append(f.vips, vip{at: netip.AddrPortFrom(ip, number).String(), backends: behind.of(port, ip.Is6())})
	}
}

// findAliases looks for endpoints whose address is a gateway router's own.
func (f *frontend) findAliases(nodes *Nodes) {
	f.aliased = slices.Contains(f.places, OnRouters) && slices.ContainsFunc(f.vips, func(v vip) bool {
		return slices.ContainsFunc(v.backends, func(b backend) bool { return len(nodes.Hosts[b.at.Addr()]) > 0 })
	})
}

// view is what some nodes' clients see behind a frontend. Its scope names it: what has the same scope,
// of one frontend, is the same.
type view struct {
	scope string // "" where nothing depends on the node
	vips  []vip  // backends are those that get traffic
	// direct: packets come to the endpoints with the client's address, and where there is no endpoint
	// they are dropped: nobody outside is to think that the Service refuses him.
	direct bool
	// part is that of the load balancer's name which tells it from the view's other one, see parts.
	part string
}

// parts divides a view by what becomes of its clients: OVN's options are those of a whole load balancer, and a
// refusal has others than a connection that comes about.
func (f *frontend) parts(v view) []view {
	refused := slices.IndexFunc(v.vips, func(one vip) bool { return one.refused })
	if refused < 0 || !slices.Contains(f.places, OnRouters) {
		return []view{v}
	}
	rest, none := v, view{scope: v.scope}
	rest.vips = nil
	for _, one := range v.vips {
		if one.refused {
			none.vips = append(none.vips, one)
		} else {
			rest.vips = append(rest.vips, one)
		}
	}
	if len(rest.vips) == 0 {
		return []view{none}
	}
	none.part = "/refused"
	if f.owner == "" && !f.written { // it is the same for all nodes
		none.scope = ""
	}
	return []view{rest, none}
}

// refuses says whether all clients of a view are refused.
func (v *view) refuses() bool {
	return !slices.ContainsFunc(v.vips, func(one vip) bool { return !one.refused })
}

// varies says whether nodes may have different views of a frontend.
func (f *frontend) varies(at AttachPoint) bool {
	return f.local[at] || f.written || at == OnRouters && (f.aliased || f.owner != "")
}

// differs says whether a node's gateway router may have another view of a frontend than its switch.
func (f *frontend) differs() bool {
	return f.local[OnSwitches] != f.local[OnRouters] || f.aliased || f.owner != ""
}

// view is that of a node's clients; of any node's, where it does not vary. to is nil where no endpoint is
// nearer than another.
func (f *frontend) view(s *objects.Service, at AttachPoint, node string, to []reach, nodes *Nodes) view {
	var v view
	if f.written {
		f, to = f.ofNode(node, to)
	}
	switch {
	case f.local[at]:
		v = f.localView(s, node)
		v.direct = at == OnRouters
	case to != nil:
		v = f.nearView(s, to, node, nodes.ZoneOf[node])
		v.scope = node
	default:
		v = view{vips: make([]vip, len(f.vips))}
		for i, all := range f.vips {
			v.vips[i] = anywhere(all, choose(all.backends, s.PublishNotReady))
		}
		if f.owner != "" {
			v.scope = node
		}
	}
	if f.written {
		v.scope = node
	}
	if at == OnRouters {
		v.alias(node, nodes)
		if v.scope != "" && f.differs() {
			v.scope = "gw=" + v.scope
		}
	}
	return v
}

// anywhere is an address with the endpoints that it has wherever it is asked.
func anywhere(of vip, chosen []backend) vip {
	return vip{at: of.at, backends: chosen, refused: len(chosen) == 0}
}

// ofNode is what a node has of a frontend that is written out, and of what is near to whom: every address is on its own
// node alone, and nobody chooses endpoints for those of all others.
func (f *frontend) ofNode(node string, to []reach) (*frontend, []reach) {
	if f.ofNodes == nil {
		f.ofNodes = map[string][]int{}
		for i, v := range f.vips {
			f.ofNodes[v.node] = append(f.ofNodes[v.node], i)
		}
	}
	list := f.ofNodes[""]
	if node != "" {
		list = slices.Concat(list, f.ofNodes[node])
		slices.Sort(list)
	}
	part, near := *f, []reach(nil)
	part.vips, part.own, part.ofNodes = make([]vip, len(list)), nil, nil
	if to != nil {
		near = make([]reach, len(list))
	}
	for i, at := range list {
		if part.vips[i] = f.vips[at]; to != nil {
			near[i] = to[at]
		}
	}
	return &part, near
}

// alias puts the alias in place of a node's host.
func (v *view) alias(node string, nodes *Nodes) {
	for i, vip := range v.vips {
		for j, b := range vip.backends {
			if !slices.Contains(nodes.Hosts[b.at.Addr()], node) {
				continue
			}
			if v.scope = node; &vip.backends[0] == &v.vips[i].backends[0] {
				v.vips[i].backends = slices.Clone(vip.backends)
			}
			v.vips[i].backends[j].at = netip.AddrPortFrom(contract.OfFamily(contract.HostAliases, b.at.Addr()), b.at.Port())
		}
	}
}

// own are the endpoints of a frontend that is served by local ones, by their nodes.
type own struct {
	by       map[string][][]backend // for each VIP
	anywhere []bool                 // for each VIP: there is one that gets traffic, on whichever node
}

// ownOf finds them, once: there are many nodes to ask for.
func (f *frontend) ownOf(s *objects.Service) *own {
	if f.own != nil {
		return f.own
	}
	f.own = &own{by: map[string][][]backend{}, anywhere: make([]bool, len(f.vips))}
	for i, all := range f.vips {
		f.own.anywhere[i] = len(choose(all.backends, s.PublishNotReady)) > 0
		for _, b := range all.backends {
			if f.own.by[b.node] == nil {
				f.own.by[b.node] = make([][]backend, len(f.vips))
			}
			f.own.by[b.node][i] = append(f.own.by[b.node][i], b)
		}
	}
	return f.own
}

// localView has only the node's own endpoints.
func (f *frontend) localView(s *objects.Service, node string) view {
	v := view{scope: elsewhere, vips: make([]vip, len(f.vips))}
	here := f.ownOf(s).by[node]
	for i, all := range f.vips {
		v.vips[i].at, v.vips[i].refused = all.at, !f.own.anywhere[i]
		if here == nil {
			continue
		}
		if v.vips[i].backends = choose(here[i], s.PublishNotReady); len(v.vips[i].backends) > 0 {
			v.scope = node
		}
	}
	return v
}
