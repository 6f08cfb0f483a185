package node

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/ctlookup"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	features "github.com/weftnet/weft/node/nodetest/hyperv"
	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/test/hyperv"
)

// mostPasses is what the longest way through a node takes, with some left for an OVN that needs another. The driver has
// ten, and the userspace datapath drops what wants more than eight.
const mostPasses = 7

// What Weft's longest ways need of the datapath's passes, with Hyper-V's features alone, on Linux' userspace
// datapath, in the translation of ovs-vswitchd.
func TestPassesOfAWindowsNode(t *testing.T) {
	g := newGatewayCluster(t)
	// the datapath here is Linux', and needs no lookup
	g.config.ConntrackLookup = nodeconfig.LookupOff
	control := "--target=" + g.ovn.Control(nodetest.Vswitchd)
	devices := g.takeLongestWays(func() {
		for _, bridge := range []string{nodeconfig.IntegrationBridge, "br-ex"} {
			for _, feature := range features.Features {
				g.ovn.Run("ovs-appctl", control, "dpif/set-dp-features", bridge, feature.Name, feature.Value)
			}
		}
	})
	g.countPasses(devices)
	g.stop()
}

// countPasses counts the passes of what comes by devices, by the flows that the datapath has.
func (g *gatewayCluster) countPasses(devices []string) {
	g.tb.Helper()
	for _, device := range devices {
		n := g.passes(device)
		g.tb.Logf("what comes by %s passes the datapath %d times more", device, n)
		if n > mostPasses {
			g.tb.Errorf("the driver drops what wants more than %d", hyperv.DeferredQueueSize)
		}
	}
}

// The same on the emulated extension, with the lookup before a commit (conntrack-lookup), as Windows executes it. Its
// flows are counted, and what packets have put off: less, since the first packet of a connection has no flows yet,
// and goes by ovs-vswitchd after each pass. None meets what the driver does otherwise. Tracked IPv6 never has flows
// of its own, so it is counted without that fault, too.
func TestPassesOnTheEmulatedExtension(t *testing.T) {
	if mostPasses >= hyperv.DeferredQueueSize {
		t.Fatalf("%d passes leave the driver none", mostPasses)
	}
	sound := hyperv.KnownFaults()
	delete(sound, hyperv.TrackedIPv6)
	for name, faults := range map[string]hyperv.Faults{
		"all faults": hyperv.KnownFaults(), "tracked IPv6 hits its flows": sound,
	} {
		t.Run(name, func(t *testing.T) {
			extension := newExtension(t, faults)
			g := newGatewayClusterOver(t, extension)
			g.hostedWithLookups()
			g.countPasses(g.takeLongestWays(g.withoutZeroSNAT))
			status := extension.Status()
			t.Logf("a packet puts off %d passes at most; %d flows are hit %d times, %d packets hit none; lost: %v",
				status.PutOff, status.Flows, status.Hits, status.Misses, status.Losses)
			if status.PutOff > mostPasses || status.PutOff < 2 {
				t.Errorf("a packet puts off %d passes of %d", status.PutOff, hyperv.DeferredQueueSize)
			}
			for name := range extension.Executed() {
				if feature := capability.Forbidden(name); feature != "" {
					t.Errorf("packets met %q: %s", name, feature)
				}
			}
			g.stop()
		})
	}
}

// newExtension is an emulated one whose adapter is that of a gatewayCluster.
func newExtension(t *testing.T, faults hyperv.Faults) *hyperv.Extension {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	extension := hyperv.New(hyperv.Config{Adapter: "ex0", Faults: faults, Log: log})
	t.Cleanup(extension.Close)
	return extension
}

// hostedWithLookups has the agent's flows and those of ovn-controller look packets up before they commit.
func (g *gatewayCluster) hostedWithLookups() {
	g.tb.Helper()
	g.config.ConntrackLookup = nodeconfig.LookupOn
	dir := filepath.Dir(strings.TrimPrefix(g.ovn.OVSDatabase(), "unix:"))
	between := filepath.Join(dir, "between.sock")
	nodetest.Between(g.tb, between, filepath.Join(dir, nodeconfig.IntegrationBridge+".mgmt"),
		func(bridge net.Conn) net.Conn {
			changes := ctlookup.Changes{Lookups: true, FTP: g.config.ConntrackFTP}
			return ctlookup.Over(bridge, changes, func(err error) { g.tb.Error(err) })
		})
	g.ovn.VS("set", "open_vswitch", ".", "external_ids:ovn-bridge-remote=unix:"+between)
}

// withoutZeroSNAT takes from ovs-vswitchd what that of Windows does not have, and that of Linux does not ask a datapath
// for: dpif_netlink_ct_get_features of lib/dpif-netlink.c.
func (g *gatewayCluster) withoutZeroSNAT() {
	g.tb.Helper()
	g.eventually(func() error {
		capabilities := g.ovn.VS("--columns=capabilities", "list", "Datapath")
		if !strings.Contains(capabilities, "ct_zero_snat") {
			return fmt.Errorf("the datapath has told nothing: %s", capabilities)
		}
		return nil
	})
	g.ovn.Run("ovs-appctl", "--target="+g.ovn.Control(nodetest.Vswitchd),
		"dpif/set-dp-features", nodeconfig.IntegrationBridge, "ct_zero_snat", "false")
	datapath := g.ovn.VS("get", "open_vswitch", ".", "datapaths:system")
	g.ovn.VS("set", "Datapath", datapath, "capabilities:ct_zero_snat=false")
}

// takeLongestWays makes a gateway, load balancers with several endpoints, and policies of both directions, and has
// packets go from outside and from pods, to pods of the node and to its host. prepare is called once the bridges are
// there. The result are the devices that packets come by.
func (g *gatewayCluster) takeLongestWays(prepare func()) (devices []string) {
	g.tb.Helper()
	g.echo("", 22)
	g.echo("", 23)
	g.echo(g.outside, 80)
	g.nodePort()
	g.decide()
	g.startAgent()
	g.awaitReady()
	var facts contract.NodeFacts
	g.eventually(func() (err error) { facts, err = g.facts(); return err })
	prepare()
	web, other := g.newPod("web", 3), g.newPod("other", 4)
	for _, p := range []*pod{web, other} {
		g.allocate(p)
		g.mustAdd(p)
		g.shell("nsenter --net=" + p.sandbox + " ethtool -K eth0 tx off")
		g.echo(p.sandbox, 80)
	}
	g.gateway(facts, web)
	ports := []string{contract.PodPort(web.Namespace, web.Name), contract.PodPort(other.Namespace, other.Name)}
	const vip, vip6 = "10.96.0.10:80", "[fd00:10:96::10]:80"
	g.ovn.NB("pg-add", "guarded", ports[0], ports[1],
		"--", "--type=port-group", "acl-add", "guarded", "from-lport", "1000", "inport == @guarded && ip", "allow-related",
		"--", "--type=port-group", "acl-add", "guarded", "to-lport", "1000", "outport == @guarded && ip", "allow-related",
		"--", "lb-add", "web", vip, web.address.String()+":80,"+other.address.String()+":80",
		"--", "lb-add", "web", vip6, "["+web.address6.String()+"]:80,["+other.address6.String()+"]:80",
		"--", "set", "load_balancer", "web", "options:hairpin_snat_ip=\"169.254.169.5 fd69::5\"", "--", "ls-lb-add", testNode,
		"web")

	g.visits(other.sandbox, web.address, 80, other.address)
	g.visits(web.sandbox, other.address6, 80, web.address6)
	for range 8 { // by hash to both endpoints, the client itself among them
		for _, address := range []string{"10.96.0.10", "fd00:10:96::10"} {
			g.answers(web.sandbox, netip.MustParseAddr(address), 80)
		}
	}
	g.visits(web.sandbox, outsideHost, 80, gatewayHost)
	g.visits(web.sandbox, outsideHost6, 80, gatewayHost6)
	g.visits(g.outside, gatewayHost, 30080, netip.MustParseAddr("100.64.0.2"))
	g.visits(g.outside, gatewayHost6, 30080, netip.MustParseAddr("fd98::2"))
	g.visits(g.outside, gatewayHost, 30081, contract.HostClients[0])
	g.visits(web.sandbox, gatewayHost, 22, contract.HostClients[0])
	g.visits(web.sandbox, gatewayHost6, 22, contract.HostClients[1])
	g.visits("", outsideHost, 80, gatewayHost)
	g.visits(other.sandbox, web.address, 80, other.address) // its first flows may be gone
	return []string{"ex0", "br-ex", web.device(), other.device()}
}

func (p *pod) device() string {
	return cni.HostInterface(cni.Attachment{ContainerID: p.container, IfName: "eth0"})
}

// answers wants somebody to answer there.
func (g *gatewayCluster) answers(ns string, to netip.Addr, port uint16) {
	g.tb.Helper()
	g.eventually(func() error {
		conn, err := open(ns, to, port)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = ask(conn, 2*time.Second)
		return err
	})
}
