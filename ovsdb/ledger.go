package ovsdb

import (
	"maps"
	"slices"
)

// ledger remembers what each owner was last given, and so who claims which member of a set.
type ledger struct {
	applied map[Owner]*applied
	// claims counts the owners that want a value in a set.
	claims map[place]map[string]int32
	// unmarked names the owners of rows in tables without external_ids.
	unmarked map[string]Owner
}

// applied is what an owner was last given.
type applied struct {
	memberships []claim
	unmarked    []target // its rows in tables without external_ids
	// doubtful are memberships that a lost transaction may or may not have ended.
	doubtful []claim
}

type claim struct {
	at     place
	values []string
}

// pair is a value of a set.
type pair struct {
	at    place
	value string
}

// forget leaves a ledger as a new one is.
func (l *ledger) forget() {
	l.applied, l.claims, l.unmarked = map[Owner]*applied{}, map[place]map[string]int32{}, map[string]Owner{}
}

// claimed says whether an owner wants a value in a set.
func (l *ledger) claimed(p pair) bool { return l.claims[p.at][p.value] > 0 }

// claim adds n to the count of each value that an owner wants in a set.
func (l *ledger) claim(a *applied, n int32) {
	if a == nil {
		return
	}
	for _, m := range a.memberships {
		values := l.claims[m.at]
		if values == nil {
			values = map[string]int32{}
			l.claims[m.at] = values
		}
		for _, v := range m.values {
			if values[v] += n; values[v] == 0 {
				delete(values, v)
			}
		}
		if len(values) == 0 {
			delete(l.claims, m.at)
		}
	}
}

// keep remembers what an owner has been given.
func (l *ledger) keep(p *planned) {
	if p.change == nil {
		return
	}
	if p.prev != nil {
		for _, was := range p.prev.unmarked {
			delete(l.unmarked, was.id)
		}
	}
	for _, now := range p.next.unmarked {
		l.unmarked[now.id] = p.change.Owner
	}
	if len(p.next.memberships) == 0 && len(p.next.unmarked) == 0 && len(p.next.doubtful) == 0 {
		delete(l.applied, p.change.Owner)
	} else {
		l.applied[p.change.Owner] = p.next
	}
}

// doubt has an owner's next change look at set values that nobody may claim.
func (l *ledger) doubt(owner Owner, pairs map[pair]struct{}) {
	prev := l.applied[owner]
	if prev == nil {
		prev = &applied{}
		l.applied[owner] = prev
	}
	for p := range pairs {
		prev.doubtful = append(prev.doubtful, claim{p.at, []string{p.value}})
	}
}

// others are the owners that have something, or of which the replica has rows, and that are not among the given ones.
func (l *ledger) others(replica *cache, given map[Owner]struct{}) []Owner {
	all := map[Owner]struct{}{}
	for owner := range replica.owners {
		all[owner] = struct{}{}
	}
	for owner := range l.applied {
		all[owner] = struct{}{}
	}
	maps.DeleteFunc(all, func(owner Owner, _ struct{}) bool { _, ok := given[owner]; return ok })
	return slices.Sorted(maps.Keys(all))
}
