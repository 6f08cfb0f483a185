package services

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/topology"
)

// TestNodePortAddressesAreThoseOfTheNodesThereAre changes nodes at random, which claim each other's addresses and one
// twice. What comes of the changes is what the nodes come to that there are.
func TestNodePortAddressesAreThoseOfTheNodesThereAre(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 7))
	addr := func() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + random.IntN(6))}) }
	e, parts := newNodePorts(), map[string]nodePort{}
	for range 3000 {
		n := &topology.Node{Name: fmt.Sprint("n", random.IntN(6)), Placed: random.IntN(4) > 0}
		for range random.IntN(4) {
			n.Facts.Addresses = append(n.Facts.Addresses, addr())
		}
		if random.IntN(2) == 0 {
			n.Facts.Gateway = &contract.Gateway{HostAddresses: random.IntN(2) == 0}
			for range random.IntN(3) {
				n.Facts.Gateway.Addresses = append(n.Facts.Gateway.Addresses, netip.PrefixFrom(addr(), 20+random.IntN(5)))
			}
		}
		now := nodePortNow(n)
		e.put(n.Name, parts[n.Name], now)
		parts[n.Name] = now
		want := builtAnew(parts)
		for what, both := range map[string][2]any{"names": {e.names, want.names}, "nodes": {e.nodes, want.nodes},
			"hosts":  {e.hosts, want.hosts},
			"widths": {e.widths, want.widths}, "own": {fmt.Sprint(e.own), fmt.Sprint(want.own)}} {
			if diff := cmp.Diff(fmt.Sprint(both[1]), fmt.Sprint(both[0])); diff != "" {
				t.Fatalf("%s: %s", what, diff)
			}
		}
	}
}

// builtAnew is what nodes' parts come to, node by node.
func builtAnew(parts map[string]nodePort) nodePorts {
	e := newNodePorts()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		part := parts[name]
		if part.gateway {
			e.names = append(e.names, name)
		}
		for _, addr := range part.hosts {
			if !slices.Contains(e.hosts[addr], name) {
				e.hosts[addr] = append(e.hosts[addr], name)
			}
		}
		for f, own := range part.own {
			e.widths[f] = max(e.widths[f], len(own))
			for _, addr := range own {
				e.own[f] = append(e.own[f], loadbalancer.OwnAddress{Addr: addr, Node: name})
				if _, taken := e.nodes[addr]; !taken {
					e.nodes[addr] = name
				}
			}
		}
	}
	return e
}
