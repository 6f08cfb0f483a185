package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The bounds of a batch: enough work to be worth a transaction, little enough to be bisected.
const (
	batchOwners     = 250
	batchOperations = 1500
	batchBytes      = 1 << 20
	// What belongs together may take as many times more.
	batchTogether = 10
)

// batch is a transaction in the making, and then in flight.
type batch struct {
	changes []*planned
	ops     []byte
	infos   []operation
	deletes []deletion
	// touched are the set values to look at when the batch is closed, and who asked.
	touched map[pair]*planned
	pairs   []pair // keys of touched in order
	forced  map[pair]bool
	answer  chan reply
	sent    bool
	fenced  bool // its first operation is the fence's
	// withdraw takes it back before it leaves, and says whether that was in time.
	withdraw func() bool

	coming   []string
	removing []pair
	written  []written
}

// planned is a change within a batch.
type planned struct {
	change     *Change
	prev, next *applied
}

// written is a row that a batch changes, and what it makes of it: nil where it deletes the row.
type written struct {
	target
	by   *planned
	want *Row
}

type deletion struct {
	row *row
	by  *planned
}

// operation remembers whom an operation serves.
type operation struct {
	table string
	kind  string
	rows  int
	by    []*planned
	// must says that the operation is in vain, and its owners with it, when it hits no row.
	must bool
}

func (e *Engine) newBatch() *batch {
	return &batch{touched: map[pair]*planned{}, answer: make(chan reply, 1), withdraw: func() bool { return false }}
}

// full says whether a batch goes before the next change is added, which may belong to the last one.
func (b *batch) full(next []Change) bool {
	operations := len(b.infos) + len(b.pairs) + len(b.deletes)
	if len(next) > 0 && next[0].With {
		return operations >= batchTogether*batchOperations || len(b.ops) >= batchTogether*batchBytes
	}
	return len(b.changes) >= batchOwners || operations >= batchOperations || len(b.ops) >= batchBytes
}

func (b *batch) guilty(at int) *Change {
	if at >= 0 && at < len(b.infos) && len(b.infos[at].by) == 1 {
		return b.infos[at].by[0].change
	}
	return nil
}

// begin starts an operation; the caller writes its members after op, table and where.
func (b *batch) begin(t *table, kind, uuid string, info operation) {
	b.ops = append(b.ops, `,{"op":`...)
	b.ops = appendString(b.ops, kind)
	b.ops = appendString(append(b.ops, `,"table":`...), t.name)
	if kind == "insert" {
		b.ops = appendString(append(b.ops, `,"uuid":`...), uuid)
	} else {
		b.ops = append(appendUUID(append(b.ops, `,"where":[["_uuid","==",`...), uuid), "]]"...)
	}
	info.table, info.kind = t.name, kind
	b.infos = append(b.infos, info)
}

// send closes a batch and puts it in flight, unless there is nothing to say.
func (e *Engine) send(b *batch) {
	e.client.mu.RLock()
	e.mutations(b)
	session := e.client.session
	e.client.mu.RUnlock()
	for _, d := range b.deletes {
		b.begin(d.row.table, "delete", d.row.uuid, operation{rows: 1, by: []*planned{d.by}})
		b.ops = append(b.ops, '}')
		b.written = append(b.written, written{target{d.row.table, d.row.uuid}, d.by, nil})
	}
	if len(b.infos) == 0 {
		for _, p := range b.changes {
			e.keep(p)
		}
		return
	}
	for _, p := range b.removing {
		e.removing[p]++
	}
	e.flight = append(e.flight, b)
	b.sent = true
	if session == nil {
		b.answer <- reply{err: ErrDisconnected}
		return
	}
	params := appendString(make([]byte, 0, len(b.ops)+256), e.client.config.Model.Name())
	if e.fence != nil {
		if e.fence.value == "" {
			b.answer <- reply{err: ErrFenced}
			return
		}
		params, b.fenced = e.fence.appendWait(params), true
	}
	e.events.expect(b.written)
	params = append(params, b.ops...)
	b.ops = nil
	id, err := session.send("transact", params, func(r reply) { b.answer <- r })
	if err != nil {
		b.answer <- reply{err: err}
		return
	}
	b.withdraw = func() bool { return session.withdraw(id) }
}

// mutations turns what was touched into one operation a set. The client's lock is held.
func (e *Engine) mutations(b *batch) {
	type edit struct {
		at          place
		add, remove []string
		by          []*planned
	}
	var edits []*edit
	byPlace := map[place]*edit{}
	for _, p := range b.pairs {
		want := e.claims[p.at][p.value] > 0 && !b.forced[p]
		if want == e.client.cache.has(p.at, p.value) {
			continue
		}
		d := byPlace[p.at]
		if d == nil {
			d = &edit{at: p.at}
			byPlace[p.at] = d
			edits = append(edits, d)
		}
		if want {
			d.add = append(d.add, p.value)
		} else {
			d.remove = append(d.remove, p.value)
			b.removing = append(b.removing, p)
		}
		if by := b.touched[p]; len(d.by) == 0 || d.by[len(d.by)-1] != by {
			d.by = append(d.by, by)
		}
	}
	for _, d := range edits {
		b.begin(d.at.column.table, "mutate", d.at.row, operation{rows: 1, by: d.by, must: len(d.add) > 0})
		b.ops = append(b.ops, `,"mutations":[`...)
		for i, m := range []struct {
			mutator string
			values  []string
		}{{"insert", d.add}, {"delete", d.remove}} {
			if len(m.values) == 0 {
				continue
			}
			if i > 0 && len(d.add) > 0 {
				b.ops = append(b.ops, ',')
			}
			b.ops = appendString(append(b.ops, '['), d.at.column.name)
			b.ops = append(appendString(append(b.ops, ','), m.mutator), ',')
			b.ops = append(appendSet(b.ops, d.at.column.atom, m.values), ']')
		}
		b.ops = append(b.ops, "]}"...)
	}
}

// outcome is what became of a transaction.
type outcome struct {
	err     error // none is known: the connection failed
	refused error // nothing was done
	at      int   // the operation that was refused, -1 when it was the whole
	missed  []int // operations that found no row
}

func (o outcome) reason() error {
	if o.refused != nil {
		return o.refused
	}
	return errors.New("a row that it changes or is a member of no longer exists")
}

// arrive takes the oldest batch out of flight when its outcome is known; an error means that it
// is not. When ctx ends before, what has not left yet is taken back, and the rest stays in flight.
func (e *Engine) arrive(ctx context.Context) (*batch, outcome, error) {
	b := e.flight[0]
	select {
	case r := <-b.answer:
		e.flight = slices.Delete(e.flight, 0, 1)
		o := outcome{err: r.err}
		if r.err == nil {
			o = b.read(r.result)
		}
		if o.err != nil {
			if errors.Is(o.err, ErrFenced) {
				e.fence.value = ""
			}
			e.abandon(b)
			return nil, o, fmt.Errorf("transact on %s: %w", e.client.config.Model.Name(), o.err)
		}
		return b, o, nil
	case <-ctx.Done():
		e.flight = slices.DeleteFunc(e.flight, func(b *batch) bool {
			if !b.withdraw() {
				return false
			}
			e.abandon(b)
			return true
		})
		return nil, outcome{}, fmt.Errorf("wait for a transaction on %s: %w", e.client.config.Model.Name(), ctx.Err())
	}
}

// timedOut is what the server calls a wait whose condition does not hold.
const timedOut = "timed out"

// serverTrouble are refusals that are nobody's fault: the same transaction may go through later.
var serverTrouble = []string{"I/O error", "resources exhausted", timedOut, "aborted", "canceled", "cluster error",
	"not leader"}

func (b *batch) read(result []byte) outcome {
	o := outcome{at: -1}
	s := &scanner{text: result}
	s.array(func(i int) {
		if b.fenced {
			i--
		}
		if s.peek() != '{' {
			s.skip()
			return
		}
		start, failed := s.at, false
		s.object(func(name string) {
			switch name {
			case "count":
				if s.integer() == 0 && i >= 0 && i < len(b.infos) && b.infos[i].must {
					o.missed = append(o.missed, i)
				}
			case "error":
				s.skip()
				failed = true
			default:
				s.skip()
			}
		})
		if failed && s.err == nil {
			o.at, o.refused = i, remoteError(s.text[start:s.at])
		}
	})
	if s.err != nil {
		return outcome{err: fmt.Errorf("read the answer to a transaction: %w", s.err)}
	}
	var refusal *OperationError
	if !errors.As(o.refused, &refusal) {
		return o
	}
	if b.fenced && o.at < 0 && strings.EqualFold(refusal.Kind, timedOut) {
		return outcome{err: ErrFenced}
	}
	if slices.ContainsFunc(serverTrouble, func(k string) bool { return strings.EqualFold(k, refusal.Kind) }) {
		return outcome{err: o.refused}
	}
	return o
}

// finish takes a batch out of flight and gives the changes that must be tried again.
func (e *Engine) finish(b *batch, o outcome) []*Change {
	missed := map[*planned]bool{}
	for _, i := range o.missed {
		for _, p := range b.infos[i].by {
			missed[p] = true
		}
	}
	e.land(b, func(w written, changed bool) bool {
		if o.refused != nil {
			return changed
		}
		return !missed[w.by] && e.differs(w)
	})
	if o.refused != nil {
		e.client.stats.transactions.WithLabelValues("refused").Inc()
		var again []*Change
		for _, p := range slices.Backward(b.changes) {
			e.claim(p.next, -1)
			e.claim(p.prev, 1)
		}
		for _, p := range b.changes {
			again = append(again, p.change)
		}
		return again
	}
	e.client.stats.transactions.WithLabelValues("committed").Inc()
	for _, info := range b.infos {
		e.client.stats.rows.WithLabelValues(info.table, info.kind).Add(float64(info.rows))
	}
	for _, p := range b.changes {
		e.keep(p)
	}
	var again []*Change
	for _, p := range b.changes {
		if missed[p] {
			again = append(again, p.change)
		}
	}
	e.drain()
	return again
}

// abandon takes a batch out of flight whose fate is unknown. Its changes count as made: the next
// call compares with what the replica then holds, and looks again at what they took away.
func (e *Engine) abandon(b *batch) {
	if b.sent {
		e.client.stats.transactions.WithLabelValues("failed").Inc()
	}
	e.land(b, func(w written, changed bool) bool { return changed && e.differs(w) })
	for _, p := range b.changes {
		if p.prev != nil {
			p.next.doubtful = slices.Concat(p.prev.memberships, p.prev.doubtful)
			p.next.unmarked = slices.Concat(p.next.unmarked, p.prev.unmarked)
		}
		e.keep(p)
	}
}

// land takes a batch's rows out of flight. foreign says of one, and of whether it has changed meanwhile, that another
// hand has changed it: the server tells changes of several transactions in one, so only what they made of the row
// shows whose they were.
func (e *Engine) land(b *batch, foreign func(w written, changed bool) bool) {
	for _, id := range b.coming {
		if e.coming[id]--; e.coming[id] <= 0 {
			delete(e.coming, id)
		}
	}
	for _, p := range b.removing {
		if e.removing[p]--; e.removing[p] <= 0 {
			delete(e.removing, p)
		}
	}
	if !b.sent {
		return
	}
	e.client.mu.RLock()
	defer e.client.mu.RUnlock()
	for _, w := range b.written {
		if changed, last := e.events.landed(w.id); last && foreign(w, changed) {
			e.events.suspect(w.id, w.by.change.Owner, w.table.ownerOf(w.id))
		}
	}
}

// keep remembers what an owner has been given.
func (e *Engine) keep(p *planned) {
	if p.change == nil {
		return
	}
	if p.prev != nil {
		for _, was := range p.prev.unmarked {
			delete(e.unmarked, was.id)
		}
	}
	for _, now := range p.next.unmarked {
		e.unmarked[now.id] = p.change.Owner
	}
	if len(p.next.memberships) == 0 && len(p.next.unmarked) == 0 && len(p.next.doubtful) == 0 {
		delete(e.applied, p.change.Owner)
	} else {
		e.applied[p.change.Owner] = p.next
	}
}
