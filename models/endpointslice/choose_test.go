package endpointslice

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// one is an endpoint as some program keeps it.
type one struct {
	at   netip.AddrPort
	node string
	Conditions
}

func (o *one) look() (netip.AddrPort, *string, Conditions) { return o.at, &o.node, o.Conditions }

// TestChoice states which endpoints get traffic, and on which nodes they are.
func TestChoice(t *testing.T) {
	of := func(host byte, node string, c Conditions) one {
		return one{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, host}), 80), node, c}
	}
	ready, leaving, gone := Conditions{Ready: true}, Conditions{Serving: true, Terminating: true}, Conditions{Terminating: true}
	for name, c := range map[string]struct {
		list    []one
		publish bool
		want    string
	}{
		"ready":                              {[]one{of(2, "b", ready), of(1, "a", ready)}, false, "1a 2b"},
		"not ready":                          {[]one{of(1, "a", Conditions{}), of(2, "b", ready), of(3, "c", Conditions{Serving: true})}, false, "2b"},
		"leaving, beside ready":              {[]one{of(1, "a", leaving), of(2, "b", ready)}, false, "2b"},
		"leaving":                            {[]one{of(1, "a", leaving), of(2, "b", gone), of(3, "c", Conditions{})}, false, "1a"},
		"nobody":                             {[]one{of(1, "a", gone)}, false, ""},
		"published":                          {[]one{of(2, "a", gone), of(1, "b", Conditions{})}, true, "1b 2a"},
		"twice":                              {[]one{of(1, "a", ready), of(1, "a", ready)}, false, "1a"},
		"ready in one of two":                {[]one{of(1, "a", Conditions{}), of(1, "a", ready)}, false, "1a"},
		"its node is known to one of two":    {[]one{of(1, "", ready), of(1, "a", ready)}, false, "1a"},
		"its node is known to the worse one": {[]one{of(1, "", ready), of(1, "a", leaving), of(1, "b", gone)}, false, "1a"},
		"on two nodes":                       {[]one{of(1, "b", ready), of(1, "a", ready), of(1, "", ready)}, false, "1a"},
	} {
		for _, list := range [][]one{c.list, reversed(c.list)} {
			given := Once(slices.Clone(list), (*one).look)
			before := slices.Clone(given)
			text := ""
			for _, e := range Choose(given, (*one).look, c.publish) {
				text += fmt.Sprintf(" %d%s", e.at.Addr().As4()[3], e.node)
			}
			if len(text) > 0 {
				text = text[1:]
			}
			if text != c.want {
				t.Errorf("%s: %q, want %q", name, text, c.want)
			}
			if !slices.Equal(given, before) {
				t.Errorf("%s: the list is another one", name)
			}
		}
	}
}

func reversed(list []one) []one {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// TestConditionsThatAreNotThere mean what the API says.
func TestConditionsThatAreNotThere(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		given discoveryv1.EndpointConditions
		want  Conditions
	}{
		{discoveryv1.EndpointConditions{}, Conditions{true, true, false}},
		{discoveryv1.EndpointConditions{Ready: &no}, Conditions{false, true, false}},
		{discoveryv1.EndpointConditions{Ready: &no, Terminating: &yes}, Conditions{false, true, true}},
		{discoveryv1.EndpointConditions{Ready: &yes, Serving: &no, Terminating: &no}, Conditions{true, false, false}},
	} {
		if got := ReadConditions(c.given); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.given, got, c.want)
		}
	}
}

// TestWhatCannotBeServed says why.
func TestWhatCannotBeServed(t *testing.T) {
	for _, c := range []struct {
		text string
		ipv6 bool
		ok   bool
	}{
		{"10.0.0.1", false, true}, {"10.0.0.1", true, false}, {"fd00::1", true, true}, {"fd00::1", false, false},
		{"10.0.0.01", false, false}, {"010.0.0.1", false, false}, {"0.0.0.0", false, false}, {"127.0.0.1", false, false}, {"224.0.0.1", false, false},
		{"169.254.1.1", false, false}, {"fe80::1", true, false}, {"fd00::1%eth0", true, false}, {"::ffff:10.0.0.1", true, false},
		{"169.254.169.4", false, false}, {"fd69::4", true, false}, {"web", false, false}, {"", false, false},
	} {
		if addr, why := ParseAddr(c.text, c.ipv6); (why == "") != c.ok || c.ok && addr.String() != c.text {
			t.Errorf("%q: %v, %q", c.text, addr, why)
		}
	}
	for number, ok := range map[int32]bool{-1: false, 0: false, 1: true, 65535: true, 65536: false, 65558: false, 1 << 30: false} {
		if port, why := ParsePort(number); (why == "") != ok || ok && int32(port) != number {
			t.Errorf("%d: %d, %q", number, port, why)
		}
	}
}

func FuzzParseAddr(f *testing.F) {
	for _, text := range []string{"10.0.0.1", "010.0.0.1", "fd00::1", "::ffff:10.0.0.1", "fe80::1%eth0", "0.00.0.0"} {
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, ipv6 bool) {
		addr, why := ParseAddr(text, ipv6)
		if why == "" && (addr.Is6() != ipv6 || !addr.IsGlobalUnicast() || addr.Zone() != "") {
			t.Errorf("%q is taken for %v", text, addr)
		}
	})
}
