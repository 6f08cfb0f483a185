package tunnel

import (
	"net"
	"slices"
	"sync"
	"time"
)

// waiting are the connections that have not shown yet who they are: so many in all, and so many of each
// address. When all places are taken, who comes gets that of the one who has waited longest: a chassis
// host needs its place for milliseconds, a client without a certificate keeps it as long as it may.
type waiting struct {
	limit, each int

	mu     sync.Mutex
	places []place // the oldest first
}

type place struct {
	conn net.Conn
	who  string
}

// enter returns false for an address that has all its places, else whom the place was taken from, if
// from anybody.
func (w *waiting) enter(conn net.Conn, who string) (evicted net.Conn, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := 0
	for _, p := range w.places {
		if p.who == who {
			taken++
		}
	}
	if taken >= w.each {
		return nil, false
	}
	if len(w.places) >= w.limit {
		evicted = w.places[0].conn
		w.places = slices.Delete(w.places, 0, 1)
	}
	w.places = append(w.places, place{conn, who})
	return evicted, true
}

// leave returns false if the place was taken from conn.
func (w *waiting) leave(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.places, func(p place) bool { return p.conn == conn })
	if i < 0 {
		return false
	}
	w.places = slices.Delete(w.places, i, i+1)
	return true
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
