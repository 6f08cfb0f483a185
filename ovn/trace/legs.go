package trace

import (
	"net/netip"

	"github.com/weftnet/weft/ovn/ovntrace"
)

// leg is a part of a request's way. Another one begins where OVN gives the packet to a node's network or host, and it
// comes from there into OVN again.
type leg struct {
	packet ovntrace.Packet // as it begins
	entry  string          // the node where it begins
	// sender is the port of the pod or the host from which it enters OVN; nil: it enters by the gateway of the node.
	sender *port
	// beyond: it does not enter OVN, as the node's host has it. passedOn is what the agent there does with the answer; ""
	// where the host itself has asked. served: the host is the endpoint.
	beyond   bool
	passedOn string
	served   bool

	// src and dst are the addresses that the packet has by now, and node is where it is.
	src  netip.Addr
	dst  netip.AddrPort
	node string
	// entered is the port of the join switch behind which the gateway router is that the packet has entered.
	entered string
	// out is the port of a pod or a host at which it has left OVN.
	out *port
}

// legOf is one that begins with a packet on a node.
func legOf(packet ovntrace.Packet, node string) leg {
	return leg{packet: packet, entry: node, src: packet.Src, dst: netip.AddrPortFrom(packet.Dst, packet.DstPort),
		node: node}
}

// asked is where the packet went as the leg began.
func (l *leg) asked() netip.AddrPort { return netip.AddrPortFrom(l.packet.Dst, l.packet.DstPort) }

// next begins another leg, with a packet from a source to a destination. ovn-trace has to be told where it enters OVN.
func (w *way) next(node string, src netip.Addr, dst netip.AddrPort) {
	w.done = append(w.done, w.leg)
	w.leg = legOf(ovntrace.Packet{Src: src, Dst: dst.Addr(), Protocol: w.packet.Protocol, SrcPort: clientPort,
		DstPort: dst.Port()}, node)
	w.last, w.chosen, w.left = nil, netip.AddrPort{}, ""
}
