//go:build linux

package hyperv

import (
	"net/netip"
)

// Frames for tests, from 0a:…:01 to 0a:…:02.

var (
	client  = netip.MustParseAddr("10.0.0.1")
	server  = netip.MustParseAddr("10.0.0.2")
	client6 = netip.MustParseAddr("fd00::1")
	server6 = netip.MustParseAddr("fd00::2")
)

func ether(kind uint16, payload []byte) []byte {
	b := []byte{0x0a, 0, 0, 0, 0, 2, 0x0a, 0, 0, 0, 0, 1}
	return append(order.AppendUint16(b, kind), payload...)
}

// ip is an IP packet with a transport segment whose checksum is at sum.
func ip(src, dst netip.Addr, proto uint8, segment []byte, sum int) []byte {
	segment = append([]byte(nil), segment...)
	if sum >= 0 {
		start := uint32(0)
		if proto != protoICMP {
			start = pseudo(src.AsSlice(), dst.AsSlice(), proto, len(segment))
		}
		order.PutUint16(segment[sum:], fold(checksum(start, segment)))
	}
	if src.Is4() {
		h := []byte{0x45, 0}
		h = order.AppendUint16(h, uint16(20+len(segment)))
		h = append(h, 0, 7, 0, 0, 64, proto, 0, 0)
		h = append(append(h, src.AsSlice()...), dst.AsSlice()...)
		order.PutUint16(h[10:], fold(checksum(0, h)))
		return ether(etherIPv4, append(h, segment...))
	}
	h := []byte{0x60, 0, 0, 0}
	h = append(order.AppendUint16(h, uint16(len(segment))), proto, 64)
	h = append(append(h, src.AsSlice()...), dst.AsSlice()...)
	return ether(etherIPv6, append(h, segment...))
}

func tcp(src, dst netip.Addr, portSrc, portDst uint16, flags uint8, seq, ack uint32) []byte {
	s := order.AppendUint16(order.AppendUint16(nil, portSrc), portDst)
	s = order.AppendUint32(order.AppendUint32(s, seq), ack)
	s = append(s, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	return ip(src, dst, protoTCP, s, 16)
}

func udp(src, dst netip.Addr, portSrc, portDst uint16, payload string) []byte {
	s := order.AppendUint16(order.AppendUint16(nil, portSrc), portDst)
	s = append(order.AppendUint16(s, uint16(8+len(payload))), 0, 0)
	return ip(src, dst, protoUDP, append(s, payload...), 6)
}

func icmp(src, dst netip.Addr, kind uint8, id uint16) []byte {
	s := append([]byte{kind, 0, 0, 0}, order.AppendUint16(nil, id)...)
	proto := uint8(protoICMP)
	if src.Is6() {
		proto = protoICMPv6
	}
	return ip(src, dst, proto, append(s, 0, 1, 'p', 'i', 'n', 'g'), 2)
}

// icmpError tells of a frame that did not arrive.
func icmpError(src, dst netip.Addr, kind uint8, of []byte) []byte {
	proto := uint8(protoICMP)
	if src.Is6() {
		proto = protoICMPv6
	}
	return ip(src, dst, proto, append([]byte{kind, 3, 0, 0, 0, 0, 0, 0}, of[14:]...), 2)
}

func solicitation(target netip.Addr) []byte {
	s := append([]byte{ndSolicit, 0, 0, 0, 0, 0, 0, 0}, target.AsSlice()...)
	s = append(s, 1, 1, 0x0a, 0, 0, 0, 0, 1)
	return ip(client6, netip.MustParseAddr("ff02::1:ff00:2"), protoICMPv6, s, 2)
}

// frames are one of each kind.
func frames() [][]byte {
	return [][]byte{
		tcp(client, server, 1000, 80, tcpSYN, 1, 0), tcp(client6, server6, 1000, 80, tcpSYN, 1, 0),
		udp(client, server, 1000, 53, "question"), udp(client6, server6, 1000, 53, "question"),
		icmp(client, server, 8, 7), icmp(client6, server6, 128, 7), solicitation(server6),
		ether(etherARP, append([]byte{0, 1, 8, 0, 6, 4, 0, 1, 0x0a, 0, 0, 0, 0, 1, 10, 0, 0, 1}, 0, 0, 0, 0, 0, 0, 10, 0, 0,
			2)),
		ip(client, server, protoSCTP, make([]byte, 24), -1),
		ether(etherVLAN, append([]byte{0, 5, 8, 0}, tcp(client, server, 1, 2, tcpSYN, 1, 0)[14:]...)),
	}
}
