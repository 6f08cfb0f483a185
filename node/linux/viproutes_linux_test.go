package linux_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/platform"
)

// While it is not known which virtual addresses there are, those that an agent before has routed stay.
func TestRoutesOfVirtualAddressesOutliveTheAgent(t *testing.T) {
	linux := newLinux(t, onKernel)
	gateway, source := netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("10.244.1.2")
	route := func(destination string) platform.Route {
		return platform.Route{Destination: netip.MustParsePrefix(destination), NextHop: gateway, Source: source}
	}
	m := platform.Management{Device: "mp-test", MTU: 1400, MAC: contract.MAC(source),
		Addresses: []netip.Prefix{netip.PrefixFrom(source, 24)}}
	run(t, "ip", "link", "add", "mp-test", "type", "veth", "peer", "name", "mp-peer")
	t.Cleanup(func() { run(t, "ip", "link", "del", "mp-test") })
	run(t, "ip", "link", "set", "mp-peer", "up")
	for _, step := range []struct {
		routes  []platform.Route
		partial bool
		want    string
	}{
		{[]platform.Route{route("10.96.0.0/16"), route("192.0.2.50/32")}, false, "192.0.2.50 10.96.0.0/16"},
		{[]platform.Route{route("10.97.0.0/16")}, true, "192.0.2.50 10.97.0.0/16"},
		{[]platform.Route{route("10.97.0.0/16"), route("192.0.2.51/32")}, true, "192.0.2.50 192.0.2.51 10.97.0.0/16"},
		{[]platform.Route{route("10.97.0.0/16"), route("192.0.2.51/32")}, false, "192.0.2.51 10.97.0.0/16"},
	} {
		m.Routes, m.Partial = step.routes, step.partial
		if err := linux.EnsureManagement(m); err != nil {
			t.Fatal(err)
		}
		var found []string
		for line := range strings.Lines(run(t, "ip", "route", "show", "table", "all", "dev", "mp-test", "proto", "static")) {
			found = append(found, strings.Fields(line)[0])
		}
		if got := strings.Join(found, " "); got != step.want {
			t.Errorf("routes to %s in place of %s", got, step.want)
		}
	}
}

// An address that a Service has may be that of somebody who has connections to this host: answers to him, and what
// others send to him by this host, go the way that they went before.
func TestAVirtualAddressTakesNoOthersPackets(t *testing.T) {
	linux := newLinux(t, onKernel)
	for _, command := range []string{
		"link add mp-test type veth peer name mp-peer", "link set mp-peer up",
		"link add up-test type veth peer name up-peer", "link set up-peer up", "link set up-test up",
		"addr add 172.31.0.2/24 dev up-test", "addr add fd00:172:31::2/64 dev up-test nodad",
		"route add default via 172.31.0.254", "-6 route add default via fd00:172:31::254",
	} {
		run(t, append([]string{"ip"}, strings.Fields(command)...)...)
	}
	t.Cleanup(func() { run(t, "ip", "link", "del", "mp-test"); run(t, "ip", "link", "del", "up-test") })
	m := platform.Management{Device: "mp-test", MTU: 1400}
	for _, family := range [][3]string{{"10.244.1.1", "10.244.1.2/24", "192.0.2.50"},
		{"fd00:1::1", "fd00:1::2/64", "2001:db8::50"}} {
		address, vip := netip.MustParsePrefix(family[1]), netip.MustParseAddr(family[2])
		m.Addresses = append(m.Addresses, address)
		m.Routes = append(m.Routes, platform.Route{Destination: netip.PrefixFrom(vip, vip.BitLen()),
			NextHop: netip.MustParseAddr(family[0]), Source: address.Addr()})
	}
	m.MAC = contract.MAC(contract.Addrs(m.Addresses)...)
	ensure := func() {
		t.Helper()
		if err := linux.EnsureManagement(m); err != nil {
			t.Fatal(err)
		}
	}
	ensure()
	rules := func() string { return run(t, "ip", "rule") + run(t, "ip", "-6", "rule") }
	before := rules()
	ensure()
	if again := rules(); again != before {
		t.Errorf("rules\n%sand then\n%s", before, again)
	}
	from := func(local, remote string) string {
		dialer := net.Dialer{}
		if local != "" {
			dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(local), 0))
		}
		conn, err := dialer.Dial("udp", net.JoinHostPort(remote, "80"))
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return conn.LocalAddr().(*net.UDPAddr).IP.String()
	}
	for remote, own := range map[string][2]string{"192.0.2.50": {"10.244.1.2", "172.31.0.2"},
		"2001:db8::50": {"fd00:1::2", "fd00:172:31::2"}} {
		if got := from("", remote); got != own[0] {
			t.Errorf("a connection to %s has the source %s", remote, got)
		}
		for source, device := range map[string]string{own[0]: "mp-test", own[1]: "up-test"} {
			if got := run(t, "ip", "route", "get", remote, "from", source); !strings.Contains(got, " dev "+device+" ") {
				t.Errorf("packets to %s from %s go by %s", remote, source, got)
			}
		}
	}
	m.Routes = nil
	ensure()
	if left := rules(); strings.Contains(left, "30565") {
		t.Errorf("rules without routes\n%s", left)
	}
}
