package proxy

import (
	"context"
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/hostservice/listeners"
)

// forwarder is an open socket.
type forwarder interface {
	retarget(Target)
	// close takes nothing new; with now, what passes ends as well.
	close(now bool)
	wait()
}

// Sockets are those that are open. One goroutine uses them.
type Sockets struct {
	metrics     *metrics
	connections *limit
	sessions    *limit
	open        map[listeners.Socket]openSocket
	closing     sync.WaitGroup
}

type openSocket struct {
	forwarder
	target Target
}

// New has no socket open.
func New() *Sockets {
	return &Sockets{metrics: newMetrics(), connections: &limit{most: mostConnections()},
		sessions: &limit{most: mostSessions()}, open: map[listeners.Socket]openSocket{}}
}

// Apply opens and closes until the sockets are those wanted, and returns why some are not open: those of daemons are
// theirs ([listeners.ErrDaemon]), others are errors of bind. The rest is not touched, nor is what passes by it.
func (s *Sockets) Apply(ctx context.Context, wanted map[listeners.Socket]Target,
	daemons listeners.Set) map[listeners.Socket]error {
	pods := map[netip.AddrPort]struct{}{}
	for _, to := range wanted {
		pods[to.To] = struct{}{}
	}
	for at, one := range s.open {
		if _, keep := wanted[at]; !keep || daemons.Has(at) {
			_, there := pods[one.target.To]
			s.shut(at, one, one.target.Direct && !there)
		}
	}
	failed := map[listeners.Socket]error{}
	for at, to := range wanted {
		if daemons.Has(at) {
			failed[at] = listeners.ErrDaemon
			continue
		}
		if one, ok := s.open[at]; ok {
			if !one.target.equal(to) {
				one.retarget(to)
				s.open[at] = openSocket{one.forwarder, to}
			}
			continue
		}
		one, err := s.listen(ctx, at, to)
		if err != nil {
			s.metrics.failed(at.Protocol, failedListen)
			failed[at] = err
			continue
		}
		s.open[at] = openSocket{one, to}
		s.metrics.proxies.WithLabelValues(at.Protocol).Inc()
	}
	return failed
}

func (s *Sockets) listen(ctx context.Context, at listeners.Socket, to Target) (forwarder, error) {
	if at.Protocol == listeners.TCP {
		return listenStreams(ctx, at.At, to, s.metrics, s.connections)
	}
	return listenDatagrams(ctx, at.At, to, s.metrics, s.sessions)
}

func (s *Sockets) shut(at listeners.Socket, one openSocket, now bool) {
	one.close(now)
	s.closing.Go(one.wait)
	delete(s.open, at)
	s.metrics.proxies.WithLabelValues(at.Protocol).Dec()
}

// IsOpen says whether a socket is one of them.
func (s *Sockets) IsOpen(at listeners.Socket) bool {
	_, open := s.open[at]
	return open
}

// Close closes all sockets, ends everything that passes, and returns when it has ended.
func (s *Sockets) Close() {
	for at, one := range s.open {
		s.shut(at, one, true)
	}
	s.closing.Wait()
}

// Collectors are the metrics.
func (s *Sockets) Collectors() []prometheus.Collector { return s.metrics.collectors() }
