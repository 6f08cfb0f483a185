package hostservice

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/models/contract"
)

// webPorts are those of a Service's slices.
func webPorts() []discoveryv1.EndpointPort {
	name, protocol, port := "http", corev1.ProtocolTCP, int32(8080)
	other, udp, dns := "dns", corev1.ProtocolUDP, int32(5353)
	return []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port},
		{Name: &other, Protocol: &udp, Port: &dns}, {Name: &name}}
}

func trimmedSlice(t testing.TB, kind discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *slice {
	t.Helper()
	object, err := trimSlice(&discoveryv1.EndpointSlice{AddressType: kind, Ports: webPorts(), Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	return object.(*slice)
}

var (
	yes, no     = true, false
	isReady     = discoveryv1.EndpointConditions{}
	isLeaving   = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	isUnready   = discoveryv1.EndpointConditions{Ready: &no}
	isServing   = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes}
	isNotServed = discoveryv1.EndpointConditions{Ready: &no, Serving: &no, Terminating: &yes}
)

func textOf(ways []way) string {
	var texts []string
	for _, w := range ways {
		texts = append(texts, fmt.Sprintf("%v by %v%s", w.endpoint, w.to, map[bool]string{true: " near"}[w.near]))
	}
	return strings.Join(texts, ", ")
}

// Where a socket of a Service with policy Local leads.
func TestWaysOfPolicyLocal(t *testing.T) {
	nowhere := discoveryv1.Endpoint{Addresses: []string{"192.0.2.9"}}
	for name, c := range map[string]struct {
		change    func(*corev1.Service)
		endpoints []discoveryv1.Endpoint
		unknown   bool // the nodes
		socket    string
		want      string
	}{
		"none": {want: ""},
		"here and there": {endpoints: []discoveryv1.Endpoint{endpointOn("n2", "10.244.2.5", isReady),
			endpointOn("n1", "10.244.1.5", isReady)},
			want: "10.244.1.5 by 10.244.1.5:8080 near, 10.244.2.5 by 172.31.0.2:30080"},
		"another port": {endpoints: []discoveryv1.Endpoint{endpointOn("n2", "10.244.2.5", isReady),
			endpointOn("n1", "10.244.1.5", isReady)}, socket: "udp 172.31.0.1:30053",
			want: "10.244.1.5 by 10.244.1.5:5353 near, 10.244.2.5 by 172.31.0.2:30053"},
		"those that serve": {endpoints: []discoveryv1.Endpoint{endpointOn("n2", "10.244.2.5", isUnready),
			endpointOn("n2", "10.244.2.6", isLeaving), endpointOn("n2", "10.244.2.7", isReady)},
			want: "10.244.2.7 by 172.31.0.2:30080"},
		"those that leave, if there are no others": {endpoints: []discoveryv1.Endpoint{endpointOn("n2", "10.244.2.5",
			isServing), endpointOn("n2", "10.244.2.6", isLeaving), endpointOn("n2", "10.244.2.7", isNotServed)},
			want: "10.244.2.6 by 172.31.0.2:30080"},
		"a host": {endpoints: []discoveryv1.Endpoint{endpointOn("n1", "172.31.0.1", isReady), endpointOn("n2", "172.31.0.2",
			isReady)},
			want: "172.31.0.1 by 172.31.0.1:8080 near, 172.31.0.2 by 172.31.0.2:30080"},
		"what is not this node's, though it says so": {endpoints: []discoveryv1.Endpoint{endpointOn("n1", "192.0.2.9",
			isReady)},
			want: "192.0.2.9 by 169.254.169.4:30080"},
		"on no node, on one that is gone, and on one without an address": {endpoints: []discoveryv1.Endpoint{nowhere,
			endpointOn("gone", "10.244.9.5", isReady), endpointOn("n3", "10.244.3.5", isReady)},
			want: "10.244.3.5 by 169.254.169.4:30080, 10.244.9.5 by 169.254.169.4:30080, 192.0.2.9 by 169.254.169.4:30080"},
		"while nodes are not known": {unknown: true, endpoints: []discoveryv1.Endpoint{endpointOn("n1", "10.244.1.5",
			isReady), endpointOn("n2", "10.244.2.5", isReady)},
			want: "10.244.1.5 by 10.244.1.5:8080 near, 10.244.2.5 by 169.254.169.4:30080"},
		"an address of the load balancer's without a NodePort": {socket: "tcp 172.31.0.1:80",
			change: func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "172.31.0.1"}}
				s.Spec.Ports[0].NodePort, s.Spec.LoadBalancerSourceRanges = 0, nil
			}, endpoints: []discoveryv1.Endpoint{endpointOn("n1", "10.244.1.5", isReady), endpointOn("n2", "10.244.2.5",
				isReady)},
			want: "10.244.1.5 by 10.244.1.5:8080 near, 10.244.2.5 by 10.96.0.10:80"},
		"the host's own socket": {endpoints: []discoveryv1.Endpoint{endpointOn("n1", "10.244.1.5", isReady),
			endpointOn("n1", "172.31.0.1", isReady)},
			change: func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 8080 }, socket: "tcp 127.0.0.1:8080",
			want: "10.244.1.5 by 10.244.1.5:8080 near"},
		"policy Cluster": {change: func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		},
			endpoints: []discoveryv1.Endpoint{endpointOn("n2", "10.244.2.5", isReady)}, want: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			s := state{services: []*service{trimmed(t, balanced(c.change))}, host: dual(), node: "n1",
				nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{},
				internal: map[string][]netip.Addr{"n1": addrs("172.31.0.1"), "n2": addrs("2001:db8::2", "172.31.0.2"), "n3": nil}}
			if c.unknown {
				s.nodes, s.internal = nil, nil
			}
			s.endpoints = map[string][]*slice{"shop/web": {trimmedSlice(t, discoveryv1.AddressTypeIPv4, c.endpoints...)}}
			p := makePlan(s)
			wanted := c.socket
			if wanted == "" {
				wanted = "tcp 172.31.0.1:30080"
			}
			for at, to := range p.sockets {
				if at.String() != wanted {
					continue
				}
				if followed := s.services[0].follows(); followed != (to.local != nil) {
					t.Errorf("the endpoints are followed: %t", followed)
				}
				if to.local == nil {
					if c.want != "-" {
						t.Error("without ways of policy Local")
					}
					return
				}
				if diff := cmp.Diff(c.want, textOf(to.local.ways)); diff != "" {
					t.Error(diff)
				}
				return
			}
			t.Fatalf("no socket %s in\n%s", wanted, p.text())
		})
	}
}

// What the agent sends itself goes to no tunnels of hosts: by OVN it comes to a pod with that port, and to nobody else.
func TestNoWayLeadsToTunnels(t *testing.T) {
	s := state{services: []*service{trimmed(t, balanced(nil))}, host: dual(), node: "n1"}
	one := trimmedSlice(t, discoveryv1.AddressTypeIPv4, endpointOn("n1", "10.244.1.5", isReady),
		endpointOn("n1", "172.31.0.1", isReady), endpointOn("n2", "172.31.0.2", isReady))
	for i, p := range one.ports {
		if p.protocol == udp {
			one.ports[i].port = contract.TunnelPort
		}
	}
	s.endpoints = map[string][]*slice{"shop/web": {one}}
	to := makePlan(s).sockets[socket{udp, netip.MustParseAddrPort("172.31.0.1:30053")}]
	if want := netip.MustParseAddrPort("169.254.169.4:30053"); to.to != want || to.local == nil ||
		len(to.local.ways) != 0 {
		t.Errorf("leads to %v by %v, want %v alone", to.to, to.local, want)
	}
}

// An endpoint of IPv6 is one of the other family's sockets.
func TestWaysOfPolicyLocalByFamily(t *testing.T) {
	s := state{services: []*service{trimmed(t, balanced(nil))}, host: dual(), node: "n1", nodes: map[netip.Addr]struct{}{},
		apiServers: map[netip.AddrPort]bool{},
		internal:   map[string][]netip.Addr{"n2": addrs("172.31.0.2", "2001:db8::2")},
		endpoints: map[string][]*slice{"shop/web": {
			trimmedSlice(t, discoveryv1.AddressTypeIPv4, endpointOn("n2", "10.244.2.5", isReady)),
			trimmedSlice(t, discoveryv1.AddressTypeIPv6, endpointOn("n2", "fd00:2::5", isReady)),
		}}}
	p := makePlan(s)
	want := map[bool]string{true: "172.31.0.2:30080", false: "[2001:db8::2]:30080"}
	seen := 0
	for at, to := range p.sockets {
		if at.protocol != tcp || at.at.Port() != 30080 {
			continue
		}
		seen++
		if len(to.local.ways) != 1 || to.local.ways[0].to.String() != want[at.at.Addr().Is4()] {
			t.Errorf("%v: %+v", at, to.local.ways)
		}
	}
	if seen != 4 {
		t.Errorf("%d sockets", seen)
	}
}

func waysTo(to ...string) []way {
	var list []way
	for _, text := range to {
		near := strings.HasPrefix(text, "near ")
		at := netip.MustParseAddrPort(strings.TrimPrefix(text, "near "))
		list = append(list, way{endpoint: at.Addr(), to: at, near: near})
	}
	return list
}

// Who comes from outside gets the node's own endpoints, and nobody if it has none.
func TestClientsFromOutside(t *testing.T) {
	all := waysTo("near 10.244.1.5:80", "172.31.0.2:30080")
	vip := netip.MustParseAddrPort("169.254.169.4:30080")
	for name, c := range map[string]struct {
		ways   []way
		client string
		want   []way
	}{
		"the host":                      {all, "172.31.0.1", all},
		"the loopback":                  {all, "127.0.0.1", all},
		"the host without endpoints":    {nil, "172.31.0.1", []way{{to: vip}}},
		"outside":                       {all, "172.31.0.2", all[:1]},
		"outside, endpoints elsewhere":  {all[1:], "172.31.0.2", nil},
		"outside, endpoints not known":  {nil, "198.51.100.1", nil},
		"outside, an endpoint of OVN's": {[]way{{to: vip}}, "198.51.100.1", nil},
	} {
		to := target{to: vip, callers: &callers{own: addrs("172.31.0.1", "10.244.1.2")}, local: &locality{ways: c.ways}}
		if got := to.waysOf(netip.MustParseAddr(c.client)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := (target{to: vip}).waysOf(netip.MustParseAddr("198.51.100.1")); !slices.Equal(got, []way{{to: vip}}) {
		t.Errorf("policy Cluster: %v", got)
	}
}

// Connections are spread over endpoints; a client of a sticky Service has one, and changes only if that goes.
func TestChoice(t *testing.T) {
	var all []way
	for i := range 4 {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 2, byte(i)}), 80)
		all = append(all, way{endpoint: at.Addr(), to: at})
	}
	client := netip.MustParseAddr("172.31.0.1")
	count := func(sticky bool) map[netip.AddrPort]int {
		to, counts := target{local: &locality{sticky: sticky}}, map[netip.AddrPort]int{}
		for range 4000 {
			one, rest := to.choose(client, all)
			counts[one.to]++
			if len(rest) != 3 || slices.Contains(rest, one) {
				t.Fatalf("%v leaves %v", one, rest)
			}
		}
		return counts
	}
	for to, n := range count(false) {
		if n < 800 || n > 1200 { // 1,000, by 7 standard deviations
			t.Errorf("%v has %d of 4,000", to, n)
		}
	}
	if counts := count(true); len(counts) != 1 {
		t.Errorf("a sticky Service's client: %v", counts)
	}
	sticky, counts := target{local: &locality{sticky: true}}, map[netip.Addr]int{}
	for i := range 1000 {
		client := netip.AddrFrom4([4]byte{172, 31, byte(i >> 8), byte(i)})
		before, _ := sticky.choose(client, all)
		counts[before.endpoint]++
		now, _ := sticky.choose(client, all[1:])
		if before != all[0] && now != before {
			t.Errorf("client %v moved from %v to %v although the first stays", client, before.endpoint, now.endpoint)
		}
	}
	for endpoint, n := range counts {
		if n < 150 || n > 350 {
			t.Errorf("%v is that of %d of 1,000 clients", endpoint, n)
		}
	}
}

// Who refuses is passed by for the next one.
func TestStreamsTryTheNextEndpoint(t *testing.T) {
	there := greeter(t, "a")
	to := target{to: closedPort(t), local: &locality{ways: []way{{to: closedPort(t)}, {to: there}, {to: closedPort(t)}}}}
	s := startStreams(t, to)
	for range 20 {
		if got := read(t, s.client(t), 1); got != "a" {
			t.Fatalf("got %q", got)
		}
	}
	to.local = &locality{ways: []way{{to: closedPort(t)}}}
	s.retarget(to)
	s.mustRefuse(t)
}

// An endpoint of this node is shown the address that the client asked, where that is not the loopback.
func TestEndpointsOfTheNodeSeeItsAddress(t *testing.T) {
	if source(netip.MustParseAddr("172.31.0.1"), way{near: true}) == (netip.Addr{}) && runtime.GOOS != "windows" {
		t.Error("the host's address is not shown")
	}
	for _, c := range []struct {
		asked string
		near  bool
	}{{"127.0.0.1", true}, {"::1", true}, {"172.31.0.1", false}} {
		if got := source(netip.MustParseAddr(c.asked), way{near: c.near}); got.IsValid() {
			t.Errorf("%+v: %v", c, got)
		}
	}
	s := startStreams(t, target{to: closedPort(t)})
	s.asked = netip.MustParseAddr("172.31.0.1")
	froms := make(chan netip.Addr, 1)
	s.dial = func(ctx context.Context, from netip.Addr, to netip.AddrPort) (*net.TCPConn, error) {
		froms <- from
		return dialStream(ctx, netip.Addr{}, to)
	}
	s.retarget(target{to: closedPort(t), local: &locality{ways: []way{{to: greeter(t, "a"), near: true}}}})
	read(t, s.client(t), 1)
	if from := <-froms; from != source(s.asked, way{near: true}) {
		t.Errorf("from %v", from)
	}
	conn, err := dialStream(t.Context(), netip.MustParseAddr("127.0.0.2"), greeter(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if from := addrOf(conn.LocalAddr()); from != netip.MustParseAddr("127.0.0.2") {
		t.Errorf("connected from %v", from)
	}
}

// A datagram socket's client moves when its endpoint goes or refuses, and stays where others change.
func TestDatagramsFollowTheirEndpoints(t *testing.T) {
	a, b := datagramBackend(t, "a"), datagramBackend(t, "b")
	to := target{to: closedPort(t), local: &locality{ways: []way{{to: a}}}}
	d := openDatagrams(t, to, 10)
	client := d.client(t)
	if got := ask(t, client, "?"); got != "a?" {
		t.Fatalf("got %q", got)
	}
	to.local = &locality{ways: []way{{to: a}, {to: b}}}
	d.retarget(to)
	for range 5 {
		if got := ask(t, client, "?"); got != "a?" {
			t.Fatalf("a session whose endpoint is there still went to %q", got)
		}
	}
	to.local = &locality{ways: []way{{to: b}}}
	d.retarget(to)
	if got := ask(t, client, "?"); got != "b?" {
		t.Errorf("got %q", got)
	}
	to.local = &locality{ways: []way{{to: b}}}
	if d.retarget(to); measured(t, d.metrics.sessions) != 1 {
		t.Error("a session was ended without need")
	}
}

func TestDatagramsTryTheNextEndpoint(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows is told to report no refusal of a datagram")
	}
	b := datagramBackend(t, "b")
	for range 4 { // either may be chosen first
		d := openDatagrams(t, target{to: b, local: &locality{ways: []way{{to: closedPort(t)}, {to: b}}}}, 10)
		client := d.client(t)
		if got := ask(t, client, "?"); got != "b?" {
			t.Errorf("got %q", got)
		}
	}
}

// A watcher follows the endpoints of Services with policy Local, and of no others.
func TestEndpointsAreFollowed(t *testing.T) {
	w := watch(t, alone())
	port := freePort(t)
	if _, err := w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.31.0.2"}}}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	leads := func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		for at, to := range w.plan.sockets {
			if at.at.Addr() == loopback && to.local != nil {
				return textOf(to.local.ways)
			}
		}
		return "-"
	}
	local := nodePortOf("web", 1, "4", corev1.ServicePort{Name: "http", Port: 80, NodePort: int32(port)})
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	w.slice("web-4", discoveryv1.AddressTypeIPv4, endpointOn("n2", "10.244.2.5", isReady))
	w.apply(local)
	eventually(t, "the other node is known", func() bool {
		return leads() == fmt.Sprintf("10.244.2.5 by 172.31.0.2:%d", port)
	})
	w.slice("web-4", discoveryv1.AddressTypeIPv4, endpointOn("n1", "10.244.1.5", isReady))
	eventually(t, "the endpoint moves here", func() bool { return leads() == "10.244.1.5 by 10.244.1.5:8080 near" })
	w.slice("web-4", discoveryv1.AddressTypeIPv4)
	eventually(t, "no endpoint", func() bool { return leads() == "" })
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	w.apply(local)
	eventually(t, "policy Cluster", func() bool { return leads() == "-" })
}

// However many Services have policy Local, their endpoints are watched once, and while none has not at all.
func TestEndpointsAreWatchedOnce(t *testing.T) {
	w := watch(t, dual())
	watches := func() (found int) {
		for _, action := range w.client.(*fake.Clientset).Actions() {
			if action.Matches("watch", "endpointslices") {
				found++
			}
		}
		return found
	}
	if n := watches(); n != 0 {
		t.Errorf("%d watches before there is a Service", n)
	}
	const many = 50
	for i := range many {
		s := balanced(func(s *corev1.Service) {
			s.Name, s.UID = fmt.Sprint("web-", i), types.UID(fmt.Sprint(i))
			s.Spec.ExternalIPs, s.Spec.HealthCheckNodePort = nil, 0
			s.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: int32(30000 + i)}}
		})
		w.apply(s)
	}
	eventually(t, "all have entries", func() bool { entries, _ := w.Entries(); return len(entries) == many+1 })
	eventually(t, "endpoints are known", func() bool { return w.slices.HasSynced() })
	if n := watches(); n != 2 { // one is that of the API server's, see [state.serve]
		t.Errorf("%d watches for %d Services", n, many)
	}
}

// A socket of the host's that somebody has made an endpoint of its own Service passes nothing on that has come from
// there.
func TestNothingGoesInCircles(t *testing.T) {
	host := dual()
	host.Routers, host.Network.SharedGateways = addrs("172.31.0.99"), addrs("172.31.0.98")
	pod := Pod{Namespace: "shop", Name: "cache", UID: "cache-uid", Addresses: addrs("10.244.1.5"),
		Ports: []PodPort{{HostPort: 8080, Port: 80, Protocol: tcp}}}
	port := corev1.ServicePort{Port: 80, NodePort: 30080}
	p := makePlan(state{host: host, nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{},
		pods: []Pod{pod},
		services: []*service{trimmed(t, nodePortOf("web", 1, "4", port)),
			trimmed(t, externalOf("mail", 2, "172.31.0.1", 25))}})
	for at, to := range p.sockets {
		for _, router := range addrs("169.254.169.3", "172.31.0.99", "172.31.0.98") {
			if passes := len(to.waysOf(router)) > 0; passes != to.direct {
				t.Errorf("%v passes on what comes from %v: %t", at, router, passes)
			}
		}
		if len(to.waysOf(netip.MustParseAddr("172.31.0.7"))) != 1 {
			t.Errorf("%v passes nothing on", at)
		}
	}
	returned := target{to: greeter(t, "a"), returns: []netip.Addr{loopback}}
	conn, err := net.Dial("tcp4", startStreams(t, returned).listener.Addr().String())
	if err == nil { // it may have been refused at once
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("a connection is passed on")
	}
	d := openDatagrams(t, target{to: datagramBackend(t, "a"), returns: []netip.Addr{loopback}}, 10)
	if d.session(netip.AddrPortFrom(loopback, 9)) != nil {
		t.Error("a datagram is passed on")
	}
}
