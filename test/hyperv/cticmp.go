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

// icmpKey completes the key of an ICMP message. broken: the rest of the lookup is left out.
func (e *Extension) icmpKey(f *forwarding, k *key, at *connKey) (related, broken bool) {
	kind, b, l4 := k.network.portSrc, f.packet.data, f.layers.l4
	answers, isError := icmpAnswers, icmpErrors[kind]
	if k.ether == etherIPv6 {
		answers, isError = icmpv6Answers, icmpv6Errors[kind]
	}
	if answer, ok := answers[kind]; ok {
		if k.ether == etherIPv4 && k.network.portDst != 0 {
			return false, true
		}
		id := order.Uint16(b[l4+4:])
		at.src = endpoint{addr: at.src.addr, port: id, icmpType: uint8(kind)}
		at.dst = endpoint{addr: at.dst.addr, port: id, icmpType: answer}
		return false, false
	}
	if !isError {
		return false, false
	}
	if k.ether == etherIPv4 && e.faults[ICMPErrors] {
		// The driver looks for the error's own addresses.
		return true, false
	}
	inner := &packet{data: append(make([]byte, 14), b[min(l4+8, len(b)):]...)}
	order.PutUint16(inner.data[12:], k.ether)
	var of key
	if _, err := e.faults.extract(inner, 0, tunnelKey{}, &of); err != nil {
		return false, true
	}
	at.src = endpoint{addr: of.network.src, port: of.network.portSrc}
	at.dst = endpoint{addr: of.network.dst, port: of.network.portDst}
	at.proto = of.network.proto
	*at = at.reversed()
	return true, false
}
