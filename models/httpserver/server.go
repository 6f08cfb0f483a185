package httpserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Limits are a server's bounds. Zero is no bound.
type Limits struct {
	// Connections is how many a server holds at a time, PerClient how many of them are of one client: of an IPv4 address,
	// or of an IPv6 /64, which a single host has as a rule.
	Connections, PerClient int
	// Header is the time for a request's header, Request for all of it, Answer for the answer, from the end of the header
	// on. Idle is how long a connection waits for its next request.
	Header, Request, Answer, Idle time.Duration
}

// Endpoints are the limits of servers that operators' tools ask: /metrics, /healthz, /readyz. Whoever streams there, or
// takes longer for an answer, moves the deadlines of that request (http.ResponseController).
var Endpoints = Limits{Connections: 256, PerClient: 64, Header: 5 * time.Second, Request: 10 * time.Second,
	Answer: 10 * time.Second, Idle: time.Minute}

// maxHeader bounds a request's header, in bytes.
const maxHeader = 1 << 14

// New makes a server without a listener. Its connections are bounded by [Serve], or by [Bound] where a server needs
// more than it gives.
func New(handler http.Handler, limits Limits) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: limits.Header, ReadTimeout: limits.Request,
		WriteTimeout: limits.Answer,
		IdleTimeout:  limits.Idle, MaxHeaderBytes: maxHeader}
}

// Bound is a listener of the server's whose connections are bounded. It sets the server's ConnState.
func Bound(server *http.Server, listener net.Listener, limits Limits) net.Listener {
	bounded := &door{Listener: listener, limits: limits, held: map[string]map[*conn]struct{}{}}
	server.ConnState = bounded.changed
	return bounded
}

// Serve answers on listener until ctx is done, and returns nil then.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, limits Limits) error {
	server := New(handler, limits)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(Bound(server, listener, limits)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
