package node

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/nodetest/hyperv"
)

// deferredActions is how many further passes a packet has on Windows before the driver drops it: Recirc.h,
// DEFERRED_ACTION_QUEUE_SIZE. The userspace datapath of this test drops what wants more than eight.
const deferredActions = 10

// mostPasses is what the longest way through a node takes, with some left for an OVN that needs another.
const mostPasses = 7

// What Weft's longest ways need of the datapath's passes, with Hyper-V's features alone: from outside and from
// pods, by the gateway and by load balancers with several endpoints, under policies of both directions, to pods of
// the node and to its host. The lookup before a commit (conntrack-lookup) is no pass of its own.
func TestPassesOfAWindowsNode(t *testing.T) {
	if mostPasses >= deferredActions {
		t.Fatalf("%d passes leave the driver none", mostPasses)
	}
	g := newGatewayCluster(t)
	// the datapath here is Linux', and does not bear it: see docs/windows.md
	g.config.ConntrackLookup = nodeconfig.LookupOff
	g.echo("", 22)
	g.echo("", 23)
	g.echo(g.outside, 80)
	g.nodePort()
	g.decide()
	g.startAgent()
	g.awaitReady()
	var facts contract.NodeFacts
	g.eventually(func() (err error) { facts, err = g.facts(); return err })
	control := "--target=" + filepath.Join(filepath.Dir(strings.TrimPrefix(g.config.OVSDatabase, "unix:")),
		nodetest.Vswitchd+".ctl")
	for _, bridge := range []string{nodeconfig.IntegrationBridge, "br-ex"} {
		for _, feature := range hyperv.Features {
			g.ovn.Run("ovs-appctl", control, "dpif/set-dp-features", bridge, feature.Name, feature.Value)
		}
	}
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
		"--", "set", "load_balancer", "web", "options:hairpin_snat_ip=\"169.254.169.5 fd69::5\"", "--", "ls-lb-add", testNode, "web")

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
	for _, device := range []string{"ex0", "br-ex", web.device(), other.device()} {
		n := g.passes(device)
		t.Logf("what comes by %s passes the datapath %d times more", device, n)
		if n > mostPasses {
			t.Errorf("what comes by %s passes the datapath %d times more; the driver drops what wants more than %d", device, n,
				deferredActions)
		}
	}
	g.stop()
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
