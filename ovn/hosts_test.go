package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
)

// allowHosts lets Services have nodes' addresses by spec.externalIPs, as the tests of nodes' addresses do.
func allowHosts(c *settings.Config) {
	c.HostExternalIPCIDRs = []string{"192.0.2.0/24", "2001:db8::/32", "203.0.113.0/24"}
}

// TestHostsKeepTheirAddresses: by spec.externalIPs a Service gets no address of a host at any port, whoever tells of
// it; by its load balancer it does, except for ports of hosts' own.
func TestHostsKeepTheirAddresses(t *testing.T) {
	config := func(c *settings.Config) {
		c.Northbound = []string{"ssl:198.51.100.1:6641", "ssl:[2001:db8:9::1]:6641", "ssl:central.example:6641"}
		c.CA, c.Certificate, c.PrivateKey = "ca", "cert", "key"
		c.HostCIDRs = []string{"198.51.100.16/28"}
		c.HostExternalIPCIDRs = []string{"192.0.2.77/32"}
	}
	s := newScene(t, config)
	n1 := s.node("n1", "10.244.1.0/24")
	n1.Facts = ovntest.Facts(1, false)
	n1.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.50"), netip.MustParseAddr("192.0.2.77")}
	bare := s.node("bare") // without an agent, and without a subnet: a host of the control plane's
	bare.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.60")}
	s.do(n1, bare, s.slice("kubernetes", "kubernetes", []objects.ServicePort{{Name: "https", Protocol: "tcp", Port: 6443}},
		ready("198.51.100.9", "")))
	s.problems = nil
	for _, c := range []struct{ name, addr, whose string }{
		{"an agent's address", "192.0.2.1", "Node n1"},
		{"a node's status", "192.0.2.50", "Node n1"},
		{"a gateway", "203.0.113.1", "Node n1"},
		{"a node without an agent", "192.0.2.60", "Node bare"},
		{"a central host", "198.51.100.1", "ovn-northbound"},
		{"a host of the key", "198.51.100.20", "host-cidrs"},
		{"an API server", "198.51.100.9", "the API server"},
		{"a node's that the operator allows", "192.0.2.77", ""},
		{"nobody's", "198.51.100.40", ""},
	} {
		for _, port := range []uint16{80, 2380, 6643} {
			taker := s.outward("taker", 1, 0, c.addr)
			taker.Ports[0].Port = port
			s.do(taker)
			hosts := strings.HasPrefix(c.addr, "192.0.2.77") && port != 80
			at := netip.AddrPortFrom(netip.MustParseAddr(c.addr), port).String()
			if c.whose == "" && !hosts {
				s.want(c.name, s.served(), "taker "+at)
				s.wantReasons()
				continue
			}
			s.want(c.name, s.served(), "")
			s.wantMessage("Service default/taker", "AddressTaken", "spec.externalIPs", c.addr, c.whose, "host-")

			given := *taker
			given.ExternalIPs, given.Ingress = nil, []netip.Addr{netip.MustParseAddr(c.addr)}
			s.do(&given)
			if port == 80 {
				s.want(c.name+" by a load balancer", s.served(), "taker "+at)
				s.wantReasons()
				continue
			}
			s.want(c.name+" by a load balancer", s.served(), "")
			s.wantMessage("Service default/taker", "AddressTaken", "status.loadBalancer.ingress", at, "host-ports")
		}
	}
	s.remove(objects.ServiceKind, "default/taker")
	s.problems = nil

	// Addresses come and go with their nodes.
	moved := s.outward("moved", 1, 0, "192.0.2.60")
	s.do(moved)
	s.want("a node's", s.served(), "")
	s.remove(objects.NodeKind, "bare")
	s.want("the node is gone", s.served(), "moved 192.0.2.60:80")
	s.do(bare)
	s.want("the node is back", s.served(), "")
}

// TestHostPortsAreAKey: the list is the operator's, and nodes are told of another one than the default.
func TestHostPortsAreAKey(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { c.HostPorts = []string{"tcp/22", "tcp/8000-8010", "udp/6081"} })
	n1 := s.node("n1", "10.244.1.0/24")
	n1.Facts = ovntest.Facts(1, false)
	s.do(n1)
	for port, served := range map[uint16]bool{22: false, 8005: false, 8011: true, 6643: true} {
		o := s.outward("web", 1, 0)
		o.Ingress, o.Ports[0].Port = []netip.Addr{netip.MustParseAddr("192.0.2.1")}, port
		s.do(o)
		if got := s.served() != ""; got != served {
			t.Errorf("port %d is served: %t", port, got)
		}
	}
	if told := s.objects[objects.Key{Kind: objects.NodeKind, Name: "n1"}].(*objects.Node).Network; !strings.Contains(told,
		`"hostPorts":["tcp/22","tcp/8000-8010","udp/6081"]`) {
		t.Errorf("the node is told %s", told)
	}
	for _, wrong := range []string{"22", "tcp/", "tcp/0", "icmp/1", "tcp/9-8", "tcp/70000", "tcp/1-2-3"} {
		config := ovntest.Config()
		config.HostPorts = []string{wrong}
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "host-ports: ") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	for _, edit := range []func(*settings.Config){
		func(c *settings.Config) { c.HostPorts = nil }, func(c *settings.Config) { c.HostCIDRs = []string{"192.0.2.1"} },
		func(c *settings.Config) { c.HostExternalIPCIDRs = []string{"192.0.2.1/24"} },
	} {
		config := ovntest.Config()
		edit(&config)
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "host-") {
			t.Errorf("got %v", err)
		}
	}
}

// TestHostPortsOfHostsStay: a pod gets no port of its node's that is the host's own, and loses none to a Service that
// may not have it either.
func TestHostPortsOfHostsStay(t *testing.T) {
	s := newScene(t, nil)
	n1 := s.node("n1", "10.244.1.0/24")
	n1.Facts = ovntest.Facts(1, false)
	s.do(n1)
	p := s.pod("default", "p", "n1")
	for _, port := range []uint16{2380, 6643, 8443, 10257} {
		p.HostPorts = append(p.HostPorts, objects.HostPort{Protocol: "tcp", Port: port, Into: 80})
	}
	thief := s.outward("thief", 1, 0, "192.0.2.1", "203.0.113.1")
	thief.Ports[0].Port = 8443
	s.do(p, thief)
	var got []string
	for _, r := range s.c.changeOf(northbound.PodOwner("default/p")).Rows {
		if row, ok := r.Model.(*nb.LoadBalancer); ok {
			got = slices.AppendSeq(got, maps.Keys(row.Vips))
		}
	}
	slices.Sort(got)
	s.want("host ports", strings.Join(got, ", "), "192.0.2.1:8443, 203.0.113.1:8443")
}

// TestANodeClaimsForeignAddresses: what a node can do to a Service by saying that the Service's address is its own.
// docs/security.md says so.
func TestANodeClaimsForeignAddresses(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { c.HostExternalIPCIDRs = []string{"198.51.100.64/26"} })
	kept, lost, given := s.outward("kept", 1, 0, "198.51.100.70"), s.outward("lost", 2, 0, "198.51.100.40"),
		s.outward("given", 3, 0, "198.51.100.41")
	given.Ingress, given.ExternalIPs = given.ExternalIPs, nil
	n1 := s.node("n1", "10.244.1.0/24")
	n1.Facts = ovntest.Facts(1, false)
	s.do(n1, kept, lost, given)
	s.want("before", s.served(), "given 198.51.100.41:80, kept 198.51.100.70:80, lost 198.51.100.40:80")
	s.problems = nil
	foreign := *n1
	foreign.Facts = strings.Replace(ovntest.Facts(1, false), `"addresses":["192.0.2.1"`,
		`"addresses":["198.51.100.40","198.51.100.41","198.51.100.70","192.0.2.1"`, 1)
	if foreign.Facts == n1.Facts {
		t.Fatalf("the facts are %s", n1.Facts)
	}
	s.do(&foreign)
	s.want("after", s.served(), "given 198.51.100.41:80, kept 198.51.100.70:80")
	s.wantMessage("Service default/lost", "AddressTaken", "spec.externalIPs", "198.51.100.40", "Node n1",
		"host-external-ip-cidrs")
}

// listening are the facts of node n, at whose host daemons listen.
func listening(n int, listeners ...string) string {
	return ovntest.EditFacts(n, false, func(f *contract.NodeFacts) {
		for _, text := range listeners {
			var l contract.Listener
			if err := l.UnmarshalText([]byte(text)); err != nil {
				panic(err)
			}
			f.Listeners = append(f.Listeners, l)
		}
	})
}

// hostPorts are those that a pod of the namespace default has in the Northbound.
func (s *scene) hostPorts(pod string) string {
	var list []string
	for _, r := range s.northbound[northbound.PodOwner("default/"+pod)].Rows {
		if row, ok := r.Model.(*nb.LoadBalancer); ok {
			list = slices.AppendSeq(list, maps.Keys(row.Vips))
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestDaemonsKeepTheirPortsFromPods: neither a hostPort, nor a load balancer's address that is the node's, nor an
// external one takes a port where a daemon of the node listens; a NodePort does. When the daemon goes they have it.
func TestDaemonsKeepTheirPortsFromPods(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { c.HostExternalIPCIDRs = []string{"192.0.2.0/24"} })
	n1, n2 := s.node("n1", "10.244.1.0/24"), s.node("n2", "10.244.2.0/24")
	n1.Facts, n2.Facts = ovntest.Facts(1, false), ovntest.Facts(2, false)
	p, q := s.pod("default", "p", "n1"), s.pod("default", "q", "n2")
	p.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 9100, Into: 80}}
	q.HostPorts = p.HostPorts
	given, wanted := s.outward("given", 1, 0), s.outward("wanted", 2, 0, "192.0.2.1")
	given.Ingress = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.1")}
	given.Ports[0].Port = 9101
	wanted.Ports[0].Port = 9102
	node := s.outward("node", 3, 30080)
	s.do(s.namespace("default"), n1, n2, p, q, given, wanted, node)
	s.problems = nil
	hostPorts := s.hostPorts
	const (
		givenAll, routersOwn = "given 192.0.2.1:9101, given 203.0.113.1:9101", "given 203.0.113.1:9101"
		nodePorts            = "node ^NODEIP4_0:30080, node ^NODEIP4_1:30080"
		wantedAll            = "wanted 192.0.2.1:9102"
		all                  = givenAll + ", " + nodePorts + ", " + wantedAll
		ports                = "192.0.2.1:9100 203.0.113.1:9100"
	)
	for _, step := range []struct {
		name      string
		listeners []string
		pod       string // host ports of p
		services  string
		told      string // Services that are told, and of which port
	}{
		{"nobody listens", nil, ports, all, ""},
		{"at the pod's port", []string{"tcp/9100"}, "203.0.113.1:9100", all, ""},
		{"at all ports", []string{"tcp/9100", "tcp/0.0.0.0:9101", "tcp/192.0.2.1:9102", "tcp/30080"},
			"203.0.113.1:9100", routersOwn + ", " + nodePorts, "given 192.0.2.1:9101/tcp, wanted 192.0.2.1:9102/tcp"},
		{"at the pod's port alone again", []string{"tcp/9100"}, "203.0.113.1:9100", all, ""},
		{"by another protocol", []string{"udp/9100", "udp/9101"}, ports, all, ""},
		{"at another address", []string{"tcp/192.0.2.9:9100", "tcp/192.0.2.9:9101"}, ports, all, ""},
		{"in the other family", []string{"tcp/[::]:9100", "tcp/[::]:9101"}, ports, all, ""},
		{"nobody any more", nil, ports, all, ""},
	} {
		now := *n1
		now.Facts = listening(1, step.listeners...)
		s.do(&now)
		s.want(step.name+": host ports", hostPorts("p"), step.pod)
		s.want(step.name+": on another node", hostPorts("q"), "192.0.2.2:9100 203.0.113.2:9100")
		s.want(step.name+": Services", s.served(), step.services)
		var told []string
		for _, found := range s.problems {
			_, rest, _ := strings.Cut(found.Message, ": ")
			at, _, _ := strings.Cut(rest, " ")
			told = append(told, found.Object.Name+" "+at)
			for _, word := range []string{"a program on Node n1", "ten minutes", "choose another"} {
				if found.Reason != "AddressTaken" || !strings.Contains(found.Message, word) {
					t.Errorf("%s: %s lacks %q", step.name, found, word)
				}
			}
		}
		slices.Sort(told)
		s.want(step.name+": told", strings.Join(told, ", "), step.told)
		s.problems = nil
	}
}

// TestListenersOfAnotherNode: a node that says of a foreign address that it has it and listens there ends Services at
// that address, by Events that name it, and no hostPort of the other node's pods.
func TestListenersOfAnotherNode(t *testing.T) {
	s := newScene(t, nil)
	n1, n2 := s.node("n1", "10.244.1.0/24"), s.node("n2", "10.244.2.0/24")
	n1.Facts = ovntest.Facts(1, false)
	n2.Facts = listening(2, "tcp/80", "tcp/9100")
	n2.Facts = strings.Replace(n2.Facts, `"addresses":["192.0.2.2"`, `"addresses":["192.0.2.1"`, 1)
	p := s.pod("default", "p", "n1")
	p.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 9100, Into: 80}}
	given := s.outward("given", 1, 0)
	given.Ingress = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	s.do(s.namespace("default"), n1, p, given)
	s.want("before", s.served(), "given 192.0.2.1:80")
	s.problems = nil
	s.do(n2)
	s.want("after", s.served(), "")
	s.wantMessage("Service default/given", "AddressTaken", "192.0.2.1:80/tcp", "Node n2")
	if rows := fmt.Sprint(s.entries(s.c.changeOf(northbound.PodOwner("default/p")))); !strings.Contains(rows,
		"192.0.2.1:9100=") {
		t.Errorf("the pod has %s", rows)
	}
	s.remove(objects.NodeKind, "n2")
	s.want("when it has gone", s.served(), "given 192.0.2.1:80")
}

// TestAnAddressMovesFromADaemon: an address that moves, as one of keepalived, from a node whose daemon listens to one
// with a host port. First both have it. The Service whose address it is has its port in the end, and the pod has not.
func TestAnAddressMovesFromADaemon(t *testing.T) {
	s := newScene(t, nil)
	with := func(facts, own string) string {
		return strings.Replace(facts, `"addresses":["`+own+`"`, `"addresses":["`+own+`","192.0.2.50"`, 1)
	}
	n1, n2 := s.node("n1", "10.244.1.0/24"), s.node("n2", "10.244.2.0/24")
	n1.Facts, n2.Facts = ovntest.Facts(1, false), with(listening(2, "tcp/443"), "192.0.2.2")
	p := s.pod("default", "p", "n1")
	p.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 443, Into: 80}}
	given := s.outward("given", 1, 0)
	given.Ports[0].Port = 443
	given.Ingress = []netip.Addr{netip.MustParseAddr("192.0.2.50")}
	s.do(s.namespace("default"), n1, n2, p, given)
	s.want("before: the Service", s.served(), "")
	n1with, n2without := *n1, *n2
	n1with.Facts = with(n1.Facts, "192.0.2.1")
	n2without.Facts = listening(2, "tcp/443")
	s.do(&n1with)
	s.want("both have it: the pod", s.hostPorts("p"), "192.0.2.1:443 192.0.2.50:443 203.0.113.1:443")
	s.do(&n2without)
	s.want("moved: the Service", s.served(), "given 192.0.2.50:443")
	s.want("moved: the pod", s.hostPorts("p"), "192.0.2.1:443 203.0.113.1:443")
	s.do(n2, n1)
	s.want("back: the Service", s.served(), "")
}
