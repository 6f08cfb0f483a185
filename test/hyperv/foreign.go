//go:build linux

package hyperv

import "fmt"

// What the record has for packets that the driver takes for what they are not.
const (
	otherProtocol = "other protocol " // with the packet's, and the one of whoever has begun the connection
	orphan        = "translation without connection"
	overlong      = "icmpv6 beyond the packet"
	headless      = "icmp without a header"
)

var protocolNames = map[uint8]string{protoTCP: "tcp", protoUDP: "udp", protoICMP: "icmp", protoICMPv6: "icmpv6"}

// foreign records a packet that finds a connection of another protocol: Conntrack.c, OvsCtUpdateEntry goes by the
// packet's. TCP has more to remember of a connection than the others have. So the driver reads and writes beyond the
// memory of one that is not TCP's, and may stop the machine. That cannot be emulated: the packet is lost.
func (t *tracking) foreign(conn *connection) error {
	proto := t.key.network.proto
	if t.related || proto == conn.made {
		return nil
	}
	if header := t.packet.tcpSegment(); proto == protoTCP && (header == nil || header.invalid()) {
		return nil // before the driver looks at the connection
	}
	name := fmt.Sprint(otherProtocol, protocolNames[proto], " over ", protocolNames[conn.made])
	t.conntrack.record.add(name)
	t.conntrack.log.Error("a packet has found a connection of another protocol", "found", name, "zone", t.action.zone)
	if proto == protoTCP {
		return dropped(name + ", beyond its memory")
	}
	return nil
}

// readICMPv6 is for a message whose address is about to change. The driver computes its checksum anew over as many
// bytes as the header of IPv6 says, and does not look whether they are there: Actions.c, OvsUpdateAddressAndPortForIpv6
// and OvsCalculateICMPv6Checksum. What lies behind the packet may be no memory, which stops the machine. That cannot be
// emulated: the packet is lost.
func (t *tracking) readICMPv6() error {
	k, l, data := t.key, t.packet.layers, t.packet.data
	if !t.conntrack.faults[ICMPv6Length] || k.ether != etherIPv6 || k.network.proto != protoICMPv6 ||
		l.l4+int(order.Uint16(data[l.l3+4:])) <= len(data) {
		return nil
	}
	t.conntrack.record.add(overlong)
	t.conntrack.log.Error("the driver reads beyond an ICMPv6 message, which may stop the machine", "zone", k.ct.zone)
	return dropped(overlong)
}

const icmpHeader = 8

// lacksHeader says whether a packet is an ICMP message without a whole header.
func (t *tracking) lacksHeader() bool {
	return (t.key.network.proto == protoICMP || t.key.network.proto == protoICMPv6) &&
		len(t.packet.data) < t.packet.layers.l4+icmpHeader
}

// readHeader is for a message that lacks one. The driver looks at what OvsGetIcmp has not found, by a pointer to
// nothing, which stops the machine: Conntrack.c, OvsCtSetupLookupCtx. That cannot be emulated: the packet is lost.
// Without the fault the message is invalid, as one of TCP is.
func (t *tracking) readHeader() error {
	if !t.conntrack.faults[ICMPHeader] {
		t.tellState(stateInvalid, nil)
		return nil
	}
	t.conntrack.record.add(headless)
	t.conntrack.log.Error("the driver looks for the header of an ICMP message that has none, which stops the machine",
		"zone", t.action.zone)
	return dropped(headless)
}
