package hostservice

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/endpointslice"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/node/hostservice/listeners"
	"github.com/weftnet/weft/node/hostservice/proxy"
)

// costly is a Service with policy Local of many ports with so many endpoints, a hundred in a slice.
func costly(name, protocol string, ports, endpoints int) (*service, []*slice) {
	s := &service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, outside: true, local: true,
		clusterIPs: addrs("10.96.9.9")}
	var served []slicePort
	for i := range ports {
		name := fmt.Sprint("p", i)
		s.ports = append(s.ports, servicePort{name, protocol, uint16(20000 + i), uint16(30000 + i)})
		served = append(served, slicePort{name, protocol, uint16(20000 + i)})
	}
	var list []*slice
	for i := range endpoints {
		if i%100 == 0 {
			meta := metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(name, "-", i)}
			list = append(list, &slice{ObjectMeta: meta, service: name, ports: served})
		}
		last := list[len(list)-1]
		last.endpoints = append(last.endpoints, endpoint{netip.AddrFrom4([4]byte{10, 244, byte(i / 100), byte(i%100 + 3)}),
			"n2", endpointslice.Conditions{Ready: true, Serving: true}})
	}
	return s, list
}

// costState is a node with Services.
func costState() state {
	host := dual()
	host.Network.ServiceCIDRs = nil
	return state{host: host, node: "n1", internal: map[string][]netip.Addr{"n2": addrs("172.31.0.2", "2001:db8::2")},
		nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{}, endpoints: map[string][]*slice{},
		localities: newLocalities()}
}

func (s *state) serves(one *service, from []*slice) {
	if !slices.Contains(s.services, one) {
		s.services = append(s.services, one)
	}
	s.endpoints[one.key()] = from
}

// backends are those of a plan, each locality's once.
func (p plan) backends() (count int) {
	seen := map[*proxy.Backends]bool{}
	for _, to := range p.sockets {
		if to.Backends != nil && !seen[to.Backends] {
			seen[to.Backends] = true
			count += len(to.Backends.List)
		}
	}
	return count
}

// allocated is what something takes of memory, in bytes.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What one Service may cost each node's agent has a bound, whatever has a number in it; and where nothing of it has
// changed, its endpoints cost nothing again.
func TestCostlyServices(t *testing.T) {
	const first, again = 64 << 20, 8 << 20 // bytes that a plan takes
	for _, c := range []struct {
		name             string
		protocol         string
		ports, endpoints int
		edit             func(*service, []*slice)
		most             int // backends of each port and family
	}{
		{"ports", tcp, 1000, 300, nil, 25},
		{"ports and endpoints", tcp, 1000, 14000, nil, 25},
		{"endpoints", tcp, 1, 14000, nil, 14000},
		{"endpoints beyond", tcp, 4, 14000, nil, 6250},
		{"datagrams", udp, 1000, 14000, nil, 25},
		{"streams that no host takes", sctp, 1000, 14000, nil, 0},
		{"of two families", tcp, 1000, 14000, func(s *service, from []*slice) {
			s.clusterIPs = addrs("10.96.9.9", "fd96::9")
			for i, one := range from {
				if one.ipv6 = i%2 == 0; one.ipv6 {
					for j := range one.endpoints {
						one.endpoints[j].addr = netip.MustParseAddr(fmt.Sprintf("fd00:2::%x:%x", i, j+1))
					}
				}
			}
		}, 12},
		{"at an address of the host", tcp, 500, 14000, func(s *service, _ []*slice) {
			s.balancer = addrs("172.31.0.1")
		}, 2 * 33},
		{"without nodes", tcp, 1000, 14000, func(_ *service, from []*slice) {
			eachEndpoint(from, func(e *endpoint) { e.node = "" })
		}, 25},
		{"everybody twice", tcp, 1000, 14000, func(_ *service, from []*slice) {
			for i := range from {
				from[i].endpoints = from[i%70].endpoints
			}
		}, 25},
		{"nobody ready", tcp, 1000, 14000, func(_ *service, from []*slice) {
			eachEndpoint(from, func(e *endpoint) { e.Ready, e.Terminating = false, true })
		}, 25},
		{"tunnels", udp, 1000, 14000, func(_ *service, from []*slice) {
			for _, one := range from {
				for i := range one.ports {
					one.ports[i].port = contract.TunnelPort
				}
			}
			eachEndpoint(from, func(e *endpoint) {
				e.addr = netip.AddrFrom4([4]byte{198, 51, e.addr.As4()[2], e.addr.As4()[3]})
			})
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := costState()
			one, from := costly("big", c.protocol, c.ports, c.endpoints)
			if c.edit != nil {
				c.edit(one, from)
			}
			s.serves(one, from)
			var p plan
			if bytes := allocated(func() { p = makePlan(s) }); bytes > first {
				t.Errorf("%d MiB are allocated", bytes>>20)
			}
			want := c.most * c.ports * len(one.clusterIPs)
			if count := p.backends(); count != want || count > outside.MostBackends {
				t.Errorf("%d backends, want %d, and at most %d", count, want, outside.MostBackends)
			}
			if bytes := allocated(func() { p = makePlan(s) }); bytes > again {
				t.Errorf("%d MiB are allocated again", bytes>>20)
			}
		})
	}
}

func eachEndpoint(from []*slice, edit func(*endpoint)) {
	for _, one := range from {
		for i := range one.endpoints {
			edit(&one.endpoints[i])
		}
	}
}

// localityOf has the backends of a plan's socket at the first address of the host.
func localityOf(t *testing.T, p plan, number uint16) *proxy.Backends {
	t.Helper()
	at := netip.AddrPortFrom(netip.MustParseAddr("172.31.0.1"), number)
	to, ok := p.sockets[listeners.Socket{Protocol: tcp, At: at}]
	if !ok || to.Backends == nil {
		t.Fatalf("no socket with a locality at %d", number)
	}
	return to.Backends
}

// A Service's localities are made anew where something changes by which they are what they are, and stay otherwise.
func TestLocalitiesStay(t *testing.T) {
	one, from := costly("big", tcp, 2, 200)
	other, others := costly("other", tcp, 1, 100)
	other.ports[0].nodePort = 31000
	eachEndpoint(others, func(e *endpoint) { e.node = "n3" })
	for name, c := range map[string]struct {
		change    func(*state)
		big, stay bool // their localities stay
	}{
		"nothing": {func(*state) {}, true, true},
		"readiness": {func(s *state) {
			flipped := *from[1]
			flipped.endpoints = slices.Clone(flipped.endpoints)
			flipped.endpoints[0].Ready = false
			s.serves(one, []*slice{from[0], &flipped})
		}, false, true},
		"the order of slices": {func(s *state) { s.serves(one, []*slice{from[1], from[0]}) }, true, true},
		"a slice less":        {func(s *state) { s.serves(one, from[:1]) }, false, true},
		"a slice more":        {func(s *state) { s.serves(one, append(slices.Clone(from), &slice{})) }, false, true},
		"the Service": {func(s *state) {
			changed := *one
			s.services, changed.sticky = []*service{&changed, other}, true
		}, false, true},
		"its node's address": {func(s *state) {
			s.internal = map[string][]netip.Addr{"n2": addrs("172.31.0.9"), "n3": s.internal["n3"]}
		}, false, true},
		"its node": {func(s *state) { s.internal = map[string][]netip.Addr{"n3": s.internal["n3"]} }, false, true},
		"another node": {func(s *state) {
			s.internal = map[string][]netip.Addr{"n2": s.internal["n2"], "n4": addrs("172.31.0.4")}
		}, true, false},
		"the host":        {func(s *state) { s.host.Addresses = addrs("172.31.0.1") }, false, false},
		"pods' addresses": {func(s *state) { s.host.Network.PodCIDRs = prefixes("10.244.7.0/24") }, false, false},
		"what is nothing to them": {func(s *state) {
			s.host.Reserved, s.busy = nil, listeners.Set{{Protocol: tcp, At: netip.MustParseAddrPort("172.31.0.1:9")}: {}}
		}, true, true},
		"a Service more": {func(s *state) {
			more, slices := costly("more", tcp, 1, 1)
			more.ports[0].nodePort = 32000
			s.serves(more, slices)
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := costState()
			s.internal["n3"] = addrs("172.31.0.3")
			s.serves(one, from)
			s.serves(other, others)
			before := makePlan(s)
			c.change(&s)
			now := makePlan(s)
			for number, stays := range map[uint16]bool{30000: c.big, 30001: c.big, 31000: c.stay} {
				if got := localityOf(t, before, number) == localityOf(t, now, number); got != stays {
					t.Errorf("that at %d stays: %t", number, got)
				}
			}
			kept := s.localities
			s.localities = nil
			if got, want := now.text(), makePlan(s).text(); got != want {
				t.Errorf("another plan than without what was kept:\n%s\nwant\n%s", got, want)
			}
			s.services, s.localities = nil, kept
			if makePlan(s); len(kept.of) != 0 {
				t.Errorf("%d Services that are gone are kept", len(kept.of))
			}
		})
	}
}

// A backend that was a socket of the host's is there again when the socket is gone.
func TestBackendThatLoopedComesAgain(t *testing.T) {
	s := costState()
	one, _ := costly("big", tcp, 1, 0)
	s.serves(one, []*slice{{service: "big", ports: []slicePort{{"p0", tcp, 8080}}, endpoints: []endpoint{
		{addr: netip.MustParseAddr("10.244.1.5"), node: "n1", Conditions: endpointslice.Conditions{Ready: true}},
		{addr: netip.MustParseAddr("172.31.0.1"), node: "n1", Conditions: endpointslice.Conditions{Ready: true}}}}})
	pod := Pod{Namespace: "shop", Name: "cache", Addresses: addrs("10.244.1.7"),
		Ports: []PodPort{{HostPort: 8080, Port: 80, Protocol: tcp}}}
	less := "10.244.1.5 by 10.244.1.5:8080 near"
	all := less + ", 172.31.0.1 by 172.31.0.1:8080 near"
	var last *proxy.Backends
	for i, want := range []string{all, less, less, all, less} {
		if s.pods = nil; want == less {
			s.pods = []Pod{pod}
		}
		now := localityOf(t, makePlan(s), 30000)
		if got := textOf(now.List); got != want {
			t.Errorf("plan %d: %s, want %s", i, got, want)
		}
		if i == 2 && now != last {
			t.Error("what was left out before is left out anew")
		}
		last = now
	}
}
