package ovn

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/records"
)

// TestTunnelAddressesOutliveTheirController: the node that had an address first has it after a restart, too, whatever
// its name.
func TestTunnelAddressesOutliveTheirController(t *testing.T) {
	shared := netip.MustParseAddr("198.51.100.7")
	w := newWorld()
	for _, name := range []string{"n1", "n2"} {
		n := w.node(name, "10.244."+name[1:]+".0/24")
		n.Addresses = []netip.Addr{shared}
		w.put(n)
	}
	had := func(names ...string) map[string]records.Node {
		nodes := map[string]records.Node{}
		for _, name := range names {
			nodes[name] = records.Node{Tunnels: []netip.Addr{shared}}
		}
		return nodes
	}
	for _, c := range []struct {
		records map[string]records.Node
		want    string
	}{{nil, "n1"}, {had("n1"), "n1"}, {had("n2"), "n2"}, {had("gone"), "n1"}} {
		again := newCluster(ovntest.Settings(t, nil))
		again.begin(records.Records{Nodes: c.records}, w.Keys(), w.Get)
		for _, name := range []string{"n1", "n2"} {
			if got := again.nodes.At(name).Tunnels; slices.Contains(got, shared) != (name == c.want) {
				t.Errorf("with the records %v %s has %v, and %s must have the address", c.records, name, got, c.want)
			}
		}
	}
}
