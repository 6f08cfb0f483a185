//go:build linux

package hyperv

import "net/netip"

const (
	geneveHeader  = 8
	defaultTTL    = 64
	etherBridging = 0x6558
)

// arriving is the tunnel that a packet to the host is for: Actions.c, OvsDetectTunnelRxPkt. Fragments
// are for none.
func (vs *vports) arriving(k *key) *vport {
	if k.ether != etherIPv4 && k.ether != etherIPv6 || k.network.fragment != fragmentNone || k.network.proto != protoUDP {
		return nil
	}
	return vs.tunnelByPort(k.network.portDst)
}

// decapsulate has the packet within a tunnel's packet go on, as one of the tunnel: Actions.c, OvsTunnelPortRx.
func (d *datapath) decapsulate(tunnel *vport, p *packet) error {
	inner, t, err := innerPacket(p)
	if err != nil {
		return err
	}
	tunnel.rxPackets++
	tunnel.rxBytes += uint64(len(inner.data))
	return d.again(tunnel, inner, t)
}

// innerPacket is the packet within a tunnel's packet, with the tunnel's key: Geneve.c, OvsDecapGeneve.
func innerPacket(p *packet) (inner *packet, t tunnelKey, err error) {
	b, l := p.data, p.layers
	if !l.udp || len(b) <= l.l4+8+geneveHeader {
		return nil, t, dropped("a short tunnelled packet")
	}
	if l.ipv4 && fold(checksum(0, b[l.l3:l.l4])) != 0 {
		return nil, t, dropped("a tunnelled packet's checksum")
	}
	t.flags = flagKey
	if l.ipv4 {
		t.src, t.dst = netip.AddrFrom4([4]byte(b[l.l3+12:])), netip.AddrFrom4([4]byte(b[l.l3+16:]))
		t.tos, t.ttl = b[l.l3+1], b[l.l3+8]
	} else {
		t.src, t.dst = netip.AddrFrom16([16]byte(b[l.l3+8:])), netip.AddrFrom16([16]byte(b[l.l3+24:]))
		t.ttl = b[l.l3+7]
	}
	if !validChecksum(b, l, t) {
		return nil, t, dropped("a tunnelled packet's checksum")
	}
	g := b[l.l4+8:]
	options := int(g[0]&0x3f) * 4
	if order.Uint16(g[2:]) != etherBridging || len(g) < geneveHeader+options {
		return nil, t, dropped("another tunnel than GENEVE with Ethernet")
	}
	if g[1]&0x80 != 0 {
		t.flags |= flagOAM
	}
	if g[1]&0x40 != 0 {
		t.flags |= flagCritical
	}
	t.id = uint64(g[4])<<16 | uint64(g[5])<<8 | uint64(g[6])
	if options > 0 {
		t.options, t.flags = string(g[geneveHeader:geneveHeader+options]), t.flags|flagGeneveOptions
	}
	return &packet{data: append([]byte(nil), g[geneveHeader+options:]...)}, t, nil
}

// validChecksum: Offload.c, OvsCalculateUDPChecksum; 0 is none.
func validChecksum(b []byte, l layers, t tunnelKey) bool {
	segment := b[l.l4:]
	length := int(order.Uint16(segment[4:]))
	if order.Uint16(segment[6:]) == 0 {
		return true
	}
	if length < 8 || length > len(segment) {
		return false
	}
	return fold(checksum(pseudo(t.src.AsSlice(), t.dst.AsSlice(), protoUDP, length), segment[:length])) == 0
}

// encapsulate has a packet go on within a tunnel's packet: Actions.c, OvsTunnelPortTx, and Geneve.c, OvsEncapGeneve.
// The host sends that one by the internal port that its route has: IpHelper.c finds the port by the name of the
// interface.
func (d *datapath) encapsulate(tunnel *vport, p *packet, t tunnelKey) error {
	if !d.vports.haveBothEnds() {
		return dropped("a tunnel without an internal port or adapter")
	}
	way := d.peers.way(t)
	if way == nil {
		if d.faults[FirstPacket] {
			d.statistics.lose(dropped("a tunnel's peer is not resolved yet"))
			return nil
		}
		d.peers.wait(t, func() {
			if err := d.encapsulate(tunnel, p, t); err != nil {
				d.statistics.lose(err)
			}
		})
		return nil
	}
	from := d.vports.byName(way.device)
	if from == nil || from.kind != vportInternal || t.src.IsValid() && !t.src.IsUnspecified() && t.src != way.src {
		d.statistics.lose(dropped("a tunnel whose route has no internal port or another source"))
		return nil
	}
	frames := [][]byte{p.frame()}
	if p.mru != 0 {
		frames = fragment(p)
	}
	for _, frame := range frames {
		outer := &packet{data: geneveFrame(frame, tunnel.udpPort, t, way), source: from}
		if err := d.again(from, outer, tunnelKey{}); err != nil {
			return err
		}
	}
	return nil
}

// haveBothEnds says whether there are the ports that a tunnel's packets need.
func (vs *vports) haveBothEnds() bool {
	internal, external := false, false
	for _, v := range vs.byNumber {
		internal = internal || v.kind == vportInternal
		external = external || v.external
	}
	return internal && external
}

// geneveFrame is a frame with all that goes around it in the tunnel.
func geneveFrame(frame []byte, port uint16, t tunnelKey, way *route) []byte {
	segment := order.AppendUint16(nil, t.hash|0x7fff)
	if t.portDst != 0 {
		port = t.portDst
	}
	segment = order.AppendUint16(segment, port)
	segment = order.AppendUint16(segment, uint16(8+geneveHeader+len(t.options)+len(frame)))
	segment = append(segment, 0, 0, byte(len(t.options)/4), geneveFlags(t))
	segment = order.AppendUint16(segment, etherBridging)
	segment = append(segment, byte(t.id>>16), byte(t.id>>8), byte(t.id), 0)
	segment = append(append(segment, t.options...), frame...)
	if t.flags&flagChecksum != 0 {
		sum := fold(checksum(pseudo(way.src.AsSlice(), t.dst.AsSlice(), protoUDP, len(segment)), segment))
		if sum == 0 {
			sum = 0xffff
		}
		order.PutUint16(segment[6:], sum)
	}
	outer := append(append([]byte(nil), way.dstMAC...), way.srcMAC[:]...)
	ttl := t.ttl
	if ttl == 0 {
		ttl = defaultTTL
	}
	if t.dst.Is4() {
		outer = order.AppendUint16(outer, etherIPv4)
		return append(append(outer, ipv4Header(t, way.src, ttl, len(segment))...), segment...)
	}
	outer = order.AppendUint16(outer, etherIPv6)
	outer = append(outer, 0x60, 0, 0, 0)
	outer = append(order.AppendUint16(outer, uint16(len(segment))), protoUDP, ttl)
	outer = append(append(outer, way.src.AsSlice()...), t.dst.AsSlice()...)
	return append(outer, segment...)
}

func geneveFlags(t tunnelKey) byte {
	flags := byte(0)
	if t.flags&flagOAM != 0 {
		flags |= 0x80
	}
	if t.flags&flagCritical != 0 {
		flags |= 0x40
	}
	return flags
}

func ipv4Header(t tunnelKey, src netip.Addr, ttl uint8, payload int) []byte {
	h := []byte{0x45, t.tos}
	h = order.AppendUint16(h, uint16(20+payload))
	h = append(h, 0, 0, 0, 0, ttl, protoUDP, 0, 0)
	if t.flags&flagDontFragment != 0 {
		h[6] = 0x40
	}
	h = append(append(h, src.AsSlice()...), t.dst.AsSlice()...)
	order.PutUint16(h[10:], fold(checksum(0, h)))
	return h
}
