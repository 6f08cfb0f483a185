package contract

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// FuzzParse wants of whatever stands in an annotation a reason or a value that Format writes as Parse reads it, all of
// whose addresses can be used as they are.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`{"id":1,"podCIDRs":["10.244.0.0/24","fd00:10:244::/64"],"clusterCIDRs":["10.244.0.0/16"],"serviceCIDRs":["10.96.0.0/12"],"joinCIDRs":["100.64.0.0/16"],"sharedGateways":["192.0.2.1"]}`,
		`{"chassis":"l1","mtu":1400,"addresses":["192.0.2.1"],"listeners":["tcp/9100","udp/192.0.2.1:53"],"gateway":{"network":"external","mac":"0a:58:c0:00:02:05","addresses":["192.0.2.5/24"],"nextHops":["192.0.2.1","fe80::1"]},"hosted":{"address":"192.0.2.1:16642"}}`,
		`{"uid":"u","mac":"0a:58:0a:f4:00:03","addresses":["10.244.0.3/24"],"gateways":["10.244.0.1"]}`,
		`{"uid":"u","generation":3,"inForce":true,"since":"2026-01-01T00:00:00Z","reason":"r","message":"m"}`,
		`{"allow":"info"}`,
		`{"podCIDRs":[""],"clusterCIDRs":[""],"addresses":[""],"gateways":[""]}`, `{"listeners":[null]}`,
		`{"listeners":["tcp/[fe80::1%eth0]:1"]}`, `{"podCIDRs":["255.255.255.255/32"]}`, `{"podCIDRs":["10.0.0.0/31"]}`,
		`{"podCIDRs":["::ffff:10.0.0.0/120"]}`, `{"gateway":{"addresses":["fe80::1%eth0/64"],"nextHops":["fe80::1%eth0"]}}`,
		`{"since":"9999-12-31T23:59:59-23:59"}`, `null`, `{"gateway":null}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, ok := again[NodeNetwork](t, text); ok {
			for _, subnet := range n.PodCIDRs {
				gateway, management := GatewayAddress(subnet), ManagementAddress(subnet)
				if !subnet.Contains(gateway) || !subnet.Contains(management) || len(MAC(management)) != 6 {
					t.Fatalf("%s: a node of subnet %v has gateway %v and management address %v", text, subnet, gateway, management)
				}
			}
			usable(t, text, n.SharedGateways, n.PodCIDRs, n.ClusterCIDRs, n.ServiceCIDRs, n.JoinCIDRs)
		}
		if n, ok := again[NodeFacts](t, text); ok {
			usable(t, text, n.Addresses)
			for _, l := range n.Listeners {
				if l.Addr.IsValid() {
					usable(t, text, []netip.Addr{l.Addr})
				}
			}
			if n.Gateway != nil {
				usable(t, text, n.Gateway.NextHops, n.Gateway.Addresses)
			}
		}
		if p, ok := again[PodNetwork](t, text); ok {
			usable(t, text, p.Gateways, p.Addresses)
		}
		again[PolicyStatus](t, text)
		if _, present, _ := Parse[ACLLogging](map[string]string{"key": text}, "key"); !present {
			t.Fatalf("%q is absent", text)
		}
	})
}

// again reads a text, and what Format makes of it.
func again[T NodeNetwork | NodeFacts | PodNetwork | PolicyStatus](t *testing.T, text string) (T, bool) {
	t.Helper()
	value, present, err := Parse[T](map[string]string{"key": text}, "key")
	if !present {
		t.Fatalf("%q is absent", text)
	}
	if err != nil {
		return value, false
	}
	written := Format(value)
	second, _, err := Parse[T](map[string]string{"key": written}, "key")
	if err != nil || Format(second) != written {
		t.Fatalf("%q became %s, and that %s, %v", text, written, Format(second), err)
	}
	return value, true
}

func usable(t *testing.T, text string, addrs []netip.Addr, prefixes ...[]netip.Prefix) {
	t.Helper()
	for _, a := range slices.Concat(addrs, Addrs(slices.Concat(prefixes...))) {
		if !a.IsValid() || a.Zone() != "" || a.Is4In6() {
			t.Fatalf("%s has the address %s", text, fmt.Sprint(a))
		}
		if len(MAC(a)) != 6 {
			t.Fatalf("%s: %v has no MAC", text, a)
		}
	}
}
