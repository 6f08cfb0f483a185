// Package signal is how the loops of all programs wait: for somebody who wakes them, or for a time that ends with
// their context.
package signal

import (
	"context"
	"time"
)

// Signal wakes one loop, which receives from it. Signals that come before the loop has received one are one.
type Signal chan struct{}

// New is a signal that nobody has given yet.
func New() Signal { return make(Signal, 1) }

// Set gives the signal. It does not wait for the loop.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Sleep returns after a time, or earlier when ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
