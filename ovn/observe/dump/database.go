package dump

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/observe/redact"
	"github.com/weftnet/weft/ovsdb"
)

// portion is how many rows one request asks for. Between two portions the database may change.
const portion = 500

// uuidColumn names a row.
const uuidColumn = "_uuid"

// secretTables have the paths or the texts of keys, and nothing that says how the network is.
var secretTables = []string{"SSL"}

// Database writes the rows of all tables of a database, by its server's own schema, which may be of any version. A
// table that cannot be read is a record, and the rest goes on.
func Database(ctx context.Context, config ovsdb.Config, name string, w *Writer) (err error) {
	if config.Model, err = model.NewClientDBModel(name, map[string]model.Model{}); err != nil {
		return err
	}
	tables, err := tablesOf(ctx, config, name)
	if err != nil {
		return err
	}
	return ovsdb.Ask(ctx, config, func(client *ovsdb.Client) error {
		for _, table := range tables {
			err := writeTable(ctx, client, table, w)
			if err != nil && ctx.Err() == nil && !errors.Is(err, errFull) {
				err = w.Write(api.DumpRecord{Table: table, Error: err.Error()})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// serverDatabase is what every ovsdb-server says of itself.
const serverDatabase = "_Server"

// tablesOf are the tables of a database by its server's schema, without secret ones.
func tablesOf(ctx context.Context, config ovsdb.Config, name string) (tables []string, err error) {
	if config.Model, err = model.NewClientDBModel(serverDatabase, map[string]model.Model{}); err != nil {
		return nil, err
	}
	err = ovsdb.Ask(ctx, config, func(client *ovsdb.Client) error {
		results, err := client.Transact(ctx, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: "Database",
			Columns: []string{"schema"},
			Where:   []libovsdb.Condition{libovsdb.NewCondition("name", libovsdb.ConditionEqual, name)}})
		if err != nil {
			return err
		}
		if len(results) == 0 || len(results[0].Rows) == 0 {
			return fmt.Errorf("the server has no database %s", name)
		}
		text, _ := plain(results[0].Rows[0]["schema"]).(string)
		var schema struct{ Tables map[string]any }
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			return fmt.Errorf("read the schema of %s: %w", name, err)
		}
		tables = slices.Sorted(maps.Keys(schema.Tables))
		return nil
	})
	return slices.DeleteFunc(tables, func(table string) bool { return slices.Contains(secretTables, table) }), err
}

// writeTable asks for the UUIDs of all rows, and then for the rows in portions.
func writeTable(ctx context.Context, client *ovsdb.Client, table string, w *Writer) error {
	results, err := client.Transact(ctx, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: table,
		Columns: []string{uuidColumn}, Where: []libovsdb.Condition{}})
	if err != nil {
		return err
	}
	var rows []libovsdb.Row
	for _, r := range results {
		rows = append(rows, r.Rows...)
	}
	for some := range slices.Chunk(rows, portion) {
		operations := make([]libovsdb.Operation, len(some))
		for i, row := range some {
			operations[i] = libovsdb.Operation{Op: libovsdb.OperationSelect, Table: table, Where: []libovsdb.Condition{
				libovsdb.NewCondition(uuidColumn, libovsdb.ConditionEqual, row[uuidColumn])}}
		}
		results, err := client.Transact(ctx, operations...)
		if err != nil {
			return err
		}
		for _, r := range results {
			for _, row := range r.Rows { // none, if it is gone by now
				if err := w.Write(api.DumpRecord{Table: table, Row: withoutSecrets(row)}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// withoutSecrets is a row as JSON has it.
func withoutSecrets(row libovsdb.Row) map[string]any {
	columns := make(map[string]any, len(row))
	for name, value := range row {
		columns[name] = plain(value)
	}
	redact.Value(columns)
	return columns
}

// plain is a value of OVSDB as JSON has it: a set of one value is that value, other sets are lists, maps are objects,
// and UUIDs are texts.
func plain(value any) any {
	switch v := value.(type) {
	case libovsdb.UUID:
		return v.GoUUID
	case libovsdb.OvsSet:
		list := make([]any, len(v.GoSet))
		for i, element := range v.GoSet {
			list[i] = plain(element)
		}
		if len(list) == 1 { // as a column has it that may have no value
			return list[0]
		}
		return list
	case libovsdb.OvsMap:
		object := make(map[string]any, len(v.GoMap))
		for key, element := range v.GoMap {
			object[fmt.Sprint(plain(key))] = plain(element)
		}
		return object
	}
	return value
}
