package southbound

import (
	"context"
	"sync/atomic"
	"time"
)

// ovn-controller leaves a server from which it has heard nothing for twice its ovn-remote-probe-interval: weft's agents
// set 3 s. The server does one thing at a time, and the reading of one node can take it longer than that. All others
// would leave then, come again, and have the server do more. So the guard itself tells a node that waits for an answer
// that it is there. RFC 7047, 4.1.11, lets both sides of a connection ask for an echo.
const (
	// lifeInterval is how often a node that waits for an answer hears from the guard. ovn-controller probes once a second
	// at most.
	lifeInterval = 800 * time.Millisecond
	// lifeID is of the guard's own requests, whose answers are not the server's.
	lifeID = "weft"
	// lifeRequest is what the guard asks of the node.
	lifeRequest = `{"id":"` + lifeID + `","method":"echo","params":[]}`
)

// lifeline tells a client that the guard is there, while a request of the client has no answer.
type lifeline struct {
	timer *time.Timer
	waits atomic.Bool // a request has no answer
}

// newLifeline makes one that calls tell from time to time while the client waits, until tell says that it is enough.
func newLifeline(tell func() (enough bool)) *lifeline {
	l := &lifeline{}
	l.timer = time.AfterFunc(lifeInterval, func() {
		if l.waits.Load() && !tell() {
			l.timer.Reset(lifeInterval)
		}
	})
	return l
}

// begin is when the client begins to wait.
func (l *lifeline) begin() {
	l.waits.Store(true)
	l.timer.Reset(lifeInterval)
}

// end is when it does no longer.
func (l *lifeline) end() {
	l.waits.Store(false)
	l.timer.Stop()
}

// tellLife asks the client for an echo, unless the client is being told something else. It is enough when the server
// has been away for long: then the client had better find another one. A client that does not read the request is
// left, as part of it may have been sent.
func (s *session) tellLife(quit context.CancelCauseFunc) (enough bool) {
	if s.guard.metrics.lives() != nil {
		return true
	}
	if !s.writing.TryLock() {
		return false
	}
	defer s.writing.Unlock()
	err := s.write([]byte(lifeRequest))
	if err != nil {
		quit(err)
	}
	return err != nil
}

// answersLife says whether a message is the answer to a request of the guard.
func (o object) answersLife() bool { return string(o["id"]) == `"`+lifeID+`"` }
