package ipam

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestSubnetPoolEdges(t *testing.T) {
	for _, c := range []struct {
		subnet      string
		first, last string
		size        int
	}{
		{"10.244.1.0/24", "10.244.1.3", "10.244.1.254", 252},
		{"10.244.1.0/29", "10.244.1.3", "10.244.1.6", 4},
		{"10.244.1.0/30", "", "", 0},
		{"10.0.0.0/8", "10.0.0.3", "10.0.255.255", MaxPool - 3},
		{"10.1.0.0/16", "10.1.0.3", "10.1.255.254", MaxPool - 4},
		{"fd00:10:244:1::/64", "fd00:10:244:1::3", "fd00:10:244:1::ffff", MaxPool - 3},
		{"fd00::8/125", "fd00::b", "fd00::f", 5},
	} {
		t.Run(c.subnet, func(t *testing.T) {
			p := NewSubnetPool(netip.MustParsePrefix(c.subnet))
			var got []netip.Addr
			for addr, ok := p.Take(); ok; addr, ok = p.Take() {
				got = append(got, addr)
			}
			if len(got) != c.size {
				t.Fatalf("%d addresses, want %d", len(got), c.size)
			}
			if c.size == 0 {
				return
			}
			if got[0].String() != c.first || got[len(got)-1].String() != c.last {
				t.Errorf("from %s to %s, want from %s to %s", got[0], got[len(got)-1], c.first, c.last)
			}
			for _, outside := range []netip.Addr{Nth(p.Subnet, 0), Nth(p.Subnet, 1), Nth(p.Subnet, 2)} {
				if p.Claim(outside) {
					t.Errorf("%s was given to a pod", outside)
				}
			}
		})
	}
}

// TestPoolProperties plays random takes, claims and releases against a plain set.
func TestPoolProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		size := 1 + random.IntN(200)
		p, held := NewPool(size), map[int]bool{}
		for range 1000 {
			switch random.IntN(3) {
			case 0:
				n, ok := p.Take()
				if ok != (len(held) < size) {
					t.Fatalf("round %d: take says %v with %d of %d held", round, ok, len(held), size)
				}
				if !ok {
					continue
				}
				if held[n] || n < 0 || n >= size {
					t.Fatalf("round %d: took %d, which is held or outside", round, n)
				}
				held[n] = true
			case 1:
				n := random.IntN(size)
				if p.Claim(n) == held[n] {
					t.Fatalf("round %d: claim of %d, held %v", round, n, held[n])
				}
				held[n] = true
			case 2:
				n := random.IntN(size)
				p.Release(n)
				delete(held, n)
			}
			if p.Free != size-len(held) {
				t.Fatalf("round %d: %d free, want %d", round, p.Free, size-len(held))
			}
		}
	}
}

// TestPoolReusesLate frees an address at once: it must come back only after all others.
func TestPoolReusesLate(t *testing.T) {
	p := NewPool(100)
	for range 500 {
		n, _ := p.Take()
		p.Release(n)
		for range 99 {
			m, ok := p.Take()
			if !ok || m == n {
				t.Fatalf("%d came back before the others had their turn", n)
			}
			p.Release(m)
		}
	}
}

// TestPoolWrapsAround: also when all numbers behind the last given are taken.
func TestPoolWrapsAround(t *testing.T) {
	p := NewPool(100)
	for range 100 {
		p.Take()
	}
	for _, n := range []int{50, 10, 20} {
		p.Release(n)
		if n != 20 {
			if got, _ := p.Take(); got != n {
				t.Fatalf("took %d, only %d was free", got, n)
			}
		}
	}
	p.Release(10)
	if got, _ := p.Take(); got != 20 {
		t.Errorf("took %d, which was freed last; 20 waits", got)
	}
}

func TestSubnetAllocator(t *testing.T) {
	for _, c := range []struct {
		cluster string
		mask    int
		first   string
		second  string
		count   int
	}{
		{"10.244.0.0/16", 24, "10.244.0.0/24", "10.244.1.0/24", 256},
		{"10.0.0.0/8", 24, "10.0.0.0/24", "10.0.1.0/24", 65536},
		{"10.244.0.0/24", 24, "10.244.0.0/24", "", 1},
		{"fd00:10:244::/48", 64, "fd00:10:244::/64", "fd00:10:244:1::/64", 65536},
		{"fd00:10:244::/56", 64, "fd00:10:244::/64", "fd00:10:244:1::/64", 256},
		{"fd00:10:244::/64", 80, "fd00:10:244::/80", "fd00:10:244:0:1::/80", 65536},
		{"fd00:10:244::/60", 66, "fd00:10:244::/66", "fd00:10:244:0:4000::/66", 64},
	} {
		t.Run(c.cluster, func(t *testing.T) {
			a := NewSubnetAllocator(netip.MustParsePrefix(c.cluster), c.mask)
			seen := map[netip.Prefix]bool{}
			var order []netip.Prefix
			for {
				s, err := a.Take()
				if err != nil {
					break
				}
				if seen[s] || !a.Cluster.Contains(s.Addr()) || s != s.Masked() {
					t.Fatalf("%s came twice, is outside, or is not a subnet", s)
				}
				if n, ok := a.number(s); !ok || n != len(order) {
					t.Fatalf("%s is number %d %v, want %d", s, n, ok, len(order))
				}
				seen[s] = true
				order = append(order, s)
			}
			if len(order) != c.count {
				t.Fatalf("%d subnets, want %d", len(order), c.count)
			}
			if order[0].String() != c.first || (c.second != "" && order[1].String() != c.second) {
				t.Errorf("starts with %s", order[:min(2, len(order))])
			}
			if a.Claim(order[0]) {
				t.Error("a taken subnet was claimed")
			}
			a.Release(order[0])
			if !a.Claim(order[0]) {
				t.Error("a released subnet could not be claimed")
			}
		})
	}
}

func TestNthAndOffset(t *testing.T) {
	for _, text := range []string{"10.244.0.0/16", "100.64.0.0/10", "fd98::/64", "fd00:1:2:3::/80"} {
		p := netip.MustParsePrefix(text)
		for _, n := range []uint64{0, 1, 2, 255, 256, 65535} {
			if got, ok := Offset(p, Nth(p, n)); !ok || got != n {
				t.Errorf("offset(%s, nth(%d)) = %d, %v", p, n, got, ok)
			}
		}
	}
	if _, ok := Offset(netip.MustParsePrefix("fd00::/32"), netip.MustParseAddr("fd00:0:1::1")); ok {
		t.Error("an address beyond 64 bits has an offset")
	}
}
