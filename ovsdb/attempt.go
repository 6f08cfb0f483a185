package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// attempt is one call's work: changes that are made in batches, several in flight, and those that are refused.
type attempt struct {
	planner  *planner
	pipeline *pipeline
	refused  map[Owner]error
}

// run makes the changes, and takes the rows out of those that are made. So the list is its own.
func (a *attempt) run(ctx context.Context, changes []Change) error {
	if _, err := a.pipeline.client.connection(ctx); err != nil {
		return err
	}
	seen := make(map[Owner]struct{}, len(changes))
	for i := range changes {
		if _, twice := seen[changes[i].Owner]; twice || changes[i].Owner == "" {
			return fmt.Errorf("owner %q is listed twice or has no name", changes[i].Owner)
		}
		seen[changes[i].Owner] = struct{}{}
	}
	return a.more(ctx, changes)
}

// more makes changes in batches, several in flight, and then sees to those that were refused.
func (a *attempt) more(ctx context.Context, changes []Change) error {
	var again []*Change
	b := newBatch()
	for i := range changes {
		c := &changes[i]
		err := a.plan(ctx, b, c)
		if errors.Is(err, errBarrier) {
			if err := a.flush(ctx, &b, &again, 0); err != nil {
				return err
			}
			err = a.plan(ctx, b, c)
		}
		if err != nil {
			again = append(again, c)
		}
		if b.full(changes[i+1:]) {
			if err := a.flush(ctx, &b, &again, a.pipeline.client.config.Pipeline-1); err != nil {
				return err
			}
		}
	}
	if err := a.flush(ctx, &b, &again, 0); err != nil {
		return err
	}
	return a.settle(ctx, again, len(changes) > len(again))
}

// flush sends a batch and waits until no more than left are in flight. Owners of a refused one
// are added to again.
func (a *attempt) flush(ctx context.Context, b **batch, again *[]*Change, left int) error {
	if err := ctx.Err(); err != nil {
		a.pipeline.abandon(*b)
		return err
	}
	text := (*b).ops[:0] // of which a message has a copy
	a.pipeline.send(*b)
	*b = newBatch()
	(*b).ops = text
	for len(a.pipeline.flight) > left {
		done, outcome, err := a.pipeline.arrive(ctx)
		if err != nil {
			return err
		}
		*again = append(*again, a.pipeline.finish(done, outcome)...)
	}
	return nil
}

// settle makes changes that failed in company: first together, then ever fewer, until the guilty
// owner stands alone. As long as others went through in between, the guilty get another chance:
// what stood in their way may be gone.
func (a *attempt) settle(ctx context.Context, changes []*Change, progress bool) error {
	for round := 0; len(changes) > 0; round++ {
		before := len(changes)
		for _, c := range changes {
			delete(a.refused, c.Owner)
		}
		var left []*Change
		for part := range slices.Chunk(changes, batchOwners) {
			if err := a.bisect(ctx, part, &left); err != nil {
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

// bisect makes changes by one transaction, or by ever smaller ones where it is refused. Those that fail alone are left.
func (a *attempt) bisect(ctx context.Context, changes []*Change, left *[]*Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b := newBatch()
	for _, c := range changes {
		if err := a.plan(ctx, b, c); err != nil {
			a.refused[c.Owner] = err
			*left = append(*left, c)
		}
	}
	a.pipeline.send(b)
	if len(a.pipeline.flight) == 0 {
		return nil
	}
	_, outcome, err := a.pipeline.arrive(ctx)
	if err != nil {
		return err
	}
	again := a.pipeline.finish(b, outcome)
	switch {
	case len(again) == 0:
		return nil
	case len(again) == 1:
		a.refused[again[0].Owner] = outcome.reason()
		*left = append(*left, again[0])
		return nil
	case outcome.refused == nil: // these missed a row: it may be back in the replica by now
		for _, c := range again {
			a.refused[c.Owner] = outcome.reason()
		}
		*left = append(*left, again...)
		return nil
	}
	if guilty := b.guilty(outcome.at); guilty != nil {
		others := slices.DeleteFunc(slices.Clone(again), func(c *Change) bool { return c == guilty })
		if err := a.bisect(ctx, others, left); err != nil {
			return err
		}
		return a.bisect(ctx, []*Change{guilty}, left)
	}
	half := len(again) / 2
	if err := a.bisect(ctx, again[:half], left); err != nil {
		return err
	}
	return a.bisect(ctx, again[half:], left)
}

// result is what the call returns once all is made.
func (a *attempt) result() error {
	if len(a.refused) == 0 {
		return nil
	}
	a.pipeline.client.stats.refused.Add(float64(len(a.refused)))
	return &RefusedError{a.refused}
}
