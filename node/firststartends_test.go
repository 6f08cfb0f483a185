package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
	"github.com/weftnet/weft/node/windows"
	"github.com/weftnet/weft/test/freeport"
)

// ending is a way in which a first start ends: nothing of it is done after that. Something may be lost at its end.
type ending struct {
	name  string
	end   func(s *firstStart, lose func(*firstStart))
	loses bool // something: otherwise the start would come to its end
}

// endings are at each call of the platform's that finds something new, after the one that makes what only its answer
// tells of, and later than all of them.
func endings(t *testing.T, moves bool) []ending {
	t.Helper()
	calls := callsOfAFirstStart(t, moves, soonGivenUp)
	found := []ending{}
	for i, name := range calls {
		if newState(calls, i) {
			found = append(found, ending{fmt.Sprintf("at call %d %s", i+1, name),
				func(s *firstStart, lose func(*firstStart)) { s.endsAt(i + 1); lose(s) }, false})
		}
	}
	return append(found,
		ending{"before it learns of its network",
			func(s *firstStart, lose func(*firstStart)) { s.endsUnanswered(); lose(s) }, false},
		ending{"over its bridges",
			func(s *firstStart, lose func(*firstStart)) { s.endsOverBridges(calls[len(calls)-1], lose) }, true})
}

// newState says whether something has changed between the call and the one before: most only ask. Before a network is
// made, its file is written.
func newState(calls []string, i int) bool {
	asks := []string{"Adapters", "Routes", "Networks", "Switch", "VMAdapter"}
	return i == 0 || calls[i] == "CreateNetwork" || !slices.Contains(asks, calls[i-1])
}

// abandon runs a start that ends where it calls end, which never returns. It may end before: it looks a varying number
// of times whether the addresses have come, so it has a varying number of calls.
func abandon(start func(end func())) {
	reached, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		start(func() {
			close(reached)
			select {}
		})
	}()
	select {
	case <-reached:
	case <-ended:
	}
}

// endsAt runs a first start that ends at its nth call of the platform, unless it has fewer.
func (s *firstStart) endsAt(nth int) {
	s.Helper()
	a := s.agent()
	abandon(func(end func()) {
		s.calls(func(n int, _ string) error {
			if n == nth {
				end()
			}
			return nil
		})
		a.gateway.ReconcileUplinkOnce(context.WithoutCancel(s.Context()))
	})
	s.FailAny(nil)
}

// unanswered is an HNS that makes a network after its caller has ended.
type unanswered struct {
	*hnstest.Machine
	end func()
}

func (u *unanswered) CreateNetwork(n hns.Network) (hns.Network, error) {
	made, err := u.Machine.CreateNetwork(n)
	u.end()
	return made, err
}

func (s *firstStart) endsUnanswered() {
	s.Helper()
	service := &unanswered{Machine: s.Machine}
	system, err := windows.NewOver(s.Config, service, s.Machine)
	if err != nil {
		s.Fatal(err)
	}
	a := s.agentOver(system)
	abandon(func(end func()) {
		service.end = end
		a.gateway.ReconcileUplinkOnce(context.WithoutCancel(s.Context()))
	})
}

// endsOverBridges runs a first start that loses something with its last call, and ends before it gives up the bridges
// that it has written. The last call has its name once the extension is enabled: its number varies, as it looks more or
// less often whether the addresses have come.
func (s *firstStart) endsOverBridges(last string, lose func(*firstStart)) {
	s.Helper()
	var enabled atomic.Bool
	losing := sync.OnceFunc(func() { lose(s) })
	s.calls(func(_ int, name string) error {
		switch {
		case name == "EnableExtension":
			enabled.Store(true)
		case name == last && enabled.Load():
			losing()
		}
		return nil
	})
	a := s.agent()
	a.gateway.Times.TakeUp = time.Hour
	go a.gateway.ReconcileUplinkOnce(context.WithoutCancel(s.Context()))
	s.n.Until(func() bool { return s.n.ovs.UplinkBridge(s.n.config.Owner()) != nil })
	s.FailAny(nil)
}

// restored tells when the host has been restored.
type restored struct {
	*windows.Platform
	done func()
}

func (r restored) RestoreHost(ctx context.Context) error {
	defer r.done()
	return r.Platform.RestoreHost(ctx)
}

// startWithoutDatabase is as far as an agent comes.
func (s *firstStart) startWithoutDatabase() error {
	s.Helper()
	s.Restart()
	config := s.n.config
	config.OVSDatabase = "tcp:" + freeport.Address(s.T)
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	_, err := connectDatabase(ctx, config, restored{s.Windows, cancel}, 50*time.Millisecond)
	return err
}

const ofNothing = "nothing"

// neverWorked are the losses by which a bridge never works, and that of nothing.
func neverWorked() map[string]loss {
	found := losses()
	refusing := func(broken func(string) bool) func(*firstStart) {
		return func(s *firstStart) { s.daemon.set(func(d *extensionDaemon) { d.broken = broken }) }
	}
	found["the adapter"] = loss{refusing(func(device string) bool { return device == "Ethernet" }), refusing(nil)}
	silent := func(silent bool) func(*firstStart) {
		return func(s *firstStart) {
			s.silent = silent
			s.daemon.set(func(d *extensionDaemon) { d.dead = silent }) // it has no other
		}
	}
	found["the database"] = loss{silent(true), silent(false)}
	found[ofNothing] = loss{func(*firstStart) {}, func(*firstStart) {}}
	return found
}

// An agent that ends tidies nothing up; the next one does, also where it cannot make an uplink: the host is reachable
// whatever has been lost meanwhile, and the start after that succeeds.
func TestFirstStartThatEndsAtAnyCall(t *testing.T) {
	for _, moves := range []bool{true, false} {
		for _, ending := range endings(t, moves) {
			for what, loss := range neverWorked() {
				if ending.loses && what == ofNothing {
					continue
				}
				t.Run(fmt.Sprintf("moves %v, %s, without %s", moves, ending.name, what), func(t *testing.T) {
					t.Parallel()
					newFirstStart(t).endsAndStarts(moves, ending, loss)
				})
			}
		}
	}
}

func (s *firstStart) endsAndStarts(moves bool, e ending, l loss) {
	s.Helper()
	s.Moves = moves
	soonGivenUp(s)
	s.Config.HNS.Deadline = time.Hour
	e.end(s, l.lose)
	s.takeUpTime = 300 * time.Millisecond
	if problem := s.start(); problem == nil {
		s.whole(nil)
	} else {
		s.alone()
	}
	l.mend(s)
	s.takeUpTime = nodetest.Patience
	s.whole(s.start())
}

// The host is no worse off where the agent ends while it gives the adapter back.
func TestFirstStartThatEndsInItsTidying(t *testing.T) {
	for _, moves := range []bool{true, false} {
		s := newFirstStart(t)
		s.Moves = moves
		soonGivenUp(s)
		names := []string{}
		s.tidying(func(_ int, call string) error { names = append(names, call); return nil })
		for i, name := range names {
			if !newState(names, i) {
				continue
			}
			end := func(s *firstStart, lose func(*firstStart)) {
				abandon(func(end func()) {
					s.tidying(func(nth int, _ string) error {
						if nth == i+1 {
							end()
						}
						return nil
					})
				})
				s.FailAny(nil)
				lose(s)
			}
			for _, what := range []string{"nothing", "ovs-vswitchd", "the database"} {
				t.Run(fmt.Sprintf("moves %v, call %d %s, without %s", moves, i+1, name, what), func(t *testing.T) {
					t.Parallel()
					newFirstStart(t).endsAndStarts(moves, ending{name, end, false}, neverWorked()[what])
				})
			}
		}
	}
}

// The database may go at any call, too: the next pass waits for it a while, and then does without.
func TestFirstStartThatLosesItsDatabaseAtAnyCall(t *testing.T) {
	for _, moves := range []bool{true, false} {
		calls := callsOfAFirstStart(t, moves, soonGivenUp)
		for i, name := range calls {
			if !newState(calls, i) {
				continue
			}
			t.Run(fmt.Sprintf("moves %v, call %d %s", moves, i+1, name), func(t *testing.T) {
				t.Parallel()
				s := newFirstStart(t)
				s.Moves, s.silent = moves, true
				soonGivenUp(s)
				var lost sync.Once
				s.calls(func(nth int, _ string) error {
					if nth == i+1 {
						lost.Do(s.n.ovs.Close)
					}
					return nil
				})
				a := s.agent()
				a.gateway.Times.TakeUp = 300 * time.Millisecond
				a.gateway.ReconcileUplinkOnce(t.Context())
				s.FailAny(nil)
				lost.Do(s.n.ovs.Close) // it has looked fewer times whether the addresses have come
				a.gateway.ReconcileUplinkOnce(t.Context())
				if problem := a.health.Problems()[health.Uplink]; problem != nil {
					s.alone()
				}
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
			_ = s.start()
			if s.NetworkCount() != 1 || s.n.ovs.UplinkBridge(s.n.config.Owner()) == nil {
				t.Fatalf("it was taken away\n%s", s.Dump())
			}
			loss.mend(s)
			s.takeUpTime = nodetest.Patience
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
