//go:build linux

package hyperv

import "time"

// The states of one side of a TCP connection, in their order.
const (
	tcpClosed = iota
	tcpListen
	tcpSynSent
	tcpSynReceived
	tcpEstablished
	tcpCloseWait
	tcpFinWait1
	tcpClosing
	tcpLastAck
	tcpFinWait2
	tcpTimeWait
)

const (
	tcpFIN = 0x01
	tcpSYN = 0x02
	tcpRST = 0x04
	tcpPSH = 0x08
	tcpACK = 0x10
	tcpURG = 0x20
)

const (
	scaleFlag    = 0x80
	scaleUnknown = 0x40
	scaleMask    = 0x0f
	maxScale     = 14
	maxAckWindow = 0xffff + 1500
)

// tcpPeer is one side: how far it may send, and how far it has sent.
type tcpPeer struct {
	seqLow, seqHigh uint32
	maxWindow       uint32
	scale           uint8
	state           uint8
}

// tcpSegment is what of a segment matters.
type tcpSegment struct {
	flags    uint8
	seq, ack uint32
	window   uint32
	payload  uint32
	options  []byte
}

// tcpSegment reads a packet's segment; nil: it is cut off. Conntrack.c, OvsGetTcpHeader.
func (p *packet) tcpSegment() *tcpSegment {
	b, l := p.data, p.layers
	if !l.tcp || len(b) < l.l4+20 {
		return nil
	}
	h := b[l.l4:]
	length := int(h[12]>>4) * 4
	if length < 20 {
		return nil
	}
	end := l.l3 + int(order.Uint16(b[l.l3+2:]))
	if l.ipv6 {
		end = l.l3 + 40 + int(order.Uint16(b[l.l3+4:]))
	}
	return &tcpSegment{flags: h[13], seq: order.Uint32(h[4:]), ack: order.Uint32(h[8:]),
		window:  uint32(order.Uint16(h[14:])),
		payload: uint32(max(end-l.l4-length, 0)), options: h[20:min(max(length, 20), len(h))]}
}

// invalid: Conntrack-tcp.c, OvsCtInvalidTcpFlags.
func (s *tcpSegment) invalid() bool {
	switch {
	case s.flags&tcpSYN != 0 && s.flags&(tcpRST|tcpFIN) != 0:
		return true
	case s.flags&tcpSYN == 0 && s.flags&(tcpACK|tcpRST) == 0:
		return true
	}
	return s.flags&tcpACK == 0 && s.flags&(tcpFIN|tcpPSH|tcpURG) != 0
}

// begins: Conntrack-tcp.c, OvsConntrackValidateTcpPacket. A segment in the midst of a connection may.
func (s *tcpSegment) begins() bool {
	return !s.invalid() && s.flags&(tcpSYN|tcpACK) != tcpSYN|tcpACK
}

// windowScale: Conntrack-tcp.c, OvsTcpGetWscale.
func (s *tcpSegment) windowScale() uint8 {
	scale := uint8(0)
	for options := s.options; len(options) >= 3; {
		switch options[0] {
		case 0:
			return scale
		case 1:
			options = options[1:]
			continue
		case 3:
			scale = min(options[2], maxScale) | scaleFlag
		}
		options = options[min(max(int(options[1]), 2), len(options)):]
	}
	return scale
}

func roundUp(n uint32, shift uint8) uint32 { return (n + 1<<shift - 1) >> shift }

// newTCP: Conntrack-tcp.c, OvsConntrackCreateTcpEntry. The driver looks for SYN and FIN there without
// turning the flags into the order of the host, and finds reserved bits in their place: so a SYN is taken
// for a segment in the midst of a connection, windows have the largest scale, and few segments are
// outside of one.
func newTCP(s *tcpSegment, now time.Time) *connection {
	conn := &connection{expiration: now.Add(2 * time.Minute)}
	conn.peers[0] = tcpPeer{seqLow: s.seq, seqHigh: s.seq + s.payload + 1, maxWindow: max(s.window, 1),
		scale: scaleUnknown, state: tcpSynSent}
	conn.peers[1] = tcpPeer{seqHigh: 1, maxWindow: 1, scale: scaleUnknown, state: tcpClosed}
	return conn
}

// seqGT and seqGEQ compare numbers on the ring of sequence numbers.
func seqGT(a, b uint32) bool  { return int32(a-b) > 0 }
func seqGEQ(a, b uint32) bool { return int32(a-b) >= 0 }

// updateTCP: Conntrack-tcp.c, OvsConntrackUpdateTcpEntry.
func (conn *connection) updateTCP(s *tcpSegment, reply bool, now time.Time) updateResult {
	src, dst := &conn.peers[direction(reply)], &conn.peers[1-direction(reply)]
	if s.invalid() {
		return updateInvalid
	}
	if s.flags&(tcpSYN|tcpACK) == tcpSYN {
		if dst.state >= tcpFinWait2 && src.state >= tcpFinWait2 {
			src.state, dst.state = tcpClosed, tcpClosed
			return updateNew
		}
		if src.state <= tcpSynSent {
			src.state = tcpSynSent
			conn.expiration = now.Add(30 * time.Second)
			return updateValidNew
		}
	}
	w := window{conn: conn, segment: s, src: src, dst: dst}
	w.scales()
	w.begin()
	switch {
	case w.inside():
		w.advance()
		w.states()
		conn.expiration = now.Add(tcpExpiry(src.state, dst.state))
	case w.nearby():
		w.advance()
		w.close()
	default:
		return updateInvalid
	}
	return updateValid
}

// window is one segment held against what its connection allows.
type window struct {
	conn     *connection
	segment  *tcpSegment
	src, dst *tcpPeer

	win, seq, end, ack uint32
	original           uint32
	srcScale, dstScale uint8
}

func (w *window) scales() {
	syn := w.segment.flags&tcpSYN != 0
	switch {
	case syn:
	case w.src.scale&scaleFlag != 0 && w.dst.scale&scaleFlag != 0:
		w.srcScale, w.dstScale = w.src.scale&scaleMask, w.dst.scale&scaleMask
	case w.src.scale&scaleUnknown != 0 && w.dst.scale&scaleUnknown != 0:
		w.srcScale, w.dstScale = maxScale, maxScale
	}
}

// begin finds what the segment covers; the first one of a side opens its window.
func (w *window) begin() {
	s, src, dst := w.segment, w.src, w.dst
	w.win, w.seq, w.ack, w.original = s.window, s.seq, s.ack, s.seq
	w.end = s.seq + s.payload
	if s.flags&tcpSYN != 0 {
		w.end++
	}
	if s.flags&tcpFIN != 0 {
		w.end++
	}
	if src.state < tcpSynSent {
		w.open()
	}
	if s.flags&tcpACK == 0 || s.ack == 0 && s.flags&(tcpACK|tcpRST) == tcpACK|tcpRST {
		w.ack = dst.seqLow
	}
	if w.seq == w.end {
		w.seq = src.seqLow
		w.end = w.seq
	}
}

func (w *window) open() {
	s, src, dst := w.segment, w.src, w.dst
	if s.flags&tcpSYN != 0 && dst.scale&scaleFlag != 0 {
		src.scale = s.windowScale()
		if src.scale&scaleFlag != 0 {
			w.srcScale, w.dstScale = src.scale&scaleMask, dst.scale&scaleMask
			w.win = roundUp(w.win, w.srcScale)
		} else {
			dst.maxWindow <<= dst.scale & scaleMask
			dst.scale = 0
		}
	}
	src.seqLow, src.state = w.seq, tcpSynSent
	if high := w.end + max(1, dst.maxWindow<<w.dstScale); src.seqHigh == 1 || seqGEQ(high, src.seqHigh) {
		src.seqHigh = high
	}
	src.maxWindow = max(src.maxWindow, w.win)
}

// inside: the segment is in the window, and so is what it acknowledges.
func (w *window) inside() bool {
	skew := int32(w.dst.seqLow - w.ack)
	return seqGEQ(w.src.seqHigh, w.end) &&
		seqGEQ(w.seq, w.src.seqLow-w.dst.maxWindow<<w.dstScale) &&
		skew >= -maxAckWindow && skew <= maxAckWindow<<w.srcScale &&
		(w.segment.flags&tcpRST == 0 || w.original == w.src.seqLow || w.original == w.src.seqLow+1 ||
			w.original+1 == w.src.seqLow)
}

// nearby: it is not, but neither side is settled, and it is not far off.
func (w *window) nearby() bool {
	return (w.dst.state < tcpSynSent || w.dst.state >= tcpFinWait2 || w.src.state >= tcpFinWait2) &&
		seqGEQ(w.src.seqHigh+maxAckWindow, w.end) && seqGEQ(w.seq, w.src.seqLow-maxAckWindow)
}

func (w *window) advance() {
	w.src.maxWindow = max(w.src.maxWindow, w.win)
	if seqGT(w.end, w.src.seqLow) {
		w.src.seqLow = w.end
	}
	if seqGEQ(w.ack+w.win<<w.srcScale, w.dst.seqHigh) {
		w.dst.seqHigh = w.ack + max(w.win<<w.srcScale, 1)
	}
}

func (w *window) states() {
	flags, src, dst := w.segment.flags, w.src, w.dst
	if flags&tcpSYN != 0 && src.state < tcpSynSent {
		src.state = tcpSynSent
	}
	if flags&tcpFIN != 0 && src.state < tcpClosing {
		src.state = tcpClosing
	}
	if flags&tcpACK != 0 {
		switch dst.state {
		case tcpSynSent:
			dst.state = tcpEstablished
		case tcpClosing:
			dst.state = tcpFinWait2
		}
	}
	if flags&tcpRST != 0 {
		src.state, dst.state = tcpTimeWait, tcpTimeWait
	}
}

func (w *window) close() {
	if w.segment.flags&tcpFIN != 0 && w.src.state < tcpClosing {
		w.src.state = tcpClosing
	}
	if w.segment.flags&tcpRST != 0 {
		w.src.state, w.dst.state = tcpTimeWait, tcpTimeWait
	}
}

func tcpExpiry(src, dst uint8) time.Duration {
	switch {
	case src >= tcpFinWait2 && dst >= tcpFinWait2:
		return 30 * time.Second
	case src >= tcpClosing && dst >= tcpClosing:
		return 45 * time.Second
	case src < tcpEstablished || dst < tcpEstablished:
		return 30 * time.Second
	case src >= tcpClosing || dst >= tcpClosing:
		return 15 * time.Minute
	}
	return 24 * time.Hour
}
