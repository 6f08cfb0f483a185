package ovsdb

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/schemas"
)

// flight is an engine with one transaction under way, and no server.
type flight struct {
	t      *testing.T
	engine *Engine
	batch  *batch
}

// takeoff has a switch in the replica and a change of it, which makes a port on it and removes another, under way.
func takeoff(t *testing.T) *flight {
	t.Helper()
	var schema libovsdb.DatabaseSchema
	if err := json.Unmarshal(schemas.Northbound, &schema); err != nil {
		t.Fatal(err)
	}
	model, err := nb.FullDatabaseModel()
	if err != nil {
		t.Fatal(err)
	}
	client := &Client{config: Config{Model: model}, cache: newCache(), changed: make(chan struct{}),
		stats: newStats("test"), log: slog.New(slog.DiscardHandler)}
	for _, config := range []Table{
		{Model: &nb.LogicalSwitch{}, Columns: []string{"name", "other_config"}},
		{Model: &nb.AddressSet{}, Columns: []string{"name"}},
	} {
		table, err := newTable(config, model)
		if err == nil {
			err = table.fit(schema)
		}
		if err != nil {
			t.Fatal(err)
		}
		client.cache.tables[table.name], client.cache.types[table.goType] = table, table
	}
	f := &flight{t: t, engine: NewEngine(client)}
	f.update(f.row("Logical_Switch", "switch", "initial", `"name":"l1"`), f.row("Address_Set", "stale", "initial",
		`"name":"stale"`))
	f.engine.events.begin()
	f.batch = newBatch()
	change := &Change{Owner: "Node/l1", Rows: []Row{
		{Key: "switch", Model: &nb.LogicalSwitch{Name: "l1", OtherConfig: map[string]string{"subnet": "10.244.1.0/24"}}},
		{Key: "new", Model: &nb.AddressSet{Name: "new"}},
	}}
	if err := f.engine.planner.plan(f.batch, change); err != nil {
		t.Fatal(err)
	}
	for _, d := range f.batch.deletes {
		f.batch.written = append(f.batch.written, written{target{d.row.table, d.row.uuid}, d.by, nil})
	}
	f.batch.sent = true
	f.engine.events.expect(f.batch.written)
	return f
}

// row is what the server says of a row of Node/l1.
func (f *flight) row(table, key, kind, columns string) string {
	if kind == "delete" {
		return fmt.Sprintf(`%q:{%q:{"delete":null}}`, table, ID(table, "Node/l1", key))
	}
	if kind != "modify" {
		columns += fmt.Sprintf(`,"external_ids":["map",[["weft.net/owner","Node/l1"],["weft.net/key",%q]]]`, key)
	}
	return fmt.Sprintf(`%q:{%q:{%q:{%s}}}`, table, ID(table, "Node/l1", key), kind, columns)
}

// update is one message of the server.
func (f *flight) update(tables ...string) {
	f.t.Helper()
	if err := f.engine.client.cache.update([]byte("{"+strings.Join(tables, ",")+"}"), false); err != nil {
		f.t.Fatal(err)
	}
}

// TestForeignChangesWithinOurs: the server tells what several transactions have made of a row in one update, or in
// none if they have undone each other.
func TestForeignChangesWithinOurs(t *testing.T) {
	const ourConfig = `"other_config":["map",[["subnet","10.244.1.0/24"]]]`
	committed, refused := outcome{at: -1}, outcome{refused: &OperationError{Kind: "constraint violation"}}
	for _, c := range []struct {
		name    string
		outcome outcome
		updates func(f *flight) [][]string
		foreign bool
	}{
		{"our changes alone", committed, func(f *flight) [][]string {
			return [][]string{{f.row("Logical_Switch", "switch", "modify", ourConfig),
				`"Address_Set":{` + strings.Join([]string{
					strings.TrimSuffix(strings.TrimPrefix(f.row("Address_Set", "new", "insert", `"name":"new"`), `"Address_Set":{`),
						"}"),
					strings.TrimSuffix(strings.TrimPrefix(f.row("Address_Set", "stale", "delete", ""), `"Address_Set":{`), "}")},
					",") + "}"}}
		}, false},
		{"our changes in several updates", committed, func(f *flight) [][]string {
			return append(ours(f), []string{f.row("Logical_Switch", "switch", "modify",
				`"external_ids":["map",[["theirs","x"]]]`)})
		}, false},
		{"another column in the same update", committed, func(f *flight) [][]string {
			return replaceFirst(ours(f), f.row("Logical_Switch", "switch", "modify", ourConfig+`,"name":"theirs"`))
		}, true},
		{"our column in the same update", committed, func(f *flight) [][]string {
			return replaceFirst(ours(f), f.row("Logical_Switch", "switch", "modify",
				`"other_config":["map",[["subnet","192.0.2.0/24"]]]`))
		}, true},
		{"our column back to what it was, and no update at all", committed, func(f *flight) [][]string { return ours(f)[1:] },
			true},
		{"our mark in the same update", committed, func(f *flight) [][]string {
			return replaceFirst(ours(f), f.row("Logical_Switch", "switch", "modify",
				ourConfig+`,"external_ids":["map",[["weft.net/key","switch"]]]`))
		}, true},
		{"our row removed, in another update", committed, func(f *flight) [][]string {
			return append(ours(f), []string{f.row("Logical_Switch", "switch", "delete", "")})
		}, true},
		{"our new row removed in the same transaction's wake", committed, func(f *flight) [][]string {
			return append(ours(f)[:1], ours(f)[2:]...)
		}, true},
		{"our removed row made again", committed, func(f *flight) [][]string {
			return append(ours(f)[:2], []string{f.row("Address_Set", "stale", "modify", `"name":"theirs"`)})
		}, true},
		{"a refused transaction, and nothing else", refused, func(*flight) [][]string { return nil }, false},
		{"a refused transaction, and a foreign change", refused, func(f *flight) [][]string {
			return [][]string{{f.row("Logical_Switch", "switch", "modify", `"name":"theirs"`)}}
		}, true},
		{"a lost answer to what was done", outcome{err: ErrDisconnected}, ours, false},
		{"a lost answer to what was not", outcome{err: ErrDisconnected}, func(*flight) [][]string { return nil }, false},
		{"a lost answer, and a foreign change", outcome{err: ErrDisconnected}, func(f *flight) [][]string {
			return [][]string{{f.row("Logical_Switch", "switch", "modify", `"name":"theirs"`)}}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := takeoff(t)
			for _, update := range c.updates(f) {
				f.update(update...)
			}
			if c.outcome.err != nil {
				f.engine.pipeline.abandon(f.batch)
			} else {
				f.engine.pipeline.finish(f.batch, c.outcome)
			}
			suspects, _ := f.engine.events.takeRows()
			if got := slices.Sorted(maps.Keys(suspects)); slices.Contains(got, "Node/l1") != c.foreign {
				t.Errorf("suspects are %s", got)
			}
			if n := len(f.engine.events.own); n > 0 {
				t.Errorf("%d rows are still under way", n)
			}
		})
	}
}

// TestRowsThatAreMadeAreLetGo, and none that are to be tried again.
func TestRowsThatAreMadeAreLetGo(t *testing.T) {
	for name, c := range map[string]struct {
		outcome outcome
		again   bool
	}{
		"committed":         {outcome{at: -1}, false},
		"committed in vain": {outcome{at: -1, missed: []int{0}}, true},
		"refused":           {outcome{refused: &OperationError{Kind: "constraint violation"}}, true},
	} {
		f := takeoff(t)
		change := f.batch.changes[0].change
		change.Memberships = []Membership{{Table: "Logical_Switch"}}
		again := f.engine.pipeline.finish(f.batch, c.outcome)
		if c.again != slices.Equal(again, []*Change{change}) || c.again != (len(change.Rows) == 2) ||
			c.again != (len(change.Memberships) == 1) {
			t.Errorf("%s: %d are tried again, of %+v", name, len(again), change)
		}
	}
}

// ours is what the server tells of the transaction, an update a row.
func ours(f *flight) [][]string {
	return [][]string{
		{f.row("Logical_Switch", "switch", "modify", `"other_config":["map",[["subnet","10.244.1.0/24"]]]`)},
		{f.row("Address_Set", "new", "insert", `"name":"new"`)},
		{f.row("Address_Set", "stale", "delete", "")},
	}
}

func replaceFirst(updates [][]string, text string) [][]string {
	updates[0] = []string{text}
	return updates
}
