package hyperv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/ctprobe"
	"github.com/weftnet/weft/node/nodetest"
)

// bridgeOf is a bridge as the probe dials it.
func bridgeOf(o *nodetest.OVN) ctprobe.Dial {
	socket := filepath.Join(filepath.Dir(o.Control(nodetest.Vswitchd)), "br-int.mgmt")
	return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", socket) }
}

// probesFlows are those of the bridge that have the probe's mark.
func probesFlows(o *nodetest.OVN) []string {
	socket := "unix:" + filepath.Join(filepath.Dir(o.Control(nodetest.Vswitchd)), "br-int.mgmt")
	var flows []string
	for line := range strings.Lines(o.Run("ovs-ofctl", "-OOpenFlow13", "dump-flows", socket)) {
		if strings.Contains(line, "cookie=0x7767") {
			flows = append(flows, strings.TrimSpace(line))
		}
	}
	return flows
}

// The probe tells the driver with the fault from the one without it, again and again, and from the datapath of Linux,
// and leaves none of its flows.
func TestTheProbeKnowsTheDatapath(t *testing.T) {
	for name, c := range map[string]struct {
		start func(*testing.T) *nodetest.OVN
		want  ctprobe.Answer
	}{
		"fault":    {func(t *testing.T) *nodetest.OVN { return startNode(t, KnownFaults()).OVN }, ctprobe.Needed},
		"no fault": {func(t *testing.T) *nodetest.OVN { return startNode(t, without(StaleTuple)).OVN }, ctprobe.Unneeded},
		"this alone": {func(t *testing.T) *nodetest.OVN { return startNode(t, Faults{StaleTuple: true}).OVN },
			ctprobe.Needed},
		"Linux' own": {func(t *testing.T) *nodetest.OVN {
			o := nodetest.StartOVS(t)
			o.VS("add-br", "br-int", "--", "set", "bridge", "br-int", "fail_mode=secure", "datapath_type="+nodetest.Datapath())
			return o
		}, ctprobe.Unneeded},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.start(t)
			for range 2 {
				answer, err := ctprobe.Run(t.Context(), bridgeOf(o))
				if answer != c.want || err != nil {
					t.Errorf("%v, %v; want %v", answer, err, c.want)
				}
				if flows := probesFlows(o); len(flows) > 0 {
					t.Errorf("flows are left: %s", flows)
				}
			}
		})
	}
}

// Flows of a probe that was killed are swept before the next one's packets come by, and nobody else's are.
func TestTheProbeSweepsTheOneBefore(t *testing.T) {
	n := startNode(t, KnownFaults())
	n.flows("cookie=0x7767000000000101,table=240,priority=100,actions=drop",
		"cookie=0x7766000000000101,table=240,priority=0,arp,actions=drop", "cookie=0x1,table=7,actions=drop")
	if answer, err := ctprobe.Run(t.Context(), bridgeOf(n.OVN)); answer != ctprobe.Needed || err != nil {
		t.Errorf("%v, %v", answer, err)
	}
	dump := n.Run("ovs-ofctl", "dump-flows", n.management())
	for cookie, stays := range map[string]bool{"0x7767": false, "0x7766000000000101": true, "cookie=0x1,": true} {
		if strings.Contains(dump, cookie) != stays {
			t.Errorf("a flow with %s is there: %v\n%s", cookie, !stays, dump)
		}
	}
}

// Where no packet comes back nothing is known, and the reason is told. Nothing is left when the packets are lost, when
// the context ends meanwhile, and when somebody deletes all flows.
func TestTheProbeWithoutPackets(t *testing.T) {
	n := startNode(t, KnownFaults())
	n.extension.SetLoseUpcalls(true)
	for name, c := range map[string]struct {
		meanwhile func(cancel context.CancelFunc)
		want      string
	}{
		"lost":      {func(context.CancelFunc) {}, "the request of a ping: the datapath has lost it"},
		"cancelled": {func(cancel context.CancelFunc) { cancel() }, context.Canceled.Error()},
		"deleted":   {func(context.CancelFunc) { n.Run("ovs-ofctl", "del-flows", n.management()) }, "somebody has deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				answer, err := ctprobe.Run(ctx, bridgeOf(n.OVN))
				if answer != ctprobe.Unknown {
					err = fmt.Errorf("%v, %v", answer, err)
				}
				ended <- err
			}()
			nodetest.Eventually(t, 5*time.Second, func() error {
				flows := strings.Join(probesFlows(n.OVN), "\n")
				if !strings.Contains(flows, "n_packets=1") {
					return errors.New("the first packet has not come")
				}
				if all := strings.Count(flows, "cookie="); strings.Count(flows, "hard_timeout=60,") != all {
					t.Errorf("one that is killed now leaves some of %d flows for ever:\n%s", all, flows)
				}
				return nil
			})
			c.meanwhile(cancel)
			if err := <-ended; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if flows := probesFlows(n.OVN); len(flows) > 0 {
				t.Errorf("flows are left: %s", flows)
			}
		})
	}
}

// Without Hyper-V's management the bridge has no port of its own, and nothing is known.
func TestTheProbeWithoutManagement(t *testing.T) {
	n := startNode(t, KnownFaults())
	n.VS("del-br", "br-int")
	n.extension.SetVMMS(false)
	n.VS("--no-wait", "add-br", "br-int", "--", "set", "bridge", "br-int", "fail_mode=secure")
	nodetest.Eventually(t, 10*time.Second, func() error {
		answer, err := ctprobe.Run(t.Context(), bridgeOf(n.OVN))
		if answer != ctprobe.Unknown || !strings.Contains(err.Error(), "lost it") {
			return fmt.Errorf("%v, %v", answer, err)
		}
		return nil
	})
}
