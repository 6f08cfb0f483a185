//go:build linux

package hyperv

import "errors"

// errPacket: the packet is cut off or has a header that makes no sense. The driver drops it.
var errPacket = errors.New("invalid packet")

const vlanCFI = 0x1000

// Types of ICMPv6 for neighbour discovery.
const (
	ndSolicit = 135
	ndAdvert  = 136
)

// extract finds a packet's layers and its key: Flow.c, OvsExtractFlow. What it does not write stays in k: the
// metadata of a packet that ovs-vswitchd sends, and of one that comes back from reassembly.
func extract(faults Faults, p *packet, inPort uint32, tunnel tunnelKey, k *key) error {
	p.layers = layers{}
	l := &p.layers
	k.inPort, k.tunnel = inPort, tunnel
	b := p.data
	if len(b) < 14 {
		return nil
	}
	copy(k.dst[:], b)
	copy(k.src[:], b[6:])
	k.vlan, k.vlanTP, k.network = 0, 0, networkKey{}
	offset := 12
	switch {
	case p.tag != 0:
		k.vlan, k.vlanTP = p.tag|vlanCFI, etherVLAN
	case order.Uint16(b[12:]) == etherVLAN && len(b) >= 18:
		k.vlan, k.vlanTP = order.Uint16(b[14:])|vlanCFI, etherVLAN
		offset = 16
	}
	k.ether, l.l3 = etherType(b, offset)
	switch k.ether {
	case etherIPv4:
		return extractIPv4(b, k, l)
	case etherIPv6:
		return extractIPv6(faults, b, k, l)
	case etherARP:
		extractARP(b, k, l)
	case etherMPLS, etherMPLSM:
		if len(b) >= l.l3+4 {
			k.network.mplsEntry = order.Uint32(b[l.l3:])
		}
	}
	return nil
}

// etherType is that of the header whose type is at offset, and where the network layer begins.
func etherType(b []byte, offset int) (uint16, int) {
	kind := order.Uint16(b[offset:])
	if kind >= 0x600 {
		return kind, offset + 2
	}
	snap := []byte{0xaa, 0xaa, 0x03, 0, 0, 0}
	if len(b) >= offset+10 && string(b[offset+2:offset+8]) == string(snap) {
		return order.Uint16(b[offset+8:]), offset + 10
	}
	return etherNone, offset + 2
}

func extractIPv4(b []byte, k *key, l *layers) error {
	l.ipv4 = true
	if len(b) < l.l3+20 {
		return errPacket
	}
	h := b[l.l3:]
	length := int(h[0]&0xf) * 4
	if length < 20 || len(h) < length {
		return errPacket
	}
	l.l4 = l.l3 + length
	n := &k.network
	copy(n.src[:4], h[12:])
	copy(n.dst[:4], h[16:])
	n.tos, n.ttl, n.proto = h[1], h[8], h[9]
	if fragment := order.Uint16(h[6:]); fragment&0x3fff != 0 {
		n.fragment = fragmentFirst
		if fragment&0x1fff != 0 {
			n.fragment = fragmentLater
			return nil
		}
	}
	extractTransport(b, n, l)
	if n.proto == protoICMP && len(b) >= l.l4+8 {
		n.portSrc, n.portDst = uint16(b[l.l4]), uint16(b[l.l4+1])
		l.l7, l.icmp = l.l4+8, true
	}
	return nil
}

// extractTransport: PacketParser.c, OvsParseTcp, OvsParseUdp and OvsParseSctp.
func extractTransport(b []byte, n *networkKey, l *layers) {
	rest := len(b) - l.l4
	switch {
	case n.proto == protoTCP && rest >= 20:
		l.tcp, l.l7 = true, l.l4+int(b[l.l4+12]>>4)*4
	case n.proto == protoUDP && rest >= 8:
		l.udp, l.l7 = true, l.l4+8
	case n.proto == protoSCTP && rest >= 12:
		l.sctp, l.l7 = true, l.l4+12
	default:
		return
	}
	n.portSrc, n.portDst = order.Uint16(b[l.l4:]), order.Uint16(b[l.l4+2:])
}

// Extension headers of IPv6.
const (
	headerHopByHop    = 0
	headerRouting     = 43
	headerFragment    = 44
	headerAuth        = 51
	headerDestination = 60
)

// extractIPv6: PacketParser.c, OvsParseIPv6. The flow label is in the order of the host there, though
// ovs-vswitchd takes it for one in the order of the network.
func extractIPv6(faults Faults, b []byte, k *key, l *layers) error {
	l.ipv6 = true
	if len(b) < l.l3+40 {
		return errPacket
	}
	h, n := b[l.l3:], &k.network
	copy(n.src[:], h[8:])
	copy(n.dst[:], h[24:])
	n.tos, n.ttl = h[0]<<4|h[1]>>4, h[7]
	n.label = order.Uint32(h) & 0xfffff
	next, offset, fragment, err := skipExtensions(b, h[6], l.l3+40)
	if err != nil {
		k.network = networkKey{}
		return err
	}
	n.proto, n.fragment, l.l4 = next, fragment, offset
	if fragment == fragmentLater {
		return nil
	}
	extractTransport(b, n, l)
	if n.proto == protoICMPv6 {
		n.longICMPv6 = true
		extractICMPv6(faults, b, n, l)
	}
	return nil
}

// skipExtensions finds the transport header; of fragments after the first one there is none.
func skipExtensions(b []byte, next uint8, offset int) (uint8, int, uint8, error) {
	fragment := uint8(fragmentNone)
	for {
		switch next {
		case headerHopByHop, headerRouting, headerDestination, headerAuth:
			if len(b) < offset+2 {
				return 0, 0, 0, errPacket
			}
			length := (int(b[offset+1]) + 1) * 8
			if next == headerAuth {
				length = (int(b[offset+1]) + 2) * 4
			}
			next, offset = b[offset], offset+length
			if len(b) < offset {
				return 0, 0, 0, errPacket
			}
		case headerFragment:
			if len(b) < offset+8 {
				return 0, 0, 0, errPacket
			}
			at := order.Uint16(b[offset+2:])
			next, offset = b[offset], offset+8
			if at == 0 {
				continue
			}
			if at&0xfff8 != 0 {
				return headerFragment, offset, fragmentLater, nil
			}
			fragment = fragmentFirst
		default:
			return next, offset, fragment, nil
		}
	}
}

// extractICMPv6: PacketParser.c, OvsParseIcmpV6. Options that make no sense leave no target.
func extractICMPv6(faults Faults, b []byte, n *networkKey, l *layers) {
	if len(b) < l.l4+8 {
		return
	}
	n.portSrc, n.portDst = uint16(b[l.l4]), uint16(b[l.l4+1])
	offset := l.l4 + 8
	if n.portDst == 0 && (n.portSrc == ndSolicit || n.portSrc == ndAdvert) {
		if len(b) < offset+16 {
			return
		}
		copy(n.target[:], b[offset:])
		options := b[offset+16:]
		if faults[NDTarget] { // the driver looks for options where the target is
			options = b[offset:]
		}
		if !extractOptions(options, n) {
			n.target, n.sha, n.tha = [16]byte{}, [6]byte{}, [6]byte{}
			return
		}
	}
	l.l7, l.icmp = offset, true
}

// extractOptions takes the addresses of neighbour discovery's options.
func extractOptions(b []byte, n *networkKey) bool {
	for len(b) >= 8 {
		length := int(b[1]) * 8
		if length == 0 || length > len(b) {
			return false
		}
		place := map[byte]*[6]byte{1: &n.sha, 2: &n.tha}[b[0]]
		if place != nil && length == 8 {
			if *place != ([6]byte{}) {
				return false
			}
			copy(place[:], b[2:])
		}
		b = b[length:]
	}
	return true
}

func extractARP(b []byte, k *key, l *layers) {
	if len(b) < l.l3+28 {
		return
	}
	h, n := b[l.l3:], &k.network
	if order.Uint16(h) != 1 || order.Uint16(h[2:]) != etherIPv4 || h[4] != 6 || h[5] != 4 || h[6] != 0 {
		return
	}
	n.proto = h[7]
	if n.proto != 1 && n.proto != 2 {
		return
	}
	copy(n.sha[:], h[8:])
	copy(n.src[:4], h[14:])
	copy(n.tha[:], h[18:])
	copy(n.dst[:4], h[24:])
}
