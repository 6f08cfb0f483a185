//go:build linux

package hyperv

// set: Actions.c, OvsExecuteSetAction. Fields that it does not know are left as they are, and nobody is
// told.
func (f *forwarding) set(a attribute, k *key) error {
	list, err := parseAttributes(a.data)
	if err != nil || len(list) == 0 {
		return dropped("a malformed set")
	}
	field := list[0]
	switch {
	case field.kind == keyTunnel:
		t, err := parseTunnel(field.data, true)
		if err != nil {
			return dropped("a malformed tunnel")
		}
		f.tunnel, k.tunnel = t, t
		return nil
	case keySizes[field.kind] != len(field.data):
		return dropped("a malformed set")
	}
	switch field.kind {
	case keyEthernet:
		return f.packet.setEthernet(field.data, k)
	case keyIPv4:
		return f.packet.setIPv4(field.data, k)
	case keyIPv6:
		if !f.datapath.faults[SetIPv6] {
			return f.packet.setIPv6(field.data, k)
		}
	case keyTCP, keyUDP:
		return f.packet.setPorts(field, k)
	}
	return nil
}

// checksumPlace is where a transport checksum is that covers the addresses; none: nil.
func (p *packet) checksumPlace() []byte {
	b, l := p.data, p.layers
	switch {
	case l.tcp && len(b) >= l.l4+18:
		return b[l.l4+16 : l.l4+18]
	case l.udp && len(b) >= l.l4+8 && order.Uint16(b[l.l4+6:]) != 0:
		return b[l.l4+6 : l.l4+8]
	case l.ipv6 && l.icmp:
		return b[l.l4+2 : l.l4+4]
	}
	return nil
}

// write puts new bytes in the place of old ones and mends the checksums that cover them.
func (p *packet) write(at int, value []byte, sums ...[]byte) {
	place := p.data[at : at+len(value)]
	for _, sum := range sums {
		if sum != nil {
			update(sum, place, value)
		}
	}
	copy(place, value)
}

func (p *packet) setEthernet(want []byte, k *key) error {
	if len(p.data) < 14 {
		return dropped("too short a packet to set")
	}
	copy(p.data, want[6:])
	copy(p.data[6:], want[:6])
	copy(k.src[:], want)
	copy(k.dst[:], want[6:])
	return nil
}

// setIPv4: Actions.c, OvsUpdateIPv4Header. The class of traffic keeps its two bits of congestion. Its other six are
// compared with all eight that are wanted. Where they differ, the header's checksum is changed as if the class was the
// first byte of its word, and not the second (Offload.c, ChecksumUpdate16): the packet's receiver drops it.
func (p *packet) setIPv4(want []byte, k *key) error {
	b, l3 := p.data, p.layers.l3
	if !p.layers.ipv4 || len(b) < l3+20 {
		return dropped("a set of IPv4 in another packet")
	}
	header, transport := b[l3+10:l3+12], p.checksumPlace()
	p.write(l3+12, want[:4], header, transport)
	p.write(l3+16, want[4:8], header, transport)
	p.write(l3+8, []byte{want[10], b[l3+9]}, header)
	if class := b[l3+1]; class>>2 != want[9]&^3 {
		b[l3+1] = class&3 | want[9]&^3
		update(header, []byte{class, 0}, []byte{b[l3+1], 0})
	}
	n := &k.network
	copy(n.src[:4], want)
	copy(n.dst[:4], want[4:])
	n.ttl, n.tos = want[10], b[l3+1]
	return nil
}

// setIPv6 is what the driver does not have.
func (p *packet) setIPv6(want []byte, k *key) error {
	b, l3 := p.data, p.layers.l3
	if !p.layers.ipv6 || len(b) < l3+40 {
		return dropped("a set of IPv6 in another packet")
	}
	transport := p.checksumPlace()
	p.write(l3+8, want[:16], transport)
	p.write(l3+24, want[16:32], transport)
	b[l3+7] = want[38]
	b[l3], b[l3+1] = 0x60|want[37]>>4, want[37]<<4|b[l3+1]&0xf
	n := &k.network
	copy(n.src[:], want)
	copy(n.dst[:], want[16:])
	n.tos, n.ttl = want[37], want[38]
	return nil
}

// setPorts: Actions.c, OvsUpdateTcpPorts and OvsUpdateUdpPorts. For IPv6 the driver writes the key's ports
// where those of IPv4 are, which is what the same bytes of the key mean for IPv6: part of the source's
// address. The emulator leaves the address alone.
func (p *packet) setPorts(a attribute, k *key) error {
	l := p.layers
	if (a.kind == keyTCP) != l.tcp || (a.kind == keyUDP) != l.udp {
		return dropped("a set of ports in another packet")
	}
	p.write(l.l4, a.data, p.checksumPlace())
	k.network.portSrc, k.network.portDst = order.Uint16(a.data), order.Uint16(a.data[2:])
	return nil
}
