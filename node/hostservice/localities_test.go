package hostservice

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/hostservice/hosttest"
	"github.com/weftnet/weft/node/hostservice/listeners"
	"github.com/weftnet/weft/node/hostservice/proxy"
	"github.com/weftnet/weft/test/freeport"
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

func textOf(backends []proxy.Backend) string {
	var texts []string
	for _, b := range backends {
		texts = append(texts, fmt.Sprintf("%v by %v%s", b.Endpoint, b.At, map[bool]string{true: " near"}[b.Local]))
	}
	return strings.Join(texts, ", ")
}

// Where a socket of a Service with policy Local leads.
func TestBackendsOfPolicyLocal(t *testing.T) {
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
				if followed := s.services[0].follows(); followed != (to.Backends != nil) {
					t.Errorf("the endpoints are followed: %t", followed)
				}
				if to.Backends == nil {
					if c.want != "-" {
						t.Error("without backends of policy Local")
					}
					return
				}
				if diff := cmp.Diff(c.want, textOf(to.Backends.List)); diff != "" {
					t.Error(diff)
				}
				return
			}
			t.Fatalf("no socket %s in\n%s", wanted, p.text())
		})
	}
}

// What the agent sends itself goes to no tunnels of hosts: by OVN it comes to a pod with that port, and to nobody else.
func TestNoBackendIsATunnel(t *testing.T) {
	s := state{services: []*service{trimmed(t, balanced(nil))}, host: dual(), node: "n1"}
	one := trimmedSlice(t, discoveryv1.AddressTypeIPv4, endpointOn("n1", "10.244.1.5", isReady),
		endpointOn("n1", "172.31.0.1", isReady), endpointOn("n2", "172.31.0.2", isReady))
	for i, p := range one.ports {
		if p.protocol == udp {
			one.ports[i].port = contract.TunnelPort
		}
	}
	s.endpoints = map[string][]*slice{"shop/web": {one}}
	to := makePlan(s).sockets[listeners.Socket{Protocol: udp, At: netip.MustParseAddrPort("172.31.0.1:30053")}]
	if want := netip.MustParseAddrPort("169.254.169.4:30053"); to.To != want || to.Backends == nil ||
		len(to.Backends.List) != 0 {
		t.Errorf("leads to %v by %v, want %v alone", to.To, to.Backends, want)
	}
}

// An endpoint of IPv6 is one of the other family's sockets.
func TestBackendsOfPolicyLocalByFamily(t *testing.T) {
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
		if at.Protocol != tcp || at.At.Port() != 30080 {
			continue
		}
		seen++
		if len(to.Backends.List) != 1 || to.Backends.List[0].At.String() != want[at.At.Addr().Is4()] {
			t.Errorf("%v: %+v", at, to.Backends.List)
		}
	}
	if seen != 4 {
		t.Errorf("%d sockets", seen)
	}
}

// A watcher follows the endpoints of Services with policy Local, and of no others.
func TestEndpointsAreFollowed(t *testing.T) {
	w := watch(t, alone())
	port := freeport.Number(t)
	if _, err := w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.31.0.2"}}}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	leads := func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		for at, to := range w.plan.sockets {
			if at.At.Addr() == hosttest.Loopback && to.Backends != nil {
				return textOf(to.Backends.List)
			}
		}
		return "-"
	}
	local := nodePortOf("web", 1, "4", corev1.ServicePort{Name: "http", Port: 80, NodePort: int32(port)})
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	w.slice("web-4", discoveryv1.AddressTypeIPv4, endpointOn("n2", "10.244.2.5", isReady))
	w.apply(local)
	hosttest.Eventually(t, "the other node is known", func() bool {
		return leads() == fmt.Sprintf("10.244.2.5 by 172.31.0.2:%d", port)
	})
	w.slice("web-4", discoveryv1.AddressTypeIPv4, endpointOn("n1", "10.244.1.5", isReady))
	hosttest.Eventually(t, "the endpoint moves here", func() bool {
		return leads() == "10.244.1.5 by 10.244.1.5:8080 near"
	})
	w.slice("web-4", discoveryv1.AddressTypeIPv4)
	hosttest.Eventually(t, "no endpoint", func() bool { return leads() == "" })
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	w.apply(local)
	hosttest.Eventually(t, "policy Cluster", func() bool { return leads() == "-" })
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
	hosttest.Eventually(t, "all have entries", func() bool { entries, _ := w.Entries(); return len(entries) == many+1 })
	hosttest.Eventually(t, "endpoints are known", func() bool { return w.slices.HasSynced() })
	if n := watches(); n != 2 { // one is that of the API server's, see [state.serve]
		t.Errorf("%d watches for %d Services", n, many)
	}
}
