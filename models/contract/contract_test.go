package contract

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func TestAnnotationsSurviveTheirJSON(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")
	node := NodeNetwork{ID: 3, PodCIDRs: []netip.Prefix{v4, v6}, ClusterCIDRs: []netip.Prefix{v4},
		ServiceCIDRs: []netip.Prefix{v6}, Connections: 49152, PodNetworks: true}
	facts := NodeFacts{Chassis: "c", MTU: 1400, PodNetworks: true, Addresses: []netip.Addr{v4.Addr()}, Gateway: &Gateway{
		Network: "external", MAC: "0a:58:01:02:03:04", Addresses: []netip.Prefix{v4}, NextHops: []netip.Addr{v6.Addr()}}}
	pod := PodNetwork{UID: "u", MAC: "0a:58:01:02:03:04", Addresses: []netip.Prefix{v4}, Gateways: []netip.Addr{v6.Addr()}}
	roundTrip(t, node)
	roundTrip(t, facts)
	roundTrip(t, pod)
}

func roundTrip[T NodeNetwork | NodeFacts | PodNetwork](t *testing.T, value T) {
	t.Helper()
	got, ok, err := Parse[T](map[string]string{"key": Format(value)}, "key")
	if err != nil || !ok || !reflect.DeepEqual(got, value) {
		t.Errorf("%+v became %+v, %v, %v", value, got, ok, err)
	}
}

func TestParseTellsAbsentFromWrong(t *testing.T) {
	if _, ok, err := Parse[PodNetwork](nil, PodNetworkAnnotation); ok || err != nil {
		t.Errorf("absent: %v, %v", ok, err)
	}
	for _, text := range []string{"", "nonsense", `{"addresses":["10.0.0.300/24"]}`} {
		_, ok, err := Parse[PodNetwork](map[string]string{PodNetworkAnnotation: text}, PodNetworkAnnotation)
		if !ok || err == nil || !strings.Contains(err.Error(), PodNetworkAnnotation) {
			t.Errorf("%q: %v, %v", text, ok, err)
		}
	}
}

func TestDerivedAddresses(t *testing.T) {
	for _, c := range []struct{ subnet, gateway, management string }{
		{"10.244.1.0/24", "10.244.1.1", "10.244.1.2"},
		{"10.244.1.77/24", "10.244.1.1", "10.244.1.2"},
		{"fd00:10:244:1::/64", "fd00:10:244:1::1", "fd00:10:244:1::2"},
	} {
		subnet := netip.MustParsePrefix(c.subnet)
		if got := GatewayAddress(subnet).String(); got != c.gateway {
			t.Errorf("gateway of %s is %s, want %s", subnet, got, c.gateway)
		}
		if got := ManagementAddress(subnet).String(); got != c.management {
			t.Errorf("management address of %s is %s, want %s", subnet, got, c.management)
		}
	}
}

func TestMAC(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.244.1.10"), netip.MustParseAddr("fd00::aabb:ccdd")
	for want, addrs := range map[string][]netip.Addr{
		"0a:58:0a:f4:01:0a": {v6, v4},
		"0a:58:aa:bb:cc:dd": {v6},
	} {
		if got := MAC(addrs...).String(); got != want {
			t.Errorf("MAC of %v is %s, want %s", addrs, got, want)
		}
	}
}

// An address that the API server takes is never read as all of them.
func TestHostIP(t *testing.T) {
	for text, want := range map[string]string{"": "", "0.0.0.0": "", "::": "", "127.0.0.1": "127.0.0.1",
		"127.000.00.001": "127.0.0.1", "010.20.0.100": "10.20.0.100",
		"2001:db8::1": "2001:db8::1", "::ffff:192.0.2.1": "192.0.2.1"} {
		got, ok := HostIP(text)
		if !ok || got.IsValid() != (want != "") || got.IsValid() && got.String() != want {
			t.Errorf("hostIP %q is %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"here", "fe80::1%eth0", "1.2.3"} {
		if got, ok := HostIP(text); ok || got.IsValid() {
			t.Errorf("hostIP %q is %v", text, got)
		}
	}
}
