package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
)

// TestTunnelAddresses: a node's tunnels end at its own unicast addresses, and each address is that of who had it first.
func TestTunnelAddresses(t *testing.T) {
	c := newCluster(&settings.Settings{Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}})
	set := func(name string, status, facts []string) {
		n := c.nodes.state(name)
		n.Object, n.Facts.Addresses = &objects.Node{}, nil
		for _, text := range status {
			n.Object.Addresses = append(n.Object.Addresses, netip.MustParseAddr(text))
		}
		for _, text := range facts {
			n.Facts.Addresses = append(n.Facts.Addresses, netip.MustParseAddr(text))
		}
		c.nodes.tunnels.take(n)
	}
	expect := func(name, want string) {
		t.Helper()
		if got := fmt.Sprint(c.nodes.state(name).Tunnels); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	set("l1", []string{"192.0.2.1"}, []string{"172.17.0.1", "192.0.2.1", "2001:db8::1"})
	set("l2", []string{"192.0.2.2"}, []string{"172.17.0.1", "192.0.2.1", "ff02::1", "fe80::1", "127.0.0.1", "0.0.0.0",
		"10.244.0.7"})
	expect("l1", "[172.17.0.1 192.0.2.1 2001:db8::1]")
	expect("l2", "[192.0.2.2]")
	clear(c.nodes.dirty)
	set("l1", []string{"192.0.2.3"}, nil)
	expect("l1", "[192.0.2.3]")
	expect("l2", "[172.17.0.1 192.0.2.1 192.0.2.2]")
	if _, ok := c.nodes.dirty["l2"]; !ok {
		t.Error("who is next is not written")
	}
	for _, name := range []string{"l1", "l2"} {
		n := c.nodes.state(name)
		n.Object = nil
		c.nodes.tunnels.take(n)
	}
	if len(c.nodes.tunnels.lines) != 0 {
		t.Errorf("%v are held for nodes that are gone", c.nodes.tunnels.lines)
	}
}

// TestTunnelAddressesOutliveTheirController: the node that had an address first has it after a restart, too, whatever
// its name.
func TestTunnelAddressesOutliveTheirController(t *testing.T) {
	shared := netip.MustParseAddr("198.51.100.7")
	w := newWorld()
	for _, name := range []string{"n1", "n2"} {
		n := w.node(name, "10.244."+name[1:]+".0/24")
		n.Addresses = []netip.Addr{shared}
		w.put(n)
	}
	had := func(names ...string) map[string]nodeRecord {
		nodes := map[string]nodeRecord{}
		for _, name := range names {
			nodes[name] = nodeRecord{tunnels: []netip.Addr{shared}}
		}
		return nodes
	}
	for _, c := range []struct {
		records map[string]nodeRecord
		want    string
	}{{nil, "n1"}, {had("n1"), "n1"}, {had("n2"), "n2"}, {had("gone"), "n1"}} {
		again := newCluster(ovntest.Settings(t, nil))
		again.begin(records{nodes: c.records}, w.keys(), w.get)
		if got := again.nodes.tunnels.lines[shared]; len(got) != 2 || got[0] != c.want ||
			!slices.Equal(again.nodes.all[c.want].Tunnels, []netip.Addr{shared}) {
			t.Errorf("with the records %v the address is that of %v, want %s first", c.records, got, c.want)
		}
	}
}

// TestTunnelEnds: no address that the cluster itself gives is one where a tunnel ends.
func TestTunnelEnds(t *testing.T) {
	c := newCluster(ovntest.Settings(t, ovntest.Dual))
	ends := map[string]bool{"192.0.2.1": true, "2001:db8::1": true, "::ffff:192.0.2.1": false, "224.0.0.1": false,
		"127.0.0.1": false}
	for _, list := range [][]netip.Prefix{c.settings.Pods, c.settings.Services, c.settings.Joins, contract.OwnRanges[:]} {
		if len(list) == 0 {
			t.Fatal("a range of the cluster is missing")
		}
		for _, p := range list {
			ends[p.Addr().Next().Next().String()] = false
		}
	}
	for text, want := range ends {
		if got := c.nodes.tunnels.mayEnd(netip.MustParseAddr(text)); got != want {
			t.Errorf("tunnelEnd(%s) is %t", text, got)
		}
	}
}
