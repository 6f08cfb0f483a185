package ovsdb

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// errBarrier says that a change must wait for a transaction in flight.
var errBarrier = errors.New("a transaction in flight removes what this change adds")

// planner compares changes with the replica.
type planner struct {
	client   *Client
	ledger   *ledger
	pipeline *pipeline
	holdback *holdback // nil where nothing is held back
}

// plan adds to a batch what makes a change so. An error means that nothing was added.
func (pl *planner) plan(b *batch, c *Change) error {
	pl.client.mu.RLock()
	defer pl.client.mu.RUnlock()
	rows, err := pl.resolveRows(c)
	if err != nil {
		return err
	}
	if pl.heldBack(rows) {
		return errHeldBack
	}
	p := &planned{change: c, prev: pl.ledger.applied[c.Owner], next: &applied{}}
	for _, r := range rows {
		if r.table.marks == nil {
			p.next.unmarked = append(p.next.unmarked, r)
		}
	}
	if p.next.memberships, err = pl.resolveMemberships(c, rows); err != nil {
		return err
	}
	b.changes = append(b.changes, p)
	for i, r := range rows {
		if old := r.table.rows[r.id]; old != nil {
			update(b, p, r, old, c.Rows[i])
		} else {
			pl.insert(b, p, r, c.Rows[i])
		}
	}
	pl.deleteStale(b, p, rows)
	pl.members(b, p)
	return nil
}

// target is a desired row's place.
type target struct {
	table *table
	id    string
}

func (pl *planner) resolveRows(c *Change) ([]target, error) {
	rows := make([]target, len(c.Rows))
	ids := make(map[string]struct{}, len(c.Rows))
	for i, r := range c.Rows {
		t, err := pl.table(r.Model)
		if err != nil {
			return nil, err
		}
		rows[i] = target{t, ID(t.name, c.Owner, r.Key)}
		if t.marks == nil {
			pl.ledger.unmarked[rows[i].id] = c.Owner
		}
		if _, twice := ids[rows[i].id]; twice {
			return nil, fmt.Errorf("two rows of table %s have the key %q", t.name, r.Key)
		}
		ids[rows[i].id] = struct{}{}
	}
	return rows, nil
}

// table finds the table of a desired row.
func (pl *planner) table(model any) (*table, error) {
	goType := reflect.TypeOf(model)
	if goType == nil || goType.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("a desired row is a %T, not a pointer to a table's type", model)
	}
	if t := pl.client.cache.types[goType.Elem()]; t != nil {
		if t.absent {
			return nil, fmt.Errorf("the server has no table %s", t.name)
		}
		return t, nil
	}
	return nil, fmt.Errorf("the client was not told of a table for %T", model)
}

func (pl *planner) resolveMemberships(c *Change, rows []target) ([]claim, error) {
	if len(c.Memberships) == 0 {
		return nil, nil
	}
	claims := make([]claim, 0, len(c.Memberships))
	for _, m := range c.Memberships {
		t := pl.client.cache.tables[m.Table]
		if t == nil {
			return nil, fmt.Errorf("the client was not told of table %s", m.Table)
		}
		column := t.column(m.Column)
		if column == nil || column.member < 0 {
			return nil, fmt.Errorf("column %s of table %s is not one that memberships fill", m.Column, m.Table)
		}
		if t.absent || column.absent {
			return nil, fmt.Errorf("the server has no column %s of table %s", m.Column, m.Table)
		}
		at := place{m.UUID, column}
		if t.rows[m.UUID] == nil && pl.pipeline.coming[m.UUID] == 0 &&
			!slices.ContainsFunc(rows, func(r target) bool { return r.id == m.UUID }) {
			return nil, fmt.Errorf("there is no row %s in table %s whose %s it could be in", m.UUID, m.Table, m.Column)
		}
		if len(pl.pipeline.removing) > 0 {
			for _, v := range m.Values {
				if pl.pipeline.removing[pair{at, v}] > 0 {
					return nil, errBarrier
				}
			}
		}
		claims = append(claims, claim{at, m.Values})
	}
	return claims, nil
}

func (pl *planner) insert(b *batch, p *planned, to target, desired Row) {
	b.begin(to.table, "insert", to.id, operation{rows: 1, by: []*planned{p}})
	b.ops = append(b.ops, `,"row":{`...)
	first := true
	name := func(c *column) {
		if !first {
			b.ops = append(b.ops, ',')
		}
		first = false
		b.ops = append(appendString(b.ops, c.name), ':')
	}
	for _, c := range to.table.columns {
		if !c.managed || c.absent {
			continue
		}
		field := fieldOf(desired.Model, c.field)
		if c == to.table.marks {
			name(c)
			b.ops = appendMarked(b.ops, *field.(*map[string]string), p.change.Owner, desired.Key)
		} else if !c.codec.zero(field) {
			name(c)
			b.ops = c.codec.append(b.ops, field)
		}
	}
	b.ops = append(b.ops, "}}"...)
	b.coming = append(b.coming, to.id)
	pl.pipeline.coming[to.id]++
	b.written = append(b.written, written{to, p, &desired})
	// Others may have claimed members before the row was lost.
	for _, c := range to.table.sets {
		at := place{to.id, c}
		for v := range pl.ledger.claims[at] {
			if c.ref == "" || pl.client.cache.referred(c, v) != nil {
				b.touch(pair{at, v}, p)
			}
		}
	}
}

// update adds what makes the managed columns and marks of a row so, if anything has to be.
func update(b *batch, p *planned, to target, old *row, desired Row) {
	begun := false
	for _, c := range to.table.columns {
		if !c.managed || c.absent || c == to.table.marks {
			continue
		}
		field := fieldOf(desired.Model, c.field)
		if c.codec.equal(old.field(c), field) {
			continue
		}
		if !begun {
			b.begin(to.table, "update", to.id, operation{rows: 1, by: []*planned{p}, must: true})
			b.ops = append(b.ops, `,"row":{`...)
		} else {
			b.ops = append(b.ops, ',')
		}
		begun = true
		b.ops = c.codec.append(append(appendString(b.ops, c.name), ':'), field)
	}
	if begun {
		b.ops = append(b.ops, "}}"...)
	}
	if to.table.marks != nil && remark(b, p, to, old, desired) {
		begun = true
	}
	if begun {
		b.written = append(b.written, written{to, p, &desired})
	}
}

// differs says whether a row is not what a batch has made of it. The client's lock is held.
func (w written) differs() bool {
	row := w.table.rows[w.id]
	if row == nil || w.want == nil {
		return (row == nil) != (w.want == nil)
	}
	for _, c := range w.table.columns {
		if c.managed && !c.absent && c != w.table.marks && !c.codec.equal(row.field(c), fieldOf(w.want.Model, c.field)) {
			return true
		}
	}
	if w.table.marks == nil {
		return false
	}
	set, drop := wrongMarks(row, w.by.change.Owner, *w.want)
	return len(set)+len(drop) > 0
}

// ownKeys is the prefix of external_ids that no one but weft writes.
const ownKeys = "weft.net/"

// wrongMarks compares the external_ids of a row, key by key: those of others stay. set has keys and values.
func wrongMarks(old *row, owner Owner, desired Row) (set, drop []string) {
	marks := old.table.marks
	has := *old.field(marks).(*map[string]string)
	want := *fieldOf(desired.Model, marks.field).(*map[string]string)
	check := func(k, v string) {
		if now, ok := has[k]; !ok || now != v {
			set = append(set, k, v)
			if ok {
				drop = append(drop, k)
			}
		}
	}
	check(OwnerMark, string(owner))
	check(KeyMark, desired.Key)
	for k, v := range want {
		check(k, v)
	}
	for k := range has {
		if _, wanted := want[k]; !wanted && k != OwnerMark && k != KeyMark && strings.HasPrefix(k, ownKeys) {
			drop = append(drop, k)
		}
	}
	return set, drop
}

// remark corrects the external_ids of a row.
func remark(b *batch, p *planned, to target, old *row, desired Row) bool {
	set, drop := wrongMarks(old, p.change.Owner, desired)
	if len(set) == 0 && len(drop) == 0 {
		return false
	}
	b.begin(to.table, "mutate", to.id, operation{by: []*planned{p}, must: true})
	b.ops = append(b.ops, `,"mutations":[`...)
	if len(drop) > 0 {
		b.ops = append(b.ops, `["external_ids","delete",`...)
		b.ops = append(appendSet(b.ops, stringAtom, drop), ']')
	}
	if len(set) > 0 {
		if len(drop) > 0 {
			b.ops = append(b.ops, ',')
		}
		b.ops = append(b.ops, `["external_ids","insert",["map",[`...)
		b.ops = append(appendPairs(b.ops, set), "]]]"...)
	}
	b.ops = append(b.ops, "]}"...)
	return true
}

func appendMarked(b []byte, ids map[string]string, owner Owner, key string) []byte {
	pairs := []string{OwnerMark, string(owner), KeyMark, key}
	for k, v := range ids {
		if k != OwnerMark && k != KeyMark {
			pairs = append(pairs, k, v)
		}
	}
	b = append(b, `["map",[`...)
	return append(appendPairs(b, pairs), "]]"...)
}

func appendPairs(b []byte, pairs []string) []byte {
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, '['), pairs[i])
		b = append(appendString(append(b, ','), pairs[i+1]), ']')
	}
	return b
}

// deleteStale removes the owner's rows that are no longer desired, from the sets that hold them
// by a strong reference too.
func (pl *planner) deleteStale(b *batch, p *planned, rows []target) {
	desired := func(id string) bool {
		return slices.ContainsFunc(rows, func(r target) bool { return r.id == id })
	}
	var stale []*row
	switch {
	case p.change.Owner == unnamed:
		for _, r := range pl.client.cache.owners[unnamed] {
			if _, known := pl.ledger.unmarked[r.uuid]; !known {
				stale = append(stale, r)
			}
		}
	default:
		for _, r := range pl.client.cache.owners[p.change.Owner] {
			if !desired(r.uuid) {
				stale = append(stale, r)
			}
		}
		if p.prev != nil {
			for _, was := range p.prev.unmarked {
				if r := was.table.rows[was.id]; r != nil && !desired(was.id) {
					stale = append(stale, r)
				}
			}
		}
	}
	slices.SortFunc(stale, func(a, b *row) int { return strings.Compare(a.uuid, b.uuid) })
	for _, r := range stale {
		b.deletes = append(b.deletes, deletion{r, p})
		for _, at := range pl.client.cache.holders[reference{r.table.name, r.uuid}] {
			if at.column.strong {
				b.force(pair{at, r.uuid}, p)
			}
		}
	}
}

// members moves the owner's claims from what it had to what it must have.
func (pl *planner) members(b *batch, p *planned) {
	pl.ledger.claim(p.next, 1)
	pl.ledger.claim(p.prev, -1)
	for _, m := range p.next.memberships {
		for _, v := range m.values {
			if !pl.client.cache.has(m.at, v) {
				b.touch(pair{m.at, v}, p)
			}
		}
	}
	if p.prev == nil {
		return
	}
	for _, m := range slices.Concat(p.prev.memberships, p.prev.doubtful) {
		for _, v := range m.values {
			if !pl.ledger.claimed(pair{m.at, v}) {
				b.touch(pair{m.at, v}, p)
			}
		}
	}
}

func (b *batch) touch(p pair, by *planned) {
	if _, ok := b.touched[p]; !ok {
		b.pairs = append(b.pairs, p)
	}
	b.touched[p] = by
}

// force removes a value whoever claims it: the row that it refers to goes.
func (b *batch) force(p pair, by *planned) {
	b.touch(p, by)
	if b.forced == nil {
		b.forced = map[pair]bool{}
	}
	b.forced[p] = true
}
