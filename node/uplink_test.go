package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/platform/platformtest"
	"github.com/weftnet/weft/ovsdb"
)

// newUplinkNode is a node whose host shares its adapter with the pods.
func newUplinkNode(t *testing.T, daemon *openvswitchtest.Vswitchd) *bareNode {
	t.Helper()
	var n *bareNode
	n = newBareNodeWith(t, func(c *nodeconfig.Config, f *platformtest.Fake) {
		c.HNSNetwork, c.Gateway = "weft", nodeconfig.GatewayLocal
		c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("172.30.0.101/24")}
		c.GatewayBridge = ""
		f.Deferred = true
		f.Bridges = func() int { return len(ovsdb.List[vswitch.Bridge](n.ovs.Client, nil)) }
		f.Uplink = platform.Uplink{Switch: "guid-1", Adapter: "Ethernet", Host: "vEthernet (Ethernet)"}
	})
	n.gateway.Times.TakeUp = 300 * time.Millisecond
	if daemon != nil {
		n.gateway.Times.TakeUp = nodetest.Patience
		go daemon.Run(t.Context(), n.ovs)
	}
	n.health.Set(health.Flows, nil) // a part of the agent that does not run here
	n.reconcileOnce(t.Context())    // learns the subnets
	return n
}

// repairs are how often the bridges had to be written.
func (n *bareNode) repairs() float64 {
	n.t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "weft_node_repairs_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	n.t.Fatal("repairs are not counted")
	return 0
}

func (n *bareNode) uplinkProblem() string {
	return fmt.Sprint(n.health.Problems()[health.Uplink])
}

func TestUplinksBridgeComesWithTheOthers(t *testing.T) {
	daemon := &openvswitchtest.Vswitchd{}
	n := newUplinkNode(t, daemon)
	if n.ovs.Bridge(nodeconfig.IntegrationBridge) != nil {
		t.Error("br-int is there before the uplink")
	}
	n.gateway.ReconcileUplinkOnce(t.Context())
	if problem := n.health.Problems()[health.Uplink]; problem != nil {
		t.Fatal(problem)
	}
	bridge := n.ovs.Bridge("vEthernet (Ethernet)")
	if bridge == nil || bridge.FailMode == nil || *bridge.FailMode != vswitch.BridgeFailModeStandalone ||
		len(bridge.Ports) != 2 || bridge.ExternalIDs[openvswitch.SwitchKey] != "guid-1" {
		t.Fatalf("the bridge is %+v", bridge)
	}
	if adapter := n.ovs.Port("Ethernet"); adapter == nil || !slices.Contains(bridge.Ports, adapter.UUID) {
		t.Errorf("the adapter's port is %+v", adapter)
	}
	root, err := n.ovs.Root()
	if err != nil || root.ExternalIDs["ovn-bridge-mappings"] != "external:vEthernet (Ethernet)" {
		t.Errorf("settings %v, %v", root, err)
	}
	n.Until(func() bool { n.reconcileOnce(t.Context()); return n.health.Problems()[health.Facts] == nil })
	n.Until(func() bool {
		annotations, err := n.node.annotations()
		if err != nil {
			return false
		}
		facts, present, err := contract.Parse[contract.NodeFacts](annotations, contract.NodeFactsAnnotation)
		return err == nil && present && facts.Gateway != nil && facts.Gateway.Network == "external" || n.LookAgain()
	})
	n.Until(func() bool { n.reconcileOnce(t.Context()); return n.health.Problems().All() == nil })
	before := n.repairs()
	n.gateway.ReconcileUplinkOnce(t.Context())
	n.reconcileOnce(t.Context())
	if now := n.repairs(); now != before {
		t.Errorf("%v repairs of what is as it must be", now-before)
	}
}

func TestAdapterIsLeftAloneWhileOpenVSwitchIsDead(t *testing.T) {
	n := newUplinkNode(t, nil)
	n.loseSwitch()
	n.gateway.ReconcileUplinkOnce(t.Context())
	if n.platform.Called("EnsureUplink") != 0 || n.platform.Called("RestoreHost") != 1 ||
		!strings.Contains(n.uplinkProblem(), "ovs-vswitchd") {
		t.Errorf("%d calls; %s", n.platform.Called("EnsureUplink"), n.uplinkProblem())
	}
	if n.ovs.Bridge(nodeconfig.IntegrationBridge) != nil {
		t.Error("bridges were made")
	}
}

// After a boot the host may need the bridge to reach the API server, which knows the pods' subnets.
func TestUplinkDoesNotWaitForTheController(t *testing.T) {
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
	n.setSubnets(nil)
	n.gateway.ReconcileUplinkOnce(t.Context())
	if n.health.Problems()[health.Uplink] != nil || n.ovs.Bridge("vEthernet (Ethernet)") == nil {
		t.Errorf("no bridge: %s", n.uplinkProblem())
	}
	n.platform.Failing("EnsureUplink", fmt.Errorf("%w: the pods' subnets are not known", platform.ErrNoUplink))
	if rest := n.gateway.ReconcileUplinkOnce(t.Context()); rest != 0 {
		t.Errorf("the subnets are not taken up for %v", rest)
	}
}

// refusalTime is waited in full for a port that is refused, and the stand-in's answers have to fit in.
const refusalTime = 10 * time.Second

// A bridge that does not work would keep the host off the network.
func TestHostGetsItsAdapterBack(t *testing.T) {
	t.Parallel()
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{Refuses: "Ethernet"})
	n.gateway.Times.TakeUp = refusalTime
	n.gateway.ReconcileUplinkOnce(t.Context())
	if n.platform.Called("ReleaseUplink") != 1 || !strings.Contains(n.uplinkProblem(), "Ethernet") {
		t.Errorf("%d calls; %s", n.platform.Called("ReleaseUplink"), n.uplinkProblem())
	}
	n.Until(func() bool { return n.ovs.Bridge("vEthernet (Ethernet)") == nil })
	n.reconcileOnce(t.Context())
	if n.ovs.Bridge("vEthernet (Ethernet)") != nil {
		t.Error("the bridge is back without its switch")
	}
}

// ovs-vswitchd on Windows ends over each bridge that it finds without a switch, and then nobody could
// tell it that there is one.
func TestFirstStartThatFailsLeavesNoBridge(t *testing.T) {
	t.Parallel()
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{Refuses: "Ethernet"})
	n.gateway.Times.TakeUp = refusalTime
	n.loseSwitch()
	rest := n.gateway.ReconcileUplinkOnce(t.Context())
	if n.platform.Called("ReleaseUplink") != 1 || n.platform.BridgesAtRelease != 0 {
		t.Errorf("%d calls; %d bridges were there when the network went; %s", n.platform.Called("ReleaseUplink"),
			n.platform.BridgesAtRelease, n.uplinkProblem())
	}
	if next := n.gateway.ReconcileUplinkOnce(t.Context()); next != 2*rest {
		t.Errorf("the host's next pauses are %v and %v apart", rest, next)
	}
}

// loseSwitch is what a boot may do to a Windows node, and what it is like before its first start.
func (n *bareNode) loseSwitch() {
	n.platform.Change(func() { n.platform.NoSwitch = true })
}

// A chassis host of an earlier agent's may have made br-int, over which ovs-vswitchd ends. It is asked once the
// bridge is gone, and the adapter is not taken before it has answered.
func TestDaemonIsAskedOverNoBridgeWhereThereIsNoSwitch(t *testing.T) {
	n := newUplinkNode(t, nil)
	n.loseSwitch()
	root, err := n.ovs.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.ovs.Apply(t.Context(),
		n.ovs.EnsureBridge(root, openvswitch.BridgeSettings{Owner: "ovn-controller", Name: nodeconfig.IntegrationBridge,
			FailMode: vswitch.BridgeFailModeSecure})); err != nil {
		t.Fatal(err)
	}
	n.Until(func() bool { return n.ovs.Bridge(nodeconfig.IntegrationBridge) != nil })
	n.gateway.ReconcileUplinkOnce(t.Context())
	if n.platform.Called("EnsureUplink") != 0 || n.ovs.Bridge(nodeconfig.IntegrationBridge) != nil ||
		!strings.Contains(n.uplinkProblem(), "ovs-vswitchd") {
		t.Errorf("%d calls for the adapter, br-int is there: %v; %s", n.platform.Called("EnsureUplink"),
			n.ovs.Bridge(nodeconfig.IntegrationBridge) != nil, n.uplinkProblem())
	}
	go (&openvswitchtest.Vswitchd{}).Run(t.Context(), n.ovs)
	n.gateway.Times.TakeUp = nodetest.Patience
	n.gateway.ReconcileUplinkOnce(t.Context())
	if problem := n.health.Problems()[health.Uplink]; problem != nil || n.ovs.Bridge("vEthernet (Ethernet)") == nil {
		t.Errorf("no uplink over a daemon that lives: %v", problem)
	}
}

// With somebody else's bridge ovs-vswitchd cannot answer before there is a switch.
func TestDeadDaemonIsNotAskedOverAForeignBridge(t *testing.T) {
	n := newUplinkNode(t, nil)
	n.loseSwitch()
	root, err := n.ovs.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.ovs.Apply(t.Context(),
		n.ovs.EnsureBridge(root, openvswitch.BridgeSettings{Owner: "Somebody/else", Name: "br-storage",
			FailMode: vswitch.BridgeFailModeStandalone})); err != nil {
		t.Fatal(err)
	}
	n.Until(func() bool { return n.ovs.Bridge("br-storage") != nil })
	n.platform.Failing("EnsureUplink", fmt.Errorf("%w: the pods' subnets are not known", platform.ErrNoUplink))
	n.gateway.ReconcileUplinkOnce(t.Context())
	if n.platform.Called("EnsureUplink") != 1 || n.ovs.Bridge("br-storage") == nil {
		t.Errorf("%d calls for the adapter: %s", n.platform.Called("EnsureUplink"), n.uplinkProblem())
	}
}

// Open vSwitch deletes the vNIC that a bridge is named after along with the bridge: a new switch's has the same name.
func TestBridgesOfALostSwitchGoBeforeTheNextIsMade(t *testing.T) {
	for name, restarted := range map[string]bool{"while the agent runs": false, "over a boot": true} {
		t.Run(name, func(t *testing.T) {
			n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
			n.gateway.ReconcileUplinkOnce(t.Context())
			if restarted {
				n.gateway = n.newGateway()
				n.gateway.Times.TakeUp = nodetest.Patience
			}
			n.loseSwitch()
			n.gateway.ReconcileUplinkOnce(t.Context())
			if n.platform.Called("EnsureUplink") != 2 || n.platform.BridgesBefore != 0 ||
				n.ovs.Bridge("vEthernet (Ethernet)") == nil {
				t.Errorf("%d bridges were there when the next switch was made; %s", n.platform.BridgesBefore, n.uplinkProblem())
			}
		})
	}
}

func TestBridgesGoBeforeASwitchThatIsOutdated(t *testing.T) {
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
	n.gateway.ReconcileUplinkOnce(t.Context())
	n.platform.Failing("EnsureUplink", fmt.Errorf("%w: its subnets are not the node's", platform.ErrOutdatedUplink))
	n.gateway.ReconcileUplinkOnce(t.Context())
	if n.platform.Called("ReleaseUplink") != 1 || n.platform.BridgesAtRelease != 0 {
		t.Errorf("%d calls; %d bridges were there when the switch went", n.platform.Called("ReleaseUplink"),
			n.platform.BridgesAtRelease)
	}
	n.platform.Failing("EnsureUplink", nil)
	n.gateway.ReconcileUplinkOnce(t.Context())
	if problem := n.health.Problems()[health.Uplink]; problem != nil || n.ovs.Bridge("vEthernet (Ethernet)") == nil {
		t.Errorf("it is not made again: %v", problem)
	}
}

// What is attached to br-int says whose the devices are.
func TestBridgeOfPodsOutlivesTheSwitch(t *testing.T) {
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
	n.gateway.ReconcileUplinkOnce(t.Context())
	n.Until(func() bool { n.reconcileOnce(t.Context()); return n.health.Problems().All() == nil })
	n.InstallFlows()
	n.follow()
	call := n.Pod("web", "u1", nil)
	n.MustAdd(call)
	n.platform.StartSandbox(call.Netns)
	n.Whole(call)
	n.platform.Failing("EnsureUplink", fmt.Errorf("%w: the network is lost", platform.ErrNoUplink))
	n.gateway.ReconcileUplinkOnce(t.Context())
	if len(n.ovs.Attached()) != 1 || n.ovs.Bridge("vEthernet (Ethernet)") != nil {
		t.Errorf("%d pods' ports are left", len(n.ovs.Attached()))
	}
}

func TestChassisHostWaitsForTheUplink(t *testing.T) {
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
	config := n.config
	config.Chassis, config.OVSDatabase = nodeconfig.ChassisHosted, daemon(t, "database")
	fresh, err := newAgent(config, n.platform, n.ovs, n.client, nil)
	if err != nil {
		t.Fatal(err)
	}
	fresh.gateway.Times.TakeUp = n.gateway.Times.TakeUp
	if conn, err := fresh.tunnel.dialDatabase(t.Context()); err == nil {
		conn.Close()
		t.Error("a chassis host reaches the database before the uplink")
	}
	fresh.tunnel.problem = nil // as if it listened
	if err := fresh.tunnel.status(time.Now()); !errors.Is(err, openvswitch.ErrAwaitsUplink) {
		t.Errorf("the condition says %v", err)
	}
	fresh.gateway.ReconcileUplinkOnce(t.Context())
	conn, err := fresh.tunnel.dialDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n.platform.Failing("EnsureUplink", fmt.Errorf("%w: the network is lost", platform.ErrNoUplink))
	fresh.gateway.ReconcileUplinkOnce(t.Context())
	_ = conn.SetReadDeadline(time.Now().Add(nodetest.Patience)) // refused where it is closed, as it must be
	if _, err := io.Copy(io.Discard, conn); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the stream is open over a lost network: %v", err)
	}
	if conn, err := fresh.tunnel.dialDatabase(t.Context()); err == nil {
		conn.Close()
		t.Error("a chassis host reaches the database without a network")
	}
}

func TestUplinkThatFailsLater(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		goes bool
	}{
		"HNS hangs":           {errors.New("HNS has not answered within 10s"), false},
		"the network is lost": {fmt.Errorf("%w: no adapter", platform.ErrNoUplink), true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
			n.gateway.ReconcileUplinkOnce(t.Context())
			n.platform.Failing("EnsureUplink", test.err)
			n.gateway.ReconcileUplinkOnce(t.Context())
			if !strings.Contains(n.uplinkProblem(), test.err.Error()) {
				t.Error(n.uplinkProblem())
			}
			n.reconcileOnce(t.Context())
			n.Until(func() bool { return (n.ovs.Bridge("vEthernet (Ethernet)") == nil) == test.goes })
			if n.platform.Called("ReleaseUplink") != 0 {
				t.Error("the agent has released what the platform sees to")
			}
			n.platform.Failing("EnsureUplink", nil)
			n.gateway.ReconcileUplinkOnce(t.Context())
			if n.health.Problems()[health.Uplink] != nil || n.ovs.Bridge("vEthernet (Ethernet)") == nil {
				t.Errorf("not repaired: %s", n.uplinkProblem())
			}
		})
	}
}

// What Open vSwitch had on a switch that is gone is void, the pods' ports too.
func TestUplinksSwitchIsAnotherOne(t *testing.T) {
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
	n.gateway.ReconcileUplinkOnce(t.Context())
	n.Until(func() bool { n.reconcileOnce(t.Context()); return n.health.Problems().All() == nil })
	n.InstallFlows()
	n.follow()
	call := n.Pod("web", "u1", nil)
	n.MustAdd(call)
	n.platform.StartSandbox(call.Netns)
	n.Whole(call)
	n.platform.Change(func() {
		n.platform.Uplink.Switch = "guid-2"
		clear(n.platform.Devices)
	})
	goes := make(chan struct{})
	go n.watchBridge(t.Context(), "vEthernet (Ethernet)", goes)
	n.gateway.ReconcileUplinkOnce(t.Context())
	select {
	case <-goes:
		t.Error("the bridge went, and the host's vNIC with it")
	default:
	}
	bridge := n.ovs.Bridge("vEthernet (Ethernet)")
	if bridge == nil || bridge.ExternalIDs[openvswitch.SwitchKey] != "guid-2" {
		t.Fatalf("the bridge is %+v", bridge)
	}
	n.Whole(call)
	n.Until(func() bool { n.reconcileOnce(t.Context()); return n.health.Problems().All() == nil })
}

// watchBridge closes goes when there is no such bridge.
func (n *bareNode) watchBridge(ctx context.Context, name string, goes chan<- struct{}) {
	for ctx.Err() == nil {
		changed := n.ovs.Changed()
		if n.ovs.Bridge(name) == nil {
			close(goes)
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Bridges are kept all the time, and must not be made for the old switch while Open vSwitch takes them from it.
func TestNobodyMakesTheOldSwitchsBridgeAgain(t *testing.T) {
	n := newUplinkNode(t, &openvswitchtest.Vswitchd{})
	n.gateway.ReconcileUplinkOnce(t.Context())
	n.Until(func() bool { n.reconcileOnce(t.Context()); return n.health.Problems().All() == nil })
	n.platform.Change(func() { n.platform.Uplink.Switch = "guid-2" })
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() {
		for ctx.Err() == nil {
			changed := n.ovs.Changed()
			_ = n.gateway.ReconcileBridges(ctx)
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
	n.gateway.ReconcileUplinkOnce(t.Context())
	stop()
	others.Wait()
	bridge := n.ovs.Bridge("vEthernet (Ethernet)")
	if bridge == nil || bridge.ExternalIDs[openvswitch.SwitchKey] != "guid-2" {
		t.Errorf("the bridge is %+v", bridge)
	}
}
