package southbound

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// object is a JSON object whose keys mean what they say: a struct's would mean their other spellings, too.
type object map[string]json.RawMessage

// text is a string of the object, "" where there is none.
func (o object) text(key string) string {
	var text string
	if json.Unmarshal(o[key], &text) != nil {
		return ""
	}
	return text
}

// number is an integer of the object.
func (o object) number(key string) (n int, ok bool) {
	return n, o[key] != nil && json.Unmarshal(o[key], &n) == nil
}

// operation is one of a transaction, RFC 7047, 5.2.
type operation struct {
	members   object // as they are sent on
	op, table string
	where     []json.RawMessage
	row       object
	mutations []mutation
	timeout   json.RawMessage
	name      string     // of the row that an insert makes, within its transaction
	about     *operation // the insert that has made the row which this one changes, in the same transaction
}

// members are those of each operation that ovn-controller uses, beside its name (OVN 23.03 to 26.03). Others mean
// something to the server: "uuid" of an insert would have a node choose a row's UUID, which is unique in its table
// alone, while other nodes' ovn-controllers know flows of all tables by their rows' UUIDs.
var members = map[string][]string{
	"comment": {"comment"},
	"delete":  {"table", "where"},
	"insert":  {"row", "table", "uuid-name"},
	"mutate":  {"mutations", "table", "where"},
	"update":  {"row", "table", "where"},
	"wait":    {"columns", "rows", "table", "timeout", "until", "where"},
}

// mutation is what "mutate" does to a column.
type mutation struct {
	column, mutator string
	value           json.RawMessage
}

func (m *mutation) UnmarshalJSON(text []byte) error {
	var triple []json.RawMessage
	if json.Unmarshal(text, &triple) != nil || len(triple) != 3 ||
		json.Unmarshal(triple[0], &m.column) != nil || json.Unmarshal(triple[1], &m.mutator) != nil {
		return fmt.Errorf("%.200s is no mutation", text)
	}
	m.value = triple[2]
	return nil
}

// plain is a value in the one spelling that encoding/json has for it, so that bytes are equal where values are:
// "\u0073et" is "set".
func plain(value json.RawMessage) (json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var read any
	if err := decoder.Decode(&read); err != nil {
		return nil, err
	}
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(read); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(written.Bytes()), nil
}

// newOperation reads what is in o.
func newOperation(o object) (*operation, error) {
	o = maps.Clone(o)
	for key, value := range o {
		spelled, err := plain(value)
		if err != nil {
			return nil, fmt.Errorf("member %.60q of an operation: %w", key, err)
		}
		o[key] = spelled
	}
	p := &operation{op: o.text("op"), timeout: o["timeout"], members: object{}}
	used, known := members[p.op]
	if !known {
		return nil, fmt.Errorf("operation %.60q is none that a node does", p.op)
	}
	for key, value := range o {
		if key != "op" && !slices.Contains(used, key) {
			return nil, fmt.Errorf("member %.60q of operation %q is none that ovn-controller uses; leave it out", key, p.op)
		}
		p.members[key] = value
	}
	for key, into := range map[string]*string{"table": &p.table, "uuid-name": &p.name} {
		if o[key] != nil && json.Unmarshal(o[key], into) != nil {
			return nil, fmt.Errorf("%s of an operation is %.60s, no string", key, o[key])
		}
	}
	for key, into := range map[string]any{"where": &p.where, "mutations": &p.mutations, "row": &p.row} {
		if o[key] == nil {
			continue
		}
		if err := json.Unmarshal(o[key], into); err != nil {
			return nil, fmt.Errorf("%s of an operation: %w", key, err)
		}
	}
	if p.row != nil { // one key, one meaning
		for column, value := range p.row {
			p.row[column] = atom(value)
		}
		row, err := json.Marshal(p.row)
		if err != nil {
			return nil, err
		}
		p.members["row"] = row
	}
	return p, nil
}

// atom is a set's only element, or the value itself. OVSDB takes the one for the other (RFC 7047, 5.1), and whoever
// counts or compares values has to see one spelling.
func atom(value json.RawMessage) json.RawMessage {
	if list := elements(value); len(list) == 1 {
		return list[0]
	}
	return value
}

// MarshalJSON writes what has been read, and nothing else.
func (o *operation) MarshalJSON() ([]byte, error) { return json.Marshal(o.members) }

// skew is by how much a node's clock may differ from the guard's.
const skew = time.Minute

// date has a row age by the clock of central hosts. A node whose clock is behind would lose its neighbours at once; one
// that says a time to come, in whatever spelling, would keep them for ever.
func (o *operation) date(now time.Time) error {
	if o.row["timestamp"] == nil {
		return nil
	}
	said, ok := o.row.number("timestamp")
	if ok && time.UnixMilli(int64(said)).Sub(now).Abs() <= skew {
		return nil
	}
	o.row["timestamp"] = json.RawMessage(strconv.FormatInt(now.UnixMilli(), 10))
	row, err := json.Marshal(o.row)
	o.members["row"] = row
	return err
}

// result is the row that an insert has made once a later update of its transaction is done. Elements of sets and maps
// that a mutation changes are judged one by one.
func (o *operation) result() object {
	row := maps.Clone(o.about.row)
	if row == nil {
		row = object{}
	}
	maps.Copy(row, o.row)
	return row
}

// uuid is the row's in the operation's condition, the one way in which ovn-controller names rows.
func (o *operation) uuid() (uuid string, ok bool) {
	kind, uuid := o.subject()
	return uuid, kind == "uuid"
}

// subject is the one row that the operation's condition names: its kind of name, "" where there is no such condition,
// and the name.
func (o *operation) subject() (kind, name string) {
	if len(o.where) != 1 {
		return "", ""
	}
	var condition [3]json.RawMessage
	var column, function string
	if json.Unmarshal(o.where[0], &condition) != nil || json.Unmarshal(condition[0], &column) != nil ||
		json.Unmarshal(condition[1], &function) != nil || column != "_uuid" || function != "==" {
		return "", ""
	}
	kind, name, _ = pair(condition[2])
	return kind, name
}

// written are the columns that the operation writes.
func (o *operation) written() []string {
	var columns []string
	for column := range o.row {
		columns = append(columns, column)
	}
	for _, m := range o.mutations {
		columns = append(columns, m.column)
	}
	slices.Sort(columns)
	return columns
}

// values are all that the operation says of a column.
func (o *operation) values(column string) []json.RawMessage {
	var list []json.RawMessage
	if value := o.row[column]; value != nil {
		list = append(list, value)
	}
	for _, m := range o.mutations {
		if m.column == column {
			list = append(list, m.value)
		}
	}
	return list
}

// pair reads ["uuid", X] and ["named-uuid", X].
func pair(value json.RawMessage) (kind, text string, ok bool) {
	var words []string
	if json.Unmarshal(value, &words) != nil || len(words) != 2 {
		return "", "", false
	}
	return words[0], words[1], true
}

// elements are those of a set; a value that is none is a set of one.
func elements(value json.RawMessage) []json.RawMessage {
	var tagged []json.RawMessage
	var kind string
	var list []json.RawMessage
	if json.Unmarshal(value, &tagged) == nil && len(tagged) == 2 && json.Unmarshal(tagged[0], &kind) == nil &&
		kind == "set" &&
		json.Unmarshal(tagged[1], &list) == nil {
		return list
	}
	return []json.RawMessage{value}
}

// stringMap reads ["map", [[K, V], …]].
func stringMap(value json.RawMessage) (entries map[string]string, ok bool) {
	var tagged []json.RawMessage
	var kind string
	var pairs [][]string
	if json.Unmarshal(value, &tagged) != nil || len(tagged) != 2 || json.Unmarshal(tagged[0], &kind) != nil ||
		kind != "map" ||
		json.Unmarshal(tagged[1], &pairs) != nil {
		return nil, false
	}
	entries = make(map[string]string, len(pairs))
	for _, p := range pairs {
		if len(p) != 2 {
			return nil, false
		}
		entries[p[0]] = p[1]
	}
	return entries, true
}
