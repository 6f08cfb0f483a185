package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
)

func TestNextHops(t *testing.T) {
	for name, test := range map[string]struct {
		key, found, addresses, want, says string
	}{
		"the host's": {"", "192.0.2.1", "192.0.2.10/24", "192.0.2.1", ""},
		"several of the host's": {"", "192.0.2.1 192.0.2.2 2001:db8::1", "192.0.2.10/24 2001:db8::10/64",
			"192.0.2.1 192.0.2.2 2001:db8::1", ""},
		"the key's":  {"192.0.2.3 192.0.2.4", "192.0.2.1", "192.0.2.10/24", "192.0.2.3 192.0.2.4", ""},
		"link-local": {"", "fe80::1", "2001:db8::10/64", "fe80::1", ""},
		"none":       {"", "", "192.0.2.10/24", "", "no default route of IPv4 by br-ex"},
		"none of IPv6": {"", "192.0.2.1", "192.0.2.10/24 2001:db8::10/64", "192.0.2.1",
			"no default route of IPv6 by br-ex"},
		"of a family without addresses": {"", "192.0.2.1 fe80::1", "192.0.2.10/24", "192.0.2.1", ""},
		"one that is no neighbour": {"203.0.113.1 192.0.2.1", "", "192.0.2.10/24", "192.0.2.1",
			"203.0.113.1 is no neighbour"},
		"none that is a neighbour": {"", "203.0.113.1", "192.0.2.10/32", "", "203.0.113.1 is no neighbour"},
		"the gateway itself":       {"192.0.2.10", "", "192.0.2.10/24", "", "192.0.2.10 is no neighbour"},
	} {
		t.Run(name, func(t *testing.T) {
			c := nodeconfig.Config{GatewayNextHops: nodetest.Addrs(strings.Fields(test.key)...)}
			hops, err := nextHops(c, "br-ex", platform.HostInterface{NextHops: nodetest.Addrs(strings.Fields(test.found)...)},
				nodetest.Prefixes(strings.Fields(test.addresses)...))
			if !slices.Equal(hops, nodetest.Addrs(strings.Fields(test.want)...)) {
				t.Errorf("next hops %v", hops)
			}
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("says %v", err)
			}
		})
	}
}

func TestGatewayOfTheHostsAddresses(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	host := platform.HostInterface{MAC: mac,
		Addresses: nodetest.Prefixes("192.0.2.10/24", "192.0.2.11/24", "2001:db8::10/64", "2001:db8::11/64")}
	c := nodeconfig.Config{GatewayNetwork: "external", GatewayInterface: "eth1", Gateway: nodeconfig.GatewayRouted}
	got, err := gatewayOf(c, "br-ex", host)
	want := contract.Gateway{Network: "external", MAC: mac.String(),
		Addresses: nodetest.Prefixes("192.0.2.10/24", "2001:db8::10/64"), HostAddresses: true, Routed: true}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" ||
		err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := gatewayOf(c, "br-ex", platform.HostInterface{MAC: mac}); err == nil ||
		!strings.Contains(err.Error(), "gateway-addresses") {
		t.Errorf("a host without addresses: %v", err)
	}
	c.Gateway, c.GatewayAddresses = "", nodetest.Prefixes("192.0.2.20/24")
	if got, err := gatewayOf(c, "br-ex", host); err != nil || got.HostAddresses || got.Routed ||
		got.MAC != "0a:58:c0:00:02:14" {
		t.Errorf("a gateway of its own addresses is %+v, %v", got, err)
	}
}

// A mapping to a bridge that is not there is told, and harms nothing else.
func TestBridgeThatNobodyHasMade(t *testing.T) {
	b := newBench(t, func(c *nodeconfig.Config) {
		c.BridgeMappings = []nodeconfig.BridgeMapping{{Network: "storage", Bridge: "br-st"},
			{Network: "lab", Bridge: nodeconfig.IntegrationBridge}}
	})
	look := func(right func(mappings string, mapped bool) bool) {
		t.Helper()
		if err := b.Database.WaitFor(t.Context(), func() bool {
			if err := b.ReconcileBridges(t.Context()); err != nil {
				t.Fatal(err)
			}
			root, err := b.Database.Root()
			mappings, mapped := root.ExternalIDs["ovn-bridge-mappings"]
			return err == nil && right(mappings, mapped)
		}); err != nil {
			t.Fatal(err)
		}
	}
	look(func(mappings string, _ bool) bool { return mappings == "lab:br-int,storage:br-st" })
	look(func(string, bool) bool { return b.Database.Bridge(nodeconfig.IntegrationBridge) != nil })
	if err := b.ReconcileBridges(t.Context()); err != nil {
		t.Fatal(err)
	}
	note := fmt.Sprint(b.Health.Noted()[health.Mappings])
	if !strings.Contains(note, "storage:br-st") || !strings.Contains(note, "ovs-vsctl add-br br-st") ||
		strings.Contains(note, "lab") {
		t.Errorf("noted %s", note)
	}
	b.Config.BridgeMappings = nil
	look(func(_ string, mapped bool) bool { return !mapped && len(b.Health.Noted()) == 0 })
}
