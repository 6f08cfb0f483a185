//go:build linux

package chassis

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/tunnel"
)

// state of a node that is held.
type state string

const (
	starting     state = "starting"      // ovn-controller runs, and does not answer or has not both streams yet
	unreachable  state = "unreachable"   // the node's agent, or what it leads to
	noSouthbound state = "no-southbound" // ovn-controller is not connected to it
	backoff      state = "backoff"       // ovn-controller has ended and is not yet started again
	connected    state = "connected"     // to the node's database and bridge, and to the Southbound
)

var states = []state{starting, unreachable, noSouthbound, backoff, connected}

// status is what is known of a member.
type status struct {
	mu       sync.Mutex
	address  string
	resting  error // between two runs
	answer   string
	streams  map[tunnel.Target]int
	since    map[tunnel.Target]time.Time // of streams
	problems map[tunnel.Target]*problem
	told     map[tunnel.Reason]time.Time // when an Event was last written
	refused  string                      // what the guard has found in the database last, "" after it was good
	refusals saying                      // of that
	ends     saying                      // of runs
}

// saying is what was last told of one matter.
type saying struct {
	text string
	at   time.Time
}

// due says whether a text is to be told now: the same one again after long, and another one after a while, since
// whoever has the node chooses it.
func (s *saying) due(text string, now time.Time) bool {
	pause := complaintEvery
	if s.text != text {
		pause = otherPause
	}
	if now.Sub(s.at) < pause {
		return false
	}
	s.text, s.at = text, now
	return true
}

// problem is why there is no stream, since then.
type problem struct {
	*tunnel.Error
	since time.Time
}

func (s *status) begin(address string) {
	s.address = address
	s.streams, s.since = map[tunnel.Target]int{}, map[tunnel.Target]time.Time{}
	s.problems, s.told = map[tunnel.Target]*problem{}, map[tunnel.Reason]time.Time{}
}

// rest records how a run has ended, and says whether that is to be told.
func (s *status) rest(reason error, now time.Time) (tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resting, s.answer = reason, ""
	return s.ends.due(reason.Error(), now)
}

func (s *status) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resting, s.answer = nil, ""
}

func (s *status) southbound(answer string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		answer = ""
	}
	s.answer = answer
}

// move follows the agent to another address.
func (s *status) move(address string) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.address != address
	s.address = address
	return changed
}

func (s *status) dialAddress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// failed records that a stream could not be opened, and says whether that is news.
func (s *status) failed(target tunnel.Target, err error) (reason tunnel.Reason, news bool) {
	known := new(tunnel.Error)
	if !errors.As(err, &known) {
		known = &tunnel.Error{Reason: tunnel.Unreachable, Text: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.worst()
	if p := s.problems[target]; p != nil && p.Reason == known.Reason {
		p.Error = known
		return known.Reason, false
	}
	s.problems[target] = &problem{known, time.Now()}
	return known.Reason, before == nil || before.Reason != known.Reason
}

// opened records a stream, and says whether that ends a problem; closed takes it back.
func (s *status) opened(target tunnel.Target) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[target] == 0 {
		s.since[target] = time.Now()
	}
	s.streams[target]++
	news = s.problems[target] != nil
	delete(s.problems, target)
	return news && s.worst() == nil
}

func (s *status) closed(target tunnel.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[target]--
}

// distrust records what the node's database has and may not have, and says whether that is to be told.
func (s *status) distrust(text string) (tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = text
	return s.refusals.due(text, time.Now())
}

// trust takes it back.
func (s *status) trust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = ""
}

// hasDatabase says whether there has been a stream to the database for that long.
func (s *status) hasDatabase(now time.Time, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[tunnel.OVSDB] > 0 && now.Sub(s.since[tunnel.OVSDB]) >= d
}

// worst is the problem to tell, the caller has the lock.
func (s *status) worst() *problem {
	for _, target := range []tunnel.Target{tunnel.OVSDB, tunnel.OpenFlow} {
		if p := s.problems[target]; p != nil {
			return p
		}
	}
	return nil
}

// state sums it up, with what a person needs to know of it.
func (s *status) state() (state, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := s.worst(); {
	case s.resting != nil:
		return backoff, s.resting.Error()
	case p != nil:
		return unreachable, fmt.Sprintf("%s: %v", p.Reason, p.Error)
	case s.refused != "":
		return unreachable, fmt.Sprintf("%s: %s", badDatabase, s.refused)
	case s.answer != "" && s.answer != "connected":
		return noSouthbound, "ovn-controller is " + s.answer + " from the Southbound; see its log above, and the key " +
			"ovn-southbound of this host, or without it ovn-remote in the node's Open_vSwitch row"
	case s.answer == "connected" && s.streams[tunnel.OVSDB] > 0 && s.streams[tunnel.OpenFlow] > 0:
		return connected, ""
	case s.answer == "":
		return starting, "ovn-controller does not answer"
	}
	return starting, "ovn-controller is not connected to the node's Open vSwitch yet"
}

// outOfReach is how long no agent could be reached; another host may reach it. A node whose Open
// vSwitch does not answer its own agent is no such case.
func (s *status) outOfReach(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.problems[tunnel.OVSDB]
	if p == nil || p.Reason == tunnel.TargetDown || s.streams[tunnel.OVSDB] > 0 {
		return 0
	}
	return now.Sub(p.since)
}

const (
	// complaintAfter spares users the restart of an agent.
	complaintAfter = 10 * time.Second
	complaintEvery = 30 * time.Minute
	// otherPause is between two different things said of one matter.
	otherPause = 5 * time.Second
)

// complaint is what must be told on the Node object now: each reason once, and again when it still
// holds much later.
func (s *status) complaint(now time.Time) (reason *reasons.Event, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.worst()
	if p == nil || now.Sub(p.since) < complaintAfter {
		return nil, ""
	}
	if last, ok := s.told[p.Reason]; ok && now.Sub(last) < complaintEvery {
		return nil, ""
	}
	s.told[p.Reason] = now
	reason = chassisHandshakeFailed
	switch p.Reason {
	case tunnel.Unreachable, tunnel.NoHandshake, tunnel.TargetDown, tunnel.TooMany:
		reason = chassisUnreachable
	}
	return reason, fmt.Sprintf("no stream from the chassis host to the agent at %s (%s): %v; running pods keep their "+
		"flows, new ones wait", s.address, p.Reason, p.Error)
}
