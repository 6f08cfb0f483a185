//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// newRouter is another router on a network of the nodes, beside the central, whose interface there is device.
func newRouter(t testing.TB, device string, addresses ...string) place {
	t.Helper()
	name := "router-" + device
	central.must(t, "sh", "-ec", `
		ip netns add $0
		ip link add link $1 name $0 type macvlan mode bridge
		ip link set $0 netns $0 name eth0`, name, device)
	t.Cleanup(func() { central.must(t, "ip", "netns", "del", name) }) // and the interface in it
	router := place{"central", "/run/netns/" + name}
	router.must(t, "ip", "link", "set", "lo", "up")
	for _, a := range addresses {
		router.must(t, "ip", "addr", "add", a, "dev", "eth0", "nodad")
	}
	router.must(t, "ethtool", "-K", "eth0", "tx", "off") // Open vSwitch takes frames as they are
	router.must(t, "ip", "link", "set", "eth0", "up")
	return router
}

// TestNextHopsAreFollowed: pods take the default routes that their host has, when they change, and all of
// them where there are several.
func TestNextHopsAreFollowed(t *testing.T) {
	central.serveName(t, "central")
	for _, c := range []struct {
		node, device   string
		addresses      []string // of the other router
		central, other []netip.Addr
		prefixes       []string // IPv4 and IPv6
	}{
		{"l2", "ex0", []string{"172.31.0.77/24", "fd00:31::77/64"},
			parseAddrs("172.31.0.254", "fd00:31::254"), parseAddrs("172.31.0.77", "fd00:31::77"),
			[]string{"198.51.100.80/28", "2001:db8:51:3::/64"}},
		{badDays, "ul0", []string{"172.30.0.77/24", "fd00:30::77/64"},
			parseAddrs("172.30.0.1", "fd00:30::1"), parseAddrs("172.30.0.77", "fd00:30::77"),
			[]string{"198.51.100.96/28", "2001:db8:51:4::/64"}},
	} {
		t.Run(c.node, func(t *testing.T) {
			t.Parallel()
			router, pod := newRouter(t, c.device, c.addresses...), inWeb(t, c.node)
			router.serveName(t, "other")
			for i, text := range c.prefixes {
				prefix := netip.MustParsePrefix(text)
				own(t, central, prefix)
				own(t, router, prefix)
				followNextHops(t, host(c.node), pod, prefix, c.central[i], c.other[i])
			}
		})
	}
}

// whoPort is where each of the routers says who it is.
const whoPort = 8095

// serveName runs a server on whoPort that answers /hostname with a name.
func (p place) serveName(t testing.TB, name string) {
	t.Helper()
	p.serve(t, "unshare", "--uts", "sh", "-c", fmt.Sprintf("hostname %s && exec %s netexec --http-port=%d --udp-port=-1",
		name, agnhost(), whoPort))
}

// followNextHops changes the default route of a node's host, and looks who of the routers, which both
// have all addresses of the prefix, hears its pod.
func followNextHops(t *testing.T, node, pod place, prefix netip.Prefix, central, other netip.Addr) {
	t.Helper()
	var urls []string
	for addr := prefix.Addr().Next(); len(urls) < 14; addr = addr.Next() {
		urls = append(urls, httpURL(addr, whoPort, "hostname"))
	}
	hears := func(want ...string) {
		t.Helper()
		eventually(t, inForce, fmt.Sprintf("the pod leaves by %q", want), func() error {
			return pod.ask(append([]string{"-n", "2", "-timeout", "2s"}, urls...)...).are(want...)
		})
	}
	version := "-6"
	if central.Is4() {
		version = "-4"
	}
	ip := func(args ...string) { node.must(t, append([]string{"ip", version, "route"}, args...)...) }
	before := strings.Fields(node.must(t, "ip", version, "route", "show", "default"))
	device := before[slices.Index(before, "dev")+1]
	t.Cleanup(func() {
		ip("flush", "exact", "default")
		ip("add", "default", "via", central.String(), "dev", device)
	})
	hears("central")
	ip("replace", "default", "via", other.String(), "dev", device)
	hears("other")
	ip("flush", "exact", "default")
	if !strings.HasPrefix(node.machine, "w") {
		ip("add", "default", "nexthop", "via", central.String(), "dev", device, "nexthop", "via", other.String(), "dev",
			device)
		hears("central", "other")
	} else if version == "-4" {
		// Windows has a route for each next hop. So has Linux, but of IPv6 it makes one of them again.
		ip("add", "default", "via", central.String(), "dev", device)
		ip("append", "default", "via", other.String(), "dev", device)
		hears("central", "other")
	}
	ip("flush", "exact", "default")
	ip("add", "default", "via", central.String(), "dev", device)
	hears("central")
}

// TestBadGatewayKeysAreTold, and cut nobody off.
func TestBadGatewayKeysAreTold(t *testing.T) {
	for _, c := range []struct {
		name, config string
		says         []string
	}{
		{"a next hop that is no neighbour", "gateway-next-hops: 203.0.113.1\n", []string{"gateway-next-hops", "203.0.113.1"}},
		{"a mapping to a bridge that is not there", "bridge-mappings: storage:br-none\n",
			[]string{"bridge-mappings", "br-none"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			configure(t, "l2", c.config)
			readySays(t, "l2", c.says...)
			webServes(t, "l2", 20*time.Second)
			if err := outsideHost.ask("http://" + netip.AddrPortFrom(nodeAddresses(t, "l2")[0], 10250).String() +
				"/healthz").failed(); err != nil {
				t.Errorf("the kubelet: %v", err)
			}
		})
	}
}
