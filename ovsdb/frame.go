package ovsdb

import (
	"fmt"
	"io"
)

const (
	frameChunk = 64 << 10
	// frameRoom is the least free space worth a read.
	frameRoom = 4 << 10
)

// framer cuts a stream into JSON objects. Unlike json.Decoder it does not hold on to a buffer as
// large as the largest message, the replica of a whole database.
type framer struct {
	reader io.Reader
	buffer []byte
	start  int // of the message at hand
	at     int // up to here it has been looked at
	depth  int
	quoted bool
	escape bool
}

// next is the text of the next object. It stays valid: what follows is read behind it.
func (f *framer) next() ([]byte, error) {
	for {
		for ; f.at < len(f.buffer); f.at++ {
			switch c := f.buffer[f.at]; {
			case f.escape:
				f.escape = false
			case f.quoted:
				f.escape = c == '\\'
				f.quoted = c != '"'
			case c == '"':
				f.quoted = true
			case c == '{' || c == '[':
				f.depth++
			case c == '}' || c == ']':
				f.depth--
			case f.depth == 0 && c > ' ':
				return nil, fmt.Errorf("the server does not speak JSON: it says %q", f.buffer[f.at:min(len(f.buffer), f.at+40)])
			default:
				if f.depth == 0 {
					f.start = f.at + 1
				}
				continue
			}
			if f.depth > 0 || f.quoted {
				continue
			}
			message := f.buffer[f.start : f.at+1 : f.at+1]
			f.at++
			f.start, f.depth = f.at, 0
			return message, nil
		}
		if err := f.fill(); err != nil {
			return nil, err
		}
	}
}

func (f *framer) fill() error {
	partial := f.buffer[f.start:]
	if cap(f.buffer)-len(f.buffer) < frameRoom || len(partial) == 0 && cap(f.buffer) > 4*frameChunk {
		f.buffer = append(make([]byte, 0, max(frameChunk, 2*len(partial))), partial...)
		f.at -= f.start
		f.start = 0
	}
	n, err := f.reader.Read(f.buffer[len(f.buffer):cap(f.buffer)])
	f.buffer = f.buffer[:len(f.buffer)+n]
	switch {
	case n > 0:
		return nil // an error comes again
	case err == io.EOF:
		return fmt.Errorf("the server closed it")
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}
