package endpointslice

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// one is an endpoint as some program keeps it.
type one struct {
	at   netip.AddrPort
	node string
	Conditions
}

func (o *one) look() (netip.Addr, string, Conditions) { return o.at.Addr(), o.node, o.Conditions }

// first are those of a port whose endpoints are in one slice, or each in its own.
func first(list []one, apart bool, most int) (chosen []one) {
	behind := NewBehind[string]((*one).look)
	port := func(number uint16) iter.Seq2[string, uint16] { return maps.All(map[string]uint16{"http": number}) }
	var together []*one
	for i := range list {
		if together = append(together, &list[i]); apart {
			behind.Add(together[i:], port(list[i].at.Port()))
		}
	}
	if !apart {
		behind.Add(together, port(80))
	}
	for _, e := range behind.First("http", most, nil) {
		chosen = append(chosen, one{e.At, e.Node, e.Of.Conditions})
	}
	return chosen
}

// TestChoice states which endpoints get traffic, and on which nodes they are.
func TestChoice(t *testing.T) {
	of := func(host byte, node string, c Conditions) one {
		return one{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, host}), 80), node, c}
	}
	ready, leaving, gone := Conditions{Ready: true}, Conditions{Serving: true, Terminating: true},
		Conditions{Terminating: true}
	for name, c := range map[string]struct {
		list    []one
		publish bool
		want    string
	}{
		"ready": {[]one{of(2, "b", ready), of(1, "a", ready)}, false, "1a 2b"},
		"not ready": {[]one{of(1, "a", Conditions{}), of(2, "b", ready),
			of(3, "c", Conditions{Serving: true})}, false, "2b"},
		"leaving, beside ready": {[]one{of(1, "a", leaving), of(2, "b", ready)}, false, "2b"},
		"leaving": {[]one{of(1, "a", leaving), of(2, "b", gone), of(3, "c", Conditions{})}, false,
			"1a"},
		"nobody":                             {[]one{of(1, "a", gone)}, false, ""},
		"published":                          {[]one{of(2, "a", gone), of(1, "b", Conditions{})}, true, "1b 2a"},
		"twice":                              {[]one{of(1, "a", ready), of(1, "a", ready)}, false, "1a"},
		"ready in one of two":                {[]one{of(1, "a", Conditions{}), of(1, "a", ready)}, false, "1a"},
		"its node is known to one of two":    {[]one{of(1, "", ready), of(1, "a", ready)}, false, "1a"},
		"its node is known to the worse one": {[]one{of(1, "", ready), of(1, "a", leaving), of(1, "b", gone)}, false, "1a"},
		"on two nodes":                       {[]one{of(1, "b", ready), of(1, "a", ready), of(1, "", ready)}, false, "1a"},
	} {
		for i, list := range [][]one{c.list, reversed(c.list), c.list, reversed(c.list)} {
			given := first(slices.Clone(list), i > 1, len(list))
			before := slices.Clone(given)
			if text := textOf(Choose(given, func(o *one) Conditions { return o.Conditions }, c.publish)); text != c.want {
				t.Errorf("%s: %q, want %q", name, text, c.want)
			}
			if !slices.Equal(given, before) {
				t.Errorf("%s: the list is another one", name)
			}
		}
	}
}

func textOf(list []one) string {
	var texts []string
	for _, e := range list {
		texts = append(texts, fmt.Sprintf("%d%s", e.at.Addr().As4()[3], e.node))
	}
	return strings.Join(texts, " ")
}

func reversed(list []one) []one {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// TestFirst: endpoints that get traffic come before others, and the list stays in order.
func TestFirst(t *testing.T) {
	var list []one
	for i, c := range []Conditions{{}, {Ready: true}, {Serving: true, Terminating: true}, {Ready: true}, {Serving: true}} {
		list = append(list, one{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 80), "", c})
	}
	for most, want := range map[int]string{0: "", 1: "2", 2: "2 4", 3: "2 3 4", 4: "1 2 3 4", 5: "1 2 3 4 5",
		6: "1 2 3 4 5"} {
		for _, apart := range []bool{false, true} {
			if got := textOf(first(slices.Clone(list), apart, most)); got != want {
				t.Errorf("%d of them: %q, want %q", most, got, want)
			}
		}
	}
}

// TestFirstOfManySlices: however endpoints lie in slices, those are taken that all in one list would give.
func TestFirstOfManySlices(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var list []one
		for range random.IntN(12) {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(4))}), 80+uint16(random.IntN(2)))
			c := Conditions{random.IntN(2) == 0, random.IntN(2) == 0, random.IntN(2) == 0}
			list = append(list, one{at, []string{"", "a", "b"}[random.IntN(3)], c})
		}
		most := random.IntN(8)
		want := listed(list, most)
		behind, cut := NewBehind[string]((*one).look), map[[2]int][]*one{} // by slice and number
		for i := range list {
			k := [2]int{random.IntN(3), int(list[i].at.Port())}
			cut[k] = append(cut[k], &list[i])
		}
		for k, endpoints := range cut {
			behind.Add(endpoints, maps.All(map[string]uint16{"http": uint16(k[1])}))
		}
		var got []one
		for _, e := range behind.First("http", most, nil) {
			got = append(got, one{e.At, e.Node, Conditions{}})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d of %v: %v, want %v", most, list, got, want)
		}
	}
}

// listed takes the first endpoints of one list.
func listed(list []one, most int) (kept []one) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b one) int {
		return cmp.Or(a.at.Compare(b.at), b.rank()-a.rank(), cmp.Compare(a.node, b.node))
	})
	for _, e := range list {
		if last := len(kept) - 1; last >= 0 && kept[last].at == e.at {
			kept[last].node = cmp.Or(kept[last].node, e.node)
		} else {
			kept = append(kept, e)
		}
	}
	slices.SortStableFunc(kept, func(a, b one) int { return b.rank() - a.rank() })
	kept = kept[:min(most, len(kept))]
	slices.SortFunc(kept, func(a, b one) int { return a.at.Compare(b.at) })
	for i := range kept {
		kept[i].Conditions = Conditions{}
	}
	return kept
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
		{"10.0.0.01", false, false}, {"010.0.0.1", false, false}, {"0.0.0.0", false, false}, {"127.0.0.1", false, false},
		{"224.0.0.1", false, false},
		{"169.254.1.1", false, false}, {"fe80::1", true, false}, {"fd00::1%eth0", true, false},
		{"::ffff:10.0.0.1", true, false},
		{"169.254.169.4", false, false}, {"fd69::4", true, false}, {"web", false, false}, {"", false, false},
	} {
		if addr, why := ParseAddr(c.text, c.ipv6); (why == "") != c.ok || c.ok && addr.String() != c.text {
			t.Errorf("%q: %v, %q", c.text, addr, why)
		}
	}
	for number, ok := range map[int32]bool{-1: false, 0: false, 1: true, 65535: true, 65536: false, 65558: false,
		1 << 30: false} {
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
