package domains

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/signal"
)

// How long an address counts after an answer: for its time to live, but for shortest at least and for
// longest at most, and then for grace. Within grace its next answer need not be reported, and a client that
// looks up a name just when it begins a connection does so in time.
const (
	shortest = 30 * time.Second
	longest  = contract.DomainLongest
	grace    = contract.DomainGrace
)

// Bounds of what is remembered. The network policy API wants 100 addresses a name; the object with all of
// them must be well below what an API server stores.
const (
	maxAddresses = contract.DomainAddresses // a pattern stands for many, and has what there is room for
	maxTotal     = contract.DomainAddressesInAll
)

// book holds the addresses of wanted names. What is wanted by a pattern alone is held as the pattern's, each
// address once: a zone may answer to any name, and who makes them up must not fill the book.
type book struct {
	mu     sync.Mutex
	wanted map[string]struct{}              // names and patterns
	names  map[string]map[netip.Addr]*entry // of names and patterns
	total  int
	fresh  time.Time // when the first answer came that is news and was not reported; zero: there is none
	lapsed bool      // what is reported is too little or too much, which may wait
	urgent signal.Signal
	lost   int // addresses that the bounds have cost
}

// entry is until when an address counts: by the last answer, and as it was reported.
type entry struct{ seen, reported time.Time }

func newBook() *book {
	return &book{wanted: map[string]struct{}{}, names: map[string]map[netip.Addr]*entry{}, urgent: signal.New()}
}

// want says which names and patterns, in normal form, are wanted from now on. What was learned of others
// stays until its time is over.
func (b *book) want(patterns map[string]struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = patterns
}

// wants says whether anybody wants a name.
func (b *book) wants(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, wanted := b.closest(name)
	return wanted
}

// closest is the wanted name or pattern that is nearest to a name.
func (b *book) closest(name string) (pattern string, wanted bool) {
	for pattern := range contract.DomainPatterns(name) {
		if _, wanted = b.wanted[pattern]; wanted {
			return pattern, true
		}
	}
	return "", false
}

// learn takes in an answer of now.
func (b *book) learn(a answer, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, wanted := b.closest(a.name)
	if !wanted {
		return
	}
	before := b.lost
	if most := mostOf(name); len(a.addresses) > most {
		b.lost += len(a.addresses) - most
		a.addresses = a.addresses[:most]
	}
	for _, one := range a.addresses {
		until := now.Add(min(max(one.ttl, shortest), longest))
		if b.put(name, one.addr, until) && b.fresh.IsZero() {
			b.fresh = now
			b.urgent.Set()
		}
	}
	if b.total > maxTotal {
		b.shrink()
	}
	b.lapsed = b.lapsed || b.lost > before
}

// mostOf is how many addresses a name or a pattern may have.
func mostOf(name string) int {
	if strings.HasPrefix(name, "*.") {
		return math.MaxInt
	}
	return maxAddresses
}

// put notes an address, and says whether whoever reads the report must know soon.
func (b *book) put(name string, addr netip.Addr, until time.Time) (news bool) {
	entries := b.names[name]
	if entries == nil {
		entries = map[netip.Addr]*entry{}
		b.names[name] = entries
	}
	e := entries[addr]
	if e == nil {
		if len(entries) == mostOf(name) {
			b.forgetFirst(name)
		}
		e = &entry{}
		entries[addr] = e
		b.total++
		news = true
	}
	if until.After(e.seen) {
		e.seen = until
	}
	b.lapsed = b.lapsed || e.seen.After(e.reported)
	return news
}

// forgetFirst makes room for an address by forgetting the one whose time is over first.
func (b *book) forgetFirst(name string) {
	var first netip.Addr
	for addr, e := range b.names[name] {
		if !first.IsValid() || e.seen.Before(b.names[name][first].seen) {
			first = addr
		}
	}
	b.forget(name, first)
	b.lost++
}

func (b *book) forget(name string, addr netip.Addr) {
	delete(b.names[name], addr)
	b.total--
	if len(b.names[name]) == 0 {
		delete(b.names, name)
	}
}

// shrink makes room at the cost of the pattern that has the most addresses: whoever can make up addresses of
// names that match one pattern takes nothing from the others.
func (b *book) shrink() {
	type place struct {
		name string
		addr netip.Addr
		seen time.Time
	}
	by, largest := map[string][]place{}, ""
	for name, entries := range b.names {
		pattern, _ := b.closest(name)
		for addr, e := range entries {
			by[pattern] = append(by[pattern], place{name, addr, e.seen})
		}
		if len(by[pattern]) > len(by[largest]) {
			largest = pattern
		}
	}
	places := by[largest]
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(a.seen.Compare(b.seen), cmp.Compare(a.name, b.name), a.addr.Compare(b.addr))
	})
	for _, p := range places[:min(len(places), b.total-maxTotal+maxTotal/20)] {
		b.forget(p.name, p.addr)
		b.lost++
	}
}

// due says whether there is anything to be reported.
func (b *book) due(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, entries := range b.names {
		for _, e := range entries {
			b.lapsed = b.lapsed || !e.reported.After(now)
		}
	}
	return b.lapsed || !b.fresh.IsZero()
}

// report is what is to be written now, sorted, and since when the oldest news in it waits; the zero time
// means that there is no news. What is over is forgotten.
func (b *book) report(now time.Time) (names []v1alpha1.ResolvedName, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, b.fresh, b.lapsed = b.fresh, time.Time{}, false
	names = []v1alpha1.ResolvedName{}
	for name, entries := range b.names {
		one := v1alpha1.ResolvedName{Name: name}
		for addr, e := range entries {
			e.reported = e.seen.Add(grace)
			if !e.reported.After(now) {
				b.forget(name, addr)
				continue
			}
			one.Addresses = append(one.Addresses, v1alpha1.ResolvedAddress{Address: addr.String(),
				Until: metav1.NewTime(e.reported)})
		}
		if len(one.Addresses) > 0 {
			slices.SortFunc(one.Addresses, func(a, b v1alpha1.ResolvedAddress) int { return cmp.Compare(a.Address, b.Address) })
			names = append(names, one)
		}
	}
	slices.SortFunc(names, func(a, b v1alpha1.ResolvedName) int { return cmp.Compare(a.Name, b.Name) })
	return names, since
}

// failed has the same reported again.
func (b *book) failed(since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lapsed = true
	if b.fresh.IsZero() || since.Before(b.fresh) && !since.IsZero() {
		b.fresh = since
	}
}

// restore takes in what an agent before this one has reported.
func (b *book) restore(names []v1alpha1.ResolvedName, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := false
	for _, name := range names {
		for _, a := range name.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if err != nil || !a.Until.After(now) || b.total >= maxTotal || len(b.names[name.Name]) >= mostOf(name.Name) {
				over = true
				continue
			}
			b.put(name.Name, addr, a.Until.Add(-grace))
			b.names[name.Name][addr].reported = a.Until.Time
		}
	}
	b.lapsed = over
}

// size is how many names and addresses there are, and how many addresses the bounds have cost.
func (b *book) size() (names, addresses, lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.names), b.total, b.lost
}
