// Package transcript keeps what a program or a log writes, for a test that reads it meanwhile.
package transcript

import (
	"bytes"
	"sync"
)

// A Transcript is what was written so far. Its zero value is empty, and any number of goroutines may write and read.
type Transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *Transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
