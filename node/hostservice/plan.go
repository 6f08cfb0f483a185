package hostservice

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/hostservice/listeners"
	"github.com/weftnet/weft/node/hostservice/proxy"
)

// Object names who is told of a problem.
type Object struct {
	Kind, Namespace, Name string
	UID                   types.UID
}

func (o Object) String() string { return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name) }

// holder is who has a port of the host's: a field of an object, as the user wrote it.
type holder struct {
	object Object
	field  string
	// yields: a program of the host's that has the port keeps it, from outside too.
	yields bool
}

func (h holder) String() string {
	if h.object == (Object{}) {
		return h.field
	}
	return h.field + " of " + h.object.String()
}

// request is what a socket of the host is asked for.
type request struct {
	holder
	to    proxy.Target
	local *locality // nil: without policy Local
}

// healthCheck is a healthCheckNodePort.
type healthCheck struct {
	owner Object
	port  uint16
}

// state is all that a plan depends on.
type state struct {
	services  []*service // each with something outside, the oldest first
	pods      []Pod
	host      Host
	nodes     map[netip.Addr]struct{} // addresses of any node; nil: not known yet
	nodeHosts map[netip.Addr]struct{} // those of them that nodes' hosts and gateways have
	// listening are nodes' daemons, as their agents have told the cluster, by their hosts' addresses.
	listening map[netip.Addr][]contract.Listeners
	// apiServers are the API server's own addresses and ports; nil: not known yet.
	apiServers map[netip.AddrPort]bool
	node       string                  // this one's name
	internal   map[string][]netip.Addr // nodes' InternalIPs by name, in their order
	// endpoints are those of the Services that follow theirs, by namespace/name.
	endpoints map[string][]*slice
	// busy is where programs of the host's listen, of what was tried.
	busy listeners.Set
	// daemons are where they listen, or did, whether or not it was tried.
	daemons listeners.Set
	// localities are kept from plan to plan, and decide nothing; nil: they are made anew.
	localities *localities
}

// plan is what there must be.
type plan struct {
	entries []extbridge.Entry                 // sorted
	sockets map[listeners.Socket]proxy.Target // what the host listens at
	// holders have the sockets, and ports at which the host does not listen.
	holders  map[listeners.Socket]holder
	routes   []netip.Addr           // that the host reaches by its management port, sorted
	known    bool                   // with all that there is to know
	partial  bool                   // more routes may follow when all nodes are known
	checks   map[uint16]healthCheck // by port
	follows  bool                   // endpoints of Services are wanted
	remote   bool                   // some of these are on other nodes
	wants    bool                   // it matters where the API server is: somebody wants ports that may be its
	problems []problem
}

// makePlan decides who gets what. What is the hosts' own is nobody else's, see [outside.Hosts]. Ports of all nodes come
// first, NodePorts and health checks, the oldest Service's first; then load balancers' addresses, which not everybody
// can write, and externalIPs, the oldest Service's first; then host ports, the oldest pod's first. The controller's
// rule is the same (test/hostports).
func makePlan(s state) plan {
	if s.localities == nil {
		s.localities = newLocalities()
	}
	b := builder{state: s, plan: plan{sockets: map[listeners.Socket]proxy.Target{},
		holders: map[listeners.Socket]holder{}, checks: map[uint16]healthCheck{}},
		everyNode: map[port]*service{}, entries: map[extbridge.Entry]struct{}{},
		ownBackends: map[listeners.Socket]*locality{}, vips: map[netip.Addr]struct{}{},
		yielded: map[port]struct{}{}, outsideOf: map[string]int{}, told: map[problem]struct{}{}}
	b.localities.begin(s)
	defer b.localities.end()
	b.rules = b.hostRules()
	for _, service := range s.services {
		b.claim(service)
	}
	b.returns = slices.Concat(contract.HostClients[:], s.host.Routers, s.host.Network.SharedGateways)
	b.clients = s.host.clients()
	for _, service := range s.services {
		b.healthCheck(service)
	}
	for _, service := range s.services {
		for _, port := range service.ports {
			b.nodePort(service, port)
		}
	}
	for _, service := range s.services {
		b.external(service, service.balancer, "status.loadBalancer.ingress", service.restricted)
	}
	for _, service := range s.services {
		b.external(service, service.external, "spec.externalIPs", false)
	}
	for _, pod := range s.pods {
		for _, port := range pod.Ports {
			b.hostPort(pod, port)
		}
	}
	return b.finish()
}

type builder struct {
	state
	plan
	rules       outside.Hosts
	everyNode   map[port]*service // who has a port of all nodes, as a NodePort or for its health check
	entries     map[extbridge.Entry]struct{}
	ownBackends map[listeners.Socket]*locality // of sockets, those with addresses of the host among their backends
	vips        map[netip.Addr]struct{}
	yielded     map[port]struct{} // at which it listens, of holders that yield
	told        map[problem]struct{}
	outside     int            // entries of external addresses
	outsideOf   map[string]int // by the namespace of their Service
	returns     []netip.Addr
	clients     *proxy.Clients
}

// port is one of a protocol, at whatever address.
type port struct {
	protocol string
	number   uint16
}

func portOf(p servicePort) port { return port{p.protocol, p.nodePort} }

// mostYielding bounds the ports at which the host listens for what whoever may write Services or pods can ask for
// in any number: each is a port less for the host's own connections, and a socket an address.
const mostYielding = 1000

var loopbacks = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// addresses are those at which the host is asked for a port that is not of one address.
func (b *builder) addresses() []netip.Addr { return slices.Concat(b.host.Addresses, loopbacks) }

// hostRules are what stays the hosts' own.
func (b *builder) hostRules() outside.Hosts {
	network := b.host.Network
	return outside.Hosts{Ports: network.OwnPorts(), Open: network.HostExternalIPs, Ranges: network.Hosts,
		APIServers: b.apiServers,
		Nodes: func(addr netip.Addr) bool {
			_, known := b.nodeHosts[addr]
			return known || slices.Contains(b.host.Addresses, addr)
		},
		Listening: func(protocol string, at netip.AddrPort) bool {
			return slices.ContainsFunc(b.listening[at.Addr()], func(l contract.Listeners) bool { return l.Have(protocol, at) })
		}}
}

// claim gives a Service the ports of all nodes that no older one has.
func (b *builder) claim(s *service) {
	take := func(p port) {
		if b.everyNode[p] == nil {
			b.everyNode[p] = s
		}
	}
	for _, p := range s.ports {
		if p.nodePort != 0 {
			take(port{p.protocol, p.nodePort})
		}
	}
	if s.health != 0 {
		take(port{tcp, s.health})
	}
}

// keepEverywhere says who keeps a port of all nodes.
func (b *builder) keepEverywhere(protocol string, number uint16) outside.Owner {
	return b.rules.Keep(protocol, netip.AddrPortFrom(netip.Addr{}, number))
}

// hasEverywhere says which Service has a port of all nodes at one of the host's addresses.
func (b *builder) hasEverywhere(protocol string, at netip.AddrPort) (s *service, ok bool) {
	s = b.everyNode[port{protocol, at.Port()}]
	if s == nil || b.keepEverywhere(protocol, at.Port()) != outside.Nobody {
		return nil, false
	}
	_, family := s.clusterIP(at.Addr().Is4())
	return s, family || protocol == tcp && s.health == at.Port()
}

// hosts says what of the hosts' own has a port, whatever Services and pods ask for.
func (b *builder) hosts(protocol string, at netip.AddrPort) (taken holder, ok bool) {
	asked := at
	if at.Addr().IsLoopback() {
		asked = netip.AddrPortFrom(netip.Addr{}, at.Port())
	}
	switch b.rules.Keep(protocol, asked) {
	case outside.Nobody:
	case outside.APIServer:
		return holder{field: "the API server's"}, true
	default:
		return holder{field: "one of the host's own (host-ports)"}, true
	}
	check, ok := b.checks[at.Port()]
	return holder{object: check.owner, field: "spec.healthCheckNodePort"}, ok && protocol == tcp
}

// entry notes what comes from outside for OVN.
func (b *builder) entry(addr netip.Addr, protocol string, number uint16) {
	if b.host.Router && (protocol != sctp || b.host.SCTP) {
		b.entries[extbridge.Entry{Addr: addr, Protocol: protocol, Port: number}] = struct{}{}
	}
}

// everywhere notes a port of all the host's addresses at which the owner is to be had.
func (b *builder) everywhere(protocol string, number uint16, has func(netip.Addr) bool) {
	if !slices.ContainsFunc(b.host.Addresses, func(addr netip.Addr) bool { return !has(addr) }) {
		b.entry(netip.Addr{}, protocol, number)
		return
	}
	for _, addr := range b.host.Addresses {
		if has(addr) {
			b.entry(addr, protocol, number)
		}
	}
}

// isBusy says whether a program of the host's has the port.
func (b *builder) isBusy(protocol string, addr netip.Addr, number uint16) bool {
	at := listeners.Socket{Protocol: protocol, At: netip.AddrPortFrom(addr, number)}
	return b.busy.Has(at) || slices.Contains(b.host.Addresses, addr) && b.daemons.Has(at)
}

// whose is who has a port of the host's already, if anybody has.
func (b *builder) whose(protocol string, at netip.AddrPort) (taken holder, ok bool) {
	if own, ok := b.hosts(protocol, at); ok {
		return own, true
	}
	taken, ok = b.holders[listeners.Socket{Protocol: protocol, At: at}]
	return taken, ok
}

// open lets the host listen, where it can. It says who has the port already.
func (b *builder) open(protocol string, at netip.AddrPort, r request) (taken holder, ok bool) {
	if other, ok := b.whose(protocol, at); ok {
		return other, other.object == r.object
	}
	key := listeners.Socket{Protocol: protocol, At: at}
	b.holders[key] = r.holder
	if protocol != sctp && b.host.family(at.Addr().Is4()) && b.mayListen(port{protocol, at.Port()}, r.holder) {
		b.listen(key, r)
	}
	return holder{}, true
}

// listen adds a socket.
func (b *builder) listen(at listeners.Socket, r request) {
	to := r.to
	to.Clients, to.Owner, to.Field = b.clients, r.object, r.field
	if r.local != nil {
		to.Backends = &r.local.Backends
		if len(r.local.own) > 0 {
			b.ownBackends[at] = r.local
		}
	}
	b.sockets[at] = to
}

// mayListen counts the ports of holders that yield.
func (b *builder) mayListen(at port, h holder) bool {
	if _, counted := b.yielded[at]; counted || !h.yields {
		return true
	}
	if len(b.yielded) >= mostYielding {
		b.report(h.object, tooManyHostPorts, fmt.Sprintf(
			"%s: this node listens at %d ports of hostPorts and of Services at addresses of its own, and at no more, so that "+
				"its own programs, and clients by a network card that is not on the external bridge, do not reach all of these; "+
				"all other clients do; use fewer ports",
			h.field, mostYielding))
		return false
	}
	b.yielded[at] = struct{}{}
	return true
}

// report notes a problem once.
func (b *builder) report(object Object, reason *reasons.Event, message string) {
	one := problem{object, reason, message}
	if _, told := b.told[one]; !told {
		b.told[one] = struct{}{}
		b.problems = append(b.problems, one)
	}
}

func (b *builder) nodePort(s *service, port servicePort) {
	if port.nodePort == 0 || b.everyNode[portOf(port)] != s || b.keepEverywhere(port.protocol,
		port.nodePort) != outside.Nobody {
		return // of which the controller tells
	}
	family := func(ipv4 bool) bool { _, ok := s.clusterIP(ipv4); return ok }
	b.everywhere(port.protocol, port.nodePort, func(addr netip.Addr) bool { return family(addr.Is4()) })
	local := map[bool]*locality{} // by whether it is IPv4
	for _, vip := range contract.HostVIPs {
		if family(vip.Is4()) {
			local[vip.Is4()] = b.locality(s, port, netip.AddrPortFrom(vip, port.nodePort))
		}
	}
	for _, addr := range b.addresses() {
		if family(addr.Is4()) {
			b.open(port.protocol, netip.AddrPortFrom(addr, port.nodePort), request{
				holder: holder{object: s.object(), field: fmt.Sprintf("spec.ports[port=%d].nodePort", port.port)},
				to: proxy.Target{To: netip.AddrPortFrom(contract.OfFamily(contract.HostVIPs, addr), port.nodePort),
					Returns: b.returns},
				local: local[addr.Is4()],
			})
		}
	}
}

func (b *builder) healthCheck(s *service) {
	if s.health == 0 || b.everyNode[port{tcp, s.health}] != s {
		return
	}
	if b.keepEverywhere(tcp, s.health) != outside.Nobody {
		b.report(s.object(), healthCheckPortUnavailable, fmt.Sprintf(
			"spec.healthCheckNodePort: %d is one of the host's own (host-ports), and is not served; make the Service anew "+
				"with another port; the nodes look unhealthy to the load balancer until then",
			s.health))
		return
	}
	b.checks[s.health] = healthCheck{owner: s.object(), port: s.health}
}

func (b *builder) hostPort(pod Pod, port PodPort) {
	backend := func(ipv4 bool) (netip.Addr, bool) {
		i := slices.IndexFunc(pod.Addresses, func(a netip.Addr) bool { return a.Is4() == ipv4 })
		if i < 0 {
			return netip.Addr{}, false
		}
		return pod.Addresses[i], true
	}
	family := func(ipv4 bool) bool { _, ok := backend(ipv4); return ok }
	has := func(addr netip.Addr) bool {
		other, taken := b.whose(port.Protocol, netip.AddrPortFrom(addr, port.HostPort))
		return family(addr.Is4()) && !b.isBusy(port.Protocol, addr, port.HostPort) && (!taken || other.object == pod.object())
	}
	addresses := b.addresses()
	switch {
	case !port.HostIP.IsValid():
		b.everywhere(port.Protocol, port.HostPort, has)
	case slices.Contains(b.host.Routers, port.HostIP): // whoever asks the router needs nothing of its host
		return
	case !slices.Contains(addresses, port.HostIP) && !port.HostIP.IsLoopback():
		b.report(pod.object(), noHostAddress, fmt.Sprintf(
			"hostPort %d/%s: hostIP %v is no address of this node, which has %v; the port is not served; correct hostIP or "+
				"leave it out",
			port.HostPort, port.Protocol, port.HostIP, b.host.Addresses))
		return
	default:
		addresses = []netip.Addr{port.HostIP}
		if !port.HostIP.IsLoopback() && has(port.HostIP) {
			b.entry(port.HostIP, port.Protocol, port.HostPort)
		}
	}
	var returns []netip.Addr
	if port.Protocol == udp { // pods' datagrams to their host come by its router, as the controller has it
		returns = slices.Concat(contract.HostClients[:], b.host.Routers)
	}
	var before holder
	for _, addr := range addresses {
		to, ok := backend(addr.Is4())
		if !ok {
			continue
		}
		other, ok := b.open(port.Protocol, netip.AddrPortFrom(addr, port.HostPort), request{
			holder: holder{object: pod.object(), field: "hostPort", yields: true},
			to:     proxy.Target{To: netip.AddrPortFrom(to, port.Port), Direct: true, Returns: returns}})
		if !ok && before.field == "" {
			before = other
		}
	}
	if before.field != "" {
		b.report(pod.object(), hostPortTaken, fmt.Sprintf(
			"hostPort %d/%s: on this node the port is %s; the pod is not reached by it; choose another hostPort",
			port.HostPort, port.Protocol, before))
	}
}

func (p Pod) object() Object {
	return Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

func (b *builder) finish() plan {
	for entry := range b.entries {
		b.plan.entries = append(b.plan.entries, entry)
	}
	slices.SortFunc(b.plan.entries, func(x, y extbridge.Entry) int {
		return cmp.Or(x.Addr.Compare(y.Addr), cmp.Compare(x.Protocol, y.Protocol), cmp.Compare(x.Port, y.Port))
	})
	b.wants = len(b.vips)+len(b.state.pods) > 0
	b.breakLoops()
	if !b.host.Management { // what is sent to a virtual address now would leave by some other route
		clear(b.sockets)
	}
	for _, vip := range contract.HostVIPs {
		if b.host.family(vip.Is4()) {
			b.routes = append(b.routes, vip)
		}
	}
	b.partial = len(b.vips) > 0 && (b.nodes == nil || b.apiServers == nil)
	if !b.partial {
		for vip := range b.vips {
			if b.routed(vip) {
				b.routes = append(b.routes, vip)
			}
		}
	}
	slices.SortFunc(b.routes, netip.Addr.Compare)
	return b.plan
}

// routed says whether the host reaches an external address by its management port. An address that
// somebody has is reached where it is: who may write Services may not cut a host from its neighbours.
func (b *builder) routed(vip netip.Addr) bool {
	_, node := b.nodes[vip]
	return !node && b.rules.At(vip) == outside.Nobody && b.host.family(vip.Is4()) && !slices.Contains(b.host.Addresses,
		vip) && !slices.Contains(b.host.Reserved, vip)
}
