package lab

import (
	"fmt"
	"time"
)

// tunnelEndpoint is the bridge of a node's OVS at which the node's tunnels end.
type tunnelEndpoint struct {
	layout
	node
	bridge string
}

// join makes the bridge that joins a node's OVS to the underlay. A bridge of the userspace
// datapath lives and dies with ovs-vswitchd, and its addresses with it.
func (e tunnelEndpoint) join() [][]string {
	commands := [][]string{
		{"ovs-vsctl", "--timeout=20", "--may-exist", "add-br", e.bridge, "--", "set", "bridge", e.bridge,
			"datapath_type=netdev", "other_config:hwaddr=" + e.underlayMAC(),
			"--", "--may-exist", "add-port", e.bridge, "ul0"},
		// One that the database had before is made when ovs-vswitchd comes to it: nothing waits for that.
		eventually("ip", "link", "show", e.bridge),
		{"ip", "link", "set", e.bridge, "mtu", fmt.Sprint(e.mtu), "up"},
	}
	addresses := e.addresses.prefixes(underlay, e.number)
	if e.addresses.gateway == GatewayOwn {
		for _, address := range addresses {
			commands = append(commands, []string{"ip", "addr", "replace", address, "dev", e.bridge})
		}
		return commands
	}
	// Here Kubernetes knows the Windows nodes by their underlay addresses. What a Linux node's host sends to
	// those must come from the address that Kubernetes knows of it, and so by its default route: only the
	// tunnels and the Southbound's client have a route into the underlay.
	for i, address := range addresses {
		own, central := e.addresses.of(underlay, e.number)[i].String(), e.addresses.of(underlay, e.zone.number)[i].String()
		subnet := e.addresses.pick(subnet(underlay.v4), subnet(underlay.v6))[i]
		commands = append(commands,
			[]string{"ip", "addr", "replace", address, "dev", e.bridge, "noprefixroute"},
			// An IPv6 address is no source before the device is ready, a moment after it is up.
			eventually("ip", "route", "replace", central, "dev", e.bridge, "src", own),
			eventually("ovs-appctl", "--timeout=20", "ovs/route/add", subnet, e.bridge))
	}
	return commands
}

// eventually is the command that repeats another until it succeeds.
func eventually(argv ...string) []string {
	return append([]string{"sh", "-c", `until last=$("$@" 2>&1); do sleep 0.05; done`, "sh"}, argv...)
}

// underlayMAC of a Linux node's bridge and of a Windows node's adapter: known, so that the other
// nodes need not ask for it. OVS gives a bridge the MAC address of an adapter in it, unless that is
// a locally administered one: a Windows node has one for documentation (RFC 7042).
func (n node) underlayMAC() string {
	if n.windows {
		return fmt.Sprintf("00:00:5e:00:53:%02x", n.number)
	}
	return fmt.Sprintf("02:00:ac:1e:00:%02x", n.number)
}

const (
	// neighbourAge is how long OVS believes a neighbour; it accepts no more.
	neighbourAge     = time.Hour
	neighbourRefresh = neighbourAge / 2
)

// setNeighbours is the command that tells the node's OVS the MAC addresses of the other tunnel endpoints. The userspace
// datapath does what a kernel does not: it drops the packet for which it has to ask, so that the first one from one
// node to another, often a DNS query, would be lost.
func (e tunnelEndpoint) setNeighbours() []string {
	command := []string{"sh", "-ec", `
		ovs-appctl --timeout=20 tnl/neigh/aging $0
		while [ $# -gt 0 ]; do ovs-appctl --timeout=20 tnl/neigh/set ` + e.bridge + ` "$1" "$2"; shift 2; done`,
		fmt.Sprint(neighbourAge.Seconds())}
	for _, peer := range e.nodes() {
		if peer != e.node {
			command = append(command, e.addresses.first(e.addresses.tunnels(), peer.number).String(), peer.underlayMAC())
		}
	}
	return command
}
