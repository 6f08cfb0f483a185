package ovsdb

import (
	"context"
	"fmt"
	"slices"
)

// Engine brings the rows of owners into the state that changes describe, and writes only what
// differs. It knows which rows are weft's by their marks, so it needs no memory of its own over a
// restart; what it does remember is which owner asked for which member of a set.
type Engine struct {
	client *Client
	events *events
	turn   chan struct{} // holds one while an Apply, a Replace or a repair is at work

	ledger   *ledger
	audit    *audit
	pipeline *pipeline
	planner  *planner
	mender   *mender
}

// NewEngine makes the engine of a client; a client has at most one.
func NewEngine(client *Client) *Engine {
	events, ledger := newEvents(), &ledger{}
	audit := &audit{client: client, events: events, ledger: ledger}
	pipeline := &pipeline{client: client, events: events, ledger: ledger, audit: audit,
		coming: map[string]int{}, removing: map[pair]int{}}
	e := &Engine{
		client: client, events: events, turn: make(chan struct{}, 1), ledger: ledger, audit: audit, pipeline: pipeline,
		planner: &planner{client: client, ledger: ledger, pipeline: pipeline}, mender: &mender{client, audit, pipeline},
	}
	e.forget()
	client.mu.Lock()
	client.cache.observer = events
	client.mu.Unlock()
	return e
}

// forget leaves an engine as a new one is.
func (e *Engine) forget() {
	e.ledger.forget()
	e.audit.forget()
}

// enter waits for the engine's turn, which leave ends, and for the transactions that the last call
// has left in flight.
func (e *Engine) enter(ctx context.Context) error {
	ended := func() error {
		return fmt.Errorf("wait for other work on %s: %w", e.client.config.Model.Name(), ctx.Err())
	}
	if ctx.Err() != nil {
		return ended()
	}
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return ended()
	}
	if e.pipeline.empty(ctx) != nil {
		e.leave()
		return ended()
	}
	return nil
}

func (e *Engine) leave() { <-e.turn }

// Client is the engine's client.
func (e *Engine) Client() *Client { return e.client }

// attempt begins a call's work.
func (e *Engine) attempt() *attempt { return &attempt{e.planner, e.pipeline, map[Owner]error{}} }

// Apply brings the given owners' rows and memberships into the given state and leaves all others
// alone. Changes are made in their order, so a row that others refer to comes first. It waits for
// a connection as long as ctx allows, and sends nothing more once ctx has ended.
//
// The error is nil when all is committed; a *RefusedError when some owners were refused and the
// others are committed; any other when the connection failed or ctx ended: then some may be
// committed, and the same call made again does the rest.
func (e *Engine) Apply(ctx context.Context, changes []Change) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.leave()
	work := e.attempt()
	if err := work.run(ctx, slices.Clone(changes)); err != nil {
		return err
	}
	return work.result()
}

// Replace is Apply for the whole desired state: owners that are not listed lose their rows, and
// values that no owner claims leave the sets of weft's own rows, both together with the last change that
// has With, or after all of them where none has. References to rows without weft's marks stay.
//
// It compares everything, so it is where Watch begins: what others changed before is put right
// here, and is not told.
//
// It leaves changes as they are. But each row that it has made can be freed, unless the caller keeps it.
func (e *Engine) Replace(ctx context.Context, changes []Change) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.leave()
	if anew := e.events.begin(); anew { // others may have led since
		e.forget()
	}
	e.audit.dirty = map[pair]struct{}{}
	defer func() {
		if ctx.Err() != nil { // Watch, which ends with the lead, may have ended before
			e.events.end()
		}
	}()
	if _, err := e.client.connection(ctx); err != nil {
		return err
	}
	e.doubt(changes)
	all := e.withLeavers(changes)
	work := e.attempt()
	if err := work.run(ctx, all); err != nil {
		return err
	}
	if err := e.mender.sweep(ctx, all, work.refused); err != nil {
		return err
	}
	e.audit.complete = true
	return work.result()
}

// withLeavers is a list of the changes, and of the removal of all owners that have something and are not listed.
func (e *Engine) withLeavers(changes []Change) []Change {
	listed := make(map[Owner]struct{}, len(changes))
	for i := range changes {
		listed[changes[i].Owner] = struct{}{}
	}
	e.client.mu.RLock()
	gone := e.ledger.others(e.client.cache, listed)
	e.client.mu.RUnlock()
	var removals []Change
	at := lastTogether(changes)
	for _, owner := range gone {
		removals = append(removals, Change{Owner: owner, With: at >= 0})
	}
	if at < 0 {
		return slices.Concat(changes, removals)
	}
	return slices.Concat(changes[:at+1], removals, changes[at+1:])
}

// lastTogether is where the last change is that goes with another one, or -1.
func lastTogether(changes []Change) int {
	for i, c := range slices.Backward(changes) {
		if c.With {
			return i
		}
	}
	return -1
}

// doubt has the last change that goes with others take with it the values that are in sets and that none of the
// changes asks for.
func (e *Engine) doubt(changes []Change) {
	at := lastTogether(changes)
	if at < 0 {
		return
	}
	e.client.mu.RLock()
	defer e.client.mu.RUnlock()
	strays := map[pair]struct{}{}
	e.audit.strays(func(p pair) { strays[p] = struct{}{} })
	for i := range changes {
		for _, m := range changes[i].Memberships {
			t := e.client.cache.tables[m.Table]
			if t == nil || t.column(m.Column) == nil {
				continue
			}
			for _, v := range m.Values {
				delete(strays, pair{place{m.UUID, t.column(m.Column)}, v})
			}
		}
	}
	if len(strays) > 0 {
		e.ledger.doubt(changes[at].Owner, strays)
	}
}
