package contract

import (
	"net/netip"
	"strings"
	"testing"
)

func TestLinesOfPodNetworks(t *testing.T) {
	p := PodAddresses{Pod: "shop/web", UID: "0b0a54a1", Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.3/24"),
		netip.MustParsePrefix("fd00:10:244:1::3/64")}}
	const line = "shop/web 0b0a54a1 10.244.1.3/24 fd00:10:244:1::3/64"
	if got := p.String(); got != line {
		t.Errorf("it is written as %q", got)
	}
	if got, err := ParsePodAddresses(line); err != nil || !got.Equal(p) {
		t.Errorf("it is read as %+v, %v", got, err)
	}
	network := NewPodNetwork(p.UID, p.Addresses)
	if network.MAC != "0a:58:0a:f4:01:03" || len(network.Gateways) != 2 || network.Gateways[0].String() != "10.244.1.1" ||
		network.Gateways[1].String() != "fd00:10:244:1::1" {
		t.Errorf("its network is %+v", network)
	}
	for line, words := range map[string]string{
		"":                                  "is not a pod, its UID and its addresses",
		"shop/web 0b0a54a1":                 "is not a pod, its UID and its addresses",
		"shop/web 0b0a54a1 10.244.1.3":      "no '/'",
		"shop/web u 10.244.1.3/24 fe80::/x": "bad bits",
		"shop/web u ::ffff:10.244.1.3/120":  "dressed as IPv6",
	} {
		if got, err := ParsePodAddresses(line); err == nil || !strings.Contains(err.Error(), words) || got.UID != "" {
			t.Errorf("%q is read as %+v, %v", line, got, err)
		}
	}
}

// FuzzParsePodAddresses wants of any line an error, or what is written as it is read. All of its addresses can be used.
func FuzzParsePodAddresses(f *testing.F) {
	for _, line := range []string{"shop/web u 10.244.1.3/24 fd00::3/64", "a b 255.255.255.255/32", "a b ::/0", "",
		"a b c"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		p, err := ParsePodAddresses(line)
		if err != nil {
			return
		}
		usable(t, line, nil, p.Addresses)
		if again, err := ParsePodAddresses(p.String()); err != nil || !again.Equal(p) {
			t.Fatalf("%q became %q, and that %+v, %v", line, p, again, err)
		}
		if network := NewPodNetwork(p.UID, p.Addresses); len(network.Gateways) != len(p.Addresses) {
			t.Fatalf("%q has the network %+v", line, network)
		}
	})
}
