// Package northboundtest holds the rows that parts give against the tables and columns that Weft writes.
package northboundtest

import (
	"reflect"
	"slices"
	"testing"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovsdb"
)

// Change asks a part for an owner's change. The test fails if [Check] finds something in it.
func Change(t testing.TB, p part.Part, owner ovsdb.Owner) part.Outcome {
	t.Helper()
	outcome := p.Change(owner)
	if outcome.Owner != owner {
		t.Errorf("%s is asked for, and the change is that of %q", owner, outcome.Owner)
	}
	Check(t, outcome.Change)
	return outcome
}

// Check fails the test for each table and column of a change that [northbound.Tables] does not list. The database's
// engine refuses such a table, and writes nothing to such a column.
func Check(t testing.TB, change ovsdb.Change) {
	t.Helper()
	for _, problem := range problems(change) {
		t.Errorf("%s: %s; list it in northbound.Tables", change.Owner, problem)
	}
}

// externalIDs are written in each table that has them.
const externalIDs = "external_ids"

func problems(change ovsdb.Change) (list []string) {
	note := func(problem string) {
		if !slices.Contains(list, problem) {
			list = append(list, problem)
		}
	}
	model, err := nb.FullDatabaseModel()
	if err != nil {
		return []string{err.Error()}
	}
	for _, row := range change.Rows {
		value := reflect.ValueOf(row.Model).Elem()
		table := listed(reflect.TypeOf(row.Model))
		if table == nil {
			note("a row is a " + value.Type().Name() + ", whose table Weft does not write")
			continue
		}
		for i := range value.NumField() {
			column := value.Type().Field(i).Tag.Get("ovsdb")
			if !value.Field(i).IsZero() && column != externalIDs && !slices.Contains(table.Columns, column) {
				note("a row of " + value.Type().Name() + " has a value in column " + column + ", which Weft does not write")
			}
		}
	}
	for _, m := range change.Memberships {
		if table := listed(model.Types()[m.Table]); table == nil || !slices.Contains(table.Sets, m.Column) {
			note("column " + m.Column + " of table " + m.Table + " is no set that memberships fill")
		}
	}
	return list
}

// listed is the table of [northbound.Tables] whose rows have a type, nil if there is none.
func listed(pointer reflect.Type) *ovsdb.Table {
	i := slices.IndexFunc(northbound.Tables, func(t ovsdb.Table) bool { return reflect.TypeOf(t.Model) == pointer })
	if i < 0 {
		return nil
	}
	return &northbound.Tables[i]
}
