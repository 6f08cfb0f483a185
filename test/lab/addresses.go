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
	// management carries what clients ask of the API server, the Northbound and agents.
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
	furtherCentral = 3 // of the second zone; those of further zones follow
	routerNumber   = 254
	outsideNumber  = 253
	sharedNumber   = 200 // of the gateway that nodes share
	firstNode      = 11
	northboundPort = 6641
	southboundPort = 6642
	apiPort        = 6443
)

// addresses are those of a lab's machines.
type addresses struct {
	Families
	// gateway is [GatewayHost] or [GatewayOwn].
	gateway string
	// hosts: the Linux nodes are servers, which have no underlay.
	hosts bool
}

func newAddresses(c Config) addresses { return addresses{c.Families, c.Gateway, c.Hosts != ""} }

// prefixes of machine number n, the first one in the cluster's first family.
func (a addresses) prefixes(on network, n int) []string {
	return a.pick(fmt.Sprintf(on.v4, n), fmt.Sprintf(on.v6, n))
}

// of machine number n, the first one in the cluster's first family.
func (a addresses) of(on network, n int) []netip.Addr {
	var addrs []netip.Addr
	for _, p := range a.prefixes(on, n) {
		addrs = append(addrs, netip.MustParsePrefix(p).Addr())
	}
	return addrs
}

// first is the address of machine number n in the cluster's first family.
func (a addresses) first(on network, n int) netip.Addr { return a.of(on, n)[0] }

// podRanges and serviceRanges of the cluster, and its DNS servers' addresses: one in each family.
func (a addresses) podRanges() []string     { return a.pick(podRangeV4, podRangeV6) }
func (a addresses) serviceRanges() []string { return a.pick(serviceRangeV4, serviceRangeV6) }
func (a addresses) dnsServices() []string   { return a.pick(dnsServiceV4, dnsServiceV6) }

// tunnels is the network of the nodes' tunnels, and of a Windows node's adapter.
func (a addresses) tunnels() network {
	if a.hosts {
		return external
	}
	return underlay
}

// nodeNetwork is the one that Kubernetes knows a node's addresses of. Where the gateway has the host's
// addresses it is the one that the gateway is on: a Windows node has no other adapter than the underlay's.
func (a addresses) nodeNetwork(n node) network {
	switch {
	case a.gateway == GatewayOwn:
		return management
	case n.windows:
		return a.tunnels()
	}
	return external
}

// ofNode are the addresses of a node in Kubernetes.
func (a addresses) ofNode(n node) []netip.Addr { return a.of(a.nodeNetwork(n), n.number) }

// nextHops of a node's default routes, on the network of its addresses.
func (a addresses) nextHops(n node) []netip.Addr {
	if on := a.nodeNetwork(n); on != external {
		return a.of(on, centralNumber)
	}
	return a.of(external, routerNumber)
}

func (a addresses) apiServer() string {
	return "https://" + hostPort(a.first(management, centralNumber), apiPort)
}

// northbound and southbound are where the clients of a zone's databases find them.
func (a addresses) northbound(of zone) string {
	return "ssl:" + hostPort(a.first(management, of.number), northboundPort)
}

func (a addresses) southbound(of zone) string {
	return "ssl:" + hostPort(a.first(underlay, of.number), southboundPort)
}

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

func bracketed(a netip.Addr) string {
	if a.Is6() {
		return "[" + a.String() + "]"
	}
	return a.String()
}
