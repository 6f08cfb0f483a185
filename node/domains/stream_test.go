package domains

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
)

// segments is a story for FuzzStreams: each is written as its kind, connection and flags, its sequence number, and
// its payload behind a length.
type segments []byte

// The kinds of sequence numbers in a story.
const (
	seqAsIs     = iota // the number
	seqFromNext        // added to the one that comes next
)

func (s segments) add(kind, connection, flags byte, seq uint32, payload string) segments {
	s = append(s, kind<<7|connection<<5|flags)
	s = binary.BigEndian.AppendUint32(s, seq)
	return append(append(s, byte(len(payload))), payload...)
}

// take gives the first segment and the rest; next says what comes next of a connection.
func (s segments) take(next func(connection byte) uint32) (connection byte, p packet, rest segments, ok bool) {
	if len(s) < 6 || len(s) < 6+int(s[5]) {
		return 0, p, nil, false
	}
	connection = s[0] >> 5 & 3
	p = packet{protocol: protocolTCP, flags: s[0] & 0x1f, seq: binary.BigEndian.Uint32(s[1:]), payload: s[6 : 6+int(s[5])]}
	p.src, p.dst = netip.MustParseAddrPort("192.0.2.53:53"), netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"),
		1000+uint16(connection))
	if s[0]>>7 == seqFromNext {
		p.seq += next(connection)
	}
	return connection, p, s[6+int(s[5]):], true
}

// history is all that a server has said on a connection, which needs no bounds to be put together.
type history struct {
	begun bool
	first uint32
	said  []byte
	told  int // messages that are handed on
}

// next is the sequence number that comes next.
func (h *history) next() uint32 { return h.first + uint32(len(h.said)) }

// hear does as streams.take is to do, and gives the messages that have become whole.
func (h *history) hear(p packet) (whole [][]byte) {
	switch {
	case p.flags&flagRST != 0:
		*h = history{}
		return nil
	case p.flags&flagSYN != 0 && p.flags&flagACK != 0:
		*h = history{begun: true, first: p.seq + 1}
		return nil
	case !h.begun:
		return nil
	}
	distance := int64(p.seq) - int64(h.next())
	for distance >= 1<<31 { // sequence numbers go round: whichever is nearer
		distance -= 1 << 32
	}
	for distance < -1<<31 {
		distance += 1 << 32
	}
	if distance > 0 {
		*h = history{}
		return nil
	}
	if overlap := -distance; overlap < int64(len(p.payload)) {
		h.said = append(h.said, p.payload[overlap:]...)
	}
	all := [][]byte{}
	for rest := h.said; len(rest) >= 2 && len(rest)-2 >= int(binary.BigEndian.Uint16(rest)); {
		end := 2 + int(binary.BigEndian.Uint16(rest))
		all = append(all, rest[2:end])
		rest = rest[end:]
	}
	whole = all[h.told:]
	h.told = len(all)
	if p.flags&flagFIN != 0 {
		*h = history{}
	}
	return whole
}

// FuzzStreams wants the messages that a server has sent, whole and in order, whatever segments come, and no more in
// memory than is accounted for.
func FuzzStreams(f *testing.F) {
	const synAck = flagSYN | flagACK
	begun := segments{}.add(seqAsIs, 0, synAck, math.MaxUint32-3, "")
	f.Add([]byte(begun.add(seqFromNext, 0, flagACK, 0, "\x00\x02hi\x00\x03you")))
	f.Add([]byte(begun.add(seqFromNext, 0, flagACK, 0, "\x00\x05he").add(seqFromNext, 0, flagACK, math.MaxUint32-1,
		"hello")))
	f.Add([]byte(begun.add(seqFromNext, 0, flagACK, 1, "\x00\x02hi").add(seqFromNext, 0, flagACK, 0, "\x00\x02hi")))
	f.Add([]byte(begun.add(seqFromNext, 0, flagACK|flagFIN, 0, "\x00\x02hi").add(seqFromNext, 1, flagACK, 0,
		"\x00\x02hi")))
	f.Add([]byte(begun.add(seqFromNext, 0, flagACK, 1<<31, "").add(seqFromNext, 0, flagACK, 1<<31, "\x00\x02hi")))
	f.Add([]byte(begun.add(seqFromNext, 0, flagRST, 0, "").add(seqFromNext, 0, synAck, 7, "").add(seqAsIs, 0, 0, 8,
		"\x00\x00")))
	f.Fuzz(func(t *testing.T, story []byte) {
		s := newStreams()
		histories := [4]history{}
		for rest := segments(story); ; {
			connection, p, after, ok := rest.take(func(c byte) uint32 { return histories[c].next() })
			if !ok {
				return
			}
			rest = after
			var got [][]byte
			s.read(p, func(message []byte) { got = append(got, bytes.Clone(message)) })
			if want := histories[connection].hear(p); !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("after %s: messages %q, want %q", describe(p), got, want)
			}
			buffered := 0
			for _, one := range s.all {
				buffered += len(one.pending)
			}
			if s.buffered != buffered || buffered > maxBuffered || len(s.all) > maxStreams {
				t.Fatalf("after %s: %d connections hold %d bytes, accounted for are %d", describe(p), len(s.all), buffered,
					s.buffered)
			}
		}
	})
}

func describe(p packet) string {
	return fmt.Sprintf("flags %#x, sequence number %d, %q of %s", p.flags, p.seq, p.payload, p.dst)
}
