package hostservice

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
)

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// balanced is a Service with everything that the outside can ask for.
func balanced(change func(*corev1.Service)) *corev1.Service {
	proxied := corev1.LoadBalancerIPModeProxy
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-uid"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10", "fd96::10"},
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, NodePort: 30080},
				{Name: "dns", Port: 53, NodePort: 30053, Protocol: corev1.ProtocolUDP},
			},
			ExternalIPs:              []string{"192.0.2.50", "nonsense", "fe80::1%eth0"},
			LoadBalancerSourceRanges: []string{" 198.51.100.7/24 ", "nonsense"},
			ExternalTrafficPolicy:    corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 32000,
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
			{IP: "192.0.2.60"}, {IP: "192.0.2.61", IPMode: &proxied}, {Hostname: "lb.example"},
		}}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func trimmed(t testing.TB, s *corev1.Service) *service {
	t.Helper()
	object, err := trimService(s)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*service)
}

func TestWhatIsKeptOfAService(t *testing.T) {
	s := trimmed(t, balanced(nil))
	want := &service{
		ObjectMeta: s.ObjectMeta, outside: true, clusterIPs: addrs("10.96.0.10", "fd96::10"),
		ports:    []servicePort{{"http", tcp, 80, 30080}, {"dns", udp, 53, 30053}},
		external: addrs("192.0.2.50"), balancer: addrs("192.0.2.60"), ranges: prefixes("198.51.100.0/24"), restricted: true,
		local: true, health: 32000,
	}
	if !s.same(want) {
		t.Errorf("got %+v\nwant %+v", s, want)
	}
	for name, change := range map[string]func(*corev1.Service){
		"of another proxy":   func(s *corev1.Service) { s.Labels = map[string]string{contract.ProxyNameLabel: "mine"} },
		"labelled headless":  func(s *corev1.Service) { s.Labels = map[string]string{contract.HeadlessLabel: ""} },
		"headless":           func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} },
		"external name":      func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"without an address": func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil },
		"of the cluster": func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalIPs = corev1.ServiceTypeClusterIP, nil // the API server clears the rest in time
		},
	} {
		if s := trimmed(t, balanced(change)); s.outside || s.ports != nil || s.clusterIPs != nil {
			t.Errorf("a Service %s is kept as %+v", name, s)
		}
	}
}

func TestTypesOfServices(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*corev1.Service)
		nodePorts []uint16
		balancer  []netip.Addr
		health    uint16
		outside   bool
	}{
		"NodePort": {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
			[]uint16{30080, 30053}, nil, 0, true},
		"external addresses only": {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }, []uint16{0, 0},
			nil, 0, true},
		"no node ports": {func(s *corev1.Service) {
			for i := range s.Spec.Ports {
				s.Spec.Ports[i].NodePort = 0
			}
		}, []uint16{0, 0}, addrs("192.0.2.60"), 32000, true},
		"Cluster policy": {func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		}, []uint16{30080, 30053}, addrs("192.0.2.60"), 0, true},
	} {
		s := trimmed(t, balanced(c.change))
		var nodePorts []uint16
		for _, p := range s.ports {
			nodePorts = append(nodePorts, p.nodePort)
		}
		if !slices.Equal(nodePorts, c.nodePorts) || !slices.Equal(s.balancer, c.balancer) || s.health != c.health ||
			s.outside != c.outside {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestOlderServiceFirst(t *testing.T) {
	at := func(name string, second int64) *service {
		return &service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.Unix(second, 0)}}
	}
	list := []*service{at("c", 5), at("b", 7), at("a", 7), at("d", 1)}
	slices.SortFunc(list, older)
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"d", "c", "a", "b"}) {
		t.Errorf("order %v", names)
	}
}
