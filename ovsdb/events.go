package ovsdb

import (
	"sync"

	"github.com/weftnet/weft/models/signal"
)

// eventLimit bounds what is held of changes until it is looked at.
const eventLimit = 1 << 16

// events collects what the replica's changes say about weft's rows, told by the session's reader.
// It holds each owner and each set value once, and only between a Replace, which compares
// everything, and the end of the Watch that follows: an engine that stands by collects nothing.
type events struct {
	limit int

	mu         sync.Mutex
	collecting bool
	watched    bool // a Watch is running
	// unwatched says that so much has changed with no Watch running that it was let go.
	unwatched bool
	// own are the rows that transactions of the engine itself have under way.
	own      map[string]*flying
	suspects map[Owner]struct{}
	unmarked map[string]struct{} // rows of tables without external_ids
	pairs    map[pair]struct{}
	// allPairs says that these were too many to be listed: all there are must be looked at.
	allPairs bool
	signal   signal.Signal
}

// flying is a row that so many transactions under way write, and whether it has changed meanwhile.
type flying struct {
	transactions int
	changed      bool
}

func newEvents() *events {
	e := &events{limit: eventLimit, own: map[string]*flying{}, signal: signal.New()}
	e.clear()
	return e
}

// clear drops what was collected. e.mu is held.
func (e *events) clear() {
	e.suspects, e.unmarked = map[Owner]struct{}{}, map[string]struct{}{}
	e.pairs, e.allPairs = map[pair]struct{}{}, false
}

// begin drops what was collected and collects from now on. anew says that it did not before.
func (e *events) begin() (anew bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	anew = !e.collecting
	e.clear()
	e.collecting, e.unwatched = true, false
	return anew
}

// end drops what was collected and collects no more.
func (e *events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clear()
	e.collecting = false
}

// watch notes that a Watch begins or ends, and says whether it may begin.
func (e *events) watch(running bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watched = running
	return !e.unwatched
}

func (e *events) expect(rows []written) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range rows {
		if e.own[w.id] == nil {
			e.own[w.id] = &flying{}
		}
		e.own[w.id].transactions++
	}
}

// landed ends what expect began for one row: whether the row has changed meanwhile, and whether no other
// transaction under way writes it.
func (e *events) landed(id string) (changed, last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.own[id]
	if f == nil {
		return false, false
	}
	if f.transactions--; f.transactions == 0 {
		delete(e.own, id)
	}
	return f.changed, f.transactions == 0
}

func (e *events) rowChanged(r *row, before, after Owner) {
	if before == "" && after == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.own[r.uuid]; f != nil {
		f.changed = true
		return
	}
	e.accuse(r.uuid, before, after)
}

// suspect notes that another hand has changed a row of these owners.
func (e *events) suspect(id string, owners ...Owner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.accuse(id, owners...)
}

// accuse is suspect with e.mu held.
func (e *events) accuse(id string, owners ...Owner) {
	if !e.collecting {
		return
	}
	for _, owner := range owners {
		switch owner {
		case "":
		case unnamed:
			e.unmarked[id] = struct{}{}
		default:
			e.suspects[owner] = struct{}{}
		}
	}
	if !e.watched && len(e.suspects)+len(e.unmarked) > e.limit {
		e.clear()
		e.collecting, e.unwatched = false, true
		return
	}
	e.signal.Set()
}

func (e *events) memberChanged(at place, value string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.collecting || e.allPairs {
		return
	}
	e.pairs[pair{at, value}] = struct{}{}
	if len(e.pairs) > e.limit {
		e.pairs, e.allPairs = map[pair]struct{}{}, true
	}
	e.signal.Set()
}

// takePairs gives the set values that have changed, and whether all there are must be looked at.
func (e *events) takePairs() (map[pair]struct{}, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pairs, all := e.pairs, e.allPairs
	e.pairs, e.allPairs = map[pair]struct{}{}, false
	return pairs, all
}

// takeRows gives the owners and the rows without marks that others have changed.
func (e *events) takeRows() (map[Owner]struct{}, map[string]struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	suspects, unmarked := e.suspects, e.unmarked
	e.suspects, e.unmarked = map[Owner]struct{}{}, map[string]struct{}{}
	return suspects, unmarked
}
