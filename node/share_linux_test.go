package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/encryption"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
)

// After a boot, the host gets its addresses and Open vSwitch starts, in whatever order.
func TestAddressesAreSharedBeforeTheAgentRuns(t *testing.T) {
	entry := "external:" + testBridge
	for by, marked := range map[string]string{"the agent": entry, "an administrator": ""} {
		t.Run("entry by "+by, func(t *testing.T) { testSharedBeforeTheAgentRuns(t, entry, marked) })
	}
}

// testSharedBeforeTheAgentRuns is about an entry of ovn-bridge-mappings, of which one part has the agent's mark.
func testSharedBeforeTheAgentRuns(t *testing.T, entry, marked string) {
	h := newUplinkHost(t)
	h.config.CNISocket = filepath.Join(t.TempDir(), "cni.sock")
	h.mustShare(h.start())
	const others = "storage:br-storage"
	connect := func() {
		t.Helper()
		h.patch(testBridge, "localnet-"+testNode)
		h.ovn.VS("set", "Open_vSwitch", ".", `external_ids:ovn-bridge-mappings="`+entry+","+others+`"`,
			`external_ids:weft.net/bridge-mappings="`+marked+`"`)
	}
	connect()
	file := platform.SavedHost[map[string]any]{Path: h.config.UplinkFile()}
	if err := file.Remove(); err != nil { // it is in /run
		t.Fatal(err)
	}
	h.ovn.Kill(nodetest.Vswitchd)
	h.shell("ip link del " + testBridge)
	h.removeDevices()
	type result struct {
		said string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		said, err := Share(t.Context(), h.config)
		done <- result{said, err}
	}()
	h.device()
	h.ovn.Start(nodetest.Vswitchd)
	if got := <-done; got.err != nil || !strings.Contains(got.said, "192.0.2.10/24") {
		t.Fatalf("%q, %v", got.said, got.err)
	}
	h.shared()
	h.unbroken(h.sessions(), "after the boot")
	if ports := h.ovn.VS("list-ports", testBridge); strings.Contains(ports, "localnet") {
		t.Errorf("the router is on the bridge, which has no flows: %q", strings.Fields(ports))
	}
	if ids := h.ovn.VS("get", "Open_vSwitch", ".", "external_ids"); strings.Contains(ids, entry) ||
		!strings.Contains(ids, others) {
		t.Errorf("Open vSwitch has the settings %s", ids)
	}

	// A bridge that has its flows keeps the router.
	connect()
	h.ovn.Run("ovs-ofctl", "add-flow", h.config.BridgeTarget(testBridge),
		fmt.Sprintf("cookie=%#x,udp,tp_dst=1,actions=drop", uint64(extbridge.CookieMark)|5))
	if said, err := Share(t.Context(), h.config); err != nil {
		t.Errorf("%q, %v", said, err)
	}
	h.shared()
	if ports := h.ovn.VS("list-ports", testBridge); !strings.Contains(ports, openvswitch.PatchName(testNode)) {
		t.Errorf("the router is not on the bridge, which has flows: %q", strings.Fields(ports))
	}
}

// TestTunnelsAreGuardedBeforeTheAgentRuns: an agent that is a pod comes long after ovn-controller, and one that fails
// comes never.
func TestTunnelsAreGuardedBeforeTheAgentRuns(t *testing.T) {
	config := nodeconfig.Default()
	config.CNISocket = filepath.Join(t.TempDir(), "cni.sock")
	config.EncapAddress = netip.MustParseAddr("192.0.2.10")
	xfrm := func(arguments ...string) string {
		t.Helper()
		output, err := exec.Command("ip", append([]string{"xfrm", "policy"}, arguments...)...).CombinedOutput()
		if strings.Contains(strings.ToLower(string(output)), unix.EPROTONOSUPPORT.Error()) {
			config.Encryption = ipsec.Enforce
			if err := encryption.Guard(config); !errors.Is(err, unix.EPROTONOSUPPORT) {
				t.Errorf("in a kernel without XFRM tunnels are guarded: %v", err)
			}
			t.Skip("the kernel has no XFRM")
		}
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return string(output)
	}
	xfrm()
	t.Cleanup(func() { xfrm("flush") })
	for mode, guards := range map[ipsec.Mode]bool{ipsec.Off: false, ipsec.Begin: false, ipsec.Enforce: true} {
		config.Encryption = mode
		for who, does := range map[string]func() error{
			"weft node guard": func() error { return encryption.Guard(config) },
			"weft node share": func() error { _, err := Share(t.Context(), config); return err },
		} {
			xfrm("flush")
			if err := does(); err != nil {
				t.Errorf("%s: %s: %v", mode, who, err)
			}
			if policies := xfrm(); strings.Contains(policies, "dport 6081") != guards {
				t.Errorf("%s: after %s the tunnels have the policies\n%s", mode, who, policies)
			}
		}
	}
}

func TestNothingIsSharedWithoutNeed(t *testing.T) {
	config := nodeconfig.Default()
	config.CNISocket = filepath.Join(t.TempDir(), "weft", "cni.sock")
	if said, err := Share(t.Context(), config); err != nil || !strings.Contains(said, "nothing is to be shared") {
		t.Errorf("without a device: %q, %v", said, err)
	}
	config.GatewayInterface = testDevice
	listener, err := listenForPlugin(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if said, err := Share(t.Context(), config); err != nil || !strings.Contains(said, "the agent runs") {
		t.Errorf("beside an agent: %q, %v", said, err)
	}
}

// The command ends when it is told to, and says what the host lacks.
func TestSharingWaitsForTheHostsAddresses(t *testing.T) {
	h := newUplinkHost(t)
	h.config.CNISocket = filepath.Join(t.TempDir(), "cni.sock")
	h.shell("ip addr flush dev " + testDevice)
	for limit := 2 * time.Second; ; limit *= 2 { // on a busy machine it comes less far
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		said, err := Share(ctx, h.config)
		cancel()
		switch {
		case err == nil:
			t.Fatalf("it does not wait: %q", said)
		case strings.Contains(err.Error(), "device ex0 has "):
			return
		case limit > nodetest.Patience:
			t.Fatalf("%q, %v", said, err)
		}
	}
}

// The router of a node whose agent does not run yet is off the bridge, and the agent connects it.
func TestAgentConnectsTheRouterThatSharingHasSuspended(t *testing.T) {
	g := newGatewayCluster(t)
	g.connect()
	g.stop()
	g.ovn.Restart(nodetest.Vswitchd)
	if said, err := Share(t.Context(), g.config); err != nil {
		t.Fatalf("%q, %v", said, err)
	}
	g.ovn.NB("--wait=hv", "sync") // ovn-controller has looked at what is left
	if ports := g.ovn.VS("list-ports", testBridge); strings.Contains(ports, "localnet") {
		t.Errorf("the router is on the bridge, which has no flows: %q", strings.Fields(ports))
	}
	h := &uplinkHost{t: t, outside: g.outside}
	open := []*session{h.session(gatewayHost.String(), "outside"), h.session(outsideHost6.String(), "host")}
	h.unbroken(open, "without an agent")
	g.startAgent()
	g.eventually(g.connected)
	h.unbroken(open, "with an agent")
}
