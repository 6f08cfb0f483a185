package node

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
	"github.com/weftnet/weft/node/windows"
	"github.com/weftnet/weft/node/windows/windowstest"
	"github.com/weftnet/weft/ovsdb"
)

// What an agent has made is taken back by who calls release, twice.
func TestWindowsHostGetsItsAdapterBack(t *testing.T) {
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
	machine := windowstest.New(t)
	machine.EnsureUplink()
	n.gateway.ReconcileUplinkOnce(t.Context())
	n.config.Chassis = nodeconfig.ChassisHosted
	root, err := n.ovs.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.ovs.Apply(t.Context(), slices.Concat(
		n.ovs.EnsureBridge(root, openvswitch.BridgeSettings{Owner: "Somebody/else", Name: "br-storage",
			FailMode: vswitch.BridgeFailModeStandalone}))); err != nil {
		t.Fatal(err)
	}
	if _, err := n.ovs.Transact(t.Context(), openvswitch.MutateRow(vswitch.OpenvSwitchTable, root.UUID,
		openvswitch.SetKeys("external_ids", root.ExternalIDs, map[string]string{
			"rack": "r7", "ovn-bridge-mappings": root.ExternalIDs["ovn-bridge-mappings"] + ",storage:br-storage",
		})...)); err != nil {
		t.Fatal(err)
	}
	n.Until(func() bool {
		return n.ovs.Bridge("br-storage") != nil && n.ovs.Bridge(nodeconfig.IntegrationBridge) != nil
	})
	machine.Fail("DeleteNetwork", func() error {
		if n.ovs.Bridge(nodeconfig.IntegrationBridge) != nil || n.ovs.UplinkBridge(n.config.Owner()) != nil {
			t.Error("the network goes before the bridges")
		}
		return nil
	})
	for _, want := range []string{"the host has adapter Ethernet for itself again, with the addresses [172.30.0.3/24 " +
		"fd30::3/64]", "nothing is shared: the host has its adapters for itself"} {
		said, err := releaseWindows(t.Context(), n.config, machine.Windows, n.ovs, nil)
		if err != nil || said != want {
			t.Fatalf("said %q, want %q; error %v", said, want, err)
		}
		machine.Reachable("Ethernet")
		if machine.NetworkCount() != 0 {
			t.Error("the HNS network is still there")
		}
		n.Until(func() bool {
			return n.ovs.Bridge(nodeconfig.IntegrationBridge) == nil && n.ovs.Bridge("vEthernet (Ethernet)") == nil
		})
		if bridges := ovsdb.List[vswitch.Bridge](n.ovs.Client, nil); len(bridges) != 1 || bridges[0].Name != "br-storage" {
			t.Errorf("bridges %v", bridges)
		}
		n.Until(func() bool {
			root, err := n.ovs.Root()
			return err == nil && maps.Equal(root.ExternalIDs,
				map[string]string{"rack": "r7", "ovn-bridge-mappings": "storage:br-storage"})
		})
	}
}

// The adapter is the host's again though Open vSwitch is dead, and whoever asked is told what is left.
func TestWindowsHostGetsItsAdapterBackWithoutOpenVSwitch(t *testing.T) {
	machine := windowstest.New(t)
	machine.EnsureUplink()
	said, err := releaseWindows(t.Context(), nodeconfig.Config{NodeName: "n1"}, machine.Windows, nil,
		context.DeadlineExceeded)
	if err == nil || !strings.Contains(err.Error(), "start it and repeat this") {
		t.Errorf("said %q, error %v", said, err)
	}
	machine.Reachable("Ethernet")
	if machine.NetworkCount() != 0 {
		t.Error("the HNS network is still there")
	}
}

// A network that somebody else has made under the same name stays, and so do the bridges.
func TestWindowsReleaseLeavesAForeignNetworkAlone(t *testing.T) {
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
	n.gateway.ReconcileUplinkOnce(t.Context())
	machine := windowstest.New(t)
	machine.EnsureUplink()
	if err := os.Remove(machine.Config.StateFile); err != nil {
		t.Fatal(err)
	}
	if said, err := releaseWindows(t.Context(), n.config, machine.Windows, n.ovs, nil); err == nil ||
		!strings.Contains(err.Error(), "was not made by weft") {
		t.Errorf("said %q, error %v", said, err)
	}
	if machine.NetworkCount() != 1 || n.ovs.Bridge(nodeconfig.IntegrationBridge) == nil {
		t.Error("something was removed")
	}
}

// The host gets its adapter back while HNS does not answer, or has left the switch; whoever asked is told what is left.
func TestWindowsHostGetsItsAdapterBackWithoutHNS(t *testing.T) {
	for name, test := range map[string]struct {
		fail func(*windowstest.Bench)
		want string // of the error; empty: none
		dead bool   // Open vSwitch
	}{
		"HNS does not answer": {func(b *windowstest.Bench) {
			b.Fail("Networks", func() error { return errors.New("the RPC server is unavailable") })
		}, "RPC server", false},
		"neither HNS nor Open vSwitch answers": {func(b *windowstest.Bench) {
			b.Fail("Networks", func() error { return errors.New("the RPC server is unavailable") })
		}, "RPC server", true},
		"HNS deletes nothing": {func(b *windowstest.Bench) {
			b.Fail("DeleteNetwork", func() error { return errors.New("access is denied") })
		}, "access is denied", false},
		"HNS leaves the switch":   {func(b *windowstest.Bench) { b.LeavesSwitch = true }, "", false},
		"HNS has lost the switch": {func(b *windowstest.Bench) { b.LeavesSwitch = true; b.LoseNetworks() }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
			machine := windowstest.New(t, func(c *windows.Config) { c.AddressTime = 500 * time.Millisecond })
			machine.EnsureUplink()
			test.fail(machine)
			ovs, unreachable := n.ovs, error(nil)
			if test.dead {
				ovs, unreachable = nil, context.DeadlineExceeded
			}
			said, err := releaseWindows(t.Context(), n.config, machine.Windows, ovs, unreachable)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("said %q, error %v", said, err)
			}
			if test.dead && !errors.Is(err, unreachable) {
				t.Errorf("it does not tell of Open vSwitch: %v", err)
			}
			machine.Reachable("Ethernet")
			adapters, _ := machine.Adapters()
			if host, left := hostnet.Named(adapters, hostnet.HostAdapter); left {
				t.Errorf("the switch is left with %+v", host)
			}
		})
	}
}
