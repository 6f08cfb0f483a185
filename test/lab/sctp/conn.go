package sctp

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	window = 64 << 10 // what a side says that it has room for
	// MaxMessage is the longest message in bytes: one that every IPv6 path carries in one packet.
	MaxMessage = 1200
	// firstWait is how long an answer may take before the question is sent again; then twice as long.
	firstWait = time.Second
	// patience is how long a side asks before it gives the other one up.
	patience = 30 * time.Second
	// linger is how long Close waits for the other side's farewell.
	linger = 500 * time.Millisecond
	// ackDelay is how long a message may wait to be acknowledged (RFC 9260, 6.2): a side that has sent one
	// takes its leave only when it is, so its peer has that time to answer.
	ackDelay = 200 * time.Millisecond
)

// SCTPConn is an association with one peer.
type SCTPConn struct {
	socket        socket
	local, remote netip.AddrPort
	release       func() // gives back what the association was kept in

	asking sync.Mutex // one question at a time

	mu      sync.Mutex
	changed chan struct{} // is closed, and made anew, at each change of what follows

	established bool
	cookie      []byte // the peer's, until it has it back
	tag         uint32 // in what this side receives
	peerTag     uint32
	sent, acked uint32 // TSNs of this side's last message, and of the last that the peer has
	sequence    uint16 // of the next message
	received    uint32 // TSN of the peer's last message
	owed        bool   // it is to be acknowledged
	messages    [][]byte
	leaving     bool  // this side says no more
	farewell    bool  // the peer says no more
	err         error // why nothing goes any more
	deadline    time.Time
}

func newConn(s socket, local, remote netip.AddrPort, release func()) *SCTPConn {
	tsn := rand.Uint32()
	return &SCTPConn{socket: s, local: local, remote: remote, release: release, changed: make(chan struct{}),
		tag: max(1, rand.Uint32()), sent: tsn - 1, acked: tsn - 1}
}

// DialSCTP asks raddr for an association; laddr may be nil.
func DialSCTP(network string, laddr, raddr *SCTPAddr) (*SCTPConn, error) {
	to := raddr.ip()
	if !to.IsValid() {
		return nil, fmt.Errorf("sctp: dial %s: it is no address of a peer", raddr)
	}
	from, port := laddr.ip(), 49152+rand.N(uint16(65536-49152))
	if laddr != nil && laddr.Port != 0 {
		port = uint16(laddr.Port)
	}
	if !from.IsValid() {
		var err error
		if from, err = sourceFor(to); err != nil {
			return nil, fmt.Errorf("sctp: dial %s: %w", raddr, err)
		}
	}
	sockets, err := openSockets(to)
	if err != nil {
		return nil, fmt.Errorf("sctp: dial %s: %w", raddr, err)
	}
	return dial(sockets[0], netip.AddrPortFrom(from, port), netip.AddrPortFrom(to, uint16(raddr.Port)))
}

func dial(s socket, local, remote netip.AddrPort) (*SCTPConn, error) {
	c := newConn(s, local, remote, func() { s.Close() })
	go receive(s, func(p packet, from, to netip.Addr) {
		if netip.AddrPortFrom(to, p.to) == local && netip.AddrPortFrom(from.WithZone(remote.Addr().Zone()),
			p.from) == remote {
			c.handle(p)
		}
	})
	err := c.ask(patience, func() bool { return c.cookie != nil }, func() chunk {
		return greeting{tag: c.tag, window: window, tsn: c.sent + 1}.chunk(chunkInit)
	})
	if err == nil {
		err = c.ask(patience, func() bool { return c.established }, func() chunk {
			return chunk{kind: chunkCookieEcho, body: c.cookie}
		})
	}
	if err != nil {
		c.release()
		return nil, &net.OpError{Op: "dial", Net: "sctp", Addr: c.RemoteAddr(), Err: err}
	}
	return c, nil
}

// receive hands on what comes in until the socket is closed.
func receive(s socket, handle func(p packet, from, to netip.Addr)) {
	b := make([]byte, 64<<10)
	for {
		n, from, to, err := s.receive(b)
		if err != nil {
			return
		}
		if p, err := unmarshal(b[:n]); err == nil && len(p.chunks) > 0 {
			handle(p, from, to)
		}
	}
}

// ask sends a question until it is answered; both functions run under mu.
func (c *SCTPConn) ask(limit time.Duration, answered func() bool, question func() chunk) error {
	deadline, again := time.NewTimer(limit), time.NewTimer(0)
	defer deadline.Stop()
	defer again.Stop()
	for wait := firstWait; ; {
		c.mu.Lock()
		done, err, changed := answered(), c.err, c.changed
		c.mu.Unlock()
		if done {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-deadline.C:
			return os.ErrDeadlineExceeded
		case <-again.C:
			c.mu.Lock()
			c.send(question())
			c.mu.Unlock()
			again.Reset(wait)
			wait *= 2
		}
	}
}

// send sends chunks under mu. What cannot be sent is as good as lost: it will be asked for.
func (c *SCTPConn) send(chunks ...chunk) {
	switch chunks[0].kind {
	case chunkData:
		if c.owed {
			chunks = append([]chunk{sackChunk(c.received)}, chunks...)
		}
		c.owed = false
	case chunkSack, chunkShutdown:
		c.owed = false
	}
	p := packet{from: c.local.Port(), to: c.remote.Port(), tag: c.peerTag, chunks: chunks}
	_ = c.socket.send(p.marshal(), c.local.Addr(), c.remote.Addr())
}

// handle takes in a packet of the peer's.
func (c *SCTPConn) handle(p packet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, part := range p.chunks {
		reflected := part.flags&flagReflected != 0 && (part.kind == chunkAbort || part.kind == chunkShutdownComplete)
		if p.tag == c.tag && !reflected || p.tag == c.peerTag && reflected {
			c.take(part)
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// take does what a chunk asks for; one that is malformed asks for nothing.
func (c *SCTPConn) take(part chunk) {
	switch part.kind {
	case chunkInitAck:
		if g, err := parseGreeting(part); err == nil && c.cookie == nil && !c.established {
			c.cookie, c.peerTag, c.received = g.cookie, g.tag, g.tsn-1
		}
	case chunkCookieAck:
		c.established = c.established || c.cookie != nil
	case chunkData:
		c.takeData(part)
	case chunkSack, chunkShutdown:
		if tsn, err := part.number(); err == nil && int32(tsn-c.acked) > 0 && int32(c.sent-tsn) >= 0 {
			c.acked = tsn
		}
		if part.kind == chunkShutdown && c.established {
			c.farewell = true
			if c.acked == c.sent { // otherwise the peer will ask again
				c.send(chunk{kind: chunkShutdownAck})
			}
		}
	case chunkHeartbeat:
		c.send(chunk{kind: chunkHeartbeatAck, body: part.body})
	case chunkShutdownAck:
		c.send(chunk{kind: chunkShutdownComplete})
		c.fail(io.EOF)
	case chunkShutdownComplete:
		c.fail(io.EOF)
	case chunkAbort:
		c.fail(syscall.ECONNRESET)
	}
}

func (c *SCTPConn) takeData(part chunk) {
	tsn, err := part.number()
	if err != nil || len(part.body) < dataLength || !c.established {
		return
	}
	if part.flags&flagWhole != flagWhole { // this side puts no pieces together
		c.abort()
		return
	}
	next, room, second := tsn == c.received+1, len(c.messages) < window/MaxMessage, c.owed
	if next && room {
		c.received = tsn
		c.messages = append(c.messages, part.body[dataLength:])
	}
	if !next || !room || second || c.leaving {
		c.send(sackChunk(c.received))
		return
	}
	c.owed = true
	time.AfterFunc(ackDelay, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.owed {
			c.send(sackChunk(c.received))
		}
	})
}

// abort ends the association at once.
func (c *SCTPConn) abort() {
	c.send(chunk{kind: chunkAbort})
	c.fail(syscall.ECONNABORTED)
}

func (c *SCTPConn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Write sends b as one message and returns when the peer has it.
func (c *SCTPConn) Write(b []byte) (int, error) {
	if len(b) == 0 || len(b) > MaxMessage {
		return 0, fmt.Errorf("sctp: a message of %d bytes, want between 1 and %d", len(b), MaxMessage)
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	c.mu.Lock()
	if c.err != nil || c.farewell {
		c.mu.Unlock()
		return 0, &net.OpError{Op: "write", Net: "sctp", Addr: c.RemoteAddr(), Err: syscall.EPIPE}
	}
	c.sent++
	message := dataChunk(c.sent, c.sequence, b)
	c.sequence++
	c.mu.Unlock()
	if err := c.ask(patience, func() bool { return c.acked == c.sent }, func() chunk { return message }); err != nil {
		c.mu.Lock()
		c.abort()
		c.mu.Unlock()
		return 0, &net.OpError{Op: "write", Net: "sctp", Addr: c.RemoteAddr(), Err: err}
	}
	return len(b), nil
}

// Read returns the peer's next message, or io.EOF when there will be none.
func (c *SCTPConn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		changed, deadline := c.changed, c.deadline
		if len(c.messages) > 0 {
			n := copy(b, c.messages[0])
			if c.messages[0] = c.messages[0][n:]; len(c.messages[0]) == 0 {
				c.messages = c.messages[1:]
			}
			c.mu.Unlock()
			return n, nil
		}
		err := c.err
		if err == nil && c.farewell {
			err = io.EOF
		}
		c.mu.Unlock()
		if err == io.EOF {
			return 0, err
		}
		if err != nil {
			return 0, &net.OpError{Op: "read", Net: "sctp", Addr: c.RemoteAddr(), Err: err}
		}
		var late <-chan time.Time
		if !deadline.IsZero() {
			late = time.After(time.Until(deadline))
		}
		select {
		case <-changed:
		case <-late:
			return 0, &net.OpError{Op: "read", Net: "sctp", Addr: c.RemoteAddr(), Err: os.ErrDeadlineExceeded}
		}
	}
}

// SetReadDeadline is for the calls of Read that come after it; the zero time is none.
func (c *SCTPConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

// Close takes leave of the peer, and aborts the association if it does not answer soon.
func (c *SCTPConn) Close() error {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.mu.Lock()
	c.leaving = true
	c.mu.Unlock()
	err := c.ask(linger, func() bool { return c.err != nil }, func() chunk {
		if c.farewell {
			return chunk{kind: chunkShutdownAck}
		}
		shutdown := sackChunk(c.received)
		return chunk{kind: chunkShutdown, body: shutdown.body[:4]}
	})
	if err != nil {
		c.mu.Lock()
		c.abort()
		c.mu.Unlock()
	}
	c.release()
	return nil
}

// LocalAddr is this side's *SCTPAddr.
func (c *SCTPConn) LocalAddr() net.Addr { return sctpAddr(c.local.Addr(), c.local.Port()) }

// RemoteAddr is the peer's *SCTPAddr.
func (c *SCTPConn) RemoteAddr() net.Addr { return sctpAddr(c.remote.Addr(), c.remote.Port()) }

// SCTPRemoteAddr is the peer's; 0 is the only association that there is.
func (c *SCTPConn) SCTPRemoteAddr(int) (*SCTPAddr, error) {
	return sctpAddr(c.remote.Addr(), c.remote.Port()), nil
}
