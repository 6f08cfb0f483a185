package southbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/telemetry"
)

// Guard lets nodes at a Southbound.
type Guard struct {
	replica     *replica
	dial        func(context.Context) (net.Conn, error) // to the server
	credentials *credentials
	metrics     *metrics
	log         *slog.Logger
	door        door
	reaching    sync.Mutex // held by the one that connects to the server
	ledger      ledger
	pace        pace
	audience    audience
	requests    rates
	recheck     time.Duration // of certificates
	patience    time.Duration // with the replica, which may be behind what a node has seen already
	toldNodes   told
	toldOthers  told // about addresses, of which there are any number
}

const (
	// patience is how long a request waits for the replica.
	patience = 2 * time.Second
	// handshake is how long a client may take to show its certificate.
	handshake = 10 * time.Second
	// stall is how long a client may take to read a part of an answer, and to send a large request.
	stall = 30 * time.Second
	// recheck is how soon a certificate that counts no more ends a connection.
	recheck = time.Minute
)

// serve takes clients until ctx is done; it returns when they are gone.
func (g *Guard) serve(ctx context.Context, listener net.Listener) error {
	config := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return g.credentials.current()
	}}
	var clients sync.WaitGroup
	defer clients.Wait()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // as with too many open files
			g.log.Error("take a client", "error", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			continue
		}
		clients.Go(func() {
			defer conn.Close()
			node, err := g.client(ctx, tls.Server(conn, config))
			if errors.Is(err, errFull) {
				g.metrics.full.Inc()
			}
			switch address := conn.RemoteAddr(); {
			case err == nil || ctx.Err() != nil:
			case node != "" && g.toldNodes.more(node):
				g.log.Warn("a node's connection ended", telemetry.Object("Node", "", node),
					"address", address.String(), "error", err)
			case node == "" && g.toldOthers.more(origin(address)):
				level := slog.LevelWarn
				if errors.Is(err, errNoCertificate) || errors.Is(err, io.EOF) { // as doctors and playbooks do; it gets nowhere
					level = slog.LevelInfo
				}
				g.log.Log(ctx, level, "a connection is refused", "address", address.String(), "error", err)
			}
		})
	}
}

// client serves one, which is the node that its certificate names.
func (g *Guard) client(ctx context.Context, conn *tls.Conn) (node string, err error) {
	chain, err := g.certificates(ctx, conn)
	if err != nil {
		return "", err
	}
	if node, err = nodeOf(chain[0]); err != nil {
		return "", err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		for ticker := time.NewTicker(g.recheck); ; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				ticker.Stop()
				return
			}
			if err := g.credentials.accepts(chain); err != nil {
				end(err)
			}
		}
	}()
	return node, g.carry(ctx, conn, node)
}

// certificates are those that a client shows in its handshake.
func (g *Guard) certificates(ctx context.Context, conn *tls.Conn) ([]*x509.Certificate, error) {
	leave, err := g.door.beginHandshake(conn.NetConn())
	if err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	err = conn.HandshakeContext(limit)
	switch {
	case !leave():
		return nil, fmt.Errorf("%w: %d have not shown a certificate yet, and it has waited longest", errFull, pendingAll)
	case err != nil:
		g.metrics.handshakes.Inc()
		return nil, fmt.Errorf("handshake: %w", err)
	}
	shown := conn.ConnectionState().PeerCertificates
	if len(shown) == 0 {
		g.metrics.handshakes.Inc()
		return nil, errNoCertificate
	}
	return shown, nil
}

// errNoCertificate is of who looks at the guard's certificate and shows none.
var errNoCertificate = errors.New("it didn't provide a certificate")

// reachEvery is how often a server that has no room for a connection is tried again.
const reachEvery = 50 * time.Millisecond

// reach connects to the server. While the server is busy, only a few connections wait for it to take them, and further
// ones are refused (unix(7), EAGAIN): all nodes that come meanwhile wait here. One of them tries for all.
func (g *Guard) reach(ctx context.Context) (net.Conn, error) {
	g.reaching.Lock()
	defer g.reaching.Unlock()
	for {
		server, err := g.dial(ctx)
		if !errors.Is(err, syscall.EAGAIN) || g.metrics.lives() != nil {
			return server, err
		}
		select {
		case <-time.After(reachEvery):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// carry is a node's connection from its handshake to its end.
func (g *Guard) carry(ctx context.Context, conn net.Conn, node string) error {
	peer, leave, err := g.door.enter(node)
	if err != nil {
		return err
	}
	defer leave()
	g.metrics.clients.Inc()
	defer g.metrics.clients.Dec()
	ctx, quit := context.WithCancelCause(ctx)
	defer quit(nil)
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	s := &session{guard: g, node: node, peer: peer, client: conn, answered: signal.New(), over: make(chan struct{})}
	s.life = newLifeline(func() (enough bool) { return s.tellLife(quit) })
	s.life.begin()
	defer s.life.end()
	server, err := g.reach(ctx)
	if err != nil {
		return cmp.Or(context.Cause(ctx), fmt.Errorf("reach the Southbound: %w", err))
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { server.Close() })()
	s.server = server
	s.life.end()
	ended := make(chan error, 2)
	go func() {
		defer close(s.over)
		ended <- s.answers()
	}()
	go func() { ended <- s.requests(ctx) }()
	err = <-ended
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	conn.Close()
	server.Close()
	<-ended
	s.end() // now that the server works no more for the connection
	s.watched.leave(peer)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
