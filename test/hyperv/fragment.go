//go:build linux

package hyperv

import (
	"slices"
	"time"

	"github.com/weftnet/weft/test/netdev"
)

// IpFragment.h and Ip6Fragment.h.
const (
	fragmentTimeout = 30 * time.Second
	maxFragments    = 129
)

// fragmentKey is what the fragments of one packet have in common.
type fragmentKey struct {
	src, dst [16]byte
	id       uint32
	proto    uint8
	tunnel   uint64
}

// fragments are those of a packet that have come so far.
type fragments struct {
	parts    []part
	received int
	total    int // 0: the last one has not come
	mru      int
	until    time.Time
}

type part struct {
	offset int
	data   []byte
}

// fragmentTable has the packets of which some fragments have come: IpFragment.c.
type fragmentTable struct {
	clock *clock
	byKey map[fragmentKey]*fragments
}

func (t *fragmentTable) reset() { clear(t.byKey) }

// reassemble keeps a fragment, and gives the whole packet with the last one: IpFragment.c, OvsProcessIpv4Fragment.
func (t *fragmentTable) reassemble(p *packet, k *key) (*packet, error) {
	at, piece, more, header := fragmentOf(p, k)
	if len(piece.data) == 0 {
		return nil, dropped("an empty fragment")
	}
	frags := t.of(at)
	if len(frags.parts) == maxFragments || !frags.insert(piece) {
		return nil, dropped("too many or overlapping fragments")
	}
	frags.mru = max(frags.mru, len(p.data))
	if !more {
		frags.total = piece.offset + len(piece.data)
	}
	if frags.received != frags.total {
		return nil, errPending
	}
	delete(t.byKey, at)
	whole := append([]byte(nil), header...)
	for _, part := range frags.parts {
		whole = append(whole, part.data...)
	}
	if len(whole) > netdev.MaxFrame {
		return nil, dropped("too large a datagram of fragments")
	}
	finishHeader(whole, p.layers, k.ether)
	return &packet{data: whole, tag: p.tag, mru: frags.mru, source: p.source}, nil
}

// of are the fragments of a packet, of which this one may be the first. Those that are too old go.
func (t *fragmentTable) of(at fragmentKey) *fragments {
	now := t.clock.now()
	for other, frags := range t.byKey {
		if now.After(frags.until) {
			delete(t.byKey, other)
		}
	}
	frags := t.byKey[at]
	if frags == nil {
		frags = &fragments{until: now.Add(fragmentTimeout)}
		t.byKey[at] = frags
	}
	return frags
}

// insert puts a fragment in its place; one that overlaps is refused.
func (f *fragments) insert(p part) bool {
	at, _ := slices.BinarySearchFunc(f.parts, p.offset, func(other part, offset int) int { return other.offset - offset })
	if at > 0 && f.parts[at-1].offset+len(f.parts[at-1].data) > p.offset {
		return false
	}
	if at < len(f.parts) && p.offset+len(p.data) > f.parts[at].offset {
		return false
	}
	f.parts = slices.Insert(f.parts, at, p)
	f.received += len(p.data)
	return true
}

// fragmentOf is a packet's fragment, whether more come after it, and the headers before it as those of
// the whole packet.
func fragmentOf(p *packet, k *key) (at fragmentKey, piece part, more bool, header []byte) {
	b, l := p.data, p.layers
	at = fragmentKey{src: k.network.src, dst: k.network.dst, tunnel: k.tunnel.id}
	if k.ether == etherIPv4 {
		end := min(l.l3+int(order.Uint16(b[l.l3+2:])), len(b))
		field := order.Uint16(b[l.l3+6:])
		at.id, at.proto = uint32(order.Uint16(b[l.l3+4:])), k.network.proto
		if end <= l.l4 {
			return at, piece, false, nil
		}
		return at, part{int(field&0x1fff) * 8, slices.Clone(b[l.l4:end])}, field&0x2000 != 0, b[:l.l4]
	}
	// The fragment header is the last one before the payload: others after it belong to the payload.
	place := fragmentHeader(b, l.l3)
	end := min(l.l3+40+int(order.Uint16(b[l.l3+4:])), len(b))
	if place == 0 || end <= place+8 {
		return at, piece, false, nil
	}
	field := order.Uint16(b[place+2:])
	at.id = order.Uint32(b[place+4:])
	header = slices.Clone(b[:place])
	header[nextHeaderPlace(b, l.l3)] = b[place]
	return at, part{int(field &^ 7), slices.Clone(b[place+8 : end])}, field&1 != 0, header
}

// fragmentHeader is where an IPv6 packet's fragment header is; 0: it has none.
func fragmentHeader(b []byte, l3 int) int {
	place, _ := walkToFragment(b, l3)
	return place
}

// nextHeaderPlace is where the header before the fragment header names it.
func nextHeaderPlace(b []byte, l3 int) int {
	_, before := walkToFragment(b, l3)
	return before
}

func walkToFragment(b []byte, l3 int) (place, before int) {
	before, place = l3+6, l3+40
	for place+8 <= len(b) {
		switch b[before] {
		case headerFragment:
			return place, before
		case headerHopByHop, headerRouting, headerDestination:
			before, place = place, place+(int(b[place+1])+1)*8
		default:
			return 0, before
		}
	}
	return 0, before
}

// finishHeader mends the lengths of a whole packet.
func finishHeader(b []byte, l layers, ether uint16) {
	if ether == etherIPv4 {
		order.PutUint16(b[l.l3+2:], uint16(len(b)-l.l3))
		order.PutUint16(b[l.l3+6:], 0)
		order.PutUint16(b[l.l3+10:], 0)
		order.PutUint16(b[l.l3+10:], fold(checksum(0, b[l.l3:l.l4])))
		return
	}
	order.PutUint16(b[l.l3+4:], uint16(len(b)-l.l3-40))
}

// fragment takes a packet apart again by the size of the fragments that it was put together from:
// BufferMgmt.c, OvsFragmentNBL.
func fragment(p *packet) [][]byte {
	frame, l := p.frame(), p.layers
	shift := len(frame) - len(p.data) // of a tag
	header := l.l4 + shift
	if len(frame) <= p.mru+shift || !l.ipv4 && !l.ipv6 {
		return [][]byte{frame}
	}
	room := p.mru + shift - header
	if l.ipv6 {
		room -= 8
	}
	room &^= 7
	if room <= 0 {
		return [][]byte{frame}
	}
	l3 := l.l3 + shift
	var all [][]byte
	for offset := 0; offset < len(frame)-header; offset += room {
		end := min(offset+room, len(frame)-header)
		piece := frame[header+offset : header+end]
		all = append(all, oneFragment(frame[:header], piece, l3, offset, end < len(frame)-header, l.ipv6))
	}
	return all
}

func oneFragment(header, piece []byte, l3, offset int, more, ipv6 bool) []byte {
	b := slices.Clone(header)
	if !ipv6 {
		field := uint16(offset / 8)
		if more {
			field |= 0x2000
		}
		b = append(b, piece...)
		order.PutUint16(b[l3+2:], uint16(len(b)-l3))
		order.PutUint16(b[l3+6:], field)
		order.PutUint16(b[l3+10:], 0)
		order.PutUint16(b[l3+10:], fold(checksum(0, b[l3:len(header)])))
		return b
	}
	field := uint16(offset)
	if more {
		field |= 1
	}
	next := b[l3+6]
	b[l3+6] = headerFragment
	b = order.AppendUint16(append(b, next, 0), field)
	b = append(order.AppendUint32(b, uint32(l3)<<16|uint32(len(header))), piece...)
	order.PutUint16(b[l3+4:], uint16(len(b)-l3-40))
	return b
}
