package lab

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// network is one of the lab's bridges with its subnets. An address's last part is the machine's
// number in decimal digits in either family, so that 172.29.0.11 and fd00:29::11 are one machine's.
type network struct{ bridge, v4, v6 string }

var (
	// management carries the API and kubelets' traffic.
	management = network{"management", "172.29.0.%d/24", "fd00:29::%d/64"}
	// underlay carries GENEVE and the Southbound.
	underlay = network{"underlay", "172.30.0.%d/24", "fd00:30::%d/64"}
	// external is the world outside, which pods meet through their nodes' gateway routers.
	external = network{"external", "172.31.0.%d/24", "fd00:31::%d/64"}
)

// Ranges of the cluster.
const (
	podRangeV4, podRangeV6         = "10.244.0.0/16", "fd00:10:244::/48"
	serviceRangeV4, serviceRangeV6 = "10.96.0.0/16", "fd00:10:96::/112"
	apiServiceV4, apiServiceV6     = "10.96.0.1", "fd00:10:96::1"
	dnsServiceV4, dnsServiceV6     = "10.96.0.10", "fd00:10:96::a"
	podMaskV4, podMaskV6           = 24, 64
)

// Numbers of the machines in the subnets. The central is the router of the world outside.
const (
	centralNumber  = 1
	controlNumber  = 2
	routerNumber   = 254
	outsideNumber  = 253
	sharedNumber   = 200 // of the gateway that nodes share
	firstNode      = 11
	northboundPort = 6641
	southboundPort = 6642
	apiPort        = 6443
)

func (c Config) pick(v4, v6 string) []string {
	var picked []string
	if c.v4() {
		picked = append(picked, v4)
	}
	if c.v6() {
		picked = append(picked, v6)
	}
	return picked
}

// list is pick for flags.
func (c Config) list(v4, v6 string) string { return strings.Join(c.pick(v4, v6), ",") }

// prefixes of machine number n, the first one in the cluster's first family.
func (c Config) prefixes(on network, n int) []string {
	return c.pick(fmt.Sprintf(on.v4, n), fmt.Sprintf(on.v6, n))
}

func (c Config) addrs(on network, n int) []netip.Addr {
	var addrs []netip.Addr
	for _, p := range c.prefixes(on, n) {
		addrs = append(addrs, netip.MustParsePrefix(p).Addr())
	}
	return addrs
}

// addr is the address in the cluster's first family.
func (c Config) addr(on network, n int) netip.Addr { return c.addrs(on, n)[0] }

// nodeNetwork is the one that Kubernetes knows a node's addresses of. Where the gateway has the host's
// addresses it is the one that the gateway is on: a Windows node has no other adapter than the underlay's.
func (c Config) nodeNetwork(number int) network {
	switch {
	case c.Gateway == GatewayOwn:
		return management
	case c.isWindows(number):
		return c.tunnels()
	}
	return external
}

// tunnels is the network of the nodes' tunnels, and of a Windows node's adapter. Servers have no underlay.
func (c Config) tunnels() network {
	if c.Hosts != "" {
		return external
	}
	return underlay
}

// nodeNumber is that of the i-th of [Config.Nodes] in the lab's networks. Hosts come before.
func (c Config) nodeNumber(i int) int { return firstNode + len(c.hosts()) + i }

// nodeAddrs are the addresses of a node in Kubernetes.
func (c Config) nodeAddrs(number int) []netip.Addr { return c.addrs(c.nodeNetwork(number), number) }

// routers are the next hops of a node's default routes, on the network of its addresses.
func (c Config) routers(number int) []netip.Addr {
	if on := c.nodeNetwork(number); on != external {
		return c.addrs(on, centralNumber)
	}
	return c.addrs(external, routerNumber)
}

func (c Config) isWindows(number int) bool { return c.Windows > 0 && number >= c.nodeNumber(c.Linux) }

func join(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ",")
}

func hostPort(addr netip.Addr, port int) string {
	return net.JoinHostPort(addr.String(), fmt.Sprint(port))
}

func (c Config) apiServer() string {
	return "https://" + hostPort(c.addr(management, centralNumber), apiPort)
}

// passive are the connections by which a database's server listens on the central's addresses of a network.
func (c Config) passive(on network, port int) []string {
	var targets []string
	for _, a := range c.addrs(on, centralNumber) {
		targets = append(targets, fmt.Sprintf("pssl:%d:%s", port, bracketed(a)))
	}
	return targets
}

// northbound and southbound are where the databases' clients find them.
func (c Config) northbound() string {
	return "ssl:" + hostPort(c.addr(management, centralNumber), northboundPort)
}

func (c Config) southbound() string {
	return "ssl:" + hostPort(c.addr(underlay, centralNumber), southboundPort)
}

func bracketed(a netip.Addr) string {
	if a.Is6() {
		return "[" + a.String() + "]"
	}
	return a.String()
}

// masqueraders are the addresses of the node that takes the API server's packets to pods and Services on.
func (c Config) masqueraders() []netip.Addr {
	if c.Linux == 0 {
		return nil
	}
	return c.addrs(management, firstNode)
}
