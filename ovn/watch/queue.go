package watch

import (
	"context"
	"sync"
	"time"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/ovn/part"
)

// Queue holds the objects that were touched and not yet looked at, each once, however often it was
// touched: under load the batches that take gives grow by themselves. It collects while somebody takes
// from it: a term begins with all objects, and a standby would collect without end.
type Queue struct {
	mu      sync.Mutex
	open    bool
	entries map[part.Event]Entry
	wake    signal.Signal // is given while there are entries
}

// Entry is when an object was first touched since the last take, and whether it was new then.
type Entry struct {
	Since time.Time
	Fresh bool
}

// NewQueue is empty, and does not collect yet.
func NewQueue() *Queue {
	return &Queue{entries: map[part.Event]Entry{}, wake: signal.New()}
}

// Add notes that something has changed, or is there for the first time.
func (q *Queue) Add(e part.Event, fresh bool) {
	q.mu.Lock()
	if !q.open {
		q.mu.Unlock()
		return
	}
	if before, ok := q.entries[e]; !ok {
		q.entries[e] = Entry{time.Now(), fresh}
	} else if fresh && !before.Fresh {
		before.Fresh = true
		q.entries[e] = before
	}
	q.mu.Unlock()
	q.wake.Set()
}

// Collect opens the queue or closes it; it is empty then.
func (q *Queue) Collect(open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open, q.entries = open, map[part.Event]Entry{}
}

// Take waits for entries and takes all there are; nil means that ctx is done.
func (q *Queue) Take(ctx context.Context) map[part.Event]Entry {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.wake:
		}
		if entries := q.drain(); len(entries) > 0 && ctx.Err() == nil {
			return entries
		}
	}
}

func (q *Queue) drain() map[part.Event]Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	entries := q.entries
	q.entries = make(map[part.Event]Entry)
	return entries
}

// Len is how many wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)
}
