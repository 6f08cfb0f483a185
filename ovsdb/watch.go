package ovsdb

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

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
	e.audit.drain()
	suspects, unmarked := e.events.takeRows()
	for id := range unmarked {
		if owner, ok := e.ledger.unmarked[id]; ok {
			suspects[owner] = struct{}{}
		}
	}
	owners := slices.Sorted(maps.Keys(suspects))
	dirty, wrong := e.audit.take()
	err := e.mender.mend(ctx, wrong)
	if err != nil {
		maps.Copy(e.audit.dirty, dirty)
	}
	return owners, err
}
