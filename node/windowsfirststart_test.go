package node

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/ovsdb"
)

// newFirstStart is a Windows node before its agent's first start, with an ovs-vswitchd.
func newFirstStart(t *testing.T, daemon *vswitchd) (*bareNode, *winBench) {
	t.Helper()
	n := newUplinkNode(t, daemon)
	n.takeUpTime = 2 * time.Second
	b := newWinBench(t, func(c *WindowsConfig) { c.AddressTime, c.RetryTime = 50*time.Millisecond, time.Nanosecond })
	n.agent.platform = b.windows
	b.Calls()
	return n, b
}

// survives: after a first start that failed the host has its addresses, and no bridge is left without its switch.
// The next start succeeds.
func (n *bareNode) survives(t *testing.T, b *winBench) {
	t.Helper()
	if b.networks() == 0 {
		b.reachable("Ethernet")
		if left := ovsdb.List[vswitch.Bridge](n.ovs.Client, nil); len(left) > 0 {
			t.Errorf("%d bridges are left without a switch", len(left))
		}
	} else {
		b.reachable("vEthernet (Ethernet)")
	}
}

func (n *bareNode) startsNow(t *testing.T, b *winBench) {
	t.Helper()
	n.keepUplinkOnce(t.Context())
	if problem := n.health.problems()[conditionUplink]; problem != nil {
		t.Fatalf("the next start: %v\n%s", problem, b.Dump())
	}
	b.reachable("vEthernet (Ethernet)")
}

// Each call of HNS that a first start makes fails in turn, and with it all that follow of its name; HNS answers
// again for the next start.
func TestFirstStartSurvivesAFailureAtEachCallOfHNS(t *testing.T) {
	n, b := newFirstStart(t, &vswitchd{})
	n.startsNow(t, b)
	calls := b.Calls()
	if !slices.Contains(calls, "CreateNetwork") || !slices.Contains(calls, "EnableExtension") {
		t.Fatalf("a first start calls %v", calls)
	}
	for at, call := range calls {
		t.Run(call, func(t *testing.T) {
			n, b := newFirstStart(t, &vswitchd{})
			well := countOf(calls[:at], call)
			b.Fail(call, func() error {
				if well--; well >= 0 {
					return nil
				}
				return errors.New("the RPC server is unavailable")
			})
			n.keepUplinkOnce(t.Context())
			if n.health.problems()[conditionUplink] == nil {
				t.Error("nobody is told")
			}
			b.Fail(call, nil)
			n.survives(t, b)
			n.startsNow(t, b)
		})
	}
}

func countOf(calls []string, call string) int {
	return len(calls) - len(slices.DeleteFunc(slices.Clone(calls), func(c string) bool { return c == call }))
}

// Open vSwitch does not take one of the devices up, or the extension is not there.
func TestFirstStartSurvivesOpenVSwitchAndTheDriver(t *testing.T) {
	for _, device := range []string{"Ethernet", "vEthernet (Ethernet)"} {
		t.Run("refuses "+device, func(t *testing.T) {
			n, b := newFirstStart(t, &vswitchd{refuses: device})
			n.keepUplinkOnce(t.Context())
			if b.networks() != 0 {
				t.Errorf("the host keeps a switch that does not work: %s", n.uplinkProblem())
			}
			n.survives(t, b)
		})
	}
	for name, fault := range map[string]func(*winBench, bool){
		"no driver":                  func(b *winBench, now bool) { b.Driver = !now },
		"HNS enables nothing":        func(b *winBench, now bool) { b.Disobeys = now },
		"Windows moves no addresses": func(b *winBench, now bool) { b.Moves = !now },
	} {
		t.Run(name, func(t *testing.T) {
			n, b := newFirstStart(t, &vswitchd{})
			fault(b, true)
			n.keepUplinkOnce(t.Context())
			n.survives(t, b)
			fault(b, false)
			n.startsNow(t, b)
		})
	}
}

// The agent ends at any call of HNS; another one starts over what is there.
func TestFirstStartIsGoneOnWithByAnotherAgent(t *testing.T) {
	n, b := newFirstStart(t, &vswitchd{})
	n.startsNow(t, b)
	for _, call := range slices.Compact(b.Calls()) {
		t.Run(call, func(t *testing.T) {
			n, b := newFirstStart(t, &vswitchd{})
			ended := false
			for _, each := range []string{"Network", "Networks", "CreateNetwork", "Switch", "EnableExtension", "DeleteNetwork"} {
				b.Fail(each, func() error {
					if ended = ended || each == call; ended {
						return errors.New("nothing is done by an agent that has ended")
					}
					return nil
				})
			}
			n.keepUplinkOnce(t.Context())
			for _, each := range []string{"Network", "Networks", "CreateNetwork", "Switch", "EnableExtension", "DeleteNetwork"} {
				b.Fail(each, nil)
			}
			b.restart()
			n.agent.platform, n.uplink.failures = b.windows, 0
			n.uplink.set(Uplink{})
			n.startsNow(t, b)
		})
	}
}
