package ovsdb

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// drain sorts out which set values are not as they are claimed. e.turn is held.
func (e *Engine) drain() {
	pairs, all := e.events.takePairs()
	e.client.mu.RLock()
	defer e.client.mu.RUnlock()
	note := func(p pair) {
		if e.wrong(p) {
			e.dirty[p] = struct{}{}
		}
	}
	for p := range pairs {
		note(p)
	}
	if all {
		for at, values := range e.claims {
			for v := range values {
				note(pair{at, v})
			}
		}
		e.strays(note)
	}
	if len(e.dirty) > e.events.limit {
		maps.DeleteFunc(e.dirty, func(p pair, _ struct{}) bool { return !e.wrong(p) })
	}
}

// wrong says whether a set lacks a value that is claimed, or holds one of weft's that is not.
func (e *Engine) wrong(p pair) bool {
	if want := e.claims[p.at][p.value] > 0; want {
		if p.at.holder() == nil || e.client.cache.has(p.at, p.value) {
			return false
		}
		return p.at.column.ref == "" || e.client.cache.referred(p.at.column, p.value) != nil
	}
	return e.complete && e.client.cache.has(p.at, p.value) && e.stray(p)
}

// stray says whether an unclaimed value of a set is weft's to remove.
func (e *Engine) stray(p pair) bool {
	if p.at.column.ref != "" {
		member := e.client.cache.referred(p.at.column, p.value)
		return member != nil && member.owner != ""
	}
	return p.at.holder().owner != ""
}

// strays gives all values of sets that are weft's and that no owner claims. The client's lock is
// held.
func (e *Engine) strays(found func(pair)) {
	for _, t := range e.client.cache.tables {
		for _, r := range t.rows {
			e.straysOf(r, found)
		}
	}
}

func (e *Engine) straysOf(r *row, found func(pair)) {
	for _, column := range r.table.sets {
		at := place{r.uuid, column}
		for v := range r.sets[column.member] {
			if p := (pair{at, v}); e.claims[at][v] == 0 && e.stray(p) {
				found(p)
			}
		}
	}
}

// errUnwatched is a Watch that comes too late.
var errUnwatched = errors.New("too much has changed since the last Replace with nobody watching: call Replace again")

// Watch tells fn the owners whose rows another hand has changed or removed since the last Replace,
// until ctx ends; fn should see to it that they are applied again. Members of sets it puts right
// by itself. After a reconnect the same holds for all that happened in between. With Watch ends
// what it knows: the next one begins with the next Replace.
func (e *Engine) Watch(ctx context.Context, fn func([]Owner)) error {
	if !e.events.watch(true) {
		return errUnwatched
	}
	defer e.events.end()
	defer e.events.watch(false)
	for pause := firstBackoff; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.events.signal:
		}
		owners, err := e.repair(ctx)
		if len(owners) > 0 {
			fn(owners)
		}
		if err == nil {
			pause = firstBackoff
			continue
		}
		// The connection broke, or the server has troubles: the rest is for later.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, lastBackoff)
		if _, err := e.client.connection(ctx); err != nil {
			return err
		}
		e.events.signal.Set()
	}
}

// repair corrects the sets that others changed and gives the owners of rows that they changed.
func (e *Engine) repair(ctx context.Context) ([]Owner, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	e.drain()
	suspects, unmarked := e.events.takeRows()
	for id := range unmarked {
		if owner, ok := e.unmarked[id]; ok {
			suspects[owner] = struct{}{}
		}
	}
	owners := slices.Sorted(maps.Keys(suspects))
	// What is found wrong from here on is for the next repair.
	dirty := e.dirty
	e.dirty = map[pair]struct{}{}
	var wrong []pair
	e.client.mu.RLock()
	for p := range dirty {
		if e.wrong(p) {
			wrong = append(wrong, p)
		}
	}
	e.client.mu.RUnlock()
	err := e.mend(ctx, wrong)
	if err != nil {
		maps.Copy(e.dirty, dirty)
	}
	return owners, err
}

// mend puts values of sets right. What the server refuses is logged and left as it is, until it
// changes or all is replaced.
func (e *Engine) mend(ctx context.Context, pairs []pair) error {
	for part := range slices.Chunk(pairs, batchOperations) {
		if err := e.mendTogether(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// mendTogether is mend by one transaction, or by ever smaller ones until what is refused stands
// alone.
func (e *Engine) mendTogether(ctx context.Context, pairs []pair) error {
	b := e.newBatch()
	for _, p := range pairs {
		b.touch(p, &planned{})
	}
	e.send(b)
	if !b.sent {
		return nil
	}
	b, o, err := e.arrive(ctx)
	if err != nil {
		return err
	}
	e.finish(b, o)
	if o.refused == nil {
		return nil
	}
	if len(pairs) == 1 {
		at := pairs[0].at
		e.client.log.Warn("the database refuses to correct a set", "table", at.column.table.name, "row", at.row,
			"column", at.column.name, "value", pairs[0].value, "error", o.refused)
		return nil
	}
	half := len(pairs) / 2
	if err := e.mendTogether(ctx, pairs[:half]); err != nil {
		return err
	}
	return e.mendTogether(ctx, pairs[half:])
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
	e.strays(func(p pair) {
		if !e.spares(spared, p) {
			strays = append(strays, p)
		}
	})
	e.client.mu.RUnlock()
	return e.mend(ctx, strays)
}

func (e *Engine) spares(spared map[place]bool, p pair) bool {
	if p.at.column.ref == "" {
		return spared[p.at]
	}
	_, refused := e.refused[e.client.cache.referred(p.at.column, p.value).owner]
	return refused
}
