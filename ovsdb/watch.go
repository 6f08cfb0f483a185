package ovsdb

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// events collects what the replica's changes say about weft's rows, told by the session's reader.
// It holds each row and each set value once, so it does not grow with the number of changes.
type events struct {
	mu sync.Mutex
	// expected counts the changes that the engine itself has under way, by row.
	expected map[string]int
	suspects map[Owner]struct{}
	unmarked map[string]struct{} // rows of tables without external_ids
	pairs    map[pair]struct{}
	signal   chan struct{}
}

func newEvents() *events {
	return &events{
		expected: map[string]int{}, suspects: map[Owner]struct{}{}, unmarked: map[string]struct{}{},
		pairs: map[pair]struct{}{}, signal: make(chan struct{}, 1),
	}
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
	for _, owner := range []Owner{before, after} {
		switch owner {
		case "":
		case unnamed:
			e.unmarked[r.uuid] = struct{}{}
		default:
			e.suspects[owner] = struct{}{}
		}
	}
	e.wake()
}

func (e *events) memberChanged(at place, value string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pairs[pair{at, value}] = struct{}{}
	e.wake()
}

func (e *events) wake() {
	select {
	case e.signal <- struct{}{}:
	default:
	}
}

// drain sorts out which set values are not as they are claimed. e.mu is held.
func (e *Engine) drain() {
	e.events.mu.Lock()
	pairs := e.events.pairs
	e.events.pairs = map[pair]struct{}{}
	e.events.mu.Unlock()
	e.client.mu.RLock()
	defer e.client.mu.RUnlock()
	for p := range pairs {
		if e.wrong(p) {
			e.dirty[p] = struct{}{}
		}
	}
}

// wrong says whether a set lacks a value that is claimed, or holds one of weft's that is not.
func (e *Engine) wrong(p pair) bool {
	if want := e.claims[p.at][p.value] > 0; want {
		if e.client.cache.rows[p.at.row] == nil || e.client.cache.has(p.at, p.value) {
			return false
		}
		return p.at.column.ref == "" || e.client.cache.rows[p.value] != nil
	}
	return e.complete && e.client.cache.has(p.at, p.value) && e.stray(p)
}

// stray says whether an unclaimed value of a set is weft's to remove.
func (e *Engine) stray(p pair) bool {
	if p.at.column.ref != "" {
		member := e.client.cache.rows[p.value]
		return member != nil && member.owner != ""
	}
	return e.client.cache.rows[p.at.row].owner != ""
}

// Watch tells fn the owners whose rows another hand has changed or removed, until ctx ends; fn
// should see to it that they are applied again. Members of sets it puts right by itself. After a
// reconnect the same holds for all that happened in between.
func (e *Engine) Watch(ctx context.Context, fn func([]Owner)) error {
	for {
		changed := e.client.Changed()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.events.signal:
		case <-changed:
			if !e.pending() {
				continue
			}
		}
		owners, err := e.repair(ctx)
		if len(owners) > 0 {
			fn(owners)
		}
		if err != nil {
			if _, err := e.client.connection(ctx); err != nil {
				return err
			}
			e.events.mu.Lock()
			e.events.wake()
			e.events.mu.Unlock()
		}
	}
}

// pending says whether a repair was put off by a lost connection.
func (e *Engine) pending() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.dirty) > 0
}

// repair corrects the sets that others changed and gives the owners of rows that they changed.
func (e *Engine) repair(ctx context.Context) ([]Owner, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drain()
	e.events.mu.Lock()
	suspects, unmarked := e.events.suspects, e.events.unmarked
	e.events.suspects, e.events.unmarked = map[Owner]struct{}{}, map[string]struct{}{}
	e.events.mu.Unlock()
	for id := range unmarked {
		if owner, ok := e.unmarked[id]; ok {
			suspects[owner] = struct{}{}
		}
	}
	owners := slices.Sorted(maps.Keys(suspects))
	if len(e.dirty) == 0 {
		return owners, nil
	}
	b := e.newBatch()
	e.client.mu.RLock()
	for p := range e.dirty {
		if e.wrong(p) {
			b.touch(p, &planned{})
		}
	}
	e.client.mu.RUnlock()
	err := e.commitSets(ctx, b)
	if err == nil {
		e.dirty = map[pair]struct{}{}
	}
	return owners, err
}

// commitSets sends a batch that is about sets alone, of no owner.
func (e *Engine) commitSets(ctx context.Context, b *batch) error {
	e.send(b)
	if !b.sent {
		return nil
	}
	e.flight = nil
	o := e.await(ctx, b)
	if o.err != nil {
		e.abandon(b)
		return o.err
	}
	e.finish(b, o)
	return o.refused
}

// sweep removes strays from all sets. The members of refused owners stay: their rows are still
// those of before.
func (e *Engine) sweep(ctx context.Context, changes []Change) error {
	spared := map[place]bool{}
	for i := range changes {
		if _, refused := e.refused[changes[i].Owner]; !refused {
			continue
		}
		for _, m := range changes[i].Memberships {
			if t := e.client.cache.tables[m.Table]; t != nil && t.column(m.Column) != nil {
				spared[place{m.UUID, t.column(m.Column)}] = true
			}
		}
	}
	var strays []pair
	e.client.mu.RLock()
	for _, r := range e.client.cache.rows {
		for _, column := range r.table.sets {
			at := place{r.uuid, column}
			for v := range r.sets[column.member] {
				if e.claims[at][v] == 0 && e.stray(pair{at, v}) && !e.spares(spared, pair{at, v}) {
					strays = append(strays, pair{at, v})
				}
			}
		}
	}
	e.client.mu.RUnlock()
	for part := range slices.Chunk(strays, batchOperations) {
		b := e.newBatch()
		for _, p := range part {
			b.touch(p, &planned{})
		}
		if err := e.commitSets(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) spares(spared map[place]bool, p pair) bool {
	if p.at.column.ref == "" {
		return spared[p.at]
	}
	_, refused := e.refused[e.client.cache.rows[p.value].owner]
	return refused
}
