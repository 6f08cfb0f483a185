package hostservice

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/hostservice/listeners"
)

// dual is a node of a dual-stack cluster.
func dual() Host {
	return Host{
		Addresses: addrs("172.31.0.1", "2001:db8::1"),
		Network: contract.NodeNetwork{ID: 1, PodCIDRs: prefixes("10.244.1.0/24", "fd00:1::/64"),
			ClusterCIDRs: prefixes("10.244.0.0/16", "fd00::/16"), ServiceCIDRs: prefixes("10.96.0.0/16", "fd96::/112"),
			HostExternalIPs: prefixes("172.31.0.0/24", "2001:db8::/64")}, // see TestHostsKeepTheirAddresses
		Management: true, Router: true, SCTP: true,
		Reserved: addrs("172.31.0.254"),
	}
}

// text is a plan as people read it.
func (p plan) text() string {
	var lines []string
	for _, e := range p.entries {
		at := "*"
		if e.Addr.IsValid() {
			at = e.Addr.String()
		}
		lines = append(lines, fmt.Sprintf("ovn %s %s %d", e.Protocol, at, e.Port))
	}
	var listens []string
	for at, to := range p.sockets {
		line := fmt.Sprintf("listen %v -> %v %v %s", at, to.To, p.holders[at].object, p.holders[at].field)
		if to.Direct {
			line += " direct"
		}
		if to.Backends != nil {
			line += strings.TrimSuffix(" local "+textOf(to.Backends.List), " ")
		}
		if to.Restricted {
			line += fmt.Sprint(" for ", to.Ranges)
		}
		listens = append(listens, line)
	}
	slices.Sort(listens)
	lines = append(lines, listens...)
	for _, addr := range p.routes {
		lines = append(lines, "route "+addr.String())
	}
	for port, check := range p.checks {
		lines = append(lines, fmt.Sprintf("check %d of %v", port, check.owner))
	}
	for _, problem := range p.problems {
		lines = append(lines, fmt.Sprintf("tell %v %s: %s", problem.object, problem.reason, problem.message))
	}
	if p.partial {
		lines = append(lines, "partial")
	}
	return strings.Join(lines, "\n")
}

func nodePortOf(name string, created int64, family string, ports ...corev1.ServicePort) *corev1.Service {
	ips := map[string][]string{"4": {"10.96.0.20"}, "6": {"fd96::20"}, "46": {"10.96.0.20", "fd96::20"}}[family]
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.Unix(created, 0)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIPs: ips, Ports: ports},
	}
}

func externalOf(name string, created int64, vip string, port int32) *corev1.Service {
	s := nodePortOf(name, created, "46", corev1.ServicePort{Port: port})
	s.Spec.Type, s.Spec.ExternalIPs = corev1.ServiceTypeClusterIP, []string{vip}
	return s
}

func TestPlan(t *testing.T) {
	http := corev1.ServicePort{Name: "http", Port: 80, NodePort: 30080}
	pod := Pod{Namespace: "shop", Name: "cache", UID: "cache-uid", Addresses: addrs("10.244.1.5", "fd00:1::5"),
		Ports: []PodPort{{HostPort: 8080, Port: 80, Protocol: tcp}}}
	podWith := func(port PodPort, addresses ...netip.Addr) Pod {
		p := pod
		p.Ports = []PodPort{port}
		if addresses != nil {
			p.Addresses = addresses
		}
		return p
	}
	none := map[netip.Addr]struct{}{}
	for name, c := range map[string]struct {
		services []*corev1.Service
		pods     []Pod
		host     func(*Host)
		nodes    map[netip.Addr]struct{}
		busy     []string // of TCP
		want     string
	}{
		"nothing": {want: "route 169.254.169.4\nroute fd69::4"},
		"a NodePort of both families": {services: []*corev1.Service{nodePortOf("web", 1, "46", http)}, want: `
ovn tcp * 30080
listen tcp 127.0.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp 172.31.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp [2001:db8::1]:30080 -> [fd69::4]:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp [::1]:30080 -> [fd69::4]:30080 Service shop/web spec.ports[port=80].nodePort
route 169.254.169.4
route fd69::4`},
		"a NodePort of IPv6": {services: []*corev1.Service{nodePortOf("web", 1, "6", http)}, want: `
ovn tcp 2001:db8::1 30080
listen tcp [2001:db8::1]:30080 -> [fd69::4]:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp [::1]:30080 -> [fd69::4]:30080 Service shop/web spec.ports[port=80].nodePort
route 169.254.169.4
route fd69::4`},
		"a NodePort of a node without a router": {services: []*corev1.Service{nodePortOf("web", 1, "4", http)}, host: func(h *Host) { h.Router = false }, want: `
listen tcp 127.0.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp 172.31.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
route 169.254.169.4
route fd69::4`},
		"before the management port works nobody listens": {services: []*corev1.Service{nodePortOf("web", 1, "46", http)}, host: func(h *Host) { h.Management = false }, want: `
ovn tcp * 30080
route 169.254.169.4
route fd69::4`},
		"no family of pods, no listener": {services: []*corev1.Service{nodePortOf("web", 1, "46", http)},
			host: func(h *Host) { h.Network.PodCIDRs = prefixes("fd00:1::/64") }, want: `
ovn tcp * 30080
listen tcp [2001:db8::1]:30080 -> [fd69::4]:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp [::1]:30080 -> [fd69::4]:30080 Service shop/web spec.ports[port=80].nodePort
route fd69::4`},
		"SCTP passes by OVN only": {services: []*corev1.Service{nodePortOf("web", 1, "46", corev1.ServicePort{Port: 80, NodePort: 30080, Protocol: corev1.ProtocolSCTP})}, want: `
ovn sctp * 30080
route 169.254.169.4
route fd69::4`},
		"SCTP on a datapath without it": {
			services: []*corev1.Service{nodePortOf("web", 1, "46", corev1.ServicePort{Port: 80, NodePort: 30080,
				Protocol: corev1.ProtocolSCTP})},
			host: func(h *Host) { h.SCTP = false }, want: "route 169.254.169.4\nroute fd69::4"},
		"one number, two protocols": {services: []*corev1.Service{nodePortOf("web", 1, "4", http, corev1.ServicePort{Port: 443, NodePort: 30080, Protocol: corev1.ProtocolUDP})}, want: `
ovn tcp 172.31.0.1 30080
ovn udp 172.31.0.1 30080
listen tcp 127.0.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp 172.31.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
listen udp 127.0.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=443].nodePort
listen udp 172.31.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=443].nodePort
route 169.254.169.4
route fd69::4`},
		"an external address": {services: []*corev1.Service{externalOf("web", 1, "192.0.2.50", 80)}, nodes: none, want: `
ovn tcp 192.0.2.50 80
route 169.254.169.4
route 192.0.2.50
route fd69::4`},
		"an external address while the nodes are not known": {services: []*corev1.Service{externalOf("web", 1, "192.0.2.50", 80)}, want: `
ovn tcp 192.0.2.50 80
route 169.254.169.4
route fd69::4
partial`},
		"an external address that is the host's": {services: []*corev1.Service{externalOf("web", 1, "172.31.0.1", 80)}, nodes: none, want: `
ovn tcp 172.31.0.1 80
listen tcp 172.31.0.1:80 -> 10.96.0.20:80 Service shop/web spec.externalIPs
route 169.254.169.4
route fd69::4`},
		"an address that is another node's": {services: []*corev1.Service{externalOf("web", 1, "172.31.0.2", 80)},
			nodes: map[netip.Addr]struct{}{netip.MustParseAddr("172.31.0.2"): {}}, want: `
ovn tcp 172.31.0.2 80
route 169.254.169.4
route fd69::4`},
		"addresses that a host must reach otherwise": {services: []*corev1.Service{
			externalOf("router", 1, "172.31.0.254", 80)}, nodes: none, want: `
ovn tcp 172.31.0.254 80
route 169.254.169.4
route fd69::4`},
		"addresses of the cluster's": {services: []*corev1.Service{externalOf("pod", 1, "10.244.7.7", 80),
			externalOf("service", 2, "fd96::7", 80),
			externalOf("router", 3, "100.64.0.7", 80), externalOf("alias", 4, "fd69::2", 80)}, nodes: none, host: func(h *Host) {
			h.Network.JoinCIDRs = prefixes("100.64.0.0/16")
		},
			want: "route 169.254.169.4\nroute fd69::4"},
		"an external address and port that a program of the host's has": {
			services: []*corev1.Service{externalOf("web", 1, "172.31.0.1", 2222)}, nodes: none,
			busy: []string{"172.31.0.1:2222"}, want: `
listen tcp 172.31.0.1:2222 -> 10.96.0.20:2222 Service shop/web spec.externalIPs
route 169.254.169.4
route fd69::4`},
		"a host port that a program of the host's has at one address": {pods: []Pod{pod}, busy: []string{"172.31.0.1:8080", "127.0.0.1:8080"}, want: `
ovn tcp 2001:db8::1 8080
listen tcp 127.0.0.1:8080 -> 10.244.1.5:80 Pod shop/cache hostPort direct
listen tcp 172.31.0.1:8080 -> 10.244.1.5:80 Pod shop/cache hostPort direct
listen tcp [2001:db8::1]:8080 -> [fd00:1::5]:80 Pod shop/cache hostPort direct
listen tcp [::1]:8080 -> [fd00:1::5]:80 Pod shop/cache hostPort direct
route 169.254.169.4
route fd69::4`},
		"ports of another's health check": {services: []*corev1.Service{externalOf("early", 1, "172.31.0.1", 32000),
			balanced(func(s *corev1.Service) {
				s.CreationTimestamp, s.Spec.ExternalIPs, s.Spec.Ports, s.Status = metav1.Unix(9, 0), nil, nil,
					corev1.ServiceStatus{}
			})}, nodes: none, pods: []Pod{podWith(PodPort{HostPort: 32000, Port: 80, Protocol: tcp})}, want: `
route 169.254.169.4
route fd69::4
check 32000 of Service shop/web
tell Pod shop/cache HostPortTaken: hostPort 32000/tcp: on this node the port is spec.healthCheckNodePort of Service shop/web; the pod is not reached by it; choose another hostPort`},
		"a health check at a port that is always the host's": {services: []*corev1.Service{balanced(func(s *corev1.Service) {
			s.Spec.ExternalIPs, s.Spec.Ports, s.Status, s.Spec.HealthCheckNodePort = nil, nil, corev1.ServiceStatus{}, 10250
		})}, nodes: none, want: `
route 169.254.169.4
route fd69::4
tell Service shop/web HealthCheckPortUnavailable: spec.healthCheckNodePort: 10250 is one of the host's own (host-ports), and is not served; make the Service anew with another port; the nodes look unhealthy to the load balancer until then`},
		"no address of a host": {services: []*corev1.Service{externalOf("a", 1, "224.0.0.1", 80),
			externalOf("b", 2, "169.254.169.254", 80), externalOf("c", 3, "::1", 80)}, nodes: none,
			want: "route 169.254.169.4\nroute fd69::4"},
		"the older one has an external address and port": {services: []*corev1.Service{
			externalOf("late", 9, "172.31.0.1", 80), externalOf("early", 1, "172.31.0.1", 80), externalOf("other", 10, "172.31.0.1", 81)}, nodes: none, want: `
ovn tcp 172.31.0.1 80
ovn tcp 172.31.0.1 81
listen tcp 172.31.0.1:80 -> 10.96.0.20:80 Service shop/early spec.externalIPs
listen tcp 172.31.0.1:81 -> 10.96.0.20:81 Service shop/other spec.externalIPs
route 169.254.169.4
route fd69::4`},
		"a NodePort goes before an external address": {services: []*corev1.Service{
			externalOf("early", 1, "172.31.0.1", 30080), nodePortOf("web", 2, "4", http)}, nodes: none, want: `
ovn tcp 172.31.0.1 30080
listen tcp 127.0.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp 172.31.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
route 169.254.169.4
route fd69::4`},
		"a load balancer's address with source ranges": {services: []*corev1.Service{balanced(func(s *corev1.Service) {
			s.Spec.ExternalIPs, s.Spec.Ports = nil, []corev1.ServicePort{{Port: 80}}
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "172.31.0.1"}}
		})}, nodes: none, want: `
ovn tcp 172.31.0.1 80
listen tcp 172.31.0.1:80 -> 10.96.0.10:80 Service shop/web status.loadBalancer.ingress local for [198.51.100.0/24]
route 169.254.169.4
route fd69::4
check 32000 of Service shop/web`},
		"a host port": {pods: []Pod{pod}, want: `
ovn tcp * 8080
listen tcp 127.0.0.1:8080 -> 10.244.1.5:80 Pod shop/cache hostPort direct
listen tcp 172.31.0.1:8080 -> 10.244.1.5:80 Pod shop/cache hostPort direct
listen tcp [2001:db8::1]:8080 -> [fd00:1::5]:80 Pod shop/cache hostPort direct
listen tcp [::1]:8080 -> [fd00:1::5]:80 Pod shop/cache hostPort direct
route 169.254.169.4
route fd69::4`},
		"a host port of IPv4": {pods: []Pod{podWith(pod.Ports[0], addrs("10.244.1.5")...)}, want: `
ovn tcp 172.31.0.1 8080
listen tcp 127.0.0.1:8080 -> 10.244.1.5:80 Pod shop/cache hostPort direct
listen tcp 172.31.0.1:8080 -> 10.244.1.5:80 Pod shop/cache hostPort direct
route 169.254.169.4
route fd69::4`},
		"a host port of the loopback": {pods: []Pod{podWith(PodPort{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: 8080, Port: 80, Protocol: udp})}, want: `
listen udp 127.0.0.1:8080 -> 10.244.1.5:80 Pod shop/cache hostPort direct
route 169.254.169.4
route fd69::4`},
		"a host port of one address": {pods: []Pod{podWith(PodPort{HostIP: netip.MustParseAddr("172.31.0.1"), HostPort: 8080, Port: 80, Protocol: tcp})}, want: `
ovn tcp 172.31.0.1 8080
listen tcp 172.31.0.1:8080 -> 10.244.1.5:80 Pod shop/cache hostPort direct
route 169.254.169.4
route fd69::4`},
		"a host port of an address that the node does not have": {pods: []Pod{podWith(PodPort{HostIP: netip.MustParseAddr("172.31.0.9"), HostPort: 8080, Port: 80, Protocol: tcp})}, want: `
route 169.254.169.4
route fd69::4
tell Pod shop/cache NoHostAddress: hostPort 8080/tcp: hostIP 172.31.0.9 is no address of this node, which has [172.31.0.1 2001:db8::1]; the port is not served; correct hostIP or leave it out`},
		"a host port that is a NodePort": {services: []*corev1.Service{nodePortOf("web", 1, "4", http)},
			pods: []Pod{podWith(PodPort{HostIP: netip.MustParseAddr("172.31.0.1"), HostPort: 30080, Port: 80, Protocol: tcp})}, want: `
ovn tcp 172.31.0.1 30080
listen tcp 127.0.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp 172.31.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
route 169.254.169.4
route fd69::4
tell Pod shop/cache HostPortTaken: hostPort 30080/tcp: on this node the port is spec.ports[port=80].nodePort of Service shop/web; the pod is not reached by it; choose another hostPort`},
		"a host port that is a NodePort of IPv4 is the pod's in IPv6": {
			services: []*corev1.Service{nodePortOf("web", 1, "4", http)},
			pods:     []Pod{podWith(PodPort{HostPort: 30080, Port: 80, Protocol: tcp})}, want: `
ovn tcp 172.31.0.1 30080
ovn tcp 2001:db8::1 30080
listen tcp 127.0.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp 172.31.0.1:30080 -> 169.254.169.4:30080 Service shop/web spec.ports[port=80].nodePort
listen tcp [2001:db8::1]:30080 -> [fd00:1::5]:80 Pod shop/cache hostPort direct
listen tcp [::1]:30080 -> [fd00:1::5]:80 Pod shop/cache hostPort direct
route 169.254.169.4
route fd69::4
tell Pod shop/cache HostPortTaken: hostPort 30080/tcp: on this node the port is spec.ports[port=80].nodePort of Service shop/web; the pod is not reached by it; choose another hostPort`},
		"ports that are always the host's": {services: []*corev1.Service{externalOf("web", 1, "172.31.0.1", 10250),
			externalOf("other", 2, "192.0.2.50", 10250),
			externalOf("tunnel", 4, "172.31.0.1", 16642),
			nodePortOf("low", 3, "46", corev1.ServicePort{Port: 22, NodePort: 22})}, nodes: none,
			pods: []Pod{podWith(PodPort{HostPort: 6443, Port: 80, Protocol: tcp})}, want: `
ovn tcp 192.0.2.50 10250
route 169.254.169.4
route 192.0.2.50
route fd69::4
tell Pod shop/cache HostPortTaken: hostPort 6443/tcp: on this node the port is one of the host's own (host-ports); the pod is not reached by it; choose another hostPort`},
		"a host port of SCTP that is a NodePort": {
			services: []*corev1.Service{nodePortOf("web", 1, "4", corev1.ServicePort{Port: 80, NodePort: 30080,
				Protocol: corev1.ProtocolSCTP})},
			pods: []Pod{podWith(PodPort{HostIP: netip.MustParseAddr("172.31.0.1"), HostPort: 30080, Port: 80, Protocol: sctp})}, want: `
ovn sctp 172.31.0.1 30080
route 169.254.169.4
route fd69::4
tell Pod shop/cache HostPortTaken: hostPort 30080/sctp: on this node the port is spec.ports[port=80].nodePort of Service shop/web; the pod is not reached by it; choose another hostPort`},
		"a load balancer's address goes before an older externalIP": {
			services: []*corev1.Service{externalOf("early", 1, "172.31.0.1", 80),
				balanced(func(s *corev1.Service) {
					s.CreationTimestamp, s.Spec.ExternalIPs, s.Spec.LoadBalancerSourceRanges, s.Spec.Ports = metav1.Unix(9, 0), nil,
						nil, []corev1.ServicePort{{Port: 80}}
					s.Spec.ExternalTrafficPolicy = ""
					s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "172.31.0.1"}}
				})}, nodes: none, want: `
ovn tcp 172.31.0.1 80
listen tcp 172.31.0.1:80 -> 10.96.0.10:80 Service shop/web status.loadBalancer.ingress
route 169.254.169.4
route fd69::4`},
		"a load balancer's address that is a host's of no node": {
			services: []*corev1.Service{balanced(func(s *corev1.Service) {
				s.Spec.ExternalIPs, s.Spec.LoadBalancerSourceRanges, s.Spec.ExternalTrafficPolicy = []string{"192.0.2.61"}, nil, ""
				s.Spec.Ports, s.Spec.HealthCheckNodePort = []corev1.ServicePort{{Port: 80}, {Port: 22}}, 0
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.60"}}
			})}, nodes: none, host: func(h *Host) { h.Network.Hosts = prefixes("192.0.2.60/31") }, want: `
ovn tcp 192.0.2.60 80
route 169.254.169.4
route fd69::4`},
	} {
		t.Run(name, func(t *testing.T) {
			s := state{pods: c.pods, host: dual(), nodes: c.nodes, apiServers: map[netip.AddrPort]bool{},
				busy: listeners.Set{}}
			for _, at := range c.busy {
				s.busy[listeners.Socket{Protocol: tcp, At: netip.MustParseAddrPort(at)}] = struct{}{}
			}
			if c.host != nil {
				c.host(&s.host)
			}
			for _, one := range c.services {
				s.services = append(s.services, trimmed(t, one))
			}
			slices.SortFunc(s.services, older)
			if diff := cmp.Diff(strings.TrimSpace(c.want), makePlan(s).text()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOlderPodHasTheHostPort(t *testing.T) {
	one := Pod{Namespace: "shop", Name: "a", UID: "1", Created: time.Unix(1, 0), Addresses: addrs("10.244.1.5"),
		Ports: []PodPort{{HostPort: 8080, Port: 80, Protocol: tcp}}}
	two := one
	two.Name, two.UID, two.Created, two.Addresses = "b", "2", time.Unix(2, 0), addrs("10.244.1.6")
	p := makePlan(state{host: dual(), pods: []Pod{one, two}})
	if len(p.sockets) != 2 || len(p.problems) != 1 || p.problems[0].object != two.object() {
		t.Errorf("plan:\n%s", p.text())
	}
	for at := range p.sockets {
		if owner := p.holders[at].object; owner != one.object() {
			t.Errorf("%v is %v's", at, owner)
		}
	}
}

// What whoever may write Services and pods asks for leaves the host ports for its own connections.
func TestTheHostListensForSoManyOnly(t *testing.T) {
	s := state{host: dual(), nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{}}
	for n := range int32(2) {
		many := externalOf(fmt.Sprint("many-", n), int64(n), "172.31.0.1", 40000+n*mostYielding)
		for i := range int32(mostYielding) - 1 {
			many.Spec.Ports = append(many.Spec.Ports, corev1.ServicePort{Port: many.Spec.Ports[0].Port + 1 + i})
		}
		s.services = append(s.services, trimmed(t, many))
	}
	s.services = append(s.services, trimmed(t, nodePortOf("web", 2, "4", corev1.ServicePort{Port: 80, NodePort: 30080})))
	p := makePlan(s)
	if len(p.sockets) != mostYielding+2 || len(p.entries) != 2*mostYielding+1 {
		t.Errorf("%d sockets, %d entries", len(p.sockets), len(p.entries))
	}
	if len(p.problems) != 1 || p.problems[0].object.Name != "many-1" || p.problems[0].reason != tooManyHostPorts {
		t.Errorf("problems %v", p.problems)
	}
}

// By spec.externalIPs no Service has the host's own addresses, unless the operator allows it; the ports of the host's
// own are those of the controller's key.
func TestHostsKeepTheirAddresses(t *testing.T) {
	plan := func(edit func(*contract.NodeNetwork), services ...*corev1.Service) string {
		s := state{host: dual(), node: "n1", nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{}}
		edit(&s.host.Network)
		for _, one := range services {
			s.services = append(s.services, trimmed(t, one))
		}
		return makePlan(s).text()
	}
	const taken = "172.31.0.1"
	closed := func(n *contract.NodeNetwork) { n.HostExternalIPs = nil }
	allowed := func(n *contract.NodeNetwork) {
		n.HostExternalIPs = []netip.Prefix{netip.MustParsePrefix("172.31.0.0/24")}
	}
	for name, c := range map[string]struct {
		edit   func(*contract.NodeNetwork)
		port   int32
		served bool
	}{
		"at any port":                          {closed, 8443, false},
		"at a port of the host's":              {closed, 2380, false},
		"allowed":                              {allowed, 8443, true},
		"allowed, and at a port of the host's": {allowed, 2380, false},
	} {
		text := plan(c.edit, externalOf("web", 1, taken, c.port), externalOf("far", 2, "192.0.2.50", 80))
		if got := strings.Contains(text, taken); got != c.served || !strings.Contains(text, "192.0.2.50 80") {
			t.Errorf("by spec.externalIPs %s: served %t\n%s", name, got, text)
		}
	}
	given := externalOf("web", 1, taken, 8443)
	given.Spec.Type, given.Spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, nil
	given.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: taken}}
	if text := plan(closed, given); !strings.Contains(text, taken+":8443") {
		t.Errorf("by a load balancer:\n%s", text)
	}
	listed := func(n *contract.NodeNetwork) { n.HostPorts = []string{"tcp/8443"} }
	if text := plan(listed, given); strings.Contains(text, ":8443") {
		t.Errorf("at a port of host-ports:\n%s", text)
	}
	given.Spec.Ports[0].Port = 6643
	if text := plan(closed, given); strings.Contains(text, ":6643") {
		t.Errorf("at the databases' cluster's port:\n%s", text)
	}
}

// Where daemons of nodes listen, no Service has a port of the node's address, this node's or another's; a NodePort it
// has.
func TestDaemonsOfNodesKeepTheirPorts(t *testing.T) {
	object := func(name, addr string, listeners ...contract.Listener) *corev1.Node {
		facts := contract.NodeFacts{Chassis: name, MTU: 1442, Addresses: addrs(addr), Listeners: listeners,
			Gateway: &contract.Gateway{Addresses: prefixes("203.0.113.9/32")}}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Annotations = map[string]string{contract.NodeFactsAnnotation: contract.Format(facts)}
		return node
	}
	web := nodePortOf("web", 1, "46", corev1.ServicePort{Port: 9100, NodePort: 30910})
	web.Spec.Type = corev1.ServiceTypeLoadBalancer
	for _, addr := range []string{"172.31.0.1", "172.31.0.2", "203.0.113.9"} { // the last one is a router's own
		web.Status.LoadBalancer.Ingress = append(web.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: addr})
	}
	const (
		nodePort, here, there, router = "{invalid IP tcp 30910}", "{172.31.0.1 tcp 9100}", "{172.31.0.2 tcp 9100}",
			"{203.0.113.9 tcp 9100}"
		all = "[" + nodePort + " " + here + " " + there + " " + router + "]"
	)
	daemon := contract.Listener{Protocol: tcp, Port: 9100}
	for name, c := range map[string]struct {
		own, other []contract.Listener
		want       string
	}{
		"nobody":            {nil, nil, all},
		"here":              {[]contract.Listener{daemon}, nil, "[" + nodePort + " " + there + " " + router + "]"},
		"there":             {nil, []contract.Listener{daemon}, "[" + nodePort + " " + here + " " + router + "]"},
		"at the NodePort":   {[]contract.Listener{{Protocol: tcp, Port: 30910}}, nil, all},
		"elsewhere":         {[]contract.Listener{{Protocol: tcp, Addr: addrs("172.31.0.3")[0], Port: 9100}}, nil, all},
		"by another family": {nil, []contract.Listener{{Protocol: tcp, Addr: netip.IPv6Unspecified(), Port: 9100}}, all},
		"beyond what counts": {nil, append(slices.Repeat([]contract.Listener{{Protocol: tcp, Port: 1}}, contract.MostOfFacts),
			daemon), all},
	} {
		r := Rehearsal{Host: dual(), Objects: []runtime.Object{web,
			object("n1", "172.31.0.1", c.own...), object("n2", "172.31.0.2", c.other...)}}
		outcome, err := r.Run()
		if got := fmt.Sprint(outcome.Entries); err != nil || got != c.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, c.want, err)
		}
	}
}

// Whoever may write the Services of one namespace takes no other's place.
func TestOneNamespaceHasItsShareOfExternalAddresses(t *testing.T) {
	s := state{host: dual(), nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{}}
	for i := range mostOutside/1000 + 2 {
		many := externalOf(fmt.Sprint("many-", i), int64(i), fmt.Sprintf("192.0.2.%d", i), 1)
		for p := range int32(20_000) {
			many.Spec.Ports = append(many.Spec.Ports, corev1.ServicePort{Port: p + 2})
		}
		s.services = append(s.services, trimmed(t, many))
	}
	other := externalOf("bank", 99, "192.0.2.99", 443)
	other.Namespace = "bank"
	s.services = append(s.services, trimmed(t, other))
	p := makePlan(s)
	if len(p.entries) != mostOutsideOfOne+1 || !slices.ContainsFunc(p.entries, func(e extbridge.Entry) bool {
		return e.Addr == netip.MustParseAddr("192.0.2.99")
	}) {
		t.Errorf("%d entries, last %v", len(p.entries), p.entries[max(0, len(p.entries)-3):])
	}
}

// The bridge's flows are few enough to be put back at once.
func TestSoManyExternalAddressesOnly(t *testing.T) {
	s := state{host: dual(), nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{}}
	port := corev1.ServicePort{Port: 80, NodePort: 30080}
	for i := range mostOutside/1000 + 2 {
		many := externalOf(fmt.Sprint("many-", i), int64(i), fmt.Sprintf("192.0.2.%d", i), 1)
		for p := range int32(999) {
			many.Spec.Ports = append(many.Spec.Ports, corev1.ServicePort{Port: p + 2})
		}
		many.Namespace = fmt.Sprint("team-", i%5)
		s.services = append(s.services, trimmed(t, many))
	}
	s.services = append(s.services, trimmed(t, nodePortOf("web", 99, "46", port)))
	p := makePlan(s)
	if len(p.entries) != mostOutside+1 {
		t.Errorf("%d entries", len(p.entries))
	}
	if len(p.problems) != 2 || p.problems[0].object.Name != "many-10" || p.problems[1].object.Name != "many-11" {
		t.Errorf("problems %v", p.problems)
	}
}
