package node

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
)

// The host's interface waits for the MTU of the tunnels: no system takes 0 for one.
func TestManagementWaitsForTheTunnelsMTU(t *testing.T) {
	a := newFirstStart(t).agent()
	waits := func() bool {
		err := a.reconcileManagement(t.Context(), bareNetwork)
		return err != nil && strings.Contains(err.Error(), "node-facts")
	}
	if !waits() {
		t.Error("it does not wait")
	}
	a.podMTU = 1442
	if waits() {
		t.Error("it waits although the MTU is known")
	}
}

func TestManagementFollowsTheNodesNetwork(t *testing.T) {
	m := management(contract.NodeNetwork{
		PodCIDRs:     nodetest.Prefixes("10.244.1.0/24", "fd00:10:244:1::/64"),
		ClusterCIDRs: nodetest.Prefixes("10.244.0.0/16", "fd00:10:244::/48"),
		ServiceCIDRs: nodetest.Prefixes("10.96.0.0/16"),
	}, 1442)
	v4, gw4 := netip.MustParseAddr("10.244.1.2"), netip.MustParseAddr("10.244.1.1")
	v6, gw6 := netip.MustParseAddr("fd00:10:244:1::2"), netip.MustParseAddr("fd00:10:244:1::1")
	want := platform.Management{
		Device: platform.ManagementDevice, MTU: 1442, MAC: contract.MAC(v4),
		Addresses: nodetest.Prefixes("10.244.1.2/24", "fd00:10:244:1::2/64"),
		Routes: []platform.Route{
			{Destination: netip.MustParsePrefix("10.244.0.0/16"), NextHop: gw4, Source: v4},
			{Destination: netip.MustParsePrefix("10.96.0.0/16"), NextHop: gw4, Source: v4},
			{Destination: netip.MustParsePrefix("fd00:10:244::/48"), NextHop: gw6, Source: v6},
		},
	}
	if diff := cmp.Diff(want, m, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}
