// Package bounded keeps what programs print, and no more of it than there is room for.
package bounded

import "bytes"

// Buffer keeps the first bytes that are written to it, and takes the others, so that the writer goes on.
type Buffer struct {
	// Most is how many bytes it keeps.
	Most int
	// Full is called when there are more, each time; nil: the others are dropped.
	Full func()

	text bytes.Buffer // no embedded one, whose ReadFrom would take all
	over bool
}

// Write is part of [io.Writer]. It never fails.
func (b *Buffer) Write(text []byte) (int, error) {
	room := b.Most - b.text.Len()
	if len(text) > room {
		if b.over = true; b.Full != nil {
			b.Full()
		}
	}
	b.text.Write(text[:min(len(text), room)])
	return len(text), nil
}

// String is what was kept.
func (b *Buffer) String() string { return b.text.String() }

// Over says that more was written than was kept.
func (b *Buffer) Over() bool { return b.over }
