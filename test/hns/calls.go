package hns

import (
	"maps"
	"sync"
	"time"
)

// calls are the calls of the functions that the DLLs forward: how many there were, and what faults do to the next ones.
// A call that a fault holds keeps nobody else waiting, so calls have a mutex of their own. Nothing else is locked or
// called under it.
type calls struct {
	mu     sync.Mutex
	counts map[string]int
	hangs  map[string]hang
	held   map[string]int // how many calls of a function hang now
	fails  map[string]failing
}

// hang holds calls for a time: the next ones, or all where count is negative.
type hang struct {
	Time  time.Duration
	Count int
}

// failing makes calls return an error.
type failing struct {
	With  Error
	Count int
}

func newCalls() *calls {
	return &calls{counts: map[string]int{}, hangs: map[string]hang{}, held: map[string]int{}, fails: map[string]failing{}}
}

// enter counts a call, holds it for as long as a fault says, and tells what it returns then. leave ends the call, for
// those who read the state.
func (c *calls) enter(function string) (fault Error, leave func()) {
	hold, fault := c.begin(function)
	if hold == 0 {
		return fault, func() {}
	}
	time.Sleep(hold)
	return fault, func() { c.release(function) }
}

// begin counts a call and takes what it must suffer.
func (c *calls) begin(function string) (hold time.Duration, fault Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[function]++
	h, hangs := c.hangs[function]
	if hangs {
		if h.Count--; h.Count == 0 {
			delete(c.hangs, function)
		} else {
			c.hangs[function] = h
		}
	}
	e, fails := c.fails[function]
	if fails {
		if e.Count--; e.Count == 0 {
			delete(c.fails, function)
		} else {
			c.fails[function] = e
		}
	}
	if h.Time > 0 {
		c.held[function]++
	}
	return h.Time, e.With
}

func (c *calls) release(function string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[function]--; c.held[function] == 0 {
		delete(c.held, function)
	}
}

func (c *calls) hang(function string, h hang) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangs[function] = h
}

func (c *calls) fail(function string, e failing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails[function] = e
}

// clear ends the faults. Calls that are held stay so until their time is over.
func (c *calls) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.hangs)
	clear(c.fails)
}

// counted returns how often each function was called.
func (c *calls) counted() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// faults are the calls' faults as the state shows them.
func (c *calls) faults() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	view := map[string]any{}
	for function, h := range c.hangs {
		view["hang "+function] = map[string]any{"seconds": h.Time.Seconds(), "count": h.Count}
	}
	for function, calls := range c.held {
		view["held "+function] = calls
	}
	for function, e := range c.fails {
		view["fail "+function] = map[string]any{"error": e.With.Error(), "count": e.Count}
	}
	return view
}
