package ctprobe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/weftnet/weft/node/openflow"
)

// Answer is what a probe has found.
type Answer int

// Answers. Unknown is the zero value, and comes with a reason.
const (
	Unknown Answer = iota
	Needed
	Unneeded
)

func (a Answer) String() string {
	switch a {
	case Needed:
		return "needed"
	case Unneeded:
		return "unneeded"
	}
	return "unknown"
}

// Dial connects to a bridge for OpenFlow.
type Dial func(context.Context) (net.Conn, error)

const (
	// probeTime bounds a probe, removeTime the removal of its flows, which comes after that.
	probeTime  = 10 * time.Second
	removeTime = 5 * time.Second
	// lossTime is how long a packet may be on its way. ovs-vswitchd asks the datapath twice a second what its flows have
	// counted (udpif_revalidator of ofproto/ofproto-dpif-upcall.c), if it did not see the packet itself.
	lossTime = 3 * time.Second
)

// Run asks the datapath of a bridge. The error is why an answer is [Unknown], and nil with another one. Whatever comes
// of it, ctx ended or not, the probe's flows are gone from the bridge afterwards; if they cannot be removed that is
// logged, and they expire within a minute. A second probe at the same time would take the flows of the first away.
func Run(ctx context.Context, dial Dial) (answer Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	s, err := open(ctx, dial)
	if err != nil {
		return Unknown, fmt.Errorf("connect to the bridge: %w", err)
	}
	defer s.close()
	defer remove(ctx, dial)
	trials := newTrials()
	messages := [][]byte{removal()}
	for _, t := range trials {
		messages = append(messages, t.flows()...)
	}
	if _, err := s.do(messages...); err != nil {
		return Unknown, fmt.Errorf("add the probe's flows: %w", err)
	}
	return evaluate(trials, func(t trial) (bool, error) { return s.try(ctx, t) })
}

// evaluate asks of each kind of exchange whether its reply is known for one, and where not, whether a lookup cures
// that.
func evaluate(trials []trial, known func(trial) (bool, error)) (Answer, error) {
	answer := Unneeded
	for _, t := range trials {
		if t.lookup {
			continue
		}
		ok, err := known(t)
		if err != nil {
			return Unknown, err
		}
		if ok {
			continue
		}
		if cured, err := known(t.cure(trials)); err != nil {
			return Unknown, err
		} else if !cured {
			return Unknown, fmt.Errorf("the datapath does not know the reply of %v, a lookup before its commit or not", t.kind)
		}
		answer = Needed
	}
	return answer, nil
}

// remove takes the probe's flows away on a connection of its own: that of the probe has ended with its context.
func remove(ctx context.Context, dial Dial) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	s, err := open(ctx, dial)
	if err == nil {
		defer s.close()
		_, err = s.do(removal())
	}
	if err != nil {
		slog.WarnContext(ctx, "the probe's flows stay on the bridge until they expire", "error", err)
	}
}

// try says whether the datapath knows the trial's reply for one.
func (s *session) try(ctx context.Context, t trial) (bool, error) {
	if err := s.send(ctx, tableRequest, t.request(), t.cookie(committed)); err != nil {
		return false, fmt.Errorf("the request of %v: %w", t, err)
	}
	if err := s.send(ctx, tableReply, t.reply(), t.cookie(recognized), t.cookie(unrecognized)); err != nil {
		return false, fmt.Errorf("the reply of %v: %w", t, err)
	}
	counts, err := s.count(t.cookie(recognized))
	if err != nil {
		return false, err
	}
	return counts > 0, nil
}

// errLost: no flow has counted a packet.
var errLost = errors.New("the datapath has lost it, or does not track it")

// send injects a packet, and returns when one of the flows has counted it.
func (s *session) send(ctx context.Context, table byte, packet []byte, cookies ...uint64) error {
	if _, err := s.do(packetOut(table, packet)); err != nil {
		return fmt.Errorf("inject the packet: %w", err)
	}
	lost := time.After(lossTime)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		for _, cookie := range cookies {
			counts, err := s.count(cookie)
			if err != nil || counts > 0 {
				return err
			}
		}
		select {
		case <-time.After(pause):
		case <-lost:
			return errLost
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// count asks how many packets the flow of a cookie has had.
func (s *session) count(cookie uint64) (uint64, error) {
	answers, err := s.do(openflow.AggregateRequest(0, cookie))
	if err != nil {
		return 0, fmt.Errorf("ask for the flows' counters: %w", err)
	}
	if len(answers) != 1 {
		return 0, fmt.Errorf("ask for the flows' counters: %d answers to one question", len(answers))
	}
	counted, err := openflow.ParseAggregate(answers[0])
	if err == nil && counted.Flows == 0 {
		err = errors.New("somebody has deleted the probe's flows")
	}
	return counted.Packets, err
}

// newTrials are of each kind one without the lookup and one with it. Their numbers are new ones, since connections of
// an earlier probe are remembered for a minute.
func newTrials() []trial {
	var trials []trial
	for _, k := range []kind{ping, translated} {
		for _, lookup := range []bool{false, true} {
			number := uint16(1024 + rand.N(1<<16-1024))
			trials = append(trials, trial{kind: k, lookup: lookup, index: byte(len(trials)), number: number})
		}
	}
	return trials
}
