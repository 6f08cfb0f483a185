package ctprobe

import (
	"encoding/binary"
	"net/netip"
)

// Protocols of IPv4 and types of ICMP messages.
const (
	protocolICMP = 1
	protocolUDP  = 17
	echoReply    = 0
	echoRequest  = 8
)

// echo is a frame with an ICMP message.
func echo(from, to netip.Addr, kind byte, identifier uint16) []byte {
	message := []byte{kind, 0, 0, 0}
	message = binary.BigEndian.AppendUint16(message, identifier)
	message = append(message, 0, 1) // its sequence number
	message = append(message, "weft"...)
	binary.BigEndian.PutUint16(message[2:], checksum(message))
	return frame(from, to, protocolICMP, message)
}

// udp is a frame with a UDP datagram.
func udp(from, to netip.AddrPort) []byte {
	const header = 8
	text := "weft"
	length := uint16(header + len(text))
	datagram := binary.BigEndian.AppendUint16(nil, from.Port())
	datagram = binary.BigEndian.AppendUint16(datagram, to.Port())
	datagram = binary.BigEndian.AppendUint16(datagram, length)
	datagram = append(append(datagram, 0, 0), text...)
	pseudo := append(from.Addr().AsSlice(), to.Addr().AsSlice()...)
	pseudo = append(pseudo, 0, protocolUDP)
	pseudo = append(binary.BigEndian.AppendUint16(pseudo, length), datagram...)
	binary.BigEndian.PutUint16(datagram[6:], checksum(pseudo))
	return frame(from.Addr(), to.Addr(), protocolUDP, datagram)
}

// frame is one of Ethernet with a packet of IPv4. Its addresses of the link are of the range for private use.
func frame(from, to netip.Addr, protocol byte, payload []byte) []byte {
	const header = 20
	ip := []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0} // not to be fragmented
	binary.BigEndian.PutUint16(ip[2:], uint16(header+len(payload)))
	ip = append(append(ip, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	f := []byte{2, 0, 0, 0x57, 0, 2, 2, 0, 0, 0x57, 0, 1, 8, 0}
	return append(append(f, ip...), payload...)
}

// checksum is the Internet's (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for i, octet := range b {
		if i%2 == 0 {
			sum += uint32(octet) << 8
		} else {
			sum += uint32(octet)
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
