package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/node/hostservice/listeners"
)

// dialTime bounds how long a client waits for a backend that does not answer; TCP asks again after 1, 3
// and 7 s. Where there are others, nextTime is how long one of them is waited for.
const (
	dialTime = 10 * time.Second
	nextTime = 3 * time.Second
)

// keepAlive finds clients and backends that went away without a word. A connection between two that live may be
// silent for as long as it likes.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}

// streams forwards TCP connections from one socket of the host.
type streams struct {
	asked    netip.Addr // by clients
	listener *net.TCPListener
	target   atomic.Pointer[Target]
	metrics  *metrics
	limit    *limit
	dial     func(ctx context.Context, from netip.Addr, to netip.AddrPort) (*net.TCPConn, error)

	ended context.Context // with it the last connections
	end   context.CancelFunc

	work  sync.WaitGroup
	mu    sync.Mutex
	pairs map[*pair]struct{}
}

// pair is a client's connection and the one that was made for it.
type pair struct {
	to              netip.AddrPort
	client, backend *net.TCPConn
}

func (p *pair) reset() {
	reset(p.client)
	reset(p.backend)
}

// reset ends a connection so that its other end is told at once, as by a closed port.
func reset(conn *net.TCPConn) {
	if conn != nil {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
}

func listenStreams(ctx context.Context, at netip.AddrPort, to Target, m *metrics, l *limit) (*streams, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	listener, err := config.Listen(ctx, network(listeners.TCP, at.Addr()), at.String())
	if err != nil {
		return nil, err
	}
	s := &streams{asked: at.Addr(), listener: listener.(*net.TCPListener), metrics: m, limit: l, dial: dialStream,
		pairs: map[*pair]struct{}{}}
	s.ended, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.target.Store(&to)
	s.work.Go(s.accept)
	return s, nil
}

// network is what package net calls a protocol of one family: "tcp" would mean both.
func network(protocol string, addr netip.Addr) string {
	if addr.Is4() {
		return protocol + "4"
	}
	return protocol + "6"
}

// dialStream connects; from may be the zero address.
func dialStream(ctx context.Context, from netip.Addr, to netip.AddrPort) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: dialTime, KeepAliveConfig: keepAlive}
	if from.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	conn, err := dialer.DialContext(ctx, network(listeners.TCP, to.Addr()), to.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// retarget changes where new connections go. Those to a pod that is not the target any more end: nobody
// would answer.
func (s *streams) retarget(to Target) {
	before := s.target.Swap(&to)
	if before.Direct && before.To != to.To {
		s.resetAll(func(p *pair) bool { return p.to == before.To })
	}
}

// close takes no connections any more. Those that there are go on until they end, as they do in the
// datapath; with now they are reset.
func (s *streams) close(now bool) {
	_ = s.listener.Close()
	if now {
		s.end()
		s.resetAll(func(*pair) bool { return true })
	}
}

// wait returns when the last connection has ended.
func (s *streams) wait() { s.work.Wait(); s.end() }

func (s *streams) resetAll(which func(*pair) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.pairs {
		if which(p) {
			p.reset()
		}
	}
}

func (s *streams) accept() {
	var rest time.Duration
	for {
		client, err := s.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no more files, or a client that left before it was accepted
			rest = min(max(2*rest, 5*time.Millisecond), time.Second)
			s.metrics.failed(listeners.TCP, failedAccept)
			select {
			case <-time.After(rest):
			case <-s.ended.Done():
			}
			continue
		}
		rest = 0
		to := *s.target.Load()
		from := addrOf(client.RemoteAddr())
		remote, refusal := isRemote(from, s.asked), to.refuses(from, s.asked)
		switch {
		case refusal != "":
			reset(client)
			s.metrics.failed(listeners.TCP, refusal)
		case !s.limit.acquire(remote):
			reset(client)
			s.metrics.failed(listeners.TCP, failedLimit)
		default:
			s.work.Go(func() {
				defer s.limit.release(remote)
				s.serve(client, to)
			})
		}
	}
}

func addrOf(a net.Addr) netip.Addr {
	addr, _ := netip.ParseAddrPort(a.String())
	return addr.Addr().Unmap().WithZone("")
}

// serve carries one connection.
func (s *streams) serve(client *net.TCPConn, to Target) {
	p := &pair{to: to.To, client: client}
	if !s.enter(p) {
		reset(client)
		return
	}
	defer s.leave(p)
	backend, err := s.connect(to, addrOf(client.RemoteAddr()))
	if err != nil {
		slog.Debug("no connection to a backend", "of", to.Owner, "field", to.Field, "error", err)
		s.metrics.failed(listeners.TCP, failedDial)
		reset(client)
		return
	}
	s.mu.Lock()
	p.backend = backend
	if s.ended.Err() != nil || s.gone(to) {
		p.reset()
	}
	s.mu.Unlock()
	s.metrics.connections.Inc()
	s.metrics.open.Inc()
	defer s.metrics.open.Dec()
	join(client, backend)
}

// connect tries the backends one after the other.
func (s *streams) connect(to Target, client netip.Addr) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(s.ended, dialTime)
	defer cancel()
	list, err := to.backendsFor(client), errNoEndpoint
	for len(list) > 0 && ctx.Err() == nil {
		var one Backend
		one, list = to.choose(client, list)
		var conn *net.TCPConn
		if conn, err = s.try(ctx, one, len(list) > 0); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func (s *streams) try(ctx context.Context, to Backend, others bool) (*net.TCPConn, error) {
	if others {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, nextTime)
		defer cancel()
	}
	return s.dial(ctx, to.source(s.asked), to.At)
}

// errNoEndpoint: the client comes from outside, and the policy Local leaves it nobody, or it has been here before.
var errNoEndpoint = errors.New("externalTrafficPolicy is Local, and the node has no endpoint; or an endpoint is the " +
	"host itself, at this port")

// gone says whether a pod stopped being the target while it was dialled.
func (s *streams) gone(to Target) bool { return to.Direct && s.target.Load().To != to.To }

func (s *streams) enter(p *pair) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pairs[p] = struct{}{}
	return s.ended.Err() == nil
}

func (s *streams) leave(p *pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pairs, p)
}

// join carries what either says to the other, and the end of it, until both have ended or one was reset.
// Nothing is read that cannot be written: who is slow slows the other.
func join(a, b *net.TCPConn) {
	var back sync.WaitGroup
	back.Go(func() { carry(a, b) })
	carry(b, a)
	back.Wait()
	_ = a.Close()
	_ = b.Close()
}

func carry(to, from *net.TCPConn) {
	_, err := io.Copy(to, from)
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		reset(from)
		reset(to)
	}
}
