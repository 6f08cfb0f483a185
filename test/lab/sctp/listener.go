package sctp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

const backlog = 128

// SCTPListener takes associations at a port.
type SCTPListener struct {
	addr     *SCTPAddr
	sockets  []socket
	accepted chan *SCTPConn
	closed   chan struct{}
	close    sync.Once

	mu    sync.Mutex
	conns map[pair]*SCTPConn
}

// pair of addresses that an association is known by.
type pair struct {
	local  netip.Addr
	remote netip.AddrPort
}

// ListenSCTP listens at laddr: at all of the host's addresses, of both families, if it names none.
func ListenSCTP(network string, laddr *SCTPAddr) (*SCTPListener, error) {
	if laddr == nil || laddr.Port == 0 {
		return nil, errors.New("sctp: listen: no port")
	}
	sockets, err := openSockets(laddr.ip())
	if err != nil {
		return nil, fmt.Errorf("sctp: listen at %s: %w", laddr, err)
	}
	return listen(laddr, sockets), nil
}

func listen(laddr *SCTPAddr, sockets []socket) *SCTPListener {
	l := &SCTPListener{addr: laddr, sockets: sockets, accepted: make(chan *SCTPConn, backlog), closed: make(chan struct{}),
		conns: map[pair]*SCTPConn{}}
	ip := laddr.ip()
	for _, s := range sockets {
		go receive(s, func(p packet, from, to netip.Addr) {
			if int(p.to) == laddr.Port && (!ip.IsValid() || ip.WithZone("") == to) {
				l.handle(s, p, pair{to, netip.AddrPortFrom(from, p.from)})
			}
		})
	}
	return l
}

// AcceptSCTP returns the next association.
func (l *SCTPListener) AcceptSCTP() (*SCTPConn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "sctp", Addr: l.addr, Err: net.ErrClosed}
	}
}

// Addr is where it listens.
func (l *SCTPListener) Addr() net.Addr { return l.addr }

// Close ends the listener, and with it the associations that it has accepted.
func (l *SCTPListener) Close() error {
	var errs []error
	l.close.Do(func() {
		close(l.closed)
		for _, s := range l.sockets {
			errs = append(errs, s.Close())
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.conns {
			c.end(net.ErrClosed)
		}
	})
	return errors.Join(errs...)
}

func (l *SCTPListener) handle(s socket, p packet, peers pair) {
	reply := func(tag uint32, c chunk) {
		answer := packet{from: p.to, to: p.from, tag: tag, chunks: []chunk{c}}
		_ = s.send(answer.marshal(), peers.local, peers.remote.Addr()) // what is lost will be asked for
	}
	l.mu.Lock()
	c := l.conns[peers]
	l.mu.Unlock()
	switch first := p.chunks[0]; first.kind {
	case chunkInit:
		g, err := parseGreeting(first)
		if err != nil || p.tag != 0 {
			return
		}
		mine := greeting{tag: max(1, rand.Uint32()), window: window, tsn: rand.Uint32()}
		mine.cookie = cookie{mine.tag, mine.tsn, g.tag, g.tsn}.marshal()
		reply(g.tag, mine.chunk(chunkInitAck))
		return
	case chunkCookieEcho:
		k, err := parseCookie(first.body)
		if err != nil || k.tag != p.tag {
			return
		}
		if c == nil || c.tag != k.tag { // not the one whose COOKIE ACK was lost
			if c = l.accept(s, peers, k, c); c == nil {
				return
			}
		}
		reply(k.peerTag, chunk{kind: chunkCookieAck})
		p.chunks = p.chunks[1:] // a message may come along
	}
	if c != nil {
		c.handle(p)
		return
	}
	switch p.chunks[0].kind {
	case chunkShutdownAck: // this side has taken leave already
		reply(p.tag, chunk{kind: chunkShutdownComplete, flags: flagReflected})
	case chunkData, chunkShutdown, chunkHeartbeat: // of an association of which it knows nothing
		reply(p.tag, chunk{kind: chunkAbort, flags: flagReflected})
	}
}

// accept makes the association that a cookie tells of, in place of an earlier one with the same peer.
// It is nil if too many wait already: the peer will ask again.
func (l *SCTPListener) accept(s socket, peers pair, k cookie, earlier *SCTPConn) *SCTPConn {
	c := newConn(s, netip.AddrPortFrom(peers.local, uint16(l.addr.Port)), peers.remote, nil)
	c.established = true
	c.tag, c.peerTag, c.sent, c.acked, c.received = k.tag, k.peerTag, k.tsn-1, k.tsn-1, k.peerTSN-1
	c.release = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.conns[peers] == c {
			delete(l.conns, peers)
		}
	}
	select {
	case l.accepted <- c:
	default:
		return nil
	}
	l.mu.Lock()
	l.conns[peers] = c
	l.mu.Unlock()
	if earlier != nil {
		earlier.end(syscall.ECONNRESET)
	}
	return c
}

// end tells an association that its peer has forgotten it.
func (c *SCTPConn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(err)
	close(c.changed)
	c.changed = make(chan struct{})
}

// cookie is what the listener has its peer keep until it comes back: nothing is kept for one who only
// says INIT. It is in clear, since nobody forges one here.
type cookie struct{ tag, tsn, peerTag, peerTSN uint32 }

func (k cookie) marshal() []byte {
	b := binary.BigEndian.AppendUint32(nil, k.tag)
	b = binary.BigEndian.AppendUint32(b, k.tsn)
	b = binary.BigEndian.AppendUint32(b, k.peerTag)
	return binary.BigEndian.AppendUint32(b, k.peerTSN)
}

func parseCookie(b []byte) (cookie, error) {
	if len(b) != 16 {
		return cookie{}, errMalformed
	}
	at := func(i int) uint32 { return binary.BigEndian.Uint32(b[i:]) }
	return cookie{at(0), at(4), at(8), at(12)}, nil
}
