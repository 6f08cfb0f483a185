package pools

import (
	"iter"
	"maps"
	"net/netip"

	"github.com/weftnet/weft/ovn/objects"
)

// Range is a range of a pool that addresses are given of.
type Range struct {
	objects.AddressRange
	// from is where to look for an address that nobody has: all before are taken, or all of them where it is the zero
	// one.
	from netip.Addr
}

// Pool are the addresses of one AddressPool.
type Pool struct {
	Ranges []*Range
	// size is how many addresses the ranges have, used those that somebody has, blocked others that nobody is given.
	size, used, blocked int64
}

// Add adds a range.
func (p *Pool) Add(r objects.AddressRange) { p.Ranges = append(p.Ranges, &Range{r, r.First}) }

// Used is how many addresses somebody has.
func (p *Pool) Used() int64 { return p.used }

// Free is how many addresses somebody may still be given, [objects.MaxFree] at most.
func (p *Pool) Free() int64 { return min(max(p.size-p.used-p.blocked, 0), objects.MaxFree) }

// Allocator knows who has which address.
type Allocator struct {
	pools    []*Pool
	reserved func(netip.Addr) bool
	holders  map[netip.Addr]string
	freed    map[netip.Addr]struct{} // for which somebody may wait, and which nobody has yet
	moved    map[*Pool]struct{}      // whose numbers are others
}

// NewAllocator is an allocator without pools. Reserved says of an address that nobody is given it. Who has it already
// keeps it.
func NewAllocator(reserved func(netip.Addr) bool) *Allocator {
	return &Allocator{reserved: reserved, holders: map[netip.Addr]string{}, freed: map[netip.Addr]struct{}{},
		moved: map[*Pool]struct{}{}}
}

// Use takes in which pools there are, in the order in which they are used up. Ranges of different pools do not overlap.
func (a *Allocator) Use(pools []*Pool) { a.pools = pools }

// Find is the pool that has an address, nil for none.
func (a *Allocator) Find(addr netip.Addr) *Pool {
	p, _ := a.find(addr)
	return p
}

func (a *Allocator) find(addr netip.Addr) (*Pool, *Range) {
	for _, p := range a.pools {
		for _, r := range p.Ranges {
			if r.Contains(addr) {
				return p, r
			}
		}
	}
	return nil, nil
}

// Holder is who has an address.
func (a *Allocator) Holder(addr netip.Addr) (name string, ok bool) {
	name, ok = a.holders[addr]
	return name, ok
}

// All are the addresses that somebody has, and who.
func (a *Allocator) All() iter.Seq2[netip.Addr, string] { return maps.All(a.holders) }

// Hold gives somebody an address, and says whether another one or nobody had it.
func (a *Allocator) Hold(name string, addr netip.Addr) (changed bool) {
	before, had := a.holders[addr]
	if had && before == name {
		return false
	}
	if !had {
		a.count(addr, 1)
	}
	a.holders[addr] = name
	delete(a.freed, addr)
	return true
}

// Release takes in that somebody has an address no more, and says whether he had it.
func (a *Allocator) Release(name string, addr netip.Addr) (changed bool) {
	if holder, had := a.holders[addr]; !had || holder != name {
		return false
	}
	delete(a.holders, addr)
	a.count(addr, -1)
	_, r := a.find(addr)
	if r == nil {
		return true
	}
	if !r.from.IsValid() || addr.Less(r.from) {
		r.from = addr
	}
	if !a.reserved(addr) {
		a.freed[addr] = struct{}{}
	}
	return true
}

// FirstFree is a range's first address that somebody may be given.
func (a *Allocator) FirstFree(r *Range) (addr netip.Addr, ok bool) {
	for r.from.IsValid() {
		if _, taken := a.holders[r.from]; !taken && !a.reserved(r.from) {
			return r.from, true
		}
		if r.from == r.Last {
			r.from = netip.Addr{}
		} else {
			r.from = r.from.Next()
		}
	}
	return netip.Addr{}, false
}

// Freed are the addresses that were freed since they were last forgotten, and that nobody has again.
func (a *Allocator) Freed() map[netip.Addr]struct{} { return a.freed }

// ForgetFreed forgets them.
func (a *Allocator) ForgetFreed() { a.freed = map[netip.Addr]struct{}{} }

// Moved says whether a pool's numbers are others since they were last forgotten.
func (a *Allocator) Moved(p *Pool) bool {
	_, moved := a.moved[p]
	return moved
}

// Move has a pool's numbers count as others.
func (a *Allocator) Move(p *Pool) { a.moved[p] = struct{}{} }

// ForgetMoved forgets which numbers were others.
func (a *Allocator) ForgetMoved() { a.moved = map[*Pool]struct{}{} }

// count keeps the numbers of the pool that has an address which somebody gets (1) or gives up (-1).
func (a *Allocator) count(addr netip.Addr, by int64) {
	p := a.Find(addr)
	if p == nil {
		return
	}
	p.used += by
	if a.reserved(addr) {
		p.blocked -= by
	}
	a.Move(p)
}

// Count counts anew what pools have. Reserved are all addresses that nobody is given, each once.
func (a *Allocator) Count(reserved iter.Seq[netip.Addr]) {
	for _, p := range a.pools {
		p.size, p.used, p.blocked = 0, 0, 0
		for _, r := range p.Ranges {
			p.size = min(p.size+r.Size(), 2*objects.MaxFree)
		}
		a.Move(p)
	}
	for addr := range a.holders {
		if p := a.Find(addr); p != nil {
			p.used++
		}
	}
	for addr := range reserved {
		if p := a.Find(addr); p != nil {
			if _, held := a.holders[addr]; !held {
				p.blocked++
			}
		}
	}
}
