package proxy

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/weftnet/weft/node/hostservice/hosttest"
	"github.com/weftnet/weft/node/nodetest"
)

// Pods are refused at each address of the host's; the host itself, whichever of its addresses it has, other nodes and
// clients outside are served.
func TestPodsAreRefused(t *testing.T) {
	to := Target{Clients: &Clients{
		Host: nodetest.Addrs("172.31.0.1", "172.31.0.17", "2001:db8::1", "10.244.1.2", "fd00:1::2"),
		Pods: nodetest.Prefixes("10.244.0.0/16", "fd00::/16", "fe80::/10"),
	}}
	for text, served := range map[string]bool{
		"172.31.0.1": true, "172.31.0.17": true, "127.0.0.1": true, "10.244.1.2": true, "172.31.0.2": true,
		"198.51.100.1": true, "172.31.0.99": true,
		"10.244.1.9": false, "10.244.2.9": false, "10.244.2.2": false,
		"2001:db8::1": true, "::1": true, "fd00:1::2": true, "2001:db8::2": true,
		"fd00:1::9": false, "fd00:2::9": false, "fe80::858:aff:fef4:109": false,
	} {
		client := netip.MustParseAddr(text)
		for _, asked := range nodetest.Addrs("172.31.0.1", "172.31.0.17", "2001:db8::1") {
			if client.Is4() != asked.Is4() {
				continue
			}
			if reason := to.refuses(client, asked); (reason == "") != served {
				t.Errorf("%v: %v is refused: %q", asked, client, reason)
			}
		}
	}
}

// Who comes from outside gets the node's own endpoints, and nobody if it has none.
func TestClientsFromOutside(t *testing.T) {
	vip := netip.MustParseAddrPort("169.254.169.4:30080")
	all := []Backend{
		{Endpoint: netip.MustParseAddr("10.244.1.5"), At: netip.MustParseAddrPort("10.244.1.5:80"), Local: true},
		{Endpoint: netip.MustParseAddr("10.244.2.5"), At: netip.MustParseAddrPort("172.31.0.2:30080")},
	}
	for name, c := range map[string]struct {
		backends []Backend
		client   string
		want     []Backend
	}{
		"the host":                      {all, "172.31.0.1", all},
		"the loopback":                  {all, "127.0.0.1", all},
		"the host without endpoints":    {nil, "172.31.0.1", []Backend{{At: vip}}},
		"outside":                       {all, "172.31.0.2", all[:1]},
		"outside, endpoints elsewhere":  {all[1:], "172.31.0.2", nil},
		"outside, endpoints not known":  {nil, "198.51.100.1", nil},
		"outside, an endpoint of OVN's": {[]Backend{{At: vip}}, "198.51.100.1", nil},
	} {
		to := Target{To: vip, Clients: &Clients{Host: nodetest.Addrs("172.31.0.1", "10.244.1.2")},
			Backends: &Backends{List: c.backends}}
		if got := to.backendsFor(netip.MustParseAddr(c.client)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	got := Target{To: vip}.backendsFor(netip.MustParseAddr("198.51.100.1"))
	if !slices.Equal(got, []Backend{{At: vip}}) {
		t.Errorf("policy Cluster: %v", got)
	}
}

// A socket of the host's that somebody has made an endpoint of its own Service passes nothing on that has come from
// there.
func TestNothingGoesInCircles(t *testing.T) {
	returned := Target{To: hosttest.Greeter(t, "a"), Returns: []netip.Addr{hosttest.Loopback}}
	conn, err := net.Dial("tcp4", startStreams(t, returned).listener.Addr().String())
	if err == nil { // it may have been refused at once
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("a connection is passed on")
	}
	d := openDatagrams(t, Target{To: datagramBackend(t, "a"), Returns: []netip.Addr{hosttest.Loopback}}, 10)
	if d.session(netip.AddrPortFrom(hosttest.Loopback, 9)) != nil {
		t.Error("a datagram is passed on")
	}
}
