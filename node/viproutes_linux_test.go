package node_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node"
)

// While it is not known which virtual addresses there are, those that an agent before has routed stay.
func TestRoutesOfVirtualAddressesOutliveTheAgent(t *testing.T) {
	linux := newLinux(t, node.DatapathSystem)
	gateway, source := netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("10.244.1.2")
	route := func(destination string) node.Route {
		return node.Route{Destination: netip.MustParsePrefix(destination), NextHop: gateway, Source: source}
	}
	m := node.Management{Device: "mp-test", MTU: 1400, MAC: contract.MAC(source), Addresses: []netip.Prefix{netip.PrefixFrom(source, 24)}}
	run(t, "ip", "link", "add", "mp-test", "type", "veth", "peer", "name", "mp-peer")
	t.Cleanup(func() { run(t, "ip", "link", "del", "mp-test") })
	run(t, "ip", "link", "set", "mp-peer", "up")
	for _, step := range []struct {
		routes  []node.Route
		partial bool
		want    string
	}{
		{[]node.Route{route("10.96.0.0/16"), route("192.0.2.50/32")}, false, "10.96.0.0/16 192.0.2.50"},
		{[]node.Route{route("10.97.0.0/16")}, true, "10.97.0.0/16 192.0.2.50"},
		{[]node.Route{route("10.97.0.0/16"), route("192.0.2.51/32")}, true, "10.97.0.0/16 192.0.2.50 192.0.2.51"},
		{[]node.Route{route("10.97.0.0/16"), route("192.0.2.51/32")}, false, "10.97.0.0/16 192.0.2.51"},
	} {
		m.Routes, m.Partial = step.routes, step.partial
		if err := linux.EnsureManagement(m); err != nil {
			t.Fatal(err)
		}
		var found []string
		for line := range strings.Lines(run(t, "ip", "route", "show", "dev", "mp-test", "proto", "static")) {
			found = append(found, strings.Fields(line)[0])
		}
		if got := strings.Join(found, " "); got != step.want {
			t.Errorf("routes to %s in place of %s", got, step.want)
		}
	}
}
