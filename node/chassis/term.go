//go:build linux

package chassis

import (
	"context"
	"sync"
	"time"
)

// tenure is the time in which this host may hold nodes. It consists of terms: one begins with a
// renewal that succeeds while there is none, each further renewal extends it, and it ends for good
// when the last one is too long ago.
type tenure struct {
	limit time.Duration

	mu    sync.Mutex
	now   *term
	timer *time.Timer
	count int // of terms
}

// term is one such time. What a host does as a holder, it does in its context.
type term struct {
	context.Context
	end context.CancelFunc

	mu    sync.Mutex
	until time.Time
}

// over says, by the clock, whether the term has ended. A process that was frozen asks before its
// timers have run.
func (t *term) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Err() != nil || !time.Now().Before(t.until)
}

func newTenure(limit time.Duration) *tenure { return &tenure{limit: limit} }

// renewed extends the term, or begins another one (first), by a renewal whose request began at begun.
func (t *tenure) renewed(begun time.Time) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	until := begun.Add(t.limit)
	if !time.Now().Before(until) {
		return false // it was too long under way
	}
	if t.now == nil || t.now.over() {
		if t.now != nil {
			t.now.end()
		}
		ctx, cancel := context.WithCancel(context.Background())
		t.now = &term{Context: ctx, end: cancel, until: until}
		t.count++
		first = true
	}
	current := t.now
	current.mu.Lock()
	current.until = until
	current.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(time.Until(until), func() {
		if current.over() {
			current.end()
		}
	})
	return first
}

// current is the term that has not ended, or nil.
func (t *tenure) current() *term {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil || t.now.over() {
		return nil
	}
	return t.now
}

// terms is how many there have been.
func (t *tenure) terms() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// close ends the term.
func (t *tenure) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.now != nil {
		t.now.end()
	}
}
