package nodes

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
)

// TestTunnelAddresses: a node's tunnels end at its own unicast addresses, and each address is that of who had it first.
func TestTunnelAddresses(t *testing.T) {
	nodes := New(part.NewOutbox(), ovntest.Settings(t, nil), nil, nil)
	set := func(name string, status, facts []string) {
		n := nodes.state(name)
		n.Object, n.Facts.Addresses = &objects.Node{}, nil
		for _, text := range status {
			n.Object.Addresses = append(n.Object.Addresses, netip.MustParseAddr(text))
		}
		for _, text := range facts {
			n.Facts.Addresses = append(n.Facts.Addresses, netip.MustParseAddr(text))
		}
		nodes.tunnels.take(n)
	}
	expect := func(name, want string) {
		t.Helper()
		if got := fmt.Sprint(nodes.state(name).Tunnels); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	set("l1", []string{"192.0.2.1"}, []string{"172.17.0.1", "192.0.2.1", "2001:db8::1"})
	set("l2", []string{"192.0.2.2"}, []string{"172.17.0.1", "192.0.2.1", "ff02::1", "fe80::1", "127.0.0.1", "0.0.0.0",
		"10.244.0.7"})
	expect("l1", "[172.17.0.1 192.0.2.1 2001:db8::1]")
	expect("l2", "[192.0.2.2]")
	clear(nodes.dirty)
	set("l1", []string{"192.0.2.3"}, nil)
	expect("l1", "[192.0.2.3]")
	expect("l2", "[172.17.0.1 192.0.2.1 192.0.2.2]")
	if _, ok := nodes.dirty["l2"]; !ok {
		t.Error("who is next is not written")
	}
	for _, name := range []string{"l1", "l2"} {
		n := nodes.state(name)
		n.Object = nil
		nodes.tunnels.take(n)
	}
	if len(nodes.tunnels.lines) != 0 {
		t.Errorf("%v are held for nodes that are gone", nodes.tunnels.lines)
	}
}

// TestTunnelEnds: no address that the cluster itself gives is one where a tunnel ends.
func TestTunnelEnds(t *testing.T) {
	s := ovntest.Settings(t, ovntest.Dual)
	nodes := New(part.NewOutbox(), s, nil, nil)
	ends := map[string]bool{"192.0.2.1": true, "2001:db8::1": true, "::ffff:192.0.2.1": false, "224.0.0.1": false,
		"127.0.0.1": false}
	for _, list := range [][]netip.Prefix{s.Pods, s.Services, s.Joins, contract.OwnRanges[:]} {
		if len(list) == 0 {
			t.Fatal("a range of the cluster is missing")
		}
		for _, p := range list {
			ends[p.Addr().Next().Next().String()] = false
		}
	}
	for text, want := range ends {
		if got := nodes.tunnels.mayEnd(netip.MustParseAddr(text)); got != want {
			t.Errorf("tunnelEnd(%s) is %t", text, got)
		}
	}
}
