package ovsdb

import (
	"encoding/json"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/schemas"
)

// FuzzUpdate wants the replica's indexes to agree with its rows after whatever a server says.
func FuzzUpdate(f *testing.F) {
	const id, other = `"aaaaaaaa-aaaa-5aaa-8aaa-aaaaaaaaaaaa"`, `"bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"`
	port := `{"Logical_Switch_Port":{` + other +
		`:{"insert":{"name":"p","up":true,"tag":["set",[7]],"external_ids":["map",[["weft.net/owner","Pod/p"]]],"options":["map",[["a","b"]]]}}}}`
	f.Add(port, `{"Logical_Switch":{`+id+`:{"insert":{"name":"s","ports":["uuid",`+other+`],"external_ids":["map",[]]}}}}`)
	f.Add(port, `{"Logical_Switch_Port":{`+other+
		`:{"modify":{"up":["set",[]],"external_ids":["map",[["weft.net/owner","Pod/p"],["c","d"]]]}}}}`)
	f.Add(port, `{"Logical_Switch_Port":{`+other+`:{"delete":null}}}`)
	f.Add(`{"Logical_Switch":{`+id+`:{"initial":{"ports":["set",[["uuid",`+other+`],["uuid",`+id+`]]]}}}}`,
		`{"Logical_Switch":{`+id+`:{"modify":{"ports":["uuid",`+other+`]}}}}`)
	f.Add(port, port)
	var schema libovsdb.DatabaseSchema
	if err := json.Unmarshal(schemas.Northbound, &schema); err != nil {
		f.Fatal(err)
	}
	model, err := nb.FullDatabaseModel()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		c := newCache()
		for _, config := range []Table{
			{Model: &nb.LogicalSwitch{}, Columns: []string{"name", "other_config"}, Sets: []string{"ports"}},
			{Model: &nb.LogicalSwitchPort{}, Columns: []string{"name", "options", "addresses", "tag"}, Read: []string{"up"}},
		} {
			table, err := newTable(config, model)
			if err == nil {
				err = table.fit(schema)
			}
			if err != nil {
				t.Fatal(err)
			}
			c.tables[table.name], c.types[table.goType] = table, table
		}
		for i, text := range []string{first, second} {
			if c.update([]byte(text), i == 0) != nil {
				return // the session ends, and the replica is read again
			}
			c.check(t)
		}
	})
}

// check compares the indexes with the rows.
func (c *cache) check(t *testing.T) {
	t.Helper()
	owned, held := 0, 0
	for _, table := range c.tables {
		for id, r := range table.rows {
			if r.uuid != id || r.table != table {
				t.Errorf("row %q of table %s is %q of table %s", id, table.name, r.uuid, r.table.name)
			}
			if r.owner != table.owner(id, r.model) {
				t.Errorf("row %q is said to be of %q", id, r.owner)
			}
			if r.owner != "" {
				owned++
			}
			for _, members := range r.sets {
				held += len(members)
			}
		}
	}
	for _, list := range c.owners {
		owned -= len(list)
	}
	for _, list := range c.holders {
		held -= len(list)
	}
	if owned != 0 || held != 0 {
		t.Errorf("the indexes are off by %d owners' rows, %d holders", owned, held)
	}
}
