package ovn

import (
	"context"
	"sync"
	"time"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/ovn/part"
)

// queue holds the objects that were touched and not yet looked at, each once, however often it was
// touched: under load the batches that take gives grow by themselves. It collects while somebody takes
// from it: a term begins with all objects, and a standby would collect without end.
type queue struct {
	mu      sync.Mutex
	open    bool
	entries map[part.Event]entry
	wake    signal.Signal // is given while there are entries
}

// entry is when an object was first touched since the last take, and whether it was new then.
type entry struct {
	since time.Time
	fresh bool
}

func newQueue() *queue {
	return &queue{entries: map[part.Event]entry{}, wake: signal.New()}
}

func (q *queue) add(e part.Event, fresh bool) {
	q.mu.Lock()
	if !q.open {
		q.mu.Unlock()
		return
	}
	if before, ok := q.entries[e]; !ok {
		q.entries[e] = entry{time.Now(), fresh}
	} else if fresh && !before.fresh {
		before.fresh = true
		q.entries[e] = before
	}
	q.mu.Unlock()
	q.wake.Set()
}

// collect opens the queue or closes it; it is empty then.
func (q *queue) collect(open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open, q.entries = open, map[part.Event]entry{}
}

// take waits for entries and takes all there are; nil means that ctx is done.
func (q *queue) take(ctx context.Context) map[part.Event]entry {
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

func (q *queue) drain() map[part.Event]entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	entries := q.entries
	q.entries = make(map[part.Event]entry)
	return entries
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)
}
