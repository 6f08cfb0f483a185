package contract

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// AgentPort is where agents are met by chassis hosts and `weft observe`, unless their tunnel-address has another port.
const AgentPort = 16642

// AgentEnd reads HOST:PORT where a node says that its agent is met (Hosted.Address, Counters). Who connects there
// stands in networks that the node may not reach, so it is an address of the node's own, by the Node's status (as
// texts) or its facts, which a single host has beyond its own link; and AgentPort, or a port that is neither below 1024
// nor one of DefaultHostPorts. The error says what to set.
func AgentEnd(said string, status []string, facts []netip.Addr) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(said)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%.100q is not HOST:PORT; set tunnel-address of the node's agent", said)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !TunnelAddress(addr) {
		return netip.AddrPort{}, fmt.Errorf("%.100q is no unicast address that others reach; set tunnel-address of the "+
			"node's agent to such an address of the node", said)
	}
	own := func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err == nil && a == addr
	}
	if !slices.Contains(facts, addr) && !slices.ContainsFunc(status, own) {
		return netip.AddrPort{}, fmt.Errorf("%s is no address that the Node has, by its status or annotation %s; set "+
			"tunnel-address of the node's agent to one that it has", addr, NodeFactsAnnotation)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number != AgentPort && (number < 1024 || defaultHostPorts.Has("tcp", uint16(number))) {
		return netip.AddrPort{}, fmt.Errorf("port %.20q is not one at which an agent is met; set the port of the agent's "+
			"tunnel-address to %d, or to another one from 1024 on that is not in the default of host-ports", port, AgentPort)
	}
	return netip.AddrPortFrom(addr, uint16(number)), nil
}
