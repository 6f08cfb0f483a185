package outside

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
)

// TestHosts has what stays the hosts' own, as the controller and the agents ask for it.
func TestHosts(t *testing.T) {
	const node, api, host, outside = "192.0.2.1", "192.0.2.9", "192.0.2.200", "203.0.113.1"
	hosts := Hosts{
		Ports:      contract.HostPorts{{Protocol: "tcp", First: 22, Last: 22}},
		Open:       []netip.Prefix{netip.MustParsePrefix(node + "/32")},
		Ranges:     []netip.Prefix{netip.MustParsePrefix("192.0.2.192/26")},
		Nodes:      func(addr netip.Addr) bool { return addr == netip.MustParseAddr(node) },
		APIServers: map[netip.AddrPort]bool{netip.MustParseAddrPort(api + ":6443"): true},
		Listening: func(protocol string, at netip.AddrPort) bool {
			return protocol == "udp" && at == netip.MustParseAddrPort(node+":53")
		},
	}
	for _, c := range []struct {
		protocol, addr string // of every node where it is ""
		port           uint16
		at             Owner // whose the address is
		keep, external Owner // who keeps the port, from pods and NodePorts and from Services' addresses
		deny, balancer Owner // who keeps the address from spec.externalIPs, and from a load balancer
	}{
		{"tcp", node, 22, Node, Node, Node, Nobody, Nobody},
		{"udp", node, 22, Node, Nobody, Nobody, Nobody, Nobody},
		{"udp", node, 53, Node, Nobody, Daemon, Nobody, Nobody},
		{"tcp", node, 53, Node, Nobody, Nobody, Nobody, Nobody},
		{"tcp", api, 6443, APIServer, APIServer, APIServer, APIServer, Nobody},
		{"udp", api, 6443, APIServer, Nobody, Nobody, APIServer, Nobody},
		{"tcp", api, 22, APIServer, APIServer, APIServer, APIServer, Nobody},
		{"tcp", host, 22, Host, Host, Host, Host, Nobody},
		{"tcp", host, 80, Host, Nobody, Nobody, Host, Nobody},
		{"tcp", outside, 22, Nobody, Nobody, Nobody, Nobody, Nobody},
		{"tcp", "", 22, Nobody, EveryHost, EveryHost, Nobody, Nobody},
		{"tcp", "", 30080, Nobody, Nobody, Nobody, Nobody, Nobody},
	} {
		var addr netip.Addr
		if c.addr != "" {
			addr = netip.MustParseAddr(c.addr)
		}
		port := netip.AddrPortFrom(addr, c.port)
		got := [...]Owner{hosts.At(addr), hosts.Keep(c.protocol, port), hosts.KeepExternal(c.protocol, port),
			hosts.Deny(addr, false), hosts.Deny(addr, true)}
		if want := [...]Owner{c.at, c.keep, c.external, c.deny, c.balancer}; got != want {
			t.Errorf("%s port %d of %q: %v, want %v", c.protocol, c.port, c.addr, got, want)
		}
	}
}

// TestRights has who comes first of those that want one port, the best first.
func TestRights(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	list := []Right{
		{true, early, "b", "b"}, {true, late, "a", "a"},
		{false, early, "a", "b"}, {false, early, "b", "a"}, {false, early, "b", "b"}, {false, late, "a", "a"},
	}
	for i, a := range list {
		for j, b := range list {
			if got, want := a.Compare(b), max(-1, min(i-j, 1)); got != want {
				t.Errorf("%v to %v: %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestFit(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.1": "", "2001:db8::1": "", "fd00::1": "", "10.0.0.1": "",
		"0.0.0.0": "no address", "::": "no address", "127.0.0.1": "a loopback address", "::1": "a loopback address",
		"169.254.0.1": "a link-local address", "fe80::1": "a link-local address", "224.0.0.1": "a multicast address",
		"ff02::1": "a multicast address", "255.255.255.255": "the broadcast address",
	} {
		if got := Fit(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}
