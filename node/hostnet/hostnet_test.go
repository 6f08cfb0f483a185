package hostnet

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

func TestKindOf(t *testing.T) {
	for name, test := range map[string]struct {
		alias, description string
		loopback, hardware bool
		want               Kind
	}{
		"a network card":                   {"Ethernet", "Intel(R) Ethernet Connection I219-LM", false, true, Physical},
		"a virtual machine's network card": {"Ethernet", "Microsoft Hyper-V Network Adapter", false, true, Physical},
		"a second card":                    {"Ethernet 2", "vmxnet3 Ethernet Adapter", false, true, Physical},
		"a virtual switch's, in the host": {"vEthernet (Ethernet)", "Hyper-V Virtual Ethernet Adapter #2", false, false,
			Virtual},
		"the same, renamed": {"br-ext", "Hyper-V Virtual Ethernet Adapter", false, true, Virtual},
		"a pod's": {"vEthernet (weft0123456789a)", "Hyper-V Virtual Ethernet Container Adapter",
			false, true, Virtual},
		"a team":   {"Team1", "Microsoft Network Adapter Multiplexor Driver", false, true, Team},
		"a tunnel": {"Teredo", "Microsoft Teredo Tunneling Adapter", false, false, Virtual},
		"the loopback": {"Loopback Pseudo-Interface 1", "Software Loopback Interface 1", true, true,
			Loopback},
		"a card that people call vEthernet2": {"vEthernet2", "Realtek PCIe GbE Family Controller", false, true, Physical},
	} {
		if got := kindOf(test.alias, test.description, test.loopback, test.hardware); got != test.want {
			t.Errorf("%s: %s instead of %s", name, got, test.want)
		}
	}
}

func mac(text string) net.HardwareAddr {
	parsed, err := net.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	return parsed
}

func has(prefix string) []Address {
	return []Address{{Prefix: netip.MustParsePrefix(prefix), Usable: true}}
}

func TestManagementIsKnownByItsMAC(t *testing.T) {
	ours := mac("02:00:00:00:00:03")
	uplink := Adapter{Alias: "Ethernet", Kind: Physical, MAC: ours, Compartment: 1}
	// antrea issue 3636: the name that Windows would have chosen was another switch's already.
	others := Adapter{Alias: "vEthernet (Ethernet)", Kind: Virtual, MAC: mac("00:15:5d:00:00:01"), Compartment: 1,
		Addresses: has("172.20.0.1/20")}
	host := Adapter{Alias: "vEthernet (Ethernet) 2", Kind: Virtual, MAC: ours, Compartment: 1,
		Addresses: has("172.30.0.3/24")}
	bare := Adapter{Alias: "vEthernet (Ethernet) 3", Kind: Virtual, MAC: ours, Compartment: 1}
	pods := Adapter{Alias: "vEthernet (x)", Kind: Virtual, MAC: ours, Compartment: 2, Addresses: has("10.244.1.3/24")}
	for name, test := range map[string]struct {
		adapters []Adapter
		want     string
	}{
		"by its MAC, not its name":       {[]Adapter{uplink, others, host}, host.Alias},
		"the one with addresses":         {[]Adapter{uplink, bare, host}, host.Alias},
		"without addresses yet":          {[]Adapter{uplink, others, bare}, bare.Alias},
		"not come yet":                   {[]Adapter{uplink, others}, ""},
		"not one of another compartment": {[]Adapter{uplink, pods}, ""},
		"not the uplink, whatever it is named": {[]Adapter{{Alias: "ETHERNET", Kind: Physical, MAC: ours, Compartment: 1}},
			""},
	} {
		if got, ok := Management(test.adapters, "Ethernet", ours); got.Alias != test.want || ok != (test.want != "") {
			t.Errorf("%s: %q, %v", name, got.Alias, ok)
		}
	}
	if got, ok := Management([]Adapter{{Alias: "Loopback"}}, "Ethernet", nil); ok {
		t.Errorf("an adapter without MAC is %q", got.Alias)
	}
}

func TestEndpointsAdapter(t *testing.T) {
	pod := mac("0a:58:0a:f4:01:03")
	for name, test := range map[string]struct {
		adapter Adapter
		want    bool
	}{
		"by Windows' name": {Adapter{Alias: "vEthernet (weft0123456789a)", Kind: Virtual, Compartment: 3}, true},
		"by its own name":  {Adapter{Alias: "weft0123456789a", Kind: Virtual}, true},
		"by its MAC": {Adapter{Alias: "vEthernet (Container NIC)", Kind: Virtual, MAC: pod, Compartment: 3},
			true},
		"not a card of that MAC": {Adapter{Alias: "Ethernet", Kind: Physical, MAC: pod}, false},
		"another": {Adapter{Alias: "vEthernet (weft0123456789b)", Kind: Virtual,
			MAC: mac("0a:58:0a:f4:01:04")}, false},
	} {
		if _, ok := Endpoint([]Adapter{test.adapter}, "weft0123456789a", pod); ok != test.want {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

func TestGlobalAddresses(t *testing.T) {
	a := Adapter{Addresses: []Address{
		{Prefix: netip.MustParsePrefix("172.30.0.3/24"), Usable: true},
		{Prefix: netip.MustParsePrefix("172.30.0.4/24")}, // tentative
		{Prefix: netip.MustParsePrefix("169.254.1.1/16"), Usable: true},
		{Prefix: netip.MustParsePrefix("fd30::99/64"), Usable: true, Temporary: true},
	}}
	if got := a.Global(); len(got) != 1 || got[0] != netip.MustParsePrefix("172.30.0.3/24") {
		t.Errorf("global addresses %v", got)
	}
	if a.Has(netip.MustParseAddr("172.30.0.4")) || !a.Has(netip.MustParseAddr("172.30.0.3")) {
		t.Error("an address that is not usable yet is there, or one that is is not")
	}
}

func TestDefaultNextHops(t *testing.T) {
	route := func(destination, hop string, metric uint32) Route {
		return Route{netip.MustParsePrefix(destination), netip.MustParseAddr(hop), metric}
	}
	for name, test := range map[string]struct {
		routes []Route
		want   []netip.Addr
	}{
		"none": {[]Route{route("10.0.0.0/8", "192.0.2.1", 0)}, nil},
		"one each": {[]Route{route("::/0", "fe80::1%12", 256), route("0.0.0.0/0", "192.0.2.1", 25)},
			[]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fe80::1")}},
		"the best": {[]Route{route("0.0.0.0/0", "192.0.2.9", 50), route("0.0.0.0/0", "192.0.2.1", 25)},
			[]netip.Addr{netip.MustParseAddr("192.0.2.1")}},
		"several": {[]Route{route("0.0.0.0/0", "192.0.2.2", 5), route("0.0.0.0/0", "192.0.2.1", 5),
			route("0.0.0.0/0", "192.0.2.3", 6)}, []netip.Addr{netip.MustParseAddr("192.0.2.1"),
			netip.MustParseAddr("192.0.2.2")}},
	} {
		if got := DefaultNextHops(test.routes); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
