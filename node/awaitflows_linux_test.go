package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
)

// TestAwaitFlows: it ends when each bridge has flows and gets no more, and not before. br-ex has one of Open
// vSwitch's own from its start.
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
	ended := make(chan error, 1)
	go func() { ended <- AwaitFlows(t.Context(), c) }()
	for began, port := time.Now(), 2; time.Since(began) < 2*flowsStill; port++ {
		add("br-ex", port)
		if len(ended) > 0 {
			t.Fatalf("it ended while flows came: %v", <-ended)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
