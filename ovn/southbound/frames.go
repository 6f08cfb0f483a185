package southbound

import (
	"errors"
	"fmt"
	"io"
)

// frames tells where JSON objects that follow each other in a stream end.
type frames struct {
	depth            int
	quoted, escaping bool
	word             []byte // the beginning of the last string of the object itself
	// it is an answer to a request: one of its keys is "result", or "error": of an error ovsdb-server leaves out the
	// result
	answer bool
}

// longestKey is how much of a string tells whether it is a key that matters.
const longestKey = len(`result`) + 1

// inside says whether an object has begun and not ended.
func (f *frames) inside() bool { return f.depth > 0 }

// next is how much of data belongs to the object that is under way or begins there, and whether it ends it.
func (f *frames) next(data []byte) (n int, ends bool) {
	for i, b := range data {
		switch {
		case f.escaping:
			f.escaping = false
		case f.quoted:
			f.escaping, f.quoted = b == '\\', b != '"'
			if f.quoted && f.depth == 1 && len(f.word) < longestKey {
				f.word = append(f.word, b)
			}
		case b == '"':
			f.quoted = true
			f.word = f.word[:0]
		case b == ':':
			f.answer = f.answer || f.depth == 1 && (string(f.word) == "result" || string(f.word) == "error")
		case b == '{', b == '[':
			if f.depth++; f.depth == 1 {
				f.answer = false
			}
		case b == '}', b == ']':
			if f.depth--; f.depth <= 0 {
				f.depth = 0
				return i + 1, true
			}
		}
	}
	return len(data), false
}

// longestRequest in bytes: a node that connects sends kilobytes.
const longestRequest = 8 << 20

var errTooLong = fmt.Errorf("a request of more than %d bytes", longestRequest)

// messages reads a stream's objects one by one.
type messages struct {
	from    io.Reader
	large   func() error // is called when an object turns out to be larger than a chunk
	buffer  []byte
	chunk   [16 << 10]byte
	pending []byte // of chunk
	frames  frames
}

// next is the next object. It is the caller's until the next call.
func (m *messages) next() ([]byte, error) {
	if m.buffer = m.buffer[:0]; cap(m.buffer) > 4*len(m.chunk) {
		m.buffer = nil
	}
	told := m.large == nil
	for {
		for len(m.pending) > 0 {
			n, ends := m.frames.next(m.pending)
			m.buffer = append(m.buffer, m.pending[:n]...)
			m.pending = m.pending[n:]
			switch {
			case ends:
				return m.buffer, nil
			case len(m.buffer) > longestRequest:
				return nil, errTooLong
			case len(m.buffer) > len(m.chunk) && !told:
				told = true
				if err := m.large(); err != nil {
					return nil, err
				}
			}
		}
		n, err := m.from.Read(m.chunk[:])
		m.pending = m.chunk[:n]
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) && len(m.buffer) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}
