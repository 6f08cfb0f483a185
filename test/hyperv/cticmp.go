//go:build linux

package hyperv

// The types of ICMP that begin a connection: Conntrack-icmp.c. Of ICMPv6 it is an echo's, and by a fault an error's
// (OvsConntrackValidateIcmp6Packet).
var icmpBegins = map[uint16]bool{8: true, 13: true, 15: true}

const icmpv6Echo = 128

// Those that have an identifier, with the type of their answers: Conntrack.c, OvsReverseIcmpType.
var (
	icmpAnswers   = map[uint16]uint8{8: 0, 0: 8, 13: 14, 14: 13, 15: 16, 16: 15}
	icmpv6Answers = map[uint16]uint8{128: 129, 129: 128}
)

var (
	icmpErrors   = map[uint16]bool{3: true, 4: true, 5: true, 11: true, 12: true}
	icmpv6Errors = map[uint16]bool{1: true, 2: true, 3: true, 4: true}
)

// setUpICMPLookup completes the key of an ICMP message, and says whether the lookup goes on to translations.
func (t *tracking) setUpICMPLookup() bool {
	k, b, l4 := t.key, t.packet.data, t.packet.layers.l4
	kind := k.network.portSrc
	answers, isError := icmpAnswers, icmpErrors[kind]
	if k.ether == etherIPv6 {
		answers, isError = icmpv6Answers, icmpv6Errors[kind]
	}
	if answer, ok := answers[kind]; ok {
		if k.ether == etherIPv4 && k.network.portDst != 0 {
			return false
		}
		id := order.Uint16(b[l4+4:])
		t.at.src = endpoint{addr: t.at.src.addr, port: id, icmpType: uint8(kind)}
		t.at.dst = endpoint{addr: t.at.dst.addr, port: id, icmpType: answer}
		return true
	}
	if !isError {
		return true
	}
	if k.ether == etherIPv4 && t.conntrack.faults[ICMPErrors] {
		// The driver looks for the error's own addresses.
		t.related = true
		return true
	}
	inner := &packet{data: append(make([]byte, 14), b[min(l4+8, len(b)):]...)}
	order.PutUint16(inner.data[12:], k.ether)
	var of key
	if extract(t.conntrack.faults, inner, 0, tunnelKey{}, &of) != nil {
		return false
	}
	t.related = true
	t.at.src = endpoint{addr: of.network.src, port: of.network.portSrc}
	t.at.dst = endpoint{addr: of.network.dst, port: of.network.portDst}
	t.at.proto = of.network.proto
	t.at = t.at.reversed()
	return true
}
