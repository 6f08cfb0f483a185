package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Engine brings the rows of owners into the state that changes describe, and writes only what
// differs. It knows which rows are weft's by their marks, so it needs no memory of its own over a
// restart; what it does remember is which owner asked for which member of a set.
type Engine struct {
	client *Client
	events *events

	turn    chan struct{} // holds one while an Apply, a Replace or a repair is at work
	applied map[Owner]*applied
	// claims counts the owners that want a value in a set.
	claims map[place]map[string]int32
	// unmarked names the owners of rows in tables without external_ids.
	unmarked map[string]Owner
	// complete is set once a Replace has told all owners: from then on an unclaimed member of
	// our own is a stray.
	complete bool
	// dirty are the set values that are to be put right.
	dirty map[pair]struct{}

	// While transactions are in flight: rows that they insert, members that they remove. A call
	// whose context ends leaves them in flight, and the next one sees to them first.
	coming   map[string]int
	removing map[pair]int
	flight   []*batch
	fence    *fence // nil where none was claimed
	refused  map[Owner]error
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

// NewEngine makes the engine of a client; a client has at most one.
func NewEngine(client *Client) *Engine {
	e := &Engine{
		client: client, events: newEvents(), turn: make(chan struct{}, 1),
		coming: map[string]int{}, removing: map[pair]int{},
	}
	e.forget()
	client.mu.Lock()
	client.cache.observer = e.events
	client.mu.Unlock()
	return e
}

// forget leaves an engine as a new one is.
func (e *Engine) forget() {
	e.applied, e.claims, e.unmarked = map[Owner]*applied{}, map[place]map[string]int32{}, map[string]Owner{}
	e.dirty, e.complete = map[pair]struct{}{}, false
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
	for len(e.flight) > 0 {
		if b, o, err := e.arrive(ctx); err == nil {
			e.finish(b, o)
		} else if ctx.Err() != nil {
			e.leave()
			return ended()
		}
	}
	return nil
}

func (e *Engine) leave() { <-e.turn }

// Client is the engine's client.
func (e *Engine) Client() *Client { return e.client }

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
	if err := e.run(ctx, changes); err != nil {
		return err
	}
	return e.result()
}

// Replace is Apply for the whole desired state: owners that are not listed lose their rows, and
// values that no owner claims leave the sets of weft's own rows, both together with the last change that
// has With, or after all of them where none has. References to rows without weft's marks stay.
//
// It compares everything, so it is where Watch begins: what others changed before is put right
// here, and is not told.
func (e *Engine) Replace(ctx context.Context, changes []Change) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.leave()
	if anew := e.events.begin(); anew { // others may have led since
		e.forget()
	}
	e.dirty = map[pair]struct{}{}
	defer func() {
		if ctx.Err() != nil { // Watch, which ends with the lead, may have ended before
			e.events.end()
		}
	}()
	if _, err := e.client.connection(ctx); err != nil {
		return err
	}
	e.doubt(changes)
	if err := e.run(ctx, e.withLeavers(changes)); err != nil {
		return err
	}
	if err := e.sweep(ctx, changes); err != nil {
		return err
	}
	e.complete = true
	return e.result()
}

func (e *Engine) result() error {
	if len(e.refused) == 0 {
		return nil
	}
	e.client.stats.refused.Add(float64(len(e.refused)))
	return &RefusedError{e.refused}
}

// run starts anew and makes the changes.
func (e *Engine) run(ctx context.Context, changes []Change) error {
	if _, err := e.client.connection(ctx); err != nil {
		return err
	}
	e.refused = map[Owner]error{}
	seen := make(map[Owner]struct{}, len(changes))
	for i := range changes {
		if _, twice := seen[changes[i].Owner]; twice || changes[i].Owner == "" {
			return fmt.Errorf("owner %q is listed twice or has no name", changes[i].Owner)
		}
		seen[changes[i].Owner] = struct{}{}
	}
	return e.more(ctx, changes)
}

// more makes changes in batches, several in flight, and then sees to those that were refused.
func (e *Engine) more(ctx context.Context, changes []Change) error {
	var again []*Change
	b := e.newBatch()
	for i := range changes {
		c := &changes[i]
		err := e.plan(b, c)
		if errors.Is(err, errBarrier) {
			if err := e.flush(ctx, &b, &again, 0); err != nil {
				return err
			}
			err = e.plan(b, c)
		}
		if err != nil {
			again = append(again, c)
		}
		if b.full(changes[i+1:]) {
			if err := e.flush(ctx, &b, &again, e.client.config.Pipeline-1); err != nil {
				return err
			}
		}
	}
	if err := e.flush(ctx, &b, &again, 0); err != nil {
		return err
	}
	return e.settle(ctx, again, len(changes) > len(again))
}

// flush sends a batch and waits until no more than left are in flight. Owners of a refused one
// are added to again.
func (e *Engine) flush(ctx context.Context, b **batch, again *[]*Change, left int) error {
	if err := ctx.Err(); err != nil {
		e.abandon(*b)
		return err
	}
	e.send(*b)
	*b = e.newBatch()
	for len(e.flight) > left {
		done, outcome, err := e.arrive(ctx)
		if err != nil {
			return err
		}
		*again = append(*again, e.finish(done, outcome)...)
	}
	return nil
}

// settle makes changes that failed in company: first together, then ever fewer, until the guilty
// owner stands alone. As long as others went through in between, the guilty get another chance:
// what stood in their way may be gone.
func (e *Engine) settle(ctx context.Context, changes []*Change, progress bool) error {
	for round := 0; len(changes) > 0; round++ {
		before := len(changes)
		for _, c := range changes {
			delete(e.refused, c.Owner)
		}
		var left []*Change
		for part := range slices.Chunk(changes, batchOwners) {
			if err := e.bisect(ctx, part, &left); err != nil {
				return err
			}
		}
		if len(left) == before && (round > 0 || !progress) || round > 8 {
			return nil
		}
		changes = left
	}
	return nil
}

func (e *Engine) bisect(ctx context.Context, changes []*Change, left *[]*Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b := e.newBatch()
	for _, c := range changes {
		if err := e.plan(b, c); err != nil {
			e.refused[c.Owner] = err
			*left = append(*left, c)
		}
	}
	e.send(b)
	if len(e.flight) == 0 {
		return nil
	}
	_, outcome, err := e.arrive(ctx)
	if err != nil {
		return err
	}
	again := e.finish(b, outcome)
	switch {
	case len(again) == 0:
		return nil
	case len(again) == 1:
		e.refused[again[0].Owner] = outcome.reason()
		*left = append(*left, again[0])
		return nil
	case outcome.refused == nil: // these missed a row: it may be back in the replica by now
		for _, c := range again {
			e.refused[c.Owner] = outcome.reason()
		}
		*left = append(*left, again...)
		return nil
	}
	if guilty := b.guilty(outcome.at); guilty != nil {
		others := slices.DeleteFunc(slices.Clone(again), func(c *Change) bool { return c == guilty })
		if err := e.bisect(ctx, others, left); err != nil {
			return err
		}
		return e.bisect(ctx, []*Change{guilty}, left)
	}
	half := len(again) / 2
	if err := e.bisect(ctx, again[:half], left); err != nil {
		return err
	}
	return e.bisect(ctx, again[half:], left)
}

// withLeavers adds the removal of all owners that have something and are not listed.
func (e *Engine) withLeavers(changes []Change) []Change {
	listed := make(map[Owner]struct{}, len(changes))
	for i := range changes {
		listed[changes[i].Owner] = struct{}{}
	}
	gone := map[Owner]struct{}{}
	e.client.mu.RLock()
	for owner := range e.client.cache.owners {
		gone[owner] = struct{}{}
	}
	e.client.mu.RUnlock()
	for owner := range e.applied {
		gone[owner] = struct{}{}
	}
	maps.DeleteFunc(gone, func(owner Owner, _ struct{}) bool { _, ok := listed[owner]; return ok })
	var removals []Change
	at := lastTogether(changes)
	for _, owner := range slices.Sorted(maps.Keys(gone)) {
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
	e.strays(func(p pair) { strays[p] = struct{}{} })
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
	if len(strays) == 0 {
		return
	}
	prev := e.applied[changes[at].Owner]
	if prev == nil {
		prev = &applied{}
		e.applied[changes[at].Owner] = prev
	}
	for p := range strays {
		prev.doubtful = append(prev.doubtful, claim{p.at, []string{p.value}})
	}
}

// table finds the table of a desired row.
func (e *Engine) table(model any) (*table, error) {
	goType := reflect.TypeOf(model)
	if goType == nil || goType.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("a desired row is a %T, not a pointer to a table's type", model)
	}
	if t := e.client.cache.types[goType.Elem()]; t != nil {
		if t.absent {
			return nil, fmt.Errorf("the server has no table %s", t.name)
		}
		return t, nil
	}
	return nil, fmt.Errorf("the client was not told of a table for %T", model)
}
