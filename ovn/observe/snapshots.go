package observe

import (
	"context"
	"sync"
	"time"
)

// readTime bounds one reading of databases and nodes.
const readTime = 25 * time.Second

// snapshots are readings that all users share. However many users ask, the sources are asked once in the time for which
// an answer is fresh.
type snapshots[T any] struct {
	read  func(context.Context) (T, error)
	fresh time.Duration
	now   func() time.Time

	mu   sync.Mutex
	last *reading[T] // the one under way, or the last one
}

type reading[T any] struct {
	began  time.Time
	done   chan struct{} // closed when the rest is there
	answer T
	err    error
}

// get waits for a reading that is fresh. Who asks may leave: others may wait for the same.
func (s *snapshots[T]) get(ctx context.Context) (answer T, err error) {
	r := s.current()
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// current is a reading that began not long ago. One that takes longer is joined, too, so there is one at a time.
func (s *snapshots[T]) current() *reading[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && (!s.last.ended() || s.now().Sub(s.last.began) < s.fresh && s.last.err == nil) {
		return s.last
	}
	r := &reading[T]{began: s.now(), done: make(chan struct{})}
	s.last = r
	go func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(context.Background(), readTime)
		defer cancel()
		r.answer, r.err = s.read(ctx)
	}()
	return r
}

func (r *reading[T]) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
