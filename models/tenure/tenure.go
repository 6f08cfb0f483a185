// Package tenure says until when the holder of a Lease may act as its holder.
//
// Others take a Lease when they have seen no renewal for its duration. They see a renewal no earlier than its request
// has begun. So the holder acts for two thirds of the duration after the beginning of the last request that has renewed
// the Lease, and no longer. The last third is for a holder that notices late. Nothing is concluded from the clocks of
// others.
package tenure

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Holder is who holds a Lease, "" when nobody does.
func Holder(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// Limit is how long a renewal of a Lease of this duration lets its holder act.
func Limit(duration time.Duration) time.Duration { return duration * 2 / 3 }

// request is the context for one request about a Lease. It gives up in time for another request, which may find another
// API server.
func request(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, limit/2)
}

// Term is a time in which a Lease is held without a gap. What the holder does as such, it does in the term's context. A
// term begins with its first renewal. Each further one extends it. Once it is over it stays so.
type Term struct {
	context.Context
	// End ends the term.
	End   context.CancelFunc
	limit time.Duration

	mu    sync.Mutex
	until time.Time
	timer *time.Timer // nil before the first renewal
}

// NewTerm is a term that no renewal has begun yet. It ends with ctx at the latest. limit is by [Limit].
func NewTerm(ctx context.Context, limit time.Duration) *Term {
	t := &Term{limit: limit}
	t.Context, t.End = context.WithCancel(ctx)
	return t
}

// Renewed says that a request that began at begun has renewed the Lease. It returns whether the term goes on. It does
// not when it was over, or when the request was so long under way that it would be.
func (t *Term) Renewed(begun time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	until := begun.Add(t.limit)
	if t.timer != nil && t.over() || t.Err() != nil || !time.Now().Before(until) {
		t.End()
		return false
	}
	t.until = until
	if t.timer != nil {
		t.timer.Reset(time.Until(until))
		return true
	}
	t.timer = time.AfterFunc(time.Until(until), func() {
		if t.Over() {
			t.End()
		}
	})
	context.AfterFunc(t, func() { t.timer.Stop() })
	return true
}

// Over says, by the clock, whether the term has ended or not begun. A process that was frozen asks before its timers
// have run.
func (t *Term) Over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over()
}

// over is Over with t.mu held.
func (t *Term) over() bool { return t.Err() != nil || !time.Now().Before(t.until) }

// Request is the context for one request about the Lease. It gives up in time for another one.
func (t *Term) Request(ctx context.Context) (context.Context, context.CancelFunc) {
	return request(ctx, t.limit)
}

// Terms are those of a holder that comes back after it has lost its Lease. There is one at a time at most.
type Terms struct {
	limit time.Duration

	mu    sync.Mutex
	now   *Term
	count int
}

// NewTerms is a holder that has had no term yet. limit is by [Limit].
func NewTerms(limit time.Duration) *Terms { return &Terms{limit: limit} }

// Renewed says that a request that began at begun has renewed the Lease: this extends the term, or begins another one
// (first).
func (t *Terms) Renewed(begun time.Time) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil && t.now.Renewed(begun) {
		return false
	}
	next := NewTerm(context.Background(), t.limit)
	if !next.Renewed(begun) { // it was too long under way
		return false
	}
	t.now = next
	t.count++
	return true
}

// Current is the term that is not over, or nil.
func (t *Terms) Current() *Term {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil || t.now.Over() {
		return nil
	}
	return t.now
}

// Count is how many terms there have been.
func (t *Terms) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// End ends the term.
func (t *Terms) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil {
		t.now.End()
	}
}

// Limit is how long a renewal lets the holder act.
func (t *Terms) Limit() time.Duration { return t.limit }

// Request is the context for one request about the Lease. It gives up in time for another one.
func (t *Terms) Request(ctx context.Context) (context.Context, context.CancelFunc) {
	return request(ctx, t.limit)
}
