package ovsdb

import (
	"fmt"
	"reflect"
	"slices"
)

// cache is the replica of the monitored tables. Whoever reads it holds the client's lock; only the
// session's reader writes it, with the lock held. A UUID names a row of one table: a client may give the row
// that it inserts any UUID that the table does not have, that of another table's row included.
type cache struct {
	tables map[string]*table
	types  map[reflect.Type]*table
	owners map[Owner][]*row
	// holders are the sets that hold a reference to a row.
	holders  map[reference][]place
	snapshot int
	observer observer
}

// place is a set column of a row.
type place struct {
	row    string
	column *column
}

// reference names a row of a table.
type reference struct{ table, row string }

// observer hears of each change to the cache, with the client's lock held.
type observer interface {
	// rowChanged is called when a row came, went, or changed in a managed column; owners are
	// those that its marks named before and after.
	rowChanged(r *row, before, after Owner)
	memberChanged(at place, value string)
}

func newCache() *cache {
	return &cache{
		tables:  map[string]*table{},
		types:   map[reflect.Type]*table{},
		owners:  map[Owner][]*row{},
		holders: map[reference][]place{},
	}
}

// update takes the server's <table-updates2>. A full one holds all there is: rows that it does
// not name are gone.
func (c *cache) update(text []byte, full bool) error {
	if full {
		c.snapshot++
	}
	s := &scanner{text: text}
	var problem error
	s.object(func(name string) {
		t := c.tables[name]
		if t == nil || t.absent {
			s.skip()
			return
		}
		s.object(func(uuid string) {
			s.object(func(kind string) {
				if err := c.updateRow(s, t, uuid, kind); err != nil && problem == nil {
					problem = fmt.Errorf("table %s, row %s: %w", name, uuid, err)
				}
			})
		})
	})
	if s.err != nil {
		return fmt.Errorf("read the server's update: %w", s.err)
	}
	if problem != nil || !full {
		return problem
	}
	for _, t := range c.tables {
		for _, r := range t.rows {
			if r.seen != c.snapshot {
				c.remove(r)
			}
		}
	}
	return nil
}

func (c *cache) updateRow(s *scanner, t *table, uuid, kind string) error {
	old := t.rows[uuid]
	switch kind {
	case "initial", "insert":
		c.insert(s, t, uuid, old)
	case "modify":
		if old == nil {
			s.skip()
			return fmt.Errorf("the server modified a row that it had not sent")
		}
		c.modify(s, old)
	case "delete":
		s.skip()
		if old != nil {
			c.remove(old)
		}
	default:
		s.skip()
	}
	return nil
}

func (c *cache) insert(s *scanner, t *table, uuid string, old *row) {
	value := reflect.New(t.goType)
	sets := make([]map[string]struct{}, len(t.sets))
	s.object(func(name string) {
		column := t.column(name)
		switch {
		case column == nil || column.absent:
			s.skip()
		case column.member >= 0:
			members := map[string]struct{}{}
			readSet(s, column.atom, func(v string) { members[v] = struct{}{} })
			sets[column.member] = members
		default:
			column.codec.read(s, value.Elem().Field(column.field).Addr().Interface())
		}
	})
	model := value.Interface()
	r := old
	changed := r == nil
	if r == nil {
		r = &row{table: t, uuid: uuid, sets: make([]map[string]struct{}, len(t.sets))}
		t.rows[uuid] = r
	} else {
		for _, column := range t.columns {
			changed = changed || column.managed && !column.absent && !column.codec.equal(r.field(column),
				fieldOf(model, column.field))
		}
	}
	setUUID(value.Elem(), r.uuid)
	r.seen = c.snapshot
	c.replace(r, model, changed)
	for i, column := range t.sets {
		for v := range r.sets[i] {
			if _, ok := sets[i][v]; !ok {
				c.toggle(r, column, v)
			}
		}
		for v := range sets[i] {
			if _, ok := r.sets[i][v]; !ok {
				c.toggle(r, column, v)
			}
		}
	}
}

func (c *cache) modify(s *scanner, r *row) {
	value := reflect.New(r.table.goType)
	value.Elem().Set(reflect.ValueOf(r.model).Elem())
	changed, replaced := false, false
	s.object(func(name string) {
		column := r.table.column(name)
		switch {
		case column == nil || column.absent:
			s.skip()
		case column.member >= 0:
			readSet(s, column.atom, func(v string) { c.toggle(r, column, v) })
		default:
			column.codec.patch(s, value.Elem().Field(column.field).Addr().Interface())
			changed = changed || column.managed
			replaced = true
		}
	})
	if replaced {
		c.replace(r, value.Interface(), changed)
	}
}

// replace gives a row its new model and keeps the index of owners.
func (c *cache) replace(r *row, model any, changed bool) {
	before := r.owner
	r.model = model
	r.owner = r.table.owner(r.uuid, model)
	if before != r.owner {
		c.disown(r, before)
		if r.owner != "" {
			c.owners[r.owner] = append(c.owners[r.owner], r)
		}
	}
	if changed && c.observer != nil {
		c.observer.rowChanged(r, before, r.owner)
	}
}

func (c *cache) disown(r *row, owner Owner) {
	if owner == "" {
		return
	}
	rows := c.owners[owner]
	if i := slices.Index(rows, r); i >= 0 {
		rows[i] = rows[len(rows)-1]
		rows[len(rows)-1] = nil
		rows = rows[:len(rows)-1]
	}
	if len(rows) == 0 {
		delete(c.owners, owner)
	} else {
		c.owners[owner] = rows
	}
}

func (c *cache) remove(r *row) {
	for i, column := range r.table.sets {
		for v := range r.sets[i] {
			c.toggle(r, column, v)
		}
	}
	delete(r.table.rows, r.uuid)
	r.table.bury(r.uuid)
	before := r.owner
	r.owner = ""
	c.disown(r, before)
	if c.observer != nil {
		c.observer.rowChanged(r, before, "")
	}
}

// toggle adds a value to a set, or removes it where it is there.
func (c *cache) toggle(r *row, column *column, value string) {
	at := place{r.uuid, column}
	members := r.sets[column.member]
	if _, ok := members[value]; ok {
		delete(members, value)
		if column.ref != "" {
			c.release(value, at)
		}
	} else {
		if members == nil {
			members = map[string]struct{}{}
			r.sets[column.member] = members
		}
		members[value] = struct{}{}
		if column.ref != "" {
			c.holders[reference{column.ref, value}] = append(c.holders[reference{column.ref, value}], at)
		}
	}
	if c.observer != nil {
		c.observer.memberChanged(at, value)
	}
}

func (c *cache) release(value string, at place) {
	to := reference{at.column.ref, value}
	holders := c.holders[to]
	if i := slices.Index(holders, at); i >= 0 {
		holders = slices.Delete(holders, i, i+1)
	}
	if len(holders) == 0 {
		delete(c.holders, to)
	} else {
		c.holders[to] = holders
	}
}

// ownerOf is whose row it is by its marks, "" where there is none.
func (t *table) ownerOf(uuid string) Owner {
	if r := t.rows[uuid]; r != nil {
		return r.owner
	}
	return ""
}

// has says whether a set holds a value.
func (c *cache) has(at place, value string) bool {
	r := at.holder()
	if r == nil {
		return false
	}
	_, ok := r.sets[at.column.member][value]
	return ok
}

// referred is the row that a value of a column refers to, nil where the replica has none.
func (c *cache) referred(column *column, value string) *row {
	if t := c.tables[column.ref]; t != nil {
		return t.rows[value]
	}
	return nil
}

// holder is the row whose set it is, nil where there is none.
func (at place) holder() *row { return at.column.table.rows[at.row] }

func setUUID(value reflect.Value, uuid string) {
	value.FieldByName("UUID").SetString(uuid)
}
