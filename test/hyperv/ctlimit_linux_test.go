package hyperv

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
)

// ovs-vswitchd gives the limits of its database (CT_Zone), as ovn-controller writes them, to the driver, gives them
// again to one that has forgotten all, and takes them back. A zone at its limit hinders no other.
func TestZoneLimitsOfTheDatabase(t *testing.T) {
	n := startNode(t, without(StaleTuple))
	one, two, three, four := n.pod(1), n.pod(2), n.pod(3), n.pod(4)
	flows := func() {
		n.flows("priority=2,icmp,in_port=1,actions=ct(table=1,zone=7)",
			"priority=2,icmp,in_port=2,actions=ct(table=1,zone=7)",
			"priority=1,icmp,actions=ct(table=1,zone=8)",
			"table=1,ct_state=+new,ct_zone=7,icmp,actions=ct(commit,zone=7),normal",
			"table=1,ct_state=+new,ct_zone=8,icmp,actions=ct(commit,zone=8),normal",
			"table=1,ct_state=+est,actions=normal")
	}
	limited := func(want string) {
		t.Helper()
		nodetest.Eventually(t, 10*time.Second, func() error {
			if got := n.ctl("dpctl/ct-get-limits", "zone=7"); !strings.Contains(got, want) {
				return fmt.Errorf("%s; not %s", got, want)
			}
			return nil
		})
	}
	n.VS("--", "--id=@zone", "create", "CT_Zone", "limit=3",
		"--", "--id=@datapath", "create", "Datapath", "ct_zones:7=@zone", "--", "set", "Open_vSwitch", ".",
		"datapaths:system=@datapath")
	limited("zone=7,limit=3,count=0")
	flows()
	for connection := 1; connection <= 4; connection++ { // each ping has an identifier of its own
		if got, want := one.ping(two.address, 1), min(4-connection, 1); got != want {
			t.Errorf("connection %d: %d answers", connection, got)
		}
		if three.ping(four.address, 1) != 1 {
			t.Errorf("connection %d beside the zone has no answer", connection)
		}
	}
	limited("zone=7,limit=3,count=3")
	n.extension.SetEnabled(false)
	n.expectAbort()
	n.extension.SetEnabled(true)
	n.Start(nodetest.Vswitchd)
	limited("zone=7,limit=3,count=0")
	n.VS("clear", "Datapath", ".", "ct_zones")
	limited("zone=7,limit=2097152")
}
