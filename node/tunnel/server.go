package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// ServerConfig is what [Serve] is told.
type ServerConfig struct {
	Credentials Credentials
	// Targets are what a stream may lead to.
	Targets map[Target]Service
	// MaxStreams bounds the streams that are open at a time; 0 is 64. An ovn-controller has about five.
	MaxStreams int
	// Observe is told what happens, for metrics.
	Observe Observer
	// Logger is slog's default one if nil.
	Logger *slog.Logger
}

// Service is what one target leads to, and for whom.
type Service struct {
	// Peer is the DNS name that the dialling end's certificate must have.
	Peer string
	// Open connects to what the stream leads to.
	Open func(context.Context) (net.Conn, error)
}

// Observer is told what happens, by several goroutines at once. Any of its fields may be nil.
type Observer struct {
	Opened  func(Target)
	Closed  func(Target)
	Passed  func(target Target, direction Direction, bytes int)
	Refused func(Reason)
}

const (
	defaultMaxStreams = 64
	// Clients without a certificate can open connections too. What they can hold until handshakeTimeout is bounded, and so
	// is what one address, or IPv6 subnet, can hold of it.
	maxHandshakes           = 64
	maxHandshakesPerAddress = 24
)

// Serve takes streams from listener until ctx is done, then closes it and all streams and returns
// nil. An error means that the listener has failed, or that config cannot work.
func Serve(ctx context.Context, listener net.Listener, config ServerConfig) error {
	nameless := slices.ContainsFunc(slices.Collect(maps.Values(config.Targets)), func(s Service) bool {
		return s.Peer == ""
	})
	if config.Credentials == nil || len(config.Targets) == 0 || nameless {
		listener.Close()
		return errors.New("the tunnel's server needs credentials, targets and the name of each one's peer")
	}
	if config.MaxStreams <= 0 {
		config.MaxStreams = defaultMaxStreams
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	s := &server{
		config: config, log: config.Logger, streams: make(chan struct{}, config.MaxStreams),
		handshakes: &waiting{limit: maxHandshakes, each: maxHandshakesPerAddress},
		complaints: &complaints{pause: time.Minute},
	}
	ctx, cancel := context.WithCancel(ctx)
	defer s.wait.Wait()
	defer cancel() // the streams end with the listener, whatever ended it
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	return s.accept(ctx, listener)
}

var errTooSlow = refusal(TooMany, "too many connections have not finished their handshakes, and this one took longest")

type server struct {
	config     ServerConfig
	log        *slog.Logger
	streams    chan struct{} // has a place for each
	handshakes *waiting
	complaints *complaints
	wait       sync.WaitGroup
}

func (s *server) accept(ctx context.Context, listener net.Listener) error {
	for pause := time.Millisecond; ; {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("the tunnel's listener %v was closed: %w", listener.Addr(), err)
		case err != nil: // too many open files, or a connection that was lost before it was taken
			s.log.WarnContext(ctx, "cannot take a stream; trying again", "error", err, "pause", pause)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		from := host(conn.RemoteAddr())
		evicted, ok := s.handshakes.enter(conn, from)
		if !ok {
			conn.Close()
			s.refuse(ctx, conn, refusal(TooMany, "too many connections from %s have not finished their handshakes", from))
			continue
		}
		if evicted != nil {
			evicted.Close()
		}
		s.wait.Go(func() { s.serve(ctx, conn) })
	}
}

// serve is the life of one connection.
func (s *server) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer s.handshakes.leave(conn)
	host, node, target, err := s.open(ctx, conn)
	if err != nil {
		s.refuse(ctx, conn, err)
		return
	}
	defer func() { <-s.streams }()
	s.log.DebugContext(ctx, "stream opened", "target", target, "peer", conn.RemoteAddr())
	if s.config.Observe.Opened != nil {
		s.config.Observe.Opened(target)
	}
	err = Join(ctx, host, node, func(direction Direction, n int) error {
		if s.config.Observe.Passed != nil {
			s.config.Observe.Passed(target, direction, n)
		}
		return nil
	})
	if s.config.Observe.Closed != nil {
		s.config.Observe.Closed(target)
	}
	s.log.DebugContext(ctx, "stream ended", "target", target, "peer", conn.RemoteAddr(), "error", err)
}

// open does what must succeed before bytes pass. Without an error it has taken a place in s.streams.
func (s *server) open(ctx context.Context, conn net.Conn) (host *tls.Conn, node net.Conn, target Target, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := watchPeer(conn); err != nil {
		if evicted(ctx, err) {
			return nil, nil, "", errTooSlow
		}
		return nil, nil, "", refusal(Unreachable, "set the connection's limits: %w", err)
	}
	own, err := current(s.config.Credentials)
	if err != nil {
		return nil, nil, "", err
	}
	host = tls.Server(conn, s.handshakeConfig(own.Own))
	if err := host.HandshakeContext(ctx); err != nil {
		if evicted(ctx, err) {
			err = errTooSlow
		}
		return nil, nil, "", explainHandshake(err, "a peer of the tunnel", own.Own, time.Now())
	}
	defer within(ctx, host)()
	state := host.ConnectionState()
	target = Target(state.NegotiatedProtocol)
	if err := s.authorize(state, own.Authorities, target); err != nil {
		return nil, nil, "", s.deny(host, err)
	}
	if !s.handshakes.leave(conn) {
		return nil, nil, "", errTooSlow
	}
	select {
	case s.streams <- struct{}{}:
	default:
		return nil, nil, "", s.deny(host, refusal(TooMany, "%d streams are open already", cap(s.streams)))
	}
	node, err = s.reach(ctx, target)
	if err != nil {
		<-s.streams
		return nil, nil, "", s.deny(host, err)
	}
	if err := accept(host); err != nil {
		<-s.streams
		node.Close()
		return nil, nil, "", refusal(Unreachable, "the connection was lost in the handshake: %w", err)
	}
	return host, node, target, nil
}

// evicted says that accept has closed a connection for another one's place: nobody else does before its time is over.
func evicted(ctx context.Context, err error) bool {
	return errors.Is(err, net.ErrClosed) && ctx.Err() == nil
}

// handshakeConfig takes any certificate whose key the peer has, and a peer that shows none: whether it
// may have a stream is for [authorize], which runs before a byte of the peer is read and whose reason reaches it.
func (s *server) handshakeConfig(own *tls.Certificate) *tls.Config {
	config := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*own},
		ClientAuth:             tls.RequestClientCert,
		SessionTicketsDisabled: true,
	}
	for target := range s.config.Targets {
		config.NextProtos = append(config.NextProtos, string(target))
	}
	return config
}

// authorize decides on the dialling end by what it wants to be led to. One that does not say it is told so if it might
// have anything.
func (s *server) authorize(state tls.ConnectionState, roots *x509.CertPool, target Target) error {
	if service, ok := s.config.Targets[target]; ok {
		return authorize(state, roots, service.Peer, time.Now())
	}
	var refused error
	for _, known := range slices.Sorted(maps.Keys(s.config.Targets)) {
		service := s.config.Targets[known]
		err := authorize(state, roots, service.Peer, time.Now())
		if err == nil {
			return refusal(NoTarget, "the peer does not say what it wants to be led to")
		}
		refused = err
	}
	return refused
}

// authorize verifies the dialling end's certificate.
func authorize(state tls.ConnectionState, roots *x509.CertPool, peer string, now time.Time) error {
	if len(state.PeerCertificates) == 0 {
		return refusal(NoCertificate, "the peer shows no certificate; one of DNS name %s is asked for", peer)
	}
	leaf, chain := state.PeerCertificates[0], x509.NewCertPool()
	for _, intermediate := range state.PeerCertificates[1:] {
		chain.AddCert(intermediate)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: chain, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return explainCertificate(err, leaf, peer, now)
	}
	return checkName(leaf, peer)
}

// reach connects to what the stream leads to.
func (s *server) reach(ctx context.Context, target Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	node, err := s.config.Targets[target].Open(ctx)
	if err != nil {
		return nil, refusal(TargetDown, "%s is not reached on the node: %w; see whether Open vSwitch runs there", target, err)
	}
	return node, nil
}

// deny tells the peer why it gets no stream.
func (s *server) deny(conn *tls.Conn, refused error) error {
	if err := writeVerdict(conn, reasonOf(refused), refused.Error()); err == nil {
		_ = conn.CloseWrite() // the peer may be gone
	}
	return refused
}

// refuse logs and then counts a refusal: who sees the count finds the line. A peer repeats what is refused, and a
// client without a certificate may do anything.
func (s *server) refuse(ctx context.Context, conn net.Conn, refused error) {
	if ctx.Err() != nil {
		return
	}
	reason := reasonOf(refused)
	if s.complaints.due(host(conn.RemoteAddr()), reason, time.Now()) {
		s.log.WarnContext(ctx, "no stream for a peer; the same is not logged again within a minute", "peer",
			conn.RemoteAddr(), "reason", reason, "error", refused)
	}
	if s.config.Observe.Refused != nil {
		s.config.Observe.Refused(reason)
	}
}

// host is an address without its port, and of an IPv6 one the subnet: its hosts choose the rest.
func host(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return addr.String()
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	subnet, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return ip.String()
	}
	return subnet.String()
}
