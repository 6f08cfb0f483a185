package ovsdb

import "maps"

// audit knows which values of sets are not as they are claimed.
type audit struct {
	client *Client
	events *events
	ledger *ledger
	// complete is set once a Replace has told all owners: from then on an unclaimed member of
	// our own is a stray.
	complete bool
	// dirty are the set values that are to be put right.
	dirty map[pair]struct{}
}

// forget leaves an audit as a new one is.
func (a *audit) forget() { a.dirty, a.complete = map[pair]struct{}{}, false }

// drain sorts out which set values are not as they are claimed. The engine's turn is held.
func (a *audit) drain() {
	pairs, all := a.events.takePairs()
	a.client.mu.RLock()
	defer a.client.mu.RUnlock()
	note := func(p pair) {
		if a.wrong(p) {
			a.dirty[p] = struct{}{}
		}
	}
	for p := range pairs {
		note(p)
	}
	if all {
		for at, values := range a.ledger.claims {
			for v := range values {
				note(pair{at, v})
			}
		}
		a.strays(note)
	}
	if len(a.dirty) > a.events.limit {
		maps.DeleteFunc(a.dirty, func(p pair, _ struct{}) bool { return !a.wrong(p) })
	}
}

// wrong says whether a set lacks a value that is claimed, or holds one of weft's that is not.
func (a *audit) wrong(p pair) bool {
	if a.ledger.claimed(p) {
		if p.at.holder() == nil || a.client.cache.has(p.at, p.value) {
			return false
		}
		return p.at.column.ref == "" || a.client.cache.referred(p.at.column, p.value) != nil
	}
	return a.complete && a.client.cache.has(p.at, p.value) && a.stray(p)
}

// stray says whether an unclaimed value of a set is weft's to remove.
func (a *audit) stray(p pair) bool {
	if p.at.column.ref != "" {
		member := a.client.cache.referred(p.at.column, p.value)
		return member != nil && member.owner != ""
	}
	return p.at.holder().owner != ""
}

// strays gives all values of sets that are weft's and that no owner claims. The client's lock is
// held.
func (a *audit) strays(found func(pair)) {
	for _, t := range a.client.cache.tables {
		for _, r := range t.rows {
			a.straysOf(r, found)
		}
	}
}

func (a *audit) straysOf(r *row, found func(pair)) {
	for _, column := range r.table.sets {
		at := place{r.uuid, column}
		for v := range r.sets[column.member] {
			if p := (pair{at, v}); a.ledger.claims[at][v] == 0 && a.stray(p) {
				found(p)
			}
		}
	}
}

// take gives what is to be put right, and the part of it that is wrong still. What is found from here on
// is for the next call.
func (a *audit) take() (dirty map[pair]struct{}, wrong []pair) {
	dirty, a.dirty = a.dirty, map[pair]struct{}{}
	a.client.mu.RLock()
	defer a.client.mu.RUnlock()
	for p := range dirty {
		if a.wrong(p) {
			wrong = append(wrong, p)
		}
	}
	return dirty, wrong
}
