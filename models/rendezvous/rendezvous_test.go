package rendezvous

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// bytesOf is an address as [ForClients] takes it.
func bytesOf(address string) string { return string(netip.MustParseAddr(address).AsSlice()) }

func TestRendezvous(t *testing.T) {
	const subjects, fewest, most = 1000, 140, 260 // of each of five members
	names := func(kind string) func(int) string {
		return func(i int) string { return fmt.Sprint(kind, i) }
	}
	addresses := func(begin string) func(int) string {
		return func(i int) string {
			addr := netip.MustParseAddr(begin)
			for range i {
				addr = addr.Next()
			}
			return string(addr.AsSlice())
		}
	}
	for _, c := range []struct {
		name                  string
		hash                  Hash
		subject, member       func(int) string
		knownSubject, knownTo string
		knownWeight           uint64 // of a release: it stays
	}{
		{"rows", ForRows, names("203.0.113."), names("node"), "203.0.113.7", "n1", 0x1c51f6f076b0c343},
		{"hosts", ForHosts, names("win"), names("host"), "w1", "a", 0xdd237d2d9d8aa129},
		{"clients", ForClients, addresses("192.0.2.1"), addresses("10.244.1.2"), bytesOf("192.0.2.1"), bytesOf("10.244.1.2"),
			0xe289d172fcb423db},
		{"clients of IPv6", ForClients, addresses("2001:db8::1"), addresses("fd00::2"), bytesOf("2001:db8::1"),
			bytesOf("fd00::2"), 0xe381b4b9e8fa522},
	} {
		t.Run(c.name, func(t *testing.T) {
			if weight := c.hash(c.knownSubject, c.knownTo); weight != c.knownWeight {
				t.Errorf("a weight is %#x and was %#x: what live clusters have chosen moves", weight, c.knownWeight)
			}
			choose := func(subject string, members []string) string {
				return slices.MaxFunc(members, func(a, b string) int { return c.hash.Compare(subject, a, b) })
			}
			var members []string
			for i := range 6 {
				members = append(members, c.member(i))
			}
			five, gone, came := members[:5], members[2], members[5]
			four := slices.DeleteFunc(slices.Clone(five), func(m string) bool { return m == gone })
			had := map[string]int{}
			for i := range subjects {
				subject := c.subject(i)
				before := choose(subject, five)
				had[before]++
				if after := choose(subject, four); after != before && before != gone {
					t.Errorf("subject %d moves from %q to %q, and neither goes", i, before, after)
				}
				if after := choose(subject, members); after != before && after != came {
					t.Errorf("subject %d moves from %q to %q, and neither comes", i, before, after)
				}
			}
			for _, m := range five {
				if had[m] > most || had[m] < fewest {
					t.Errorf("member %q has %d subjects of %d; want %d to %d", m, had[m], subjects, fewest, most)
				}
			}
		})
	}
}

// Members of one weight have an order, too.
func TestEqualWeightsAreOrderedByName(t *testing.T) {
	same := Hash(func(string, string) uint64 { return 1 })
	if same.Compare("x", "a", "b") >= 0 || same.Compare("x", "b", "a") <= 0 || same.Compare("x", "a", "a") != 0 {
		t.Error("the order of two members of one weight does not follow their names")
	}
}
