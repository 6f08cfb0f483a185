package linux

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// hop is a struct rtnexthop with a gateway.
func hop(device uint32, weight byte, flags byte, gateway string) nextHop {
	data := binary.NativeEndian.AppendUint16(nil, 0)
	data = append(append(data, flags, weight-1), nativeNumber(device)...)
	data = append(data, nl.NewRtAttr(unix.RTA_GATEWAY, netip.MustParseAddr(gateway).AsSlice()).Serialize()...)
	binary.NativeEndian.PutUint16(data, uint16(len(data)))
	return data
}

func route(family byte, attributes ...attribute) message {
	header := make([]byte, routeHeader)
	header[0], header[4], header[5], header[7] = family, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RTN_UNICAST
	return message{header, attributes}
}

func TestRouteWithSeveralNextHopsByAnotherDevice(t *testing.T) {
	hops := slices.Concat(hop(3, 2, unix.RTNH_F_LINKDOWN|unix.RTNH_F_ONLINK, "192.0.2.1"), hop(9, 1, 0, "198.51.100.1"),
		hop(3, 1, 0, "192.0.2.2"))
	found, err := routesBy(3, route(unix.AF_INET, attribute{unix.RTA_MULTIPATH, hops}))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d routes, %v", len(found), err)
	}
	want := slices.Concat(hop(7, 2, unix.RTNH_F_ONLINK, "192.0.2.1"), hop(9, 1, 0, "198.51.100.1"),
		hop(7, 1, 0, "192.0.2.2"))
	if got := found[0].by(3, 7).get(unix.RTA_MULTIPATH); !bytes.Equal(got, want) {
		t.Errorf("next hops %x, want %x", got, want)
	}
	if got := found[0].m.get(unix.RTA_MULTIPATH); bytes.Equal(got, want) {
		t.Error("the route itself has changed")
	}
	// Of an IPv6 route each next hop is a route of its own for the kernel.
	hops = slices.Concat(hop(3, 2, 0, "2001:db8::1"), hop(9, 1, 0, "2001:db8:1::1"), hop(3, 1, 0, "2001:db8::2"))
	found, err = routesBy(3, route(unix.AF_INET6, attribute{unix.RTA_MULTIPATH, hops}))
	if err != nil || len(found) != 2 || found[0].gatewayless() {
		t.Fatalf("%d routes, %v", len(found), err)
	}
	if got := found[1].by(3, 7).get(unix.RTA_MULTIPATH); !bytes.Equal(got, hop(7, 1, 0, "2001:db8::2")) {
		t.Errorf("next hop %x", got)
	}
}

func TestRoutesThatAreNotMoved(t *testing.T) {
	by := attribute{unix.RTA_OIF, nativeNumber(3)}
	to := func(text string) attribute { return attribute{unix.RTA_DST, netip.MustParseAddr(text).AsSlice()} }
	local := route(unix.AF_INET, by, to("192.0.2.10"))
	local.header[4], local.header[7] = unix.RT_TABLE_LOCAL, unix.RTN_LOCAL
	linkLocal := route(unix.AF_INET6, by, to("fe80::"))
	linkLocal.header[1], linkLocal.header[5] = 64, unix.RTPROT_KERNEL
	for name, test := range map[string]struct {
		m    message
		want int
	}{
		"a default route":          {route(unix.AF_INET, by, attribute{unix.RTA_GATEWAY, []byte{192, 0, 2, 1}}), 1},
		"by another device":        {route(unix.AF_INET, attribute{unix.RTA_OIF, nativeNumber(4)}), 0},
		"an address's":             {local, 0},
		"of link-local addresses":  {linkLocal, 0},
		"multicast":                {route(unix.AF_INET6, by, to("ff00::")), 0},
		"the agent's own":          {route(unix.AF_INET, by, to("169.254.169.3")), 0},
		"a link-local one by hand": {route(unix.AF_INET6, by, to("fe80::7")), 1},
		"one of a table with a big number": {route(unix.AF_INET, by, to("10.0.0.0"),
			attribute{unix.RTA_TABLE, nativeNumber(1000)}), 1},
	} {
		if found, err := routesBy(3, test.m); len(found) != test.want || err != nil {
			t.Errorf("%s: %d routes, %v", name, len(found), err)
		}
	}
}

func FuzzRouteMessage(f *testing.F) {
	hops := slices.Concat(hop(3, 2, 0, "192.0.2.1"), hop(3, 1, 0, "192.0.2.2"))
	f.Add(route(unix.AF_INET, attribute{unix.RTA_MULTIPATH, hops}).bytes())
	f.Add(route(unix.AF_INET6, attribute{unix.RTA_OIF, nativeNumber(3)},
		attribute{unix.RTA_CACHEINFO, make([]byte, 32)}).bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseMessage(data, routeHeader)
		if err != nil {
			return
		}
		routes, err := routesBy(3, m)
		if err != nil {
			return
		}
		for _, r := range routes {
			moved, err := parseMessage(r.by(3, 7).bytes(), routeHeader)
			if err != nil {
				t.Fatalf("the moved route is no message: %v", err)
			}
			if left, err := routesBy(3, moved); err != nil || len(left) > 0 {
				t.Fatalf("%d routes are left, %v", len(left), err)
			}
		}
	})
}

func FuzzAddressMessage(f *testing.F) {
	f.Add(message{make([]byte, addressHeader),
		[]attribute{{unix.IFA_ADDRESS, []byte{192, 0, 2, 1}}, {unix.IFA_CACHEINFO, make([]byte, 16)}}}.bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseMessage(data, addressHeader)
		if err != nil {
			return
		}
		a, err := parseAddress(m)
		if err != nil {
			return
		}
		if again, err := parseMessage(a.Message, addressHeader); err != nil || len(again.attributes) != len(a.m.attributes) {
			t.Fatalf("the saved address is no message: %v", err)
		}
	})
}
