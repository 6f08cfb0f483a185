package hostservice

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/node/hostservice/listeners"
	"github.com/weftnet/weft/node/hostservice/proxy"
)

// locality is what the sockets of a port lead to, of a Service with externalTrafficPolicy Local.
type locality struct {
	proxy.Backends
	remote bool // some of these are not on this node
	// own are those of the backends that are addresses of the host, which may be sockets of a plan.
	own []netip.AddrPort
	// acyclic is the same without looping, which are those of own that were sockets of the last plan with any.
	acyclic *locality
	looping []netip.AddrPort
}

// localities are those that plans have in common. A Service's are made once, and are kept until its slices, the Service
// itself, the host, or InternalIPs of nodes that its endpoints are on change: whoever may write slices changes one of
// them as often as he likes, and that costs no more than the Service that it is of.
type localities struct {
	of    map[string]*kept // by namespace/name of the Service
	plans int
	// Of the last plan:
	host     Host
	internal map[string][]netip.Addr
}

func newLocalities() *localities { return &localities{of: map[string]*kept{}} }

// kept are one Service's.
type kept struct {
	plan    int // the last one that has asked for them
	service *service
	slices  map[*slice]struct{}
	nodes   map[string]struct{} // that its endpoints are on
	known   map[localityKey]*locality
	// Until the end of the plan:
	behind *endpointsOf
	chosen map[endpointsKey][]served
}

type localityKey struct {
	port      servicePort
	otherwise netip.AddrPort
}

// begin forgets what is another one in a new plan.
func (l *localities) begin(s state) {
	if !slices.Equal(l.host.Addresses, s.host.Addresses) ||
		!slices.Equal(l.host.Network.PodCIDRs, s.host.Network.PodCIDRs) ||
		!slices.Equal(l.host.Network.ClusterCIDRs, s.host.Network.ClusterCIDRs) {
		clear(l.of)
	}
	changed := map[string]struct{}{}
	for _, pair := range [2][2]map[string][]netip.Addr{{l.internal, s.internal}, {s.internal, l.internal}} {
		for node, addrs := range pair[0] {
			if !slices.Equal(addrs, pair[1][node]) {
				changed[node] = struct{}{}
			}
		}
	}
	maps.DeleteFunc(l.of, func(_ string, k *kept) bool {
		for node := range changed {
			if _, on := k.nodes[node]; on {
				return true
			}
		}
		return false
	})
	l.plans++
	l.host, l.internal = s.host, s.internal
}

// end forgets what no Service of the plan has.
func (l *localities) end() {
	maps.DeleteFunc(l.of, func(_ string, k *kept) bool {
		k.behind, k.chosen = nil, nil
		return k.plan != l.plans
	})
}

// ensure returns what there is of a Service with some slices.
func (l *localities) ensure(s *service, from []*slice) *kept {
	k := l.of[s.key()]
	if k == nil || k.plan != l.plans && !k.holds(s, from) {
		k = &kept{service: s, slices: map[*slice]struct{}{}, nodes: map[string]struct{}{}, known: map[localityKey]*locality{}}
		for _, one := range from {
			k.slices[one] = struct{}{}
		}
		l.of[s.key()] = k
	}
	k.plan = l.plans
	return k
}

func (k *kept) holds(s *service, from []*slice) bool {
	return k.service == s && len(k.slices) == len(from) && !slices.ContainsFunc(from, func(one *slice) bool {
		_, had := k.slices[one]
		return !had
	})
}

// locality is nil for policy Cluster, and for SCTP, at which no host listens.
func (b *builder) locality(s *service, port servicePort, otherwise netip.AddrPort) *locality {
	if !s.local || port.protocol == sctp {
		return nil
	}
	from, at := b.endpoints[s.key()], localityKey{port, otherwise}
	k := b.localities.ensure(s, from)
	l := k.known[at]
	if l == nil {
		l = &locality{Backends: proxy.Backends{Sticky: s.sticky}}
		for _, e := range k.serving(s, from, port, otherwise.Addr().Is4(), b.host.Network.ClusterCIDRs) {
			one := b.backend(e, port, otherwise)
			if l.List = append(l.List, one); one.Local && slices.Contains(b.host.Addresses, one.At.Addr()) {
				l.own = append(l.own, one.At)
			}
			l.remote = l.remote || e.node != b.node
			k.nodes[e.node] = struct{}{}
		}
		k.known[at] = l
	}
	b.remote = b.remote || l.remote
	return l
}

// serving are the endpoints of a Service's port that get traffic.
func (k *kept) serving(s *service, from []*slice, port servicePort, ipv4 bool, pods []netip.Prefix) []served {
	if k.behind == nil {
		k.behind, k.chosen = behind(from, pods), map[endpointsKey][]served{}
	}
	of := endpointsKey{port.name, port.protocol, ipv4}
	list, known := k.chosen[of]
	if !known {
		list = serving(k.behind, of, s.mostEndpoints(), s.unready)
		k.chosen[of] = list
	}
	return list
}

// mostEndpoints are those that each of its ports has.
func (s *service) mostEndpoints() int {
	nodePorts := slices.ContainsFunc(s.ports, func(p servicePort) bool { return p.nodePort != 0 })
	return outside.Backends(len(s.clusterIPs), len(s.external)+len(s.balancer), len(s.ports), nodePorts)
}

// backend leads to the node of an endpoint, which sends what comes there to its own endpoints and shows them the
// client's address. What is nobody's on this node's networks is OVN's to reach.
func (b *builder) backend(e served, port servicePort, otherwise netip.AddrPort) proxy.Backend {
	if e.node == b.node {
		if contain(b.host.Network.PodCIDRs, e.at.Addr()) || slices.Contains(b.host.Addresses, e.at.Addr()) {
			return proxy.Backend{Endpoint: e.at.Addr(), At: e.at, Local: true}
		}
		return proxy.Backend{Endpoint: e.at.Addr(), At: otherwise}
	}
	for _, addr := range b.internal[e.node] {
		if addr.Is4() == e.at.Addr().Is4() && port.nodePort != 0 {
			return proxy.Backend{Endpoint: e.at.Addr(), At: netip.AddrPortFrom(addr, port.nodePort)}
		}
	}
	return proxy.Backend{Endpoint: e.at.Addr(), At: otherwise}
}

// breakLoops takes out backends that are sockets of the plan: somebody has written an endpoint that is the host itself,
// at a port that the host passes on.
func (b *builder) breakLoops() {
	looked := map[*locality]*locality{}
	for at, l := range b.ownBackends {
		if looked[l] == nil {
			looked[l] = l.without(slices.DeleteFunc(slices.Clone(l.own), func(own netip.AddrPort) bool {
				_, loops := b.sockets[listeners.Socket{Protocol: at.Protocol, At: own}]
				return !loops
			}))
		}
		to := b.sockets[at]
		to.Backends = &looked[l].Backends
		b.sockets[at] = to
	}
}

// without is the locality without some of its own backends.
func (l *locality) without(looping []netip.AddrPort) *locality {
	switch {
	case len(looping) == 0:
		return l
	case l.acyclic == nil || !slices.Equal(l.looping, looping):
		taken := map[netip.AddrPort]struct{}{}
		for _, at := range looping {
			taken[at] = struct{}{}
		}
		l.looping, l.acyclic = looping, &locality{Backends: proxy.Backends{Sticky: l.Sticky}, remote: l.remote}
		for _, one := range l.List {
			if _, loops := taken[one.At]; !loops || !one.Local {
				l.acyclic.List = append(l.acyclic.List, one)
			}
		}
	}
	return l.acyclic
}
