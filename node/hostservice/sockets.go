package hostservice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// proxy is an open socket.
type proxy interface {
	retarget(target)
	// close takes nothing new; with now, what passes ends as well.
	close(now bool)
	wait()
}

// sockets are those that are open.
type sockets struct {
	metrics     *metrics
	connections *limit
	sessions    *limit
	open        map[socket]openSocket
	closing     sync.WaitGroup
}

type openSocket struct {
	proxy
	target target
}

func newSockets(m *metrics) *sockets {
	return &sockets{metrics: m, connections: &limit{most: mostConnections()}, sessions: &limit{most: mostSessions()},
		open: map[socket]openSocket{}}
}

// apply opens and closes until the sockets are those wanted, and returns why some are not open: those of daemons are
// theirs. The others are not touched, nor is what passes by them.
func (s *sockets) apply(ctx context.Context, wanted map[socket]target, daemons listeners) map[socket]error {
	pods := map[netip.AddrPort]struct{}{}
	for _, to := range wanted {
		pods[to.to] = struct{}{}
	}
	for at, one := range s.open {
		if _, keep := wanted[at]; !keep || daemons.has(at) {
			_, there := pods[one.target.to]
			s.shut(at, one, one.target.direct && !there)
		}
	}
	failed := map[socket]error{}
	for at, to := range wanted {
		if daemons.has(at) {
			failed[at] = errDaemon
			continue
		}
		if one, ok := s.open[at]; ok {
			if !one.target.equal(to) {
				one.retarget(to)
				s.open[at] = openSocket{one.proxy, to}
			}
			continue
		}
		one, err := s.listen(ctx, at, to)
		if err != nil {
			s.metrics.failed(at.protocol, failedListen)
			failed[at] = err
			continue
		}
		s.open[at] = openSocket{one, to}
		s.metrics.proxies.WithLabelValues(at.protocol).Inc()
	}
	return failed
}

func (s *sockets) listen(ctx context.Context, at socket, to target) (proxy, error) {
	if at.protocol == tcp {
		return listenStreams(ctx, at.at, to, s.metrics, s.connections)
	}
	return listenDatagrams(ctx, at.at, to, s.metrics, s.sessions)
}

func (s *sockets) shut(at socket, one openSocket, now bool) {
	one.close(now)
	s.closing.Go(one.wait)
	delete(s.open, at)
	s.metrics.proxies.WithLabelValues(at.protocol).Dec()
}

// closeAll ends everything that passes.
func (s *sockets) closeAll() {
	for at, one := range s.open {
		s.shut(at, one, true)
	}
	s.closing.Wait()
}

// clientPorts begin where systems have the ports of connections that ask for none: who has one of these may be no
// program that listens there.
const clientPorts = 1 << 15

// keeps says whether a program of the host's has a socket, and keeps what comes there from outside.
func keeps(at socket, to target, err error) bool {
	return to.yields && (errors.Is(err, errDaemon) || at.at.Port() < clientPorts && taken(err))
}

// busyOf are the sockets that programs of the host's have, and keep.
func busyOf(wanted map[socket]target, failed map[socket]error) map[socket]struct{} {
	busy := map[socket]struct{}{}
	for s, err := range failed {
		if keeps(s, wanted[s], err) {
			busy[s] = struct{}{}
		}
	}
	return busy
}

// listenProblems are what owners are told of sockets that could not be opened: one a port, whatever
// number of addresses the host has. An address that has just come or gone is no problem of anybody's.
func listenProblems(wanted map[socket]target, failed map[socket]error) []problem {
	type refusal struct {
		owner      Object
		field, why string
		port       port
		elsewhere  string
	}
	at := map[refusal][]netip.Addr{}
	for s, err := range failed {
		if !errors.Is(err, errNoAddress) {
			to := wanted[s]
			one := refusal{to.owner, to.field, whyNot(err), port{s.protocol, s.at.Port()},
				"clients elsewhere and other ports are not concerned"}
			if keeps(s, to, err) {
				one.elsewhere = "what comes there from pods and from outside is that program's, too; other ports are not concerned"
			}
			at[one] = append(at[one], s.at.Addr())
		}
	}
	var problems []problem
	for one, addrs := range at {
		slices.SortFunc(addrs, netip.Addr.Compare)
		problems = append(problems, problem{object: one.owner, reason: hostPortUnavailable, message: fmt.Sprintf(
			"%s: on this node %s port %d is not served at the host's addresses %v: %s; %s",
			one.field, one.port.protocol, one.port.number, addrs, one.why, one.elsewhere)})
	}
	return problems
}

// isAnothers says whether another program has a port, or had it.
func isAnothers(err error) bool { return errors.Is(err, errDaemon) || taken(err) }

// whyNot is why a port could not be opened, and what to do about it.
func whyNot(err error) string {
	if isAnothers(err) {
		return "another program there has the port, or had it and may come back; choose another port, or end it: ten " +
			"minutes later the port is free"
	}
	var wrapped *net.OpError
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err.Error() + "; see what keeps weft from listening there"
}
