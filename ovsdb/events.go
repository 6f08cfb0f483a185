package ovsdb

import "sync"

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
	// expected counts the changes that the engine itself has under way, by row.
	expected map[string]int
	suspects map[Owner]struct{}
	unmarked map[string]struct{} // rows of tables without external_ids
	pairs    map[pair]struct{}
	// allPairs says that these were too many to be listed: all there are must be looked at.
	allPairs bool
	signal   chan struct{}
}

func newEvents() *events {
	e := &events{limit: eventLimit, expected: map[string]int{}, signal: make(chan struct{}, 1)}
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

func (e *events) expect(rows []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range rows {
		e.expected[id]++
	}
}

// forget takes back what has not come to pass.
func (e *events) forget(rows []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range rows {
		delete(e.expected, id)
	}
}

func (e *events) rowChanged(r *row, before, after Owner) {
	if before == "" && after == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.expected[r.uuid]; n > 0 {
		e.expected[r.uuid] = n - 1
		return
	}
	if !e.collecting {
		return
	}
	for _, owner := range []Owner{before, after} {
		switch owner {
		case "":
		case unnamed:
			e.unmarked[r.uuid] = struct{}{}
		default:
			e.suspects[owner] = struct{}{}
		}
	}
	if !e.watched && len(e.suspects)+len(e.unmarked) > e.limit {
		e.clear()
		e.collecting, e.unwatched = false, true
		return
	}
	e.wake()
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
	e.wake()
}

func (e *events) wake() {
	select {
	case e.signal <- struct{}{}:
	default:
	}
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
