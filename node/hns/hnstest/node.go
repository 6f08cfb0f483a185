package hnstest

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/weftnet/weft/node/hostnet"
)

// Node is a machine as a node has it, for one test: the adapter "Ethernet" has two addresses and is shared with
// pods, and another one is for management.
type Node struct {
	*testing.T
	*Machine
}

// NodeMAC is the MAC address of a [Node]'s adapter.
const NodeMAC = "02:00:00:00:00:03"

// What a [Node] has on its adapter.
var (
	NodeAddress  = netip.MustParseAddr("172.30.0.3")
	nodePrefixes = []netip.Prefix{netip.MustParsePrefix("172.30.0.3/24"), netip.MustParsePrefix("fd30::3/64")}
	nodeRoutes   = []hostnet.Route{
		{Destination: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("172.30.0.254"), Metric: 10},
	}
	nodeDNS = hostnet.DNS{Servers: []netip.Addr{netip.MustParseAddr("172.30.0.53")}, Suffix: "corp.example"}
)

// NewNode has no HNS network yet.
func NewNode(t *testing.T) *Node {
	t.Helper()
	n := &Node{T: t, Machine: New()}
	n.AddAdapter(hostnet.Adapter{
		Alias: "Loopback Pseudo-Interface 1", Kind: hostnet.Loopback,
		Addresses: []hostnet.Address{LocalAddress("127.0.0.1/8")},
	})
	n.AddAdapter(hostnet.Adapter{
		Alias: "Management", Kind: hostnet.Physical, MAC: MAC("02:00:00:00:00:77"), MTU: 1500,
		Addresses: []hostnet.Address{LocalAddress("192.0.2.3/24")},
	})
	n.AddAdapter(hostnet.Adapter{
		Alias: "Ethernet", Kind: hostnet.Physical, MAC: MAC(NodeMAC), MTU: 1500, DNS: nodeDNS,
		Addresses: []hostnet.Address{LocalAddress("172.30.0.3/24"), LocalAddress("fd30::3/64"), LocalAddress("fe80::3/64")},
	}, nodeRoutes...)
	return n
}

// Reachable fails the test unless the adapter of that alias has the host's addresses, routes and resolvers.
func (n *Node) Reachable(alias string) {
	n.Helper()
	adapters, err := n.Adapters()
	if err != nil {
		n.Fatal(err)
	}
	a, ok := hostnet.Named(adapters, alias)
	routes, err := n.Routes(a)
	has := a.Global() // what was set again comes last
	slices.SortFunc(has, func(a, b netip.Prefix) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	if !ok || err != nil || !slices.Equal(has, nodePrefixes) || !slices.Equal(routes, nodeRoutes) ||
		!slices.Equal(a.DNS.Servers, nodeDNS.Servers) {
		n.Fatalf("adapter %s: there %v, addresses %v, routes %v, resolvers %v, error %v\n%s",
			alias, ok, a.Global(), routes, a.DNS.Servers, err, n.Dump())
	}
}

// NetworkCount is how many HNS networks there are.
func (n *Node) NetworkCount() int {
	n.Helper()
	networks, err := n.Networks()
	if err != nil {
		n.Fatal(err)
	}
	return len(networks)
}
