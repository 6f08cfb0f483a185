//go:build linux

package hyperv

import "slices"

// packet is a frame on its way. Its tag is beside it, as NDIS has it, or in it.
type packet struct {
	data []byte
	tag  uint16 // what push_vlan added, with the bit CFI; 0: nothing
	// mru is the size of the largest fragment that the packet was put together from, with its Ethernet
	// header; 0: it was whole.
	mru int
	// source is the port at which it came into the switch; none if it did not come in by one. The
	// extension's own packets and those from tunnels have none.
	source *vport
	layers layers
}

func (p *packet) clone() *packet {
	c := *p
	c.data = slices.Clone(p.data)
	return &c
}

// frame is the packet as a device gets it.
func (p *packet) frame() []byte {
	if p.tag == 0 || len(p.data) < 14 {
		return p.data
	}
	tag := order.AppendUint16(order.AppendUint16(nil, etherVLAN), p.tag&^vlanCFI)
	return slices.Insert(slices.Clone(p.data), 12, tag...)
}

// layers are where a packet's headers begin, and which ones it has.
type layers struct {
	l3, l4, l7                       int
	ipv4, ipv6, tcp, udp, sctp, icmp bool
}

// checksum is the Internet checksum's sum of b, not folded.
func checksum(sum uint32, b []byte) uint32 {
	for len(b) > 1 {
		sum += uint32(order.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func fold(sum uint32) uint16 {
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// update changes the checksum at place for bytes that change from old to new; both have even lengths.
func update(place []byte, old, new []byte) {
	sum := uint32(^order.Uint16(place))
	for i := 0; i+1 < len(old); i += 2 {
		sum += uint32(^order.Uint16(old[i:]))
		sum += uint32(order.Uint16(new[i:]))
	}
	order.PutUint16(place, fold(sum))
}

// pseudo is the sum of the pseudo header of a transport segment.
func pseudo(src, dst []byte, proto uint8, length int) uint32 {
	return checksum(checksum(uint32(proto)+uint32(length), src), dst)
}
