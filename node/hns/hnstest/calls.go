package hnstest

import "sync"

// calls are those of HNS and of the host's networking, and faults of the next ones. A fault may hold a call or change
// the machine, so it runs while nothing is locked.
type calls struct {
	mu     sync.Mutex
	names  []string
	faults map[string]func() error
	every  func(call string) error
}

// begin notes a call and returns what a fault makes of it.
func (c *calls) begin(call string) error {
	c.mu.Lock()
	c.names = append(c.names, call)
	c.mu.Unlock()
	return c.suffer(call)
}

// suffer returns what a fault makes of a call, when the fault lets it go on.
func (c *calls) suffer(call string) error {
	c.mu.Lock()
	fault, every := c.faults[call], c.every
	c.mu.Unlock()
	if every != nil {
		if err := every(call); err != nil {
			return err
		}
	}
	if fault == nil {
		return nil
	}
	return fault()
}

func (c *calls) fail(call string, fault func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[call] = fault
}

func (c *calls) failAny(fault func(call string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.every = fault
}

// take returns the names of the calls that were noted since it was last asked.
func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	return names
}
