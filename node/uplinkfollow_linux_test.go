package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/linux"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
)

func (h *uplinkHost) mustShare(linux *linux.Platform) platform.Uplink {
	h.t.Helper()
	uplink, err := linux.EnsureUplink(h.t.Context(), h.bridge())
	if err != nil {
		h.t.Fatal(err)
	}
	return uplink
}

// A DHCP client goes on working on the device, where it finds nothing of what it has set before.
func TestWhatADHCPClientSetsFollows(t *testing.T) {
	h := newUplinkHost(t)
	linux := h.start()
	h.mustShare(linux)
	lease := func(address, gateway string) {
		t.Helper()
		h.shell("ip addr replace " + address + "/24 brd + dev ex0 valid_lft 3600 preferred_lft 1800")
		h.shell("ip route replace default via " + gateway + " dev ex0 proto dhcp metric 100")
		h.mustShare(linux)
		if left := h.state(testDevice); left != "" {
			t.Fatalf("the device still has\n%s", left)
		}
	}
	lease("192.0.2.50", "192.0.2.1")
	lease("192.0.2.50", "192.0.2.1") // renewed
	open := h.sessions()
	lease("192.0.2.51", "192.0.2.2")
	h.unbroken(open, "after another lease")
	now := h.state(testBridge)
	if !strings.Contains(now, "inet 192.0.2.51/24") || strings.Contains(now, "192.0.2.50") ||
		!strings.Contains(now, "inet 192.0.2.10/24") {
		t.Errorf("addresses after another lease:\n%s", now)
	}
	if !strings.Contains(now, "default via 192.0.2.2 dev DEVICE proto dhcp metric 100") ||
		strings.Contains(now, "default via 192.0.2.1 dev DEVICE proto dhcp") {
		t.Errorf("routes after another lease:\n%s", now)
	}
}

func TestLostBridgeComesBackWithAllThatItHad(t *testing.T) {
	for name, lose := range map[string]func(*uplinkHost){
		"somebody removes it": func(h *uplinkHost) { h.ovn.VS("del-br", testBridge) },
		"the database is lost": func(h *uplinkHost) {
			h.ovn.Kill(nodetest.OVSServer)
			h.ovn.LoseOVSDatabase()
			nodetest.Eventually(h.t, 20*time.Second, func() error {
				if h.ovs.Bridge(testBridge) != nil {
					return errors.New("the replica has the old content")
				}
				return nil
			})
		},
		"ovs-vswitchd crashes": func(h *uplinkHost) { h.ovn.Restart(nodetest.Vswitchd) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newUplinkHost(t)
			open := h.sessions()
			h.mustShare(h.start())
			lose(h)
			nodetest.Eventually(t, 20*time.Second, func() error {
				_, err := h.start().EnsureUplink(t.Context(), h.bridge())
				return err
			})
			h.shared()
			h.unbroken(open, name)
			if err := h.start().ReleaseUplink(t.Context(), h.bridge()); err != nil {
				t.Fatal(err)
			}
			h.alone()
			h.unbroken(open, "given back")
		})
	}
}

// The file goes with the node's uptime, or with somebody who tidies up.
func TestUplinkIsGivenBackWithoutTheFile(t *testing.T) {
	h := newUplinkHost(t)
	open := h.sessions()
	linux := h.start()
	h.mustShare(linux)
	if err := os.Remove(h.config.UplinkFile()); err != nil {
		t.Fatal(err)
	}
	h.mustShare(h.start())
	h.shared()
	if err := os.Remove(h.config.UplinkFile()); err != nil {
		t.Fatal(err)
	}
	if err := h.start().ReleaseUplink(t.Context(), h.bridge()); err != nil {
		t.Fatal(err)
	}
	h.alone()
	h.unbroken(open, "given back")
}

// After a boot the database still has the bridge with the device, and the host its addresses on the device.
func TestUplinkAfterABoot(t *testing.T) {
	h := newUplinkHost(t)
	h.mustShare(h.start())
	file := platform.SavedHost[map[string]any]{Path: h.config.UplinkFile()}
	saved, err := file.Read()
	if err != nil {
		t.Fatal(err)
	}
	(*saved)["boot"] = "another"
	(*saved)["addresses"].([]any)[0].(map[string]any)["address"] = "192.0.2.99/24"
	if err := file.Write(*saved); err != nil {
		t.Fatal(err)
	}
	h.ovn.Kill(nodetest.Vswitchd)
	h.shell("ip link del " + testBridge)
	h.removeDevices()
	h.device()
	h.ovn.Start(nodetest.Vswitchd)
	nodetest.Eventually(t, 20*time.Second, func() error { return h.ensureUplink(h.start(), t.Context()) })
	h.shared()
	h.unbroken(h.sessions(), "after the boot")
}

func TestDeviceIsAnotherOne(t *testing.T) {
	h := newUplinkHost(t)
	h.shell("ip route del 203.0.113.128/25") // it is by both
	h.before = h.state(testDevice)
	h.mustShare(h.start())
	h.config.GatewayInterface = "other0"
	if uplink := h.mustShare(h.start()); uplink.Adapter != "other0" {
		t.Errorf("the uplink is %+v", uplink)
	}
	h.has(testDevice, h.before)
	if now := h.state(testBridge); !strings.Contains(now, "10.50.0.1/24") {
		t.Errorf("the bridge's interface has\n%s", now)
	}
	if err := h.start().ReleaseUplink(t.Context(), h.bridge()); err != nil {
		t.Fatal(err)
	}
	h.alone()
}

// An Open vSwitch that does not work must not cost the host its uplink.
func TestHostKeepsItsDeviceWhereOpenVSwitchFails(t *testing.T) {
	h := newUplinkHost(t)
	open := h.sessions()
	share := func() error {
		system, err := linux.New(linux.Config{
			Userspace: nodetest.Userspace(), Uplink: testDevice, Bridge: testBridge, StateFile: h.config.UplinkFile(),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer system.Close()
		_, err = system.EnsureUplink(t.Context(), openvswitch.NewUplinkBridge(h.ovs, h.config, time.Second))
		return err
	}
	h.ovn.Pause(nodetest.Vswitchd)
	if err := share(); err == nil {
		t.Error("the uplink is shared by an ovs-vswitchd that does not answer")
	}
	h.has(testDevice, h.before)
	h.unbroken(open, "with an ovs-vswitchd that does not answer")
	h.ovn.Resume(nodetest.Vswitchd)
	nodetest.Eventually(t, 20*time.Second, func() error { return h.start().ReleaseUplink(t.Context(), h.bridge()) })
	h.alone()
	h.shell("ip link set dev ex0 address 02:00:00:00:00:08")
	h.before = h.state(testDevice)
	h.mustShare(h.start())
	h.shared()
}

func TestDevicesThatCannotBeShared(t *testing.T) {
	h := newUplinkHost(t)
	h.ovn.VS("add-br", "br-other", "--", "set", "bridge", "br-other", "datapath_type="+nodetest.Datapath(), "--",
		"add-port", "br-other", "other1")
	h.shell("ip link add kbr type bridge")
	h.shell("ip link add member type veth peer name routed")
	t.Cleanup(func() { h.shell("ip link del kbr"); h.shell("ip link del member") })
	for _, command := range []string{"ip link set member master kbr", "ip link set member up", "ip link set routed up",
		"ip route add 198.18.0.0/24 dev routed"} {
		h.shell(command)
	}
	nodetest.Eventually(t, 10*time.Second, func() error {
		if h.bridge().Holder("other1") == "" {
			return errors.New("the port has not come")
		}
		return nil
	})
	for device, says := range map[string]string{
		"nic9": "no device \"nic9\"", "lo": "loopback", "kbr": "bridge of the kernel's", "member": "belongs to kbr, a bridge",
		"other1": "ovs-vsctl del-port br-other other1", "br-other": "ovs-vsctl del-port br-other br-other",
		"routed": "routes of the host's but none of its addresses",
	} {
		h.config.GatewayInterface = device
		_, err := h.start().EnsureUplink(t.Context(), h.bridge())
		if !errors.Is(err, platform.ErrNoUplink) || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "gateway-interface") {
			t.Errorf("%s: %v", device, err)
		}
	}
	h.shell("ip route del 198.18.0.0/24 dev routed")
	h.config.GatewayInterface = "routed"
	if _, err := h.start().EnsureUplink(t.Context(), h.bridge()); !errors.Is(err, platform.ErrNoUplink) ||
		!strings.Contains(err.Error(), "has no address of the host's") {
		t.Errorf("a device without anything: %v", err)
	}
	if h.ovs.Bridge(testBridge) != nil {
		t.Error("a bridge was made")
	}
	h.alone()
}

func TestHostsNextHops(t *testing.T) {
	h := newUplinkHost(t)
	linux := h.start()
	h.mustShare(linux)
	for _, test := range []struct{ change, want string }{
		{"", "192.0.2.1 2001:db8::1"},
		{"ip route replace default proto static metric 50 nexthop via 192.0.2.1 dev br-ex nexthop via 192.0.2.2 dev br-ex " +
			"nexthop via 10.50.0.2 dev other0", "192.0.2.1 192.0.2.2 2001:db8::1"},
		{"ip route add default via 192.0.2.7 dev br-ex metric 20", "192.0.2.7 2001:db8::1"},
		{"ip route add default via 192.0.2.8 dev br-ex metric 7 table 100", "192.0.2.7 2001:db8::1"},
		{"ip -6 route add default via fe80::9 dev br-ex metric 9", "192.0.2.7 fe80::9"},
		{"ip -6 route append default via 2001:db8::2 dev br-ex metric 9", "192.0.2.7 2001:db8::2 fe80::9"},
		{"ip route del default metric 20", "192.0.2.1 192.0.2.2 2001:db8::2 fe80::9"},
	} {
		if test.change != "" {
			h.shell(test.change)
		}
		has, err := linux.HostInterface(testBridge)
		if err != nil || !slices.Equal(has.NextHops, nodetest.Addrs(strings.Fields(test.want)...)) {
			t.Errorf("after %q: %v, %v", test.change, has.NextHops, err)
		}
		main := slices.CompactFunc(slices.Clone(has.Addresses), // of each family
			func(a, b netip.Prefix) bool { return a.Addr().Is4() == b.Addr().Is4() })
		if !slices.Equal(main, nodetest.Prefixes("192.0.2.10/24", "2001:db8::10/64")) {
			t.Errorf("after %q: addresses %v", test.change, has.Addresses)
		}
	}
}

func TestOperatorGetsTheUplinkBack(t *testing.T) {
	h := newUplinkHost(t)
	h.config.CNISocket = t.TempDir() + "/cni.sock"
	open := h.sessions()
	for range 2 {
		h.mustShare(h.start())
		said, err := Release(t.Context(), h.config)
		if err != nil || !strings.Contains(said, "ex0") || !strings.Contains(said, "192.0.2.10/24") {
			t.Errorf("%q, %v", said, err)
		}
		h.alone()
		h.unbroken(open, "given back")
	}
	if said, err := Release(t.Context(), h.config); err != nil || !strings.Contains(said, "nothing is shared") {
		t.Errorf("%q, %v", said, err)
	}
	h.mustShare(h.start())
	h.unbroken(open, "shared again")
	h.ovn.Kill(nodetest.OVSServer)
	// Without its database ovs-vswitchd passes no packets on the userspace datapath.
	if said, err := release(t.Context(), h.config, time.Second); err == nil ||
		!strings.Contains(err.Error(), "start Open vSwitch's database and repeat") {
		t.Errorf("without a database: %q, %v", said, err)
	}
	h.unbroken(open, "without a database")
	h.ovn.Start(nodetest.OVSServer)
	nodetest.Eventually(t, 20*time.Second, func() error { _, err := Release(t.Context(), h.config); return err })
	nodetest.Eventually(t, 20*time.Second, func() error {
		if h.ovs.Bridge(testBridge) != nil {
			return fmt.Errorf("the bridge is there")
		}
		return nil
	})
	h.alone()
	h.unbroken(open, "after all")
}

// A bridge of the operator's stays, and has nothing of the agent's any more.
func TestReleaseClearsTheOperatorsBridge(t *testing.T) {
	h := newUplinkHost(t)
	h.config.CNISocket, h.config.OVSOfctl = t.TempDir()+"/cni.sock", filepath.Join(nodetest.Programs(t), "ovs-ofctl")
	h.ovn.VS("add-br", testBridge, "--", "set", "bridge", testBridge, "datapath_type="+nodetest.Datapath())
	// As ovn-controller has left it: the agent's network, and one of the operator's own.
	h.patch(testBridge, "localnet-"+testNode)
	h.ovn.VS("add-br", "br-storage", "--", "set", "bridge", "br-storage", "datapath_type="+nodetest.Datapath())
	h.patch("br-storage", "storage")
	h.mustShare(h.start())
	mac, err := net.ParseMAC("02:00:00:00:00:02")
	if err != nil {
		t.Fatal(err)
	}
	installer := &extbridge.Installer{Program: h.config.OVSOfctl}
	flows := extbridge.Flows(extbridge.Bridge{MAC: mac, Host: nodetest.Addrs("192.0.2.10"), HostAddresses: true}, nil)
	if _, err := installer.Apply(t.Context(), h.config.BridgeTarget(testBridge), flows); err != nil {
		t.Fatal(err)
	}
	h.ovn.VS("set", "bridge", testBridge, "external_ids:"+openvswitch.FlowsKey+"=true", "--", "set", "port", testBridge,
		"protected=true")
	mappings := "external:" + testBridge + ",storage:br-storage"
	h.ovn.VS("set", "Open_vSwitch", ".", `external_ids:ovn-bridge-mappings="`+mappings+`"`,
		`external_ids:weft.net/bridge-mappings="external:`+testBridge+`"`)
	if said, err := Release(t.Context(), h.config); err != nil {
		t.Errorf("%q, %v", said, err)
	}
	if ports := strings.Fields(h.ovn.VS("list-ports", testBridge)); len(ports) > 0 {
		t.Errorf("the bridge has the ports %v", ports)
	}
	if ports := strings.Fields(h.ovn.VS("list-ports", nodeconfig.IntegrationBridge)); !slices.Equal(ports,
		[]string{"patch-br-int-to-storage"}) {
		t.Errorf("the integration bridge has the ports %v", ports)
	}
	if ids := h.ovn.VS("get", "Open_vSwitch", ".", "external_ids"); !strings.Contains(ids,
		`ovn-bridge-mappings="storage:br-storage"`) || strings.Contains(ids, "weft.net/bridge-mappings") {
		t.Errorf("Open vSwitch has the settings %s", ids)
	}
	installer.Forget()
	if left, err := installer.Apply(t.Context(), h.config.BridgeTarget(testBridge), nil); err != nil || left > 0 {
		t.Errorf("%d flows are left, %v", left, err)
	}
	if marks := h.ovn.VS("get", "bridge", testBridge, "external_ids") + h.ovn.VS("get", "port", testBridge,
		"protected"); strings.Contains(marks, openvswitch.FlowsKey) || strings.Contains(marks, "true") {
		t.Errorf("the bridge has %s", marks)
	}
}

// patch makes the ports that ovn-controller makes between a bridge and its own, for a logical port.
func (h *uplinkHost) patch(bridge, logical string) {
	h.t.Helper()
	ours, theirs := "patch-br-int-to-"+logical, "patch-"+logical+"-to-br-int"
	h.ovn.VS("--", "--may-exist", "add-br", nodeconfig.IntegrationBridge)
	for _, end := range []struct{ bridge, port, peer string }{
		{nodeconfig.IntegrationBridge, ours, theirs}, {bridge, theirs, ours},
	} {
		h.ovn.VS("add-port", end.bridge, end.port, "--", "set", "port", end.port,
			"external_ids:ovn-localnet-port="+logical, "--", "set", "interface", end.port, "type=patch",
			"options:peer="+end.peer)
	}
}

// connect waits until the node's gateway router, with a pod behind it, is on the bridge of the host that shares it.
func (g *gatewayCluster) connect() {
	g.tb.Helper()
	g.decide()
	g.startAgent()
	g.awaitReady()
	g.gatewayFacts(func(gw contract.Gateway) bool { return gw.HostAddresses && len(gw.NextHops) == 2 })
	facts, err := g.facts()
	if err != nil {
		g.tb.Fatal(err)
	}
	g.gateway(facts, g.newPod("web", 3))
	g.eventually(g.connected)
}

// connected says what is missing: the router's port on the bridge, or the agent's health.
func (g *gatewayCluster) connected() error {
	if ports := g.ovn.VS("list-ports", testBridge); !strings.Contains(ports, openvswitch.PatchName(testNode)) {
		return fmt.Errorf("the bridge has the ports %q", strings.Fields(ports))
	}
	return g.agent.health.Problems().All()
}

// Nobody has to stop ovn-controller first. It makes no port again, whoever has written the entry.
func TestReleaseTakesTheBridgeFromOVNController(t *testing.T) {
	for name, marked := range map[string]bool{"the agent's entry": true, "the operator's entry": false} {
		t.Run(name, func(t *testing.T) {
			g := newGatewayCluster(t)
			g.ovn.VS("add-br", testBridge, "--", "set", "bridge", testBridge, "datapath_type="+nodetest.Datapath())
			if !marked {
				g.ovn.VS("set", "Open_vSwitch", ".", `external_ids:ovn-bridge-mappings="external:`+testBridge+`"`)
			}
			g.connect()
			g.stop()
			if said, err := Release(t.Context(), g.config); err != nil || !strings.Contains(said, "ex0") {
				t.Errorf("%q, %v", said, err)
			}
			g.ovn.NB("--wait=hv", "sync") // ovn-controller has looked at what is left
			for _, bridge := range []string{testBridge, nodeconfig.IntegrationBridge} {
				if ports := g.ovn.VS("list-ports", bridge); strings.Contains(ports, "localnet") {
					t.Errorf("bridge %s has the ports %q", bridge, strings.Fields(ports))
				}
			}
			if flows := g.ovn.Run("ovs-ofctl", "dump-flows", g.config.BridgeTarget(testBridge)); strings.Contains(flows,
				"ct(") {
				t.Errorf("the bridge has the flows\n%s", flows)
			}
		})
	}
}

func TestNothingIsKnownWithoutFileAndDatabase(t *testing.T) {
	config := nodeconfig.Default()
	config.CNISocket, config.OVSDatabase = t.TempDir()+"/cni.sock", "unix:"+t.TempDir()+"/db.sock"
	if said, err := release(t.Context(), config, 100*time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "ovs-database") {
		t.Errorf("%q, %v", said, err)
	}
}
