package proxy

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/node/hostservice/listeners"
)

// How long a UDP client may be silent before it is forgotten, as in Linux' connection tracking: less
// while nothing has answered it.
const (
	repliedTime   = 120 * time.Second
	unrepliedTime = 30 * time.Second
)

const largestDatagram = 1 << 16

// datagrams forwards UDP from one socket of the host. Each client has a socket of its own towards the
// backend, so that OVN sees clients and not one.
type datagrams struct {
	asked    netip.Addr // by clients
	listener datagramSocket
	target   atomic.Pointer[Target]
	metrics  *metrics
	limit    *limit
	dial     func(from netip.Addr, to netip.AddrPort) (net.Conn, error)
	work     sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	sessions map[netip.AddrPort]*list.Element
	recent   *list.List // of *session, the one that sent last at the front
}

// datagramSocket is what datagrams needs of a [net.UDPConn].
type datagramSocket interface {
	ReadFromUDPAddrPort([]byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort([]byte, netip.AddrPort) (int, error)
	Close() error
}

// session is one client.
type session struct {
	client  netip.AddrPort
	to      netip.AddrPort
	backend net.Conn
	seen    atomic.Int64 // when the last datagram passed, in ns
	replied atomic.Bool
	refused atomic.Bool // since it has answered
	expiry  *time.Timer
}

func listenDatagrams(ctx context.Context, at netip.AddrPort, to Target, m *metrics, l *limit) (*datagrams, error) {
	var config net.ListenConfig
	listener, err := config.ListenPacket(ctx, network(listeners.UDP, at.Addr()), at.String())
	if err != nil {
		return nil, err
	}
	return startDatagrams(at.Addr(), listener.(*net.UDPConn), to, m, l, dialDatagrams), nil
}

// dialDatagrams connects; from may be the zero address.
func dialDatagrams(from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	var local *net.UDPAddr
	if from.IsValid() {
		local = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	return net.DialUDP(network(listeners.UDP, to.Addr()), local, net.UDPAddrFromAddrPort(to))
}

func startDatagrams(asked netip.Addr, listener datagramSocket, to Target, m *metrics, l *limit,
	dial func(netip.Addr, netip.AddrPort) (net.Conn, error)) *datagrams {
	d := &datagrams{asked: asked, listener: listener, metrics: m, limit: l, dial: dial,
		sessions: map[netip.AddrPort]*list.Element{}, recent: list.New()}
	d.target.Store(&to)
	d.work.Go(d.receive)
	return d
}

// retarget ends the sessions to another backend: a datagram socket would send there for ever.
func (d *datagrams) retarget(to Target) {
	d.target.Store(&to)
	d.endAll(func(s *session) bool { return !to.leads(addrOfClient(s.client), s.to) })
}

func (d *datagrams) close(bool) {
	_ = d.listener.Close()
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.endAll(func(*session) bool { return true })
}

func (d *datagrams) wait() { d.work.Wait() }

// receive passes on what clients send.
func (d *datagrams) receive() {
	asked := newQuestions(d.listener)
	for {
		err := asked.receiveFrom(d.forward)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of a datagram that was sent before
			d.metrics.failed(listeners.UDP, failedAccept)
			time.Sleep(time.Millisecond) // whatever it is, it does not take a processor
		}
	}
}

func (d *datagrams) forward(client netip.AddrPort, datagram []byte) {
	to := *d.target.Load()
	if refusal := to.refuses(addrOfClient(client), d.asked); refusal != "" {
		d.metrics.failed(listeners.UDP, refusal)
		return
	}
	for range 2 { // what was said of an earlier datagram makes this one fail in its place
		s := d.session(client)
		if s == nil {
			return
		}
		s.seen.Store(time.Now().UnixNano())
		_, err := s.backend.Write(datagram)
		if err == nil {
			return
		}
		s.hear(err)
		if !passing(err) {
			d.end(s)
		}
	}
}

// session is the client's, a new one if need be, as where the backend has refused and there is another; nil
// where there can be none.
func (d *datagrams) session(client netip.AddrPort) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	element := d.sessions[client]
	if element != nil && !element.Value.(*session).refused.Load() {
		d.recent.MoveToFront(element)
		return element.Value.(*session)
	}
	to := *d.target.Load() // under the lock: retarget ends what was begun before
	backends := to.backendsFor(addrOfClient(client))
	if element != nil {
		s := element.Value.(*session)
		others := without(backends, s.to)
		if len(others) == 0 {
			return s
		}
		backends = others
		d.endLocked(s)
	}
	if len(backends) == 0 {
		d.metrics.failed(listeners.UDP, failedDial)
	}
	if d.closed || len(backends) == 0 {
		return nil
	}
	remote := isRemote(addrOfClient(client), d.asked)
	if !d.limit.acquire(remote) {
		d.metrics.failed(listeners.UDP, failedLimit)
		oldest := d.recent.Back()
		for oldest != nil && isRemote(addrOfClient(oldest.Value.(*session).client), d.asked) != remote {
			oldest = oldest.Prev()
		}
		if oldest == nil {
			return nil
		}
		d.endLocked(oldest.Value.(*session))
		if !d.limit.acquire(remote) {
			return nil
		}
	}
	one, _ := to.choose(addrOfClient(client), backends)
	backend, err := d.dial(one.source(d.asked), one.At)
	if err != nil {
		d.limit.release(remote)
		d.metrics.failed(listeners.UDP, failedDial)
		return nil
	}
	s := &session{client: client, to: one.At, backend: backend}
	s.seen.Store(time.Now().UnixNano())
	s.expiry = time.AfterFunc(unrepliedTime, func() { d.expire(s) })
	d.sessions[client] = d.recent.PushFront(s)
	d.metrics.sessions.Inc()
	d.work.Go(func() { d.answer(s) })
	return s
}

// answer passes on what the backend sends, until the session ends.
func (d *datagrams) answer(s *session) {
	defer d.end(s)
	receiver := newReceiver(s.backend)
	for {
		err := receiver.receive(func(datagram []byte) {
			s.seen.Store(time.Now().UnixNano())
			s.replied.Store(true)
			s.refused.Store(false)
			// A client that is gone is told of by the next datagram to it, which is nobody's loss.
			_, _ = d.listener.WriteToUDPAddrPort(datagram, s.client)
		})
		s.hear(err)
		if err != nil && !passing(err) {
			return
		}
	}
}

// hear notes that nobody takes what the client sends.
func (s *session) hear(err error) {
	if refused(err) {
		s.refused.Store(true)
	}
}

func (s *session) silence() (since, allowed time.Duration) {
	allowed = unrepliedTime
	if s.replied.Load() {
		allowed = repliedTime
	}
	return time.Duration(time.Now().UnixNano() - s.seen.Load()), allowed
}

func (d *datagrams) expire(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if since, allowed := s.silence(); since < allowed && d.sessions[s.client] != nil {
		s.expiry.Reset(allowed - since)
		return
	}
	d.endLocked(s)
}

func (d *datagrams) end(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endLocked(s)
}

// endLocked ends a session once. d.mu is held.
func (d *datagrams) endLocked(s *session) {
	element := d.sessions[s.client]
	if element == nil || element.Value != s {
		return
	}
	delete(d.sessions, s.client)
	d.recent.Remove(element)
	s.expiry.Stop()
	_ = s.backend.Close()
	d.limit.release(isRemote(addrOfClient(s.client), d.asked))
	d.metrics.sessions.Dec()
}

func (d *datagrams) endAll(which func(*session) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for element := d.recent.Front(); element != nil; {
		s := element.Value.(*session)
		element = element.Next()
		if which(s) {
			d.endLocked(s)
		}
	}
}

func addrOfClient(client netip.AddrPort) netip.Addr { return client.Addr().Unmap().WithZone("") }

// receiver reads datagrams of one connection.
type receiver interface {
	receive(deliver func([]byte)) error
}

// questions reads datagrams of many clients.
type questions interface {
	receiveFrom(deliver func(client netip.AddrPort, datagram []byte)) error
}

// plainQuestions has a buffer of its own.
type plainQuestions struct {
	listener datagramSocket
	buffer   []byte
}

func (q *plainQuestions) receiveFrom(deliver func(netip.AddrPort, []byte)) error {
	n, client, err := q.listener.ReadFromUDPAddrPort(q.buffer)
	if err == nil {
		deliver(client, q.buffer[:n])
	}
	return err
}

// plainReceiver has a buffer of its own.
type plainReceiver struct {
	conn   net.Conn
	buffer []byte
}

func (r *plainReceiver) receive(deliver func([]byte)) error {
	n, err := r.conn.Read(r.buffer)
	if err == nil {
		deliver(r.buffer[:n])
	}
	return err
}
