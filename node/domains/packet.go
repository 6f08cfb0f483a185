package domains

import (
	"encoding/binary"
	"net/netip"
)

// Protocol numbers of IP.
const (
	protocolTCP      = 6
	protocolUDP      = 17
	protocolFragment = 44
)

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
)

// packet is a frame's TCP segment or UDP datagram.
type packet struct {
	protocol uint8
	src, dst netip.AddrPort
	payload  []byte
	cut      bool   // it is a datagram's first fragment
	seq      uint32 // TCP's
	flags    uint8
}

// TCP's flags.
const (
	flagFIN = 1 << iota
	flagSYN
	flagRST
	_
	flagACK
)

// parseFrame reads an Ethernet frame; ok is false of what is neither TCP nor UDP, and of fragments but a
// datagram's first.
func parseFrame(frame []byte) (p packet, ok bool) {
	if len(frame) < 14 {
		return p, false
	}
	var src, dst netip.Addr
	body := frame[14:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv4:
		if len(body) < 20 {
			return p, false
		}
		header, total, fragment := int(body[0]&0xf)*4, int(binary.BigEndian.Uint16(body[2:])),
			binary.BigEndian.Uint16(body[6:])
		if header < 20 || total < header || total > len(body) || fragment&0x1fff != 0 {
			return p, false
		}
		p.protocol, p.cut = body[9], fragment&0x2000 != 0
		src, dst = netip.AddrFrom4([4]byte(body[12:])), netip.AddrFrom4([4]byte(body[16:]))
		body = body[header:total]
	case etherIPv6:
		if len(body) < 40 {
			return p, false
		}
		length := int(binary.BigEndian.Uint16(body[4:]))
		if length == 0 || 40+length > len(body) {
			return p, false
		}
		p.protocol = body[6]
		src, dst = netip.AddrFrom16([16]byte(body[8:])), netip.AddrFrom16([16]byte(body[24:]))
		body = body[40 : 40+length]
		if p.protocol == protocolFragment {
			if len(body) < 8 || binary.BigEndian.Uint16(body[2:])&0xfff8 != 0 {
				return p, false
			}
			p.protocol, p.cut = body[0], binary.BigEndian.Uint16(body[2:])&1 != 0
			body = body[8:]
		}
	default:
		return p, false
	}
	return p.parseTransport(src, dst, body)
}

func (p packet) parseTransport(src, dst netip.Addr, body []byte) (packet, bool) {
	header := 0
	switch {
	case p.protocol == protocolUDP && len(body) >= 8:
		header = 8
		if length := int(binary.BigEndian.Uint16(body[4:])); !p.cut && length >= 8 && length <= len(body) {
			body = body[:length]
		}
	case p.protocol == protocolTCP && len(body) >= 20 && !p.cut:
		header = int(body[12]>>4) * 4
		p.seq, p.flags = binary.BigEndian.Uint32(body[4:]), body[13]
		if header < 20 || header > len(body) {
			return p, false
		}
	default:
		return p, false
	}
	p.src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(body))
	p.dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(body[2:]))
	p.payload = body[header:]
	return p, true
}
