package domains

import (
	"encoding/binary"
	"net/netip"
)

// Bounds of what is remembered of connections of DNS over TCP. A connection that falls out of memory is
// not read any more.
const (
	maxStreams  = 4096
	maxBuffered = 4 << 20 // bytes of messages that have not all come, of all connections
)

// streams puts together what DNS servers send over TCP. A connection is read from its beginning (SYN and
// ACK): where a message begins elsewhere cannot be told, and a guess could take what a stranger has written
// into a record for a message.
type streams struct {
	all      map[stream]*flow
	buffered int
	clock    uint64
}

// stream is a connection: the server's end and the client's.
type stream struct{ server, client netip.AddrPort }

// flow is the server's half of a connection.
type flow struct {
	next    uint32 // the sequence number that comes next
	pending []byte // of a message that has not all come
	used    uint64
}

func newStreams() *streams { return &streams{all: map[stream]*flow{}} }

// read reads a segment of a server's, and hands on the messages that it makes whole. They are valid until
// read is called again.
func (s *streams) read(p packet, message func([]byte)) {
	k := stream{p.src, p.dst}
	f := s.all[k]
	s.clock++
	switch {
	case p.flags&flagRST != 0:
		s.forget(k)
		return
	case p.flags&(flagSYN|flagACK) == flagSYN|flagACK:
		s.forget(k)
		s.makeRoom()
		s.all[k] = &flow{next: p.seq + 1, used: s.clock}
		return
	case f == nil:
		return
	}
	f.used = s.clock
	behind := -int64(int32(p.seq - f.next)) // which the least of 32 bits has no room for
	switch {
	case behind < 0: // what is missing will not be seen again
		s.forget(k)
		return
	case behind < int64(len(p.payload)):
		fresh := p.payload[behind:]
		f.next += uint32(len(fresh))
		s.buffered -= len(f.pending)
		f.pending = messages(append(f.pending, fresh...), message)
		s.buffered += len(f.pending)
	}
	if p.flags&flagFIN != 0 || s.buffered > maxBuffered {
		s.forget(k)
	}
}

// messages hands on the whole messages that data begins with, each behind its length, and returns the rest.
func messages(data []byte, message func([]byte)) []byte {
	for len(data) >= 2 {
		end := 2 + int(binary.BigEndian.Uint16(data))
		if len(data) < end {
			break
		}
		message(data[2:end])
		data = data[end:]
	}
	if len(data) == 0 {
		return nil
	}
	return append([]byte(nil), data...)
}

func (s *streams) forget(k stream) {
	if f := s.all[k]; f != nil {
		s.buffered -= len(f.pending)
		delete(s.all, k)
	}
}

// makeRoom forgets connections that have been silent for long or, where there are none, any.
func (s *streams) makeRoom() {
	if len(s.all) < maxStreams {
		return
	}
	for k, f := range s.all {
		if s.clock-f.used > maxStreams {
			s.forget(k)
		}
	}
	for k := range s.all {
		if len(s.all) < maxStreams {
			return
		}
		s.forget(k)
	}
}
