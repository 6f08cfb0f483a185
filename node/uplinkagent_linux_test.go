package node

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
)

// gatewayFacts waits for facts of a gateway that are as they must be.
func (g *gatewayCluster) gatewayFacts(right func(contract.Gateway) bool) contract.Gateway {
	g.tb.Helper()
	var facts contract.NodeFacts
	g.eventually(func() (err error) {
		if facts, err = g.facts(); err != nil {
			return err
		}
		if facts.Gateway == nil || !right(*facts.Gateway) {
			return fmt.Errorf("the gateway is %+v", facts.Gateway)
		}
		return nil
	})
	return *facts.Gateway
}

// The node's life with the host's addresses, then with other wishes, while somebody works on the host.
func TestAgentSharesTheUplinkAndGivesItBack(t *testing.T) {
	g := newGatewayCluster(t)
	device, err := net.InterfaceByName("ex0")
	if err != nil {
		t.Fatal(err)
	}
	h := &uplinkHost{t: t, outside: g.outside}
	before := h.state("ex0")
	open := []*session{h.session(gatewayHost.String(), "outside"), h.session(outsideHost6.String(), "host")}
	g.config.BridgeMappings = []nodeconfig.BridgeMapping{{Network: "storage", Bridge: "br-storage"}}
	g.decide()
	g.startAgent()
	first := g.gatewayFacts(func(gw contract.Gateway) bool { return len(gw.NextHops) == 2 })
	if !first.HostAddresses || first.Routed || first.MAC != device.HardwareAddr.String() ||
		!slices.Equal(first.Addresses, nodetest.Prefixes("172.31.0.2/24", "fd00:172:31::2/64")) ||
		!slices.Equal(first.NextHops, nodetest.Addrs("172.31.0.254", "fd00:172:31::254")) {
		t.Errorf("the gateway is %+v", first)
	}
	g.awaitReady()
	if mappings := g.ovn.VS("get", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings"); !strings.Contains(mappings,
		"external:br-ex,storage:br-storage") {
		t.Errorf("mappings %s", mappings)
	}
	g.event("bridge-mappings: storage:br-storage: this node's Open vSwitch has no bridge br-storage")
	h.unbroken(open, "shared")

	g.shell("ip route replace default nexthop via 172.31.0.254 dev br-ex nexthop via 172.31.0.253 dev br-ex")
	g.gatewayFacts(func(gw contract.Gateway) bool {
		return slices.Equal(gw.NextHops, nodetest.Addrs("172.31.0.253", "172.31.0.254", "fd00:172:31::254"))
	})
	g.shell("ip route del default")
	g.gatewayFacts(func(gw contract.Gateway) bool { return slices.Equal(gw.NextHops, nodetest.Addrs("fd00:172:31::254")) })
	g.event("gateway-next-hops: is empty, and the host has no default route of IPv4 by br-ex")
	g.awaitReady() // pods do not wait for it
	g.shell("ip route add default via 172.31.0.254 dev br-ex")
	g.gatewayFacts(func(gw contract.Gateway) bool { return len(gw.NextHops) == 2 })

	g.stop()
	h.unbroken(open, "without an agent")
	g.config.Gateway, g.config.BridgeMappings = nodeconfig.GatewayRouted, nil
	g.startAgent()
	g.gatewayFacts(func(gw contract.Gateway) bool { return gw.Routed && gw.HostAddresses })
	h.unbroken(open, "routed")
	if _, err := Release(t.Context(), g.config); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("the uplink is given back while the agent runs: %v", err)
	}

	g.stop()
	g.config.Gateway = nodeconfig.GatewayNone
	g.startAgent()
	g.eventually(func() error {
		facts, err := g.facts()
		if err != nil || facts.Gateway != nil {
			return fmt.Errorf("the gateway is %+v, %v", facts.Gateway, err)
		}
		if g.agent.ovs.Bridge("br-ex") != nil {
			return errors.New("the bridge is there")
		}
		return nil
	})
	g.awaitReady()
	h.has("ex0", before)
	h.unbroken(open, "given back")
	root, err := g.agent.ovs.Root()
	if _, mapped := root.ExternalIDs["ovn-bridge-mappings"]; mapped || err != nil {
		t.Errorf("mappings %v, %v", root.ExternalIDs, err)
	}
}

// event waits for an Event on the Node.
func (g *gatewayCluster) event(text string) {
	g.tb.Helper()
	g.eventually(func() error {
		events, err := g.client.CoreV1().Events("").List(g.tb.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == testNode && strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no event %q among %d", text, len(events.Items))
	})
}
