package tunnel

import (
	"sync"
	"time"
)

// occupancy counts places taken, in all and by each.
type occupancy struct {
	limit, each int

	mu    sync.Mutex
	all   int
	taken map[string]int
}

func (o *occupancy) enter(who string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all >= o.limit || o.taken[who] >= o.each {
		return false
	}
	if o.taken == nil {
		o.taken = map[string]int{}
	}
	o.all++
	o.taken[who]++
	return true
}

func (o *occupancy) leave(who string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all--
	if o.taken[who]--; o.taken[who] == 0 {
		delete(o.taken, who)
	}
}

// complaints keeps a log from being flooded: of the same reason of the same peer one is due in a
// pause, and the peers remembered are bounded.
type complaints struct {
	pause time.Duration

	mu   sync.Mutex
	last map[complaint]time.Time
}

type complaint struct {
	who    string
	reason Reason
}

const maxComplaints = 512

func (c *complaints) due(who string, reason Reason, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := complaint{who, reason}
	if last, ok := c.last[key]; ok && now.Sub(last) < c.pause {
		return false
	}
	if len(c.last) >= maxComplaints {
		for key, last := range c.last {
			if now.Sub(last) >= c.pause {
				delete(c.last, key)
			}
		}
		if len(c.last) >= maxComplaints {
			return false
		}
	}
	if c.last == nil {
		c.last = map[complaint]time.Time{}
	}
	c.last[key] = now
	return true
}
