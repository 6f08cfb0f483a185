//go:build linux

package hyperv

import (
	"hash/maphash"
	"iter"
	"slices"
)

// How many lists the driver's tables have: Flow.c, OVS_FLOW_TABLE_SIZE; Conntrack.h, CT_HASH_TABLE_SIZE;
// Conntrack-nat.h, NAT_HASH_TABLE_SIZE.
const (
	flowLists        = 2048
	connectionLists  = 1024
	translationLists = 1024
)

// table is one of the driver's: a number of lists, of which a hash of an entry's key chooses one. What is looked for is
// compared with one entry of its list after the other, the newest one first. The driver's number of lists is fixed, so
// that they become long. Without the fault there are as many lists as entries.
type table[K, V comparable] struct {
	lists    [][]entry[K, V]
	fewest   int
	grows    bool
	count    int
	compared uint64 // how many entries were looked at
	seed     maphash.Seed
}

type entry[K, V comparable] struct {
	key   K
	value V
}

func newTable[K, V comparable](lists int, faults Faults) *table[K, V] {
	return &table[K, V]{lists: make([][]entry[K, V], lists), fewest: lists, grows: !faults[FixedTables],
		seed: maphash.MakeSeed()}
}

func (t *table[K, V]) list(k K) *[]entry[K, V] {
	return &t.lists[maphash.Comparable(t.seed, k)%uint64(len(t.lists))]
}

func (t *table[K, V]) add(k K, v V) {
	if t.grows && t.count >= len(t.lists) {
		t.spread(2 * len(t.lists))
	}
	list := t.list(k)
	*list = append(*list, entry[K, V]{k, v})
	t.count++
}

// spread puts all entries in their places among another number of lists.
func (t *table[K, V]) spread(lists int) {
	before := t.lists
	t.lists = make([][]entry[K, V], lists)
	for _, list := range before {
		for _, e := range list {
			place := t.list(e.key)
			*place = append(*place, e)
		}
	}
}

// setFaults has the table grow, or not.
func (t *table[K, V]) setFaults(faults Faults) {
	lists := t.fewest
	for t.grows = !faults[FixedTables]; t.grows && lists < t.count; lists *= 2 {
	}
	t.spread(lists)
}

func (t *table[K, V]) remove(k K, v V) {
	list := t.list(k)
	before := len(*list)
	*list = slices.DeleteFunc(*list, func(e entry[K, V]) bool { return e.key == k && e.value == v })
	t.count -= before - len(*list)
}

// of are the entries of a key, the newest one first: Flow.c, OvsLookupFlow; Conntrack.c, OvsCtLookup; Conntrack-nat.c,
// OvsNatLookup.
func (t *table[K, V]) of(k K) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, e := range slices.Backward(*t.list(k)) {
			t.compared++
			if e.key == k && !yield(e.value) {
				return
			}
		}
	}
}

// first is the newest entry of a key; the zero value where there is none.
func (t *table[K, V]) first(k K) (found V) {
	for v := range t.of(k) {
		return v
	}
	return found
}

// all are the entries of all keys.
func (t *table[K, V]) all() []V {
	all := make([]V, 0, t.count)
	for _, list := range t.lists {
		for _, e := range list {
			all = append(all, e.value)
		}
	}
	return all
}

func (t *table[K, V]) clear() {
	clear(t.lists)
	t.count = 0
}
