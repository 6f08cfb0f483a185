package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
)

// neverWorked are the losses by which a bridge is written and never works.
func neverWorked() map[string]loss {
	found := losses()
	refusing := func(broken func(string) bool) func(*firstStart) {
		return func(s *firstStart) { s.daemon.set(func(d *extensionDaemon) { d.broken = broken }) }
	}
	found["the adapter"] = loss{refusing(func(device string) bool { return device == "Ethernet" }), refusing(nil)}
	return found
}

// endsOverBridges runs a first start whose bridges do not work, as something is lost with its last call, and that ends
// before it gives them up: after that nothing of it is done any more.
func (s *firstStart) endsOverBridges(last int, lose func(*firstStart)) {
	s.Helper()
	s.calls(func(nth int, _ string) error {
		if nth == last {
			lose(s)
		}
		return nil
	})
	patience := s.takeUpTime
	s.takeUpTime = time.Hour
	a := s.agent()
	s.takeUpTime = patience
	go a.gateway.ReconcileUplinkOnce(context.WithoutCancel(s.Context()))
	s.n.until(func() bool { return s.n.ovs.UplinkBridge(s.n.config.Owner()) != nil })
	s.FailAny(nil)
}

// That there is a bridge does not say that it has ever worked: the next agent gives the host its adapter back all
// the same.
func TestFirstStartThatEndsOverBridgesThatDoNotWork(t *testing.T) {
	for _, moves := range []bool{true, false} {
		last := len(callsOfAFirstStart(t, moves, soonGivenUp))
		for what, loss := range neverWorked() {
			t.Run(fmt.Sprintf("moves %v, without %s", moves, what), func(t *testing.T) {
				t.Parallel()
				s := newFirstStart(t)
				s.Moves = moves
				soonGivenUp(s)
				s.endsOverBridges(last, loss.lose)
				s.takeUpTime = 300 * time.Millisecond
				if problem := s.start(); problem == nil {
					t.Error("it succeeds")
				}
				s.alone()
				loss.mend(s)
				s.takeUpTime = 2 * time.Second
				s.whole(s.start())
			})
		}
	}
}

// A bridge that has worked is what the host depends on, also for an agent that starts anew.
func TestBridgeThatHasWorkedStays(t *testing.T) {
	for what, loss := range neverWorked() {
		t.Run("without "+what, func(t *testing.T) {
			t.Parallel()
			s := newFirstStart(t)
			s.whole(s.start())
			loss.lose(s)
			s.takeUpTime = 300 * time.Millisecond
			s.start()
			if s.NetworkCount() != 1 || s.n.ovs.UplinkBridge(s.n.config.Owner()) == nil {
				t.Fatalf("it was taken away\n%s", s.Dump())
			}
			loss.mend(s)
			s.takeUpTime = 2 * time.Second
			s.whole(s.start())
		})
	}
}

// What cannot be written down would count as never seen to work: it is given up at once.
func TestFirstStartThatCannotBeConfirmed(t *testing.T) {
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
	n.loseSwitch()
	n.platform.Failing("ConfirmUplink", errors.New("the disk is full"))
	n.gateway.ReconcileUplinkOnce(t.Context())
	if n.platform.Called("ReleaseUplink") != 1 {
		t.Errorf("%d releases: %s", n.platform.Called("ReleaseUplink"), n.uplinkProblem())
	}
}
