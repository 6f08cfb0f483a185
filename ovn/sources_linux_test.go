package ovn

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
)

// TestSourceRangesWithPackets: who gets through to a load balancer's address, and what else is not touched.
func TestSourceRangesWithPackets(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.pods("a", "b")
	d.host()
	d.outside([]string{"203.0.113.100/24", "203.0.113.101/24", "2001:db8::100/64 nodad", "2001:db8::101/64 nodad"},
		"198.51.100.0/24 via 203.0.113.1", "2001:db8:5::/64 via 2001:db8::1")
	s := d.service("web", "10.96.0.10", "fd00:10:96::a")
	s.Ingress = []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8:5::1")}
	s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.2")}
	s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: 30080}}
	var slices [2]*objects.EndpointSlice
	for i, addr := range []string{"10.244.0.3", "fd00:10:244::3"} {
		slices[i] = d.slice([]string{"web-4", "web-6"}[i], "web",
			[]objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}}, ready(addr, "n1"))
	}
	d.do(s, slices[0], slices[1])

	type client struct{ namespace, from, to string }
	everybody := []client{
		{"outside", "203.0.113.100", "198.51.100.1:80"}, {"outside", "203.0.113.101", "198.51.100.1:80"},
		{"outside", "2001:db8::100", "[2001:db8:5::1]:80"}, {"outside", "2001:db8::101", "[2001:db8:5::1]:80"},
		{"a", "", "198.51.100.1:80"}, {"b", "", "198.51.100.1:80"}, {"b", "", "[2001:db8:5::1]:80"},
		{"host", "", "198.51.100.1:80"},
		{"outside", "203.0.113.101", "198.51.100.2:80"}, {"b", "", "198.51.100.2:80"},
		{"outside", "203.0.113.101", "203.0.113.1:30080"}, {"b", "", "10.96.0.10:80"},
	}
	check := func(name string, refused ...client) {
		t.Run(name, func(t *testing.T) {
			d.t = t
			no := map[client]bool{}
			for _, c := range refused {
				no[c] = true
			}
			for _, c := range everybody {
				d.patience = nodetest.Patience
				if no[c] {
					d.patience = 300 * time.Millisecond
				}
				if got := d.ask(c.namespace, c.from, "tcp", c.to); (got.err != nil) != no[c] {
					t.Errorf("%+v: %+v", c, got)
				}
			}
		})
		d.t = t
	}
	with := func(ranges ...string) {
		now := *s
		now.SourceRanges = ranges
		d.do(&now)
	}
	check("without ranges")
	with("203.0.113.100/32", "10.244.0.3/32", "2001:db8::100/128")
	check("with ranges", everybody[1], everybody[3], everybody[5], everybody[6])
	with("nonsense")
	check("with a range that nobody can read", everybody[0], everybody[1], everybody[2], everybody[3], everybody[4],
		everybody[5], everybody[6])
	with()
	check("without ranges again")
}
