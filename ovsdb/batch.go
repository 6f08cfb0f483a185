package ovsdb

import (
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

func newBatch() *batch {
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

// mutations turns what was touched into one operation per set. The client's lock is held.
func (b *batch) mutations(l *ledger, replica *cache) {
	type edit struct {
		at          place
		add, remove []string
		by          []*planned
	}
	var edits []*edit
	byPlace := map[place]*edit{}
	for _, p := range b.pairs {
		want := l.claimed(p) && !b.forced[p]
		if want == replica.has(p.at, p.value) {
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
