package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
)

// TestFlowsAreCompleteWhenNoMoreCome: a bridge without flows, one that cannot be asked, and one whose flows still come
// are waited for.
func TestFlowsAreCompleteWhenNoMoreCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		const first, last = 10 * time.Second, 20 * time.Second
		count := func(context.Context) (uint32, error) {
			switch at := time.Since(began); {
			case at < first/2:
				return 0, errors.New("no such bridge")
			case at < first:
				return 0, nil
			default:
				return uint32(min(at, last) / (flowsStill * 9 / 10)), nil
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), first-flowsPeriod/2)
		defer cancel()
		if flows, err := complete(ctx, count); flows != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without flows: %d, %v", flows, err)
		}
		flows, err := complete(t.Context(), count)
		if took := time.Since(began); err != nil || flows != 22 || took < last+flowsStill/2 || took > last+2*flowsStill {
			t.Errorf("%d flows are complete after %v: %v", flows, took, err)
		}
	})
}

// TestAwaitFlows: it ends when each bridge has flows, and not before. br-ex has one of Open vSwitch's own from its
// start.
func TestAwaitFlows(t *testing.T) {
	o := nodetest.StartOVN(t)
	for _, bridge := range []string{"br-int", "br-ex"} {
		o.VS("--may-exist", "add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type="+nodetest.Datapath())
	}
	c := nodeconfig.Default()
	c.OVSDatabase, c.Gateway = o.OVSDatabase(), nodeconfig.GatewayLocal
	folder := "unix:" + filepath.Dir(strings.TrimPrefix(o.OVSDatabase(), "unix:")) + "/"
	add := func(bridge string, port int) {
		t.Helper()
		o.Run("ovs-ofctl", "add-flow", folder+bridge+".mgmt",
			fmt.Sprintf("cookie=%#x,udp,tp_dst=%d,actions=drop", uint64(extbridge.CookieMark)|5, port))
	}

	add("br-int", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*flowsStill)
	defer cancel()
	if err := AwaitFlows(ctx, c); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "br-ex are not complete: 0 have come") {
		t.Errorf("br-ex has no flow: %v", err)
	}

	add("br-ex", 1)
	if err := AwaitFlows(t.Context(), c); err != nil {
		t.Error(err)
	}
}
