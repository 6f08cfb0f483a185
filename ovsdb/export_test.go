package ovsdb

// Held is how much an engine holds of changes that were not looked at yet.
func (e *Engine) Held() int {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	return len(e.events.suspects) + len(e.events.unmarked) + len(e.events.pairs)
}

// LimitEvents sets another limit on that.
func (e *Engine) LimitEvents(limit int) {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	e.events.limit = limit
}

// Seen is how far the client has seen the cluster's log.
func (c *Client) Seen() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.index
}
