// Package ovsdblog reads the file of a standalone OVSDB: one record for each transaction that
// changed something, with the time at which the server committed it. It shows what was written and
// when without asking the server anything.
package ovsdblog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Record is one committed transaction.
type Record struct {
	Time    time.Time // to the millisecond
	Bytes   int
	Comment string
	// Changes holds, by table, what happened to how many rows.
	Changes map[string]Counts
}

// Counts are rows.
type Counts struct{ Inserted, Modified, Deleted int }

// Value is a column's value: for a map its pairs, for a set each member with an empty value; a
// scalar is a set of one. Strings are without quotes, UUIDs bare.
type Value map[string]string

// Row is a row's columns that are not at their default.
type Row map[string]Value

// Database is what a log amounts to.
type Database struct {
	Records []Record
	// Tables holds the rows by table and UUID.
	Tables map[string]map[string]Row
	// Inserted holds each row as it was inserted, in OVSDB's JSON, by table and UUID.
	Inserted map[string]map[string]json.RawMessage

	columns map[string]map[string]kind
}

type kind int

const (
	scalar kind = iota
	set
	dict
)

// Read reads a whole log. A record that is being written at this moment ends it.
func Read(path string) (*Database, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	db := &Database{Tables: map[string]map[string]Row{}, Inserted: map[string]map[string]json.RawMessage{}}
	for at := 0; ; {
		record, next, err := cut(text, at)
		if err != nil {
			return nil, fmt.Errorf("%s: record at byte %d: %w", path, at, err)
		}
		if record == nil {
			return db, nil
		}
		if err := db.apply(record); err != nil {
			return nil, fmt.Errorf("%s: record at byte %d: %w", path, at, err)
		}
		at = next
	}
}

// cut returns the JSON of the record at a position; nil when it is not there yet in full.
func cut(text []byte, at int) (record []byte, next int, err error) {
	header, body, whole := bytes.Cut(text[at:], []byte("\n"))
	if !whole {
		return nil, at, nil
	}
	words := bytes.Fields(header) // OVSDB JSON <length> <SHA-1>
	if len(words) < 4 || string(words[0]) != "OVSDB" || string(words[1]) != "JSON" {
		return nil, at, fmt.Errorf("%q does not start a record of a standalone database", header)
	}
	length, err := strconv.Atoi(string(words[2]))
	if err != nil {
		return nil, at, err
	}
	if len(body) < length {
		return nil, at, nil
	}
	return body[:length], at + len(header) + 1 + length, nil
}

func (db *Database) apply(text []byte) error {
	var record map[string]json.RawMessage
	if err := json.Unmarshal(text, &record); err != nil {
		return err
	}
	if db.columns == nil { // the first record is the schema
		return db.readSchema(record["tables"])
	}
	var millis int64
	var diff bool
	r := Record{Bytes: len(text), Changes: map[string]Counts{}}
	for key, target := range map[string]any{"_date": &millis, "_is_diff": &diff, "_comment": &r.Comment} {
		if raw, ok := record[key]; ok {
			if err := json.Unmarshal(raw, target); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			delete(record, key)
		}
	}
	r.Time = time.UnixMilli(millis)
	for table, raw := range record {
		counts, err := db.applyTable(table, raw, diff)
		if err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
		r.Changes[table] = counts
	}
	db.Records = append(db.Records, r)
	return nil
}

func (db *Database) applyTable(table string, raw json.RawMessage, diff bool) (counts Counts, err error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(raw, &changes); err != nil {
		return counts, err
	}
	rows := db.Tables[table]
	if rows == nil {
		rows = map[string]Row{}
		db.Tables[table], db.Inserted[table] = rows, map[string]json.RawMessage{}
	}
	for id, change := range changes {
		row, known := rows[id]
		switch {
		case string(change) == "null":
			counts.Deleted++
			delete(rows, id)
			delete(db.Inserted[table], id)
			continue
		case known:
			counts.Modified++
		default:
			counts.Inserted++
			row = Row{}
			rows[id] = row
			db.Inserted[table][id] = change
		}
		if err := db.applyRow(row, db.columns[table], change, diff && known); err != nil {
			return counts, fmt.Errorf("row %s: %w", id, err)
		}
	}
	return counts, nil
}

func (db *Database) applyRow(row Row, kinds map[string]kind, change json.RawMessage, diff bool) error {
	var columns map[string]any
	decoder := json.NewDecoder(bytes.NewReader(change))
	decoder.UseNumber()
	if err := decoder.Decode(&columns); err != nil {
		return err
	}
	for column, content := range columns {
		value := readValue(content)
		if diff && kinds[column] != scalar {
			value = merge(row[column], value)
		}
		if len(value) == 0 {
			delete(row, column)
			continue
		}
		row[column] = value
	}
	return nil
}

// merge applies a difference as the server writes it: what is in both goes, and a key with another
// value replaces.
func merge(old, diff Value) Value {
	value := Value{}
	for k, v := range old {
		value[k] = v
	}
	for k, v := range diff {
		if was, ok := value[k]; ok && was == v {
			delete(value, k)
		} else {
			value[k] = v
		}
	}
	return value
}

func readValue(content any) Value {
	list, ok := content.([]any)
	if !ok || len(list) != 2 {
		return Value{readAtom(content): ""}
	}
	members, _ := list[1].([]any)
	value := Value{}
	switch list[0] {
	case "set":
		for _, member := range members {
			value[readAtom(member)] = ""
		}
	case "map":
		for _, member := range members {
			if pair, ok := member.([]any); ok && len(pair) == 2 {
				value[readAtom(pair[0])] = readAtom(pair[1])
			}
		}
	default: // a UUID
		value[readAtom(content)] = ""
	}
	return value
}

func readAtom(content any) string {
	if pair, ok := content.([]any); ok && len(pair) == 2 { // ["uuid", ID]
		return fmt.Sprint(pair[1])
	}
	return fmt.Sprint(content)
}

func (db *Database) readSchema(raw json.RawMessage) error {
	var tables map[string]struct {
		Columns map[string]struct{ Type json.RawMessage }
	}
	if err := json.Unmarshal(raw, &tables); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	db.columns = map[string]map[string]kind{}
	for table, t := range tables {
		db.columns[table] = map[string]kind{}
		for column, c := range t.Columns {
			var typed struct {
				Value any
				Max   any
			}
			if c.Type[0] == '{' {
				if err := json.Unmarshal(c.Type, &typed); err != nil {
					return fmt.Errorf("schema: %s.%s: %w", table, column, err)
				}
			}
			switch {
			case typed.Value != nil:
				db.columns[table][column] = dict
			case typed.Max != nil && typed.Max != float64(1):
				db.columns[table][column] = set
			}
		}
	}
	return nil
}
