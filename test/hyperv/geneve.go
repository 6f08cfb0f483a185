//go:build linux

package hyperv

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// peerKey is how the driver remembers the way to a tunnel's other end.
type peerKey struct{ src, dst netip.Addr }

// peer is that way.
type peer struct {
	route   route
	until   time.Time
	waiting []func() // for the first packet's sake, where that fault is off
	asking  bool
}

// IpHelper.h, OVS_IPNEIGH_TIMEOUT.
const peerTimeout = 10 * time.Second

const (
	geneveHeader     = 8
	defaultTTL       = 64
	etherBridging    = 0x6558
	resolvePause     = 20 * time.Millisecond
	resolveAttempts  = 100
	maxWaitingPacket = 16
)

// arriving is the tunnel that a packet to the host is for: Actions.c, OvsDetectTunnelRxPkt. Fragments
// are for none.
func (e *Extension) arriving(k *key) *vport {
	if k.ether != etherIPv4 && k.ether != etherIPv6 || k.network.fragment != fragmentNone || k.network.proto != protoUDP {
		return nil
	}
	return e.tunnelByPort(k.network.portDst)
}

// decapsulate: Actions.c, OvsTunnelPortRx, and Geneve.c, OvsDecapGeneve.
func (e *Extension) decapsulate(tunnel *vport, p *packet, l layers) error {
	b := p.data
	if !l.udp || len(b) <= l.l4+8+geneveHeader {
		return dropped("a short tunnelled packet")
	}
	if l.ipv4 && fold(checksum(0, b[l.l3:l.l4])) != 0 {
		return dropped("a tunnelled packet's checksum")
	}
	t := tunnelKey{flags: flagKey}
	if l.ipv4 {
		t.src, t.dst = netip.AddrFrom4([4]byte(b[l.l3+12:])), netip.AddrFrom4([4]byte(b[l.l3+16:]))
		t.tos, t.ttl = b[l.l3+1], b[l.l3+8]
	} else {
		t.src, t.dst = netip.AddrFrom16([16]byte(b[l.l3+8:])), netip.AddrFrom16([16]byte(b[l.l3+24:]))
		t.ttl = b[l.l3+7]
	}
	if !validChecksum(b, l, t) {
		return dropped("a tunnelled packet's checksum")
	}
	g := b[l.l4+8:]
	options := int(g[0]&0x3f) * 4
	if order.Uint16(g[2:]) != etherBridging || len(g) < geneveHeader+options {
		return dropped("another tunnel than GENEVE with Ethernet")
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
	inner := &packet{data: append([]byte(nil), g[geneveHeader+options:]...)}
	tunnel.rxPackets++
	tunnel.rxBytes += uint64(len(inner.data))
	return e.again(tunnel, inner, t)
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

// again looks for the flow of a packet that has been put into a tunnel or taken out of one: Actions.c,
// OvsDoFlowLookupOutput. What its actions put off is done with what the packet's first actions did.
func (e *Extension) again(from *vport, p *packet, t tunnelKey) error {
	if !from.usable() {
		e.lose(errDisconnected)
		return nil
	}
	var k key
	l, err := e.faults.extract(p, from.number, t, &k)
	if err != nil {
		return dropped("headers that make no sense")
	}
	f := e.lookup(&k)
	if f == nil {
		e.miss(from, p, &k)
		return nil
	}
	e.hit(f, p, l)
	return e.run(p, from.number, &k, l, f.actions)
}

// encapsulate: Actions.c, OvsTunnelPortTx, and Geneve.c, OvsEncapGeneve. The packet goes on as one that
// the host sends by the internal port that its route has: IpHelper.c finds the port by the name of the
// interface.
func (e *Extension) encapsulate(tunnel *vport, p *packet, l layers, t tunnelKey) error {
	if !e.hasBothEnds() {
		return dropped("a tunnel without an internal port or adapter")
	}
	way := e.way(t)
	if way == nil {
		if e.faults[FirstPacket] {
			e.lose(dropped("a tunnel's peer is not resolved yet"))
			return nil
		}
		e.wait(peerKey{t.src, t.dst}, func() {
			if err := e.encapsulate(tunnel, p, l, t); err != nil {
				e.lose(err)
			}
		})
		return nil
	}
	from := e.vportByName(way.device)
	if from == nil || from.kind != vportInternal || t.src.IsValid() && !t.src.IsUnspecified() && t.src != way.src {
		e.lose(dropped("a tunnel whose route has no internal port or another source"))
		return nil
	}
	frames := [][]byte{p.frame()}
	if p.mru != 0 {
		frames = fragment(p, l)
	}
	for _, frame := range frames {
		outer := &packet{data: geneveFrame(frame, tunnel.udpPort, t, way), source: from}
		if err := e.again(from, outer, tunnelKey{}); err != nil {
			return err
		}
	}
	return nil
}

func (e *Extension) hasBothEnds() bool {
	internal, external := false, false
	for _, v := range e.vports {
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

// way is how a packet of the tunnel gets to its other end; nil while that is not known. IpHelper.c,
// OvsLookupIPhFwdInfo and OvsFwdIPHelperRequest.
func (e *Extension) way(t tunnelKey) *route {
	at := peerKey{t.src, t.dst}
	p := e.peers[at]
	if p == nil {
		p = &peer{}
		e.peers[at] = p
	}
	if e.now().After(p.until) && !p.asking {
		p.asking = true
		go e.resolve(at, p)
	}
	if len(p.route.dstMAC) == 0 {
		return nil
	}
	return &p.route
}

func (e *Extension) wait(at peerKey, then func()) {
	if p := e.peers[at]; p != nil && len(p.waiting) < maxWaitingPacket {
		p.waiting = append(p.waiting, then)
	}
}

// resolve finds the way to a peer, and asks for its MAC until it is known.
func (e *Extension) resolve(at peerKey, p *peer) {
	var found route
	err := fmt.Errorf("resolve %s: %w", at.dst, unix.EHOSTUNREACH)
	for range resolveAttempts {
		if found, err = e.host.route(at.dst); err == nil && len(found.dstMAC) > 0 {
			break
		}
		time.Sleep(resolvePause)
	}
	if err != nil {
		e.log.Warn("no way to a tunnel's peer", "peer", at.dst, "err", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p.asking, p.route, p.until = false, found, e.now().Add(peerTimeout)
	if len(found.dstMAC) == 0 {
		p.until = time.Time{}
		return
	}
	for _, then := range p.waiting {
		then()
	}
	p.waiting = nil
}
