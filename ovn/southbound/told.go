package southbound

import (
	"sync"
	"time"
)

// told keeps the log from whoever would fill it.
type told struct {
	mu    sync.Mutex
	began time.Time
	lines map[string]int // by whom they are about, in this minute
}

// linesEach is how many lines a minute are about one node or address, linesAll about how many of these.
const (
	linesEach = 10
	linesAll  = 1000
)

// more says whether another line about somebody may be written.
func (t *told) more(about string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.lines == nil || now.Sub(t.began) >= time.Minute {
		t.began, t.lines = now, map[string]int{}
	}
	if _, known := t.lines[about]; !known && len(t.lines) >= linesAll {
		return false
	}
	t.lines[about]++
	return t.lines[about] <= linesEach
}
