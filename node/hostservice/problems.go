package hostservice

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/hostservice/listeners"
)

// problem is something that the owner of an object is told by an Event.
type problem struct {
	object  Object
	reason  *reasons.Event
	message string
}

// yieldsTo says whether a program of the host's has a socket, and keeps what comes there from outside. err is why the
// socket is not open.
func (h holder) yieldsTo(at listeners.Socket, err error) bool {
	return h.yields && listeners.IsTakenByDaemon(at, err)
}

// busyOf are the sockets that programs of the host's have, and keep.
func busyOf(holders map[listeners.Socket]holder, failed map[listeners.Socket]error) listeners.Set {
	busy := listeners.Set{}
	for at, err := range failed {
		if holders[at].yieldsTo(at, err) {
			busy.Add(at)
		}
	}
	return busy
}

// listenProblems are what owners are told of sockets that could not be opened: one a port, whatever
// number of addresses the host has. An address that has just come or gone is no problem of anybody's.
func listenProblems(holders map[listeners.Socket]holder, failed map[listeners.Socket]error) []problem {
	type refusal struct {
		object     Object
		field, why string
		port       port
		elsewhere  string
	}
	at := map[refusal][]netip.Addr{}
	for s, err := range failed {
		if errors.Is(err, listeners.ErrNoAddress) {
			continue
		}
		h := holders[s]
		one := refusal{h.object, h.field, whyNot(err), port{s.Protocol, s.At.Port()},
			"clients that OVN serves and other ports are not concerned"}
		if h.yieldsTo(s, err) {
			one.elsewhere = "what comes there from pods and from outside is that program's, too; other ports are not concerned"
		}
		at[one] = append(at[one], s.At.Addr())
	}
	var problems []problem
	for one, addrs := range at {
		slices.SortFunc(addrs, netip.Addr.Compare)
		problems = append(problems, problem{object: one.object, reason: hostPortUnavailable, message: fmt.Sprintf(
			"%s: on this node %s port %d is not served at the host's addresses %v: %s; %s",
			one.field, one.port.protocol, one.port.number, addrs, one.why, one.elsewhere)})
	}
	return problems
}

// whyNot is why a port could not be opened, and what to do about it.
func whyNot(err error) string {
	if listeners.IsTaken(err) {
		return "another program there has the port, or had it and may come back; choose another port, or end it: ten " +
			"minutes later the port is free"
	}
	var wrapped *net.OpError
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err.Error() + "; see what keeps weft from listening there"
}

// checkProblem is what the owner of a health check is told that is not served.
func checkProblem(check healthCheck, err error) problem {
	why := err.Error()
	if listeners.IsTaken(err) {
		why = "another program on the node has that port, or had it before the agent began"
	}
	return problem{object: check.owner, reason: healthCheckPortUnavailable, message: fmt.Sprintf(
		"spec.healthCheckNodePort: %d is not served on this node: %s; end that program, or make the Service anew with "+
			"another port; the node looks unhealthy to the load balancer until then",
		check.port, why)}
}
