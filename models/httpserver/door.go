package httpserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// door is a listener that bounds connections. One that comes beyond a bound takes the place of the one that has waited
// longest for a request: a probe opens a connection and asks at once, while whoever only holds connections would else
// keep it out. Where all are being answered the newcomer is closed: an answer has its time, so that places come free.
type door struct {
	net.Listener
	limits Limits

	mu    sync.Mutex
	held  map[string]map[*conn]struct{} // by client
	total int
	clock uint64 // counts changes, and so says what was before what
}

type conn struct {
	net.Conn
	door    *door
	client  string
	waiting bool   // for a request
	since   uint64 // that it waits
	once    sync.Once
}

// Accept returns the next connection that there is room for.
func (d *door) Accept() (net.Conn, error) {
	for {
		raw, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, door: d, client: client(raw.RemoteAddr()), waiting: true}
		victim, ok := d.admit(c)
		if victim != nil {
			_ = victim.Close()
		}
		if ok {
			return c, nil
		}
		_ = raw.Close()
	}
}

// admit takes a connection in, or says that there is no room. The victim's place it has now.
func (d *door) admit(c *conn) (victim *conn, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.limits.PerClient > 0 && len(d.held[c.client]) >= d.limits.PerClient:
		victim = longest(d.held[c.client])
	case d.limits.Connections > 0 && d.total >= d.limits.Connections:
		victim = d.ofMost()
	default:
		d.enter(c)
		return nil, true
	}
	if victim == nil {
		return nil, false
	}
	d.leave(victim)
	d.enter(c)
	return victim, true
}

// ofMost is the longest waiting connection of the client that has most of those that wait.
func (d *door) ofMost() (victim *conn) {
	most := 0
	for _, held := range d.held {
		waiting := 0
		for c := range held {
			if c.waiting {
				waiting++
			}
		}
		if waiting > most {
			most, victim = waiting, longest(held)
		}
	}
	return victim
}

// longest is the connection that has waited longest, nil if none waits.
func longest(held map[*conn]struct{}) (victim *conn) {
	for c := range held {
		if c.waiting && (victim == nil || c.since < victim.since) {
			victim = c
		}
	}
	return victim
}

func (d *door) enter(c *conn) {
	if d.held[c.client] == nil {
		d.held[c.client] = map[*conn]struct{}{}
	}
	d.held[c.client][c] = struct{}{}
	d.clock++
	c.since = d.clock
	d.total++
}

// leave forgets a connection; one that has left already is left alone.
func (d *door) leave(c *conn) {
	if _, ok := d.held[c.client][c]; !ok {
		return
	}
	if delete(d.held[c.client], c); len(d.held[c.client]) == 0 {
		delete(d.held, c.client)
	}
	d.total--
}

// changed is the server's ConnState.
func (d *door) changed(raw net.Conn, state http.ConnState) {
	if secured, ok := raw.(*tls.Conn); ok {
		raw = secured.NetConn()
	}
	c, ok := raw.(*conn)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch state {
	case http.StateActive:
		c.waiting = false
	case http.StateIdle:
		d.clock++
		c.waiting, c.since = true, d.clock
	}
}

// Close gives the connection's place back.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.door.mu.Lock()
		defer c.door.mu.Unlock()
		c.door.leave(c)
	})
	return c.Conn.Close()
}

// client is who a connection is counted for.
func client(remote net.Addr) string {
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil { // of a unix socket
		return ""
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
	return addr.String()
}
