package ovn

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/nb"
)

// allowHosts lets Services have nodes' addresses by spec.externalIPs, as the tests of nodes' addresses do.
func allowHosts(c *Config) {
	c.HostExternalIPCIDRs = []string{"192.0.2.0/24", "2001:db8::/32", "203.0.113.0/24"}
}

// TestHostsKeepTheirAddresses: by spec.externalIPs a Service gets no address of a host at any port, whoever tells of
// it; by its load balancer it does, but for ports of hosts' own.
func TestHostsKeepTheirAddresses(t *testing.T) {
	config := func(c *Config) {
		c.Northbound = []string{"ssl:198.51.100.1:6641", "ssl:[2001:db8:9::1]:6641", "ssl:central.example:6641"}
		c.CA, c.Certificate, c.PrivateKey = "ca", "cert", "key"
		c.HostCIDRs = []string{"198.51.100.16/28"}
		c.HostExternalIPCIDRs = []string{"192.0.2.77/32"}
	}
	s := newScene(t, config)
	n1 := s.node("n1", "10.244.1.0/24")
	n1.facts = facts(1, false)
	n1.addresses = []netip.Addr{netip.MustParseAddr("192.0.2.50"), netip.MustParseAddr("192.0.2.77")}
	bare := s.node("bare") // without an agent, and without a subnet: a host of the control plane's
	bare.addresses = []netip.Addr{netip.MustParseAddr("192.0.2.60")}
	s.do(n1, bare, s.slice("kubernetes", "kubernetes", []servicePort{{"https", "tcp", 6443}}, ready("198.51.100.9", "")))
	s.problems = nil
	for _, c := range []struct{ name, addr, whose string }{
		{"an agent's address", "192.0.2.1", "Node n1"},
		{"a node's status", "192.0.2.50", "Node n1"},
		{"a gateway", "203.0.113.1", "Node n1"},
		{"a node without an agent", "192.0.2.60", "Node bare"},
		{"a central host", "198.51.100.1", "ovn-northbound"},
		{"a host of the key", "198.51.100.20", "host-cidrs"},
		{"an API server", "198.51.100.9", "the API server's"},
		{"a node's that the operator allows", "192.0.2.77", ""},
		{"nobody's", "198.51.100.40", ""},
	} {
		for _, port := range []uint16{80, 2380, 6643} {
			taker := s.outward("taker", 1, 0, c.addr)
			taker.ports[0].port = port
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
			given.externalIPs, given.ingress = nil, []netip.Addr{netip.MustParseAddr(c.addr)}
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
	s.remove(serviceKind, "default/taker")
	s.problems = nil

	// Addresses come and go with their nodes.
	moved := s.outward("moved", 1, 0, "192.0.2.60")
	s.do(moved)
	s.want("a node's", s.served(), "")
	s.remove(nodeKind, "bare")
	s.want("the node is gone", s.served(), "moved 192.0.2.60:80")
	s.do(bare)
	s.want("the node is back", s.served(), "")
}

// TestHostPortsAreAKey: the list is the operator's, and nodes are told of another one than the default.
func TestHostPortsAreAKey(t *testing.T) {
	s := newScene(t, func(c *Config) { c.HostPorts = []string{"tcp/22", "tcp/8000-8010", "udp/6081"} })
	n1 := s.node("n1", "10.244.1.0/24")
	n1.facts = facts(1, false)
	s.do(n1)
	for port, served := range map[uint16]bool{22: false, 8005: false, 8011: true, 6643: true} {
		o := s.outward("web", 1, 0)
		o.ingress, o.ports[0].port = []netip.Addr{netip.MustParseAddr("192.0.2.1")}, port
		s.do(o)
		if got := s.served() != ""; got != served {
			t.Errorf("port %d is served: %t", port, got)
		}
	}
	if told := s.objects[objectKey{nodeKind, "n1"}].(*node).network; !strings.Contains(told, `"hostPorts":["tcp/22","tcp/8000-8010","udp/6081"]`) {
		t.Errorf("the node is told %s", told)
	}
	for _, wrong := range []string{"22", "tcp/", "tcp/0", "icmp/1", "tcp/9-8", "tcp/70000", "tcp/1-2-3"} {
		config := testConfig()
		config.HostPorts = []string{wrong}
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "host-ports: ") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	for _, edit := range []func(*Config){
		func(c *Config) { c.HostPorts = nil }, func(c *Config) { c.HostCIDRs = []string{"192.0.2.1"} }, func(c *Config) { c.HostExternalIPCIDRs = []string{"192.0.2.1/24"} },
	} {
		config := testConfig()
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
	n1.facts = facts(1, false)
	s.do(n1)
	p := s.pod("default", "p", "n1")
	for _, port := range []uint16{2380, 6643, 8443, 10257} {
		p.hostPorts = append(p.hostPorts, hostPort{protocol: "tcp", port: port, into: 80})
	}
	thief := s.outward("thief", 1, 0, "192.0.2.1", "203.0.113.1")
	thief.ports[0].port = 8443
	s.do(p, thief)
	var got []string
	for _, r := range s.c.podChange("default/p").Rows {
		if row, ok := r.Model.(*nb.LoadBalancer); ok {
			got = slices.AppendSeq(got, maps.Keys(row.Vips))
		}
	}
	slices.Sort(got)
	s.want("host ports", strings.Join(got, ", "), "192.0.2.1:8443, 203.0.113.1:8443")
}

// TestANodeClaimsForeignAddresses: what a node can do to a Service by saying that the Service's address is its own. docs/security.md says so.
func TestANodeClaimsForeignAddresses(t *testing.T) {
	s := newScene(t, func(c *Config) { c.HostExternalIPCIDRs = []string{"198.51.100.64/26"} })
	kept, lost, given := s.outward("kept", 1, 0, "198.51.100.70"), s.outward("lost", 2, 0, "198.51.100.40"), s.outward("given", 3, 0, "198.51.100.41")
	given.ingress, given.externalIPs = given.externalIPs, nil
	n1 := s.node("n1", "10.244.1.0/24")
	n1.facts = facts(1, false)
	s.do(n1, kept, lost, given)
	s.want("before", s.served(), "given 198.51.100.41:80, kept 198.51.100.70:80, lost 198.51.100.40:80")
	s.problems = nil
	foreign := *n1
	foreign.facts = strings.Replace(facts(1, false), `"addresses":["192.0.2.1"`, `"addresses":["198.51.100.40","198.51.100.41","198.51.100.70","192.0.2.1"`, 1)
	if foreign.facts == n1.facts {
		t.Fatalf("the facts are %s", n1.facts)
	}
	s.do(&foreign)
	s.want("after", s.served(), "given 198.51.100.41:80, kept 198.51.100.70:80")
	s.wantMessage("Service default/lost", "AddressTaken", "spec.externalIPs", "198.51.100.40", "Node n1", "host-external-ip-cidrs")
}
