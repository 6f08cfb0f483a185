package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// pipeline has batches on their way to the server and sees what becomes of them.
type pipeline struct {
	client *Client
	events *events
	ledger *ledger
	audit  *audit
	fence  *fence // nil where none was claimed

	// While transactions are in flight: rows that they insert, members that they remove. A call
	// whose context ends leaves them in flight, and the next one sees to them first.
	coming   map[string]int
	removing map[pair]int
	flight   []*batch
}

// empty waits for the transactions that the last call has left in flight. An error says that ctx has ended before.
func (p *pipeline) empty(ctx context.Context) error {
	for len(p.flight) > 0 {
		if b, o, err := p.arrive(ctx); err == nil {
			p.finish(b, o)
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// send closes a batch and puts it in flight, unless there is nothing to say.
func (p *pipeline) send(b *batch) {
	p.client.mu.RLock()
	b.mutations(p.ledger, p.client.cache)
	session := p.client.session
	p.client.mu.RUnlock()
	for _, d := range b.deletes {
		b.begin(d.row.table, "delete", d.row.uuid, operation{rows: 1, by: []*planned{d.by}})
		b.ops = append(b.ops, '}')
		b.written = append(b.written, written{target{d.row.table, d.row.uuid}, d.by, nil})
	}
	if len(b.infos) == 0 {
		for _, it := range b.changes {
			p.made(it)
		}
		return
	}
	for _, it := range b.removing {
		p.removing[it]++
	}
	p.flight = append(p.flight, b)
	b.sent = true
	if session == nil {
		b.answer <- reply{err: ErrDisconnected}
		return
	}
	head := appendString(nil, p.client.config.Model.Name())
	if p.fence != nil {
		if p.fence.value == "" {
			b.answer <- reply{err: ErrFenced}
			return
		}
		head, b.fenced = p.fence.appendWait(head), true
	}
	p.events.expect(b.written)
	id, err := session.send("transact", func(r reply) { b.answer <- r }, head, b.ops)
	b.ops = nil
	if err != nil {
		b.answer <- reply{err: err}
		return
	}
	b.withdraw = func() bool { return session.withdraw(id) }
}

// arrive takes the oldest batch out of flight when its outcome is known; an error means that it
// is not. When ctx ends before, what has not left yet is taken back, and the rest stays in flight.
func (p *pipeline) arrive(ctx context.Context) (*batch, outcome, error) {
	b := p.flight[0]
	select {
	case r := <-b.answer:
		p.flight = slices.Delete(p.flight, 0, 1)
		o := outcome{err: r.err}
		if r.err == nil {
			o = b.read(r.result)
		}
		if o.err != nil {
			if errors.Is(o.err, ErrFenced) {
				p.fence.value = ""
			}
			p.abandon(b)
			return nil, o, fmt.Errorf("transact on %s: %w", p.client.config.Model.Name(), o.err)
		}
		return b, o, nil
	case <-ctx.Done():
		p.flight = slices.DeleteFunc(p.flight, func(b *batch) bool {
			if !b.withdraw() {
				return false
			}
			p.abandon(b)
			return true
		})
		return nil, outcome{}, fmt.Errorf("wait for a transaction on %s: %w", p.client.config.Model.Name(), ctx.Err())
	}
}

// finish takes a batch out of flight and gives the changes that must be tried again.
func (p *pipeline) finish(b *batch, o outcome) []*Change {
	missed := map[*planned]bool{}
	for _, i := range o.missed {
		for _, it := range b.infos[i].by {
			missed[it] = true
		}
	}
	p.land(b, func(w written, changed bool) bool {
		if o.refused != nil {
			return changed
		}
		return !missed[w.by] && w.differs()
	})
	if o.refused != nil {
		p.client.stats.transactions.WithLabelValues("refused").Inc()
		var again []*Change
		for _, it := range slices.Backward(b.changes) {
			p.ledger.claim(it.next, -1)
			p.ledger.claim(it.prev, 1)
		}
		for _, it := range b.changes {
			again = append(again, it.change)
		}
		return again
	}
	p.client.stats.transactions.WithLabelValues("committed").Inc()
	for _, info := range b.infos {
		p.client.stats.rows.WithLabelValues(info.table, info.kind).Add(float64(info.rows))
	}
	var again []*Change
	for _, it := range b.changes {
		if missed[it] {
			p.ledger.keep(it)
			again = append(again, it.change)
		} else {
			p.made(it)
		}
	}
	p.audit.drain()
	return again
}

// made remembers what an owner has been given, and lets go of the rows: those of all owners are a third of what a
// controller has in memory at its start, and the replica has them by now.
func (p *pipeline) made(it *planned) {
	p.ledger.keep(it)
	if it.change != nil {
		it.change.Rows, it.change.Memberships = nil, nil
	}
}

// abandon takes a batch out of flight whose fate is unknown. Its changes count as made: the next
// call compares with what the replica then holds, and looks again at what they took away.
func (p *pipeline) abandon(b *batch) {
	if b.sent {
		p.client.stats.transactions.WithLabelValues("failed").Inc()
	}
	p.land(b, func(w written, changed bool) bool { return changed && w.differs() })
	for _, it := range b.changes {
		if it.prev != nil {
			it.next.doubtful = slices.Concat(it.prev.memberships, it.prev.doubtful)
			it.next.unmarked = slices.Concat(it.next.unmarked, it.prev.unmarked)
		}
		p.ledger.keep(it)
	}
}

// land takes a batch's rows out of flight. foreign says of one, and of whether it has changed meanwhile, that another
// hand has changed it: the server tells changes of several transactions in one, so only what they made of the row
// shows whose they were.
func (p *pipeline) land(b *batch, foreign func(w written, changed bool) bool) {
	for _, id := range b.coming {
		if p.coming[id]--; p.coming[id] <= 0 {
			delete(p.coming, id)
		}
	}
	for _, it := range b.removing {
		if p.removing[it]--; p.removing[it] <= 0 {
			delete(p.removing, it)
		}
	}
	if !b.sent {
		return
	}
	p.client.mu.RLock()
	defer p.client.mu.RUnlock()
	for _, w := range b.written {
		if changed, last := p.events.landed(w.id); last && foreign(w, changed) {
			p.events.suspect(w.id, w.by.change.Owner, w.table.ownerOf(w.id))
		}
	}
}
