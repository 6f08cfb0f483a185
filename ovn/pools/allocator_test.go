package pools

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/weftnet/weft/ovn/objects"
)

// TestAllocator plays what happens to addresses, and says after each step what is first free and how much is.
func TestAllocator(t *testing.T) {
	at := netip.MustParseAddr
	reserved := map[netip.Addr]bool{at("203.0.113.41"): true}
	a := NewAllocator(func(addr netip.Addr) bool { return reserved[addr] })
	small, large := &Pool{}, &Pool{}
	small.Add(objects.ParseRange("203.0.113.40-203.0.113.42"))
	large.Add(objects.ParseRange("2001:db8::/64"))
	a.Use([]*Pool{small, large})
	a.Count(func(yield func(netip.Addr) bool) { yield(at("203.0.113.41")) })

	for _, step := range []struct {
		name       string
		play       func() bool // says whether it changed something
		changed    bool
		first      string // that is free in the small pool, "" for none
		used, free int64
		freed      []string
	}{
		{"nothing", func() bool { return false }, false, "203.0.113.40", 0, 2, nil},
		{"the first is given", func() bool { return a.Hold("web", at("203.0.113.40")) }, true, "203.0.113.42", 1, 1, nil},
		{"again, to the same", func() bool { return a.Hold("web", at("203.0.113.40")) }, false, "203.0.113.42", 1, 1, nil},
		{"the last is given", func() bool { return a.Hold("db", at("203.0.113.42")) }, true, "", 2, 0, nil},
		{"one that is reserved is kept", func() bool { return a.Hold("old", at("203.0.113.41")) }, true, "", 3, 0, nil},
		{"who does not have it gives nothing up", func() bool { return a.Release("db", at("203.0.113.40")) }, false, "", 3, 0,
			nil},
		{"the reserved one is free for nobody", func() bool { return a.Release("old", at("203.0.113.41")) }, true, "", 2, 0,
			nil},
		{"the first is given up", func() bool { return a.Release("web", at("203.0.113.40")) }, true, "203.0.113.40", 1, 1,
			[]string{"203.0.113.40"}},
		{"and taken by another", func() bool { return a.Hold("new", at("203.0.113.40")) }, true, "", 2, 0, nil},
		{"an address of no pool", func() bool { return a.Hold("far", at("198.51.100.1")) }, true, "", 2, 0, nil},
	} {
		a.ForgetMoved()
		if changed := step.play(); changed != step.changed {
			t.Errorf("%s: changed is %v", step.name, changed)
		}
		first := ""
		if addr, ok := a.FirstFree(small.Ranges[0]); ok {
			first = addr.String()
		}
		if first != step.first || small.Used() != step.used || small.Free() != step.free {
			t.Errorf("%s: first free is %q, %d used and %d free; want %q, %d and %d", step.name, first, small.Used(),
				small.Free(),
				step.first, step.used, step.free)
		}
		var freed []string
		for addr := range a.Freed() {
			freed = append(freed, addr.String())
		}
		if !slices.Equal(freed, step.freed) {
			t.Errorf("%s: freed are %v, want %v", step.name, freed, step.freed)
		}
	}
	if large.Free() != objects.MaxFree || a.Moved(large) || a.Find(at("2001:db8::7")) != large {
		t.Errorf("the large pool has %d free", large.Free())
	}
	if held := maps.Collect(a.All()); len(held) != 3 || held[at("203.0.113.40")] != "new" {
		t.Errorf("held are %v", held)
	}
	counted := *small
	a.Count(func(yield func(netip.Addr) bool) { yield(at("203.0.113.41")) })
	if small.Used() != counted.Used() || small.Free() != counted.Free() || !a.Moved(small) {
		t.Errorf("counted anew, %d are used and %d free, want %d and %d", small.Used(), small.Free(), counted.Used(),
			counted.Free())
	}
}
