package node

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/ovsdb"
)

// What an agent has made is taken back by who calls release, twice.
func TestWindowsHostGetsItsAdapterBack(t *testing.T) {
	n := newUplinkNode(t, &vswitchd{})
	machine := newWinBench(t)
	machine.ensureUplink()
	n.keepUplinkOnce(t.Context())
	n.config.Chassis = ChassisHosted
	root, err := n.ovs.root()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.ovs.apply(t.Context(), slices.Concat(
		n.ovs.ensureBridge(root, bridgeSettings{owner: "Somebody/else", name: "br-storage", failMode: vswitch.BridgeFailModeStandalone}))); err != nil {
		t.Fatal(err)
	}
	if _, err := n.ovs.Transact(t.Context(), mutateRow(vswitch.OpenvSwitchTable, root.UUID,
		setKeys("external_ids", root.ExternalIDs, map[string]string{
			"rack": "r7", "ovn-bridge-mappings": root.ExternalIDs["ovn-bridge-mappings"] + ",storage:br-storage",
		})...)); err != nil {
		t.Fatal(err)
	}
	n.until(func() bool { return n.ovs.bridge("br-storage") != nil && n.ovs.bridge(integrationBridge) != nil })
	machine.Fail("DeleteNetwork", func() error {
		if n.ovs.bridge(integrationBridge) != nil || n.ovs.uplinkBridge(n.config.owner()) != nil {
			t.Error("the network goes before the bridges")
		}
		return nil
	})
	for _, want := range []string{"the host has adapter Ethernet for itself again, with the addresses [172.30.0.3/24 fd30::3/64]", "nothing is shared: the host has its adapters for itself"} {
		said, err := releaseWindows(t.Context(), n.config, machine.windows, n.ovs, nil)
		if err != nil || said != want {
			t.Fatalf("said %q, want %q; error %v", said, want, err)
		}
		machine.reachable("Ethernet")
		if machine.networks() != 0 {
			t.Error("the HNS network is still there")
		}
		n.until(func() bool {
			return n.ovs.bridge(integrationBridge) == nil && n.ovs.bridge("vEthernet (Ethernet)") == nil
		})
		if bridges := ovsdb.List[vswitch.Bridge](n.ovs.Client, nil); len(bridges) != 1 || bridges[0].Name != "br-storage" {
			t.Errorf("bridges %v", bridges)
		}
		n.until(func() bool {
			root, err := n.ovs.root()
			return err == nil && maps.Equal(root.ExternalIDs, map[string]string{"rack": "r7", "ovn-bridge-mappings": "storage:br-storage"})
		})
	}
}

// The adapter is the host's again though Open vSwitch is dead, and whoever asked is told what is left.
func TestWindowsHostGetsItsAdapterBackWithoutOpenVSwitch(t *testing.T) {
	machine := newWinBench(t)
	machine.ensureUplink()
	said, err := releaseWindows(t.Context(), Config{NodeName: "n1"}, machine.windows, nil, context.DeadlineExceeded)
	if err == nil || !strings.Contains(err.Error(), "start it and repeat this") {
		t.Errorf("said %q, error %v", said, err)
	}
	machine.reachable("Ethernet")
	if machine.networks() != 0 {
		t.Error("the HNS network is still there")
	}
}

// A network that somebody else has made under the same name stays, and so do the bridges.
func TestWindowsReleaseLeavesAForeignNetworkAlone(t *testing.T) {
	n := newUplinkNode(t, &vswitchd{})
	n.keepUplinkOnce(t.Context())
	machine := newWinBench(t)
	machine.ensureUplink()
	if err := machine.windows.saved.remove(); err != nil {
		t.Fatal(err)
	}
	if said, err := releaseWindows(t.Context(), n.config, machine.windows, n.ovs, nil); err == nil || !strings.Contains(err.Error(), "was not made by weft") {
		t.Errorf("said %q, error %v", said, err)
	}
	if machine.networks() != 1 || n.ovs.bridge(integrationBridge) == nil {
		t.Error("something was removed")
	}
}
