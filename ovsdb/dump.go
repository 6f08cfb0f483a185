package ovsdb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Dump is the replica's contents as text that is the same for the same state, whatever its UUIDs:
// rows sorted by name, references by the name of what they refer to. It shows the columns that
// an engine manages and the sets that memberships fill; those that are only read are left out,
// and empty ones too.
func Dump(c *Client) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	names := map[string]string{}
	for _, t := range c.cache.tables {
		for id, r := range t.rows {
			names[id] = r.name()
		}
	}
	name := func(value string) string { return cmp.Or(names[value], value) }
	var b strings.Builder
	for _, table := range slices.Sorted(maps.Keys(c.cache.tables)) {
		t := c.cache.tables[table]
		var rows []string
		for _, r := range t.rows {
			rows = append(rows, r.text(name))
		}
		slices.Sort(rows)
		for _, text := range rows {
			fmt.Fprintf(&b, "%s %s", table, text)
		}
	}
	return b.String()
}

// name is what people call the row: its name, or else whose it is.
func (r *row) name() string {
	if r.table.label >= 0 {
		switch name := fieldOf(r.model, r.table.label).(type) {
		case *string:
			if *name != "" {
				return *name
			}
		case **string:
			if *name != nil {
				return **name
			}
		}
	}
	if ids := r.marks(); ids[OwnerMark] != "" {
		return strings.TrimSuffix(ids[OwnerMark]+" "+ids[KeyMark], " ")
	}
	return "(" + r.table.name + ")"
}

func (r *row) marks() map[string]string {
	if r.table.marks == nil {
		return nil
	}
	return *fieldOf(r.model, r.table.marks.field).(*map[string]string)
}

func (r *row) text(name func(string) string) string {
	var b strings.Builder
	b.WriteString(r.name())
	if ids := r.marks(); ids[OwnerMark] != "" {
		fmt.Fprintf(&b, " [%s]", strings.TrimSuffix(ids[OwnerMark]+" "+ids[KeyMark], " "))
	}
	b.WriteByte('\n')
	columns := slices.Clone(r.table.columns)
	slices.SortFunc(columns, func(a, b *column) int { return strings.Compare(a.name, b.name) })
	for _, c := range columns {
		if c.absent || c.name == "name" || !c.managed && c.member < 0 {
			continue
		}
		var values []string
		switch {
		case c.member >= 0:
			for v := range r.sets[c.member] {
				values = append(values, name(v))
			}
		case c == r.table.marks:
			for k, v := range r.marks() {
				if k != OwnerMark && k != KeyMark {
					values = append(values, k+"="+v)
				}
			}
		case !c.codec.zero(r.field(c)):
			values = c.codec.text(r.field(c), name)
		}
		if len(values) == 0 {
			continue
		}
		slices.Sort(values)
		fmt.Fprintf(&b, "    %s: %s\n", c.name, strings.Join(values, ", "))
	}
	return b.String()
}
