package ovsdb

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Table says which columns of a table a client deals with; it sees no other table or column, and
// keeps none of them in memory.
type Table struct {
	// Model is a pointer to the table's generated type.
	Model model.Model
	// Columns are those whose values an engine's desired rows state; it compares and writes
	// them. external_ids is always one of them where the table has it, key by key.
	Columns []string
	// Sets are the set columns that memberships fill.
	Sets []string
	// Read are columns that are only read.
	Read []string
	// Label is the column that names a row to people: "name" where it is empty. In a table without
	// external_ids weft's rows are those whose UUID [ID] has made and whose label begins with Prefix; "weft-"
	// where that is empty.
	Label, Prefix string
}

const externalIDs = "external_ids"

// Of tables that say nothing else.
const (
	nameLabel  = "name"
	namePrefix = "weft-"
)

type column struct {
	table *table
	name  string
	field int
	codec codec
	// managed columns are compared and written by the engine.
	managed bool
	// member is the column's place among the row's sets, -1 for a column that is not one.
	member int
	atom   atom[string] // of a member column
	// ref is the table that the column's UUIDs refer to, and strong how.
	ref    string
	strong bool
	// absent columns are not in the server's schema and are left alone.
	absent bool
}

type table struct {
	name    string
	goType  reflect.Type
	columns []*column
	sets    []*column
	marks   *column // external_ids, nil without
	label   int     // the field that names a row to people, -1 without
	prefix  string  // of labels of weft's rows
	absent  bool
	rows    map[string]*row
	// gone are rows that were deleted, and when; nil where nothing is held back (see [Engine.HoldBack]).
	gone map[string]time.Time
}

// row is a row as the server has it. model is never changed once it is here, so that a reader may
// keep it; sets belong to the cache.
type row struct {
	table *table
	uuid  string
	model any
	sets  []map[string]struct{}
	owner Owner
	seen  int // the last snapshot that had it
}

func (r *row) field(c *column) any { return fieldOf(r.model, c.field) }

func fieldOf(model any, field int) any {
	return reflect.ValueOf(model).Elem().Field(field).Addr().Interface()
}

func (t *table) column(name string) *column {
	for _, c := range t.columns {
		if c.name == name {
			return c
		}
	}
	return nil
}

// owner is what a row's marks say; a table without external_ids tells only that it is ours.
func (t *table) owner(uuid string, model any) Owner {
	if t.marks != nil {
		return Owner((*fieldOf(model, t.marks.field).(*map[string]string))[OwnerMark])
	}
	if t.label >= 0 && derived(uuid) {
		if name, ok := fieldOf(model, t.label).(*string); ok && strings.HasPrefix(*name, t.prefix) {
			return unnamed
		}
	}
	return ""
}

// unnamed owns the rows of tables without external_ids until the engine knows better.
const unnamed Owner = "?"

// derived tells a UUID that ID made (version 5) from one that a server drew (version 4).
func derived(uuid string) bool { return len(uuid) == 36 && uuid[14] == '5' }

func newTable(config Table, models model.ClientDBModel) (*table, error) {
	goType := reflect.TypeOf(config.Model)
	t := &table{marks: nil, label: -1, prefix: cmp.Or(config.Prefix, namePrefix), rows: map[string]*row{}}
	for name, modelType := range models.Types() {
		if modelType == goType {
			t.name, t.goType = name, goType.Elem()
		}
	}
	if t.name == "" {
		return nil, fmt.Errorf("type %T is no table of database %s", config.Model, models.Name())
	}
	fields := map[string]int{}
	for i := range t.goType.NumField() {
		fields[t.goType.Field(i).Tag.Get("ovsdb")] = i
	}
	add := func(name string, managed, member bool) error {
		field, ok := fields[name]
		if !ok {
			return fmt.Errorf("table %s of database %s has no column %s", t.name, models.Name(), name)
		}
		if t.column(name) != nil {
			return fmt.Errorf("column %s of table %s is listed twice", name, t.name)
		}
		c := &column{table: t, name: name, field: field, managed: managed, member: -1}
		if member {
			if t.goType.Field(field).Type != reflect.TypeFor[[]string]() {
				return fmt.Errorf("column %s of table %s is no set of strings or references", name, t.name)
			}
			c.member = len(t.sets)
			t.sets = append(t.sets, c)
		}
		t.columns = append(t.columns, c)
		return nil
	}
	managed := config.Columns
	if _, ok := fields[externalIDs]; ok && !slices.Contains(managed, externalIDs) && !slices.Contains(config.Read,
		externalIDs) {
		managed = append(slices.Clone(managed), externalIDs)
	}
	for _, list := range []struct {
		names           []string
		managed, member bool
	}{{managed, true, false}, {config.Sets, false, true}, {config.Read, false, false}} {
		for _, name := range list.names {
			if err := add(name, list.managed, list.member); err != nil {
				return nil, err
			}
		}
	}
	if c := t.column(externalIDs); c != nil {
		t.marks = c
	}
	label := cmp.Or(config.Label, nameLabel)
	if field, ok := fields[label]; ok && t.column(label) != nil {
		t.label = field
	}
	return t, nil
}

// fit takes the columns' types from a server's schema. What the server lacks is absent.
func (t *table) fit(schema ovsdb.DatabaseSchema) error {
	tableSchema := schema.Table(t.name)
	t.absent = tableSchema == nil
	if t.absent {
		return nil
	}
	instance := reflect.New(t.goType).Interface()
	for _, c := range t.columns {
		s := tableSchema.Column(c.name)
		c.absent = s == nil
		if c.absent {
			continue
		}
		var err error
		if c.codec, err = newCodec(fieldOf(instance, c.field), s); err != nil {
			return fmt.Errorf("column %s of table %s: %w", c.name, t.name, err)
		}
		c.atom = stringAtom
		for _, base := range []*ovsdb.BaseType{s.TypeObj.Value, s.TypeObj.Key} {
			if base == nil || base.Type != ovsdb.TypeUUID {
				continue
			}
			c.atom = uuidAtom
			if c.ref, err = base.RefTable(); err != nil {
				return err
			}
			kind, err := base.RefType()
			if err != nil {
				return err
			}
			c.strong = kind == ovsdb.Strong
		}
	}
	return nil
}
