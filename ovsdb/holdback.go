package ovsdb

import (
	"context"
	"errors"
	"slices"
	"time"
)

// errHeldBack says of a change that it brings back a row that the database's readers may still be about to delete.
var errHeldBack = errors.New("a row that it adds was deleted a moment ago")

const (
	// memory is how long after its deletion a row is held back at most, if nobody asks what readers have taken in.
	memory = 2 * time.Minute
	// patience is how long readers may take.
	patience = 10 * time.Second
	// silence is for how long nothing is held back after readers have not come in time.
	silence = time.Minute
)

// holdback keeps rows that were deleted from coming back too early.
type holdback struct {
	client  *Client
	tables  []*table
	readers func(context.Context) error
	silent  time.Time // until then nothing is held back
}

// HoldBack has rows of some tables come back only when the database's readers have seen their deletion. An engine gives
// a row that comes back the UUID that it had. A reader that meets the deletion and the return together takes the two
// for one change of a row, and not every reader can. readers returns when they have taken in all that the database had
// at the call. If that takes too long, rows come back nevertheless.
//
// It is to be called before the first change.
func (e *Engine) HoldBack(readers func(context.Context) error, tables ...string) {
	h := &holdback{client: e.client, readers: readers}
	e.client.mu.Lock()
	defer e.client.mu.Unlock()
	for _, name := range tables {
		t := e.client.cache.tables[name]
		t.gone = map[string]time.Time{}
		h.tables = append(h.tables, t)
	}
	e.planner.holdback = h
}

// wait returns when nothing that was deleted before the call has to be held back any more, or when ctx ends.
func (h *holdback) wait(ctx context.Context) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := h.readers(bounded)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		h.silent = time.Now().Add(silence)
		h.client.log.Warn("rows come back before the readers of the database have seen their deletion", "error", err)
	}
	h.client.mu.Lock()
	defer h.client.mu.Unlock()
	for _, t := range h.tables {
		t.forget(began)
	}
}

// bury remembers the deletion of a row.
func (t *table) bury(id string) {
	if t.gone == nil {
		return
	}
	now := time.Now()
	if len(t.gone) > 0 && len(t.gone)%1024 == 0 {
		t.forget(now.Add(-memory))
	}
	t.gone[id] = now
}

// forget the deletions before a time.
func (t *table) forget(before time.Time) {
	for id, deleted := range t.gone {
		if deleted.Before(before) {
			delete(t.gone, id)
		}
	}
}

// plan adds to a batch what makes a change so. It waits where a row must not come back yet.
func (a *attempt) plan(ctx context.Context, b *batch, c *Change) error {
	err := a.planner.plan(b, c)
	if errors.Is(err, errHeldBack) {
		a.planner.holdback.wait(ctx)
		err = a.planner.plan(b, c)
	}
	return err
}

// heldBack says whether a change adds a row that must not come back yet. The caller holds the client's lock.
func (pl *planner) heldBack(rows []target) bool {
	return pl.holdback != nil && slices.ContainsFunc(rows, func(r target) bool {
		deleted, was := r.table.gone[r.id]
		return was && r.table.rows[r.id] == nil && time.Since(deleted) < memory && time.Now().After(pl.holdback.silent)
	})
}
