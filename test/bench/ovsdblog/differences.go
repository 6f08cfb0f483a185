package ovsdblog

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// Differences are all columns in which two databases differ, and all rows that only one of them has. Tables can be left
// out. Their order is that of the tables, and in a table that of the UUIDs.
func Differences(a, b *Database, without ...string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, table := range both(a.Tables, b.Tables) {
			if slices.Contains(without, table) {
				continue
			}
			for _, id := range both(a.Tables[table], b.Tables[table]) {
				for difference := range differences(a.Tables[table], b.Tables[table], id) {
					if !yield(table + " " + id + difference) {
						return
					}
				}
			}
		}
	}
}

func differences(a, b map[string]Row, id string) iter.Seq[string] {
	return func(yield func(string) bool) {
		one, inA := a[id]
		other, inB := b[id]
		switch {
		case !inB:
			yield(fmt.Sprintf(" is only in the first one: %v", one))
		case !inA:
			yield(fmt.Sprintf(" is only in the second one: %v", other))
		default:
			for _, column := range both(one, other) {
				if !maps.Equal(one[column], other[column]) && !yield(fmt.Sprintf(" %s: %.300s, then %.300s", column,
					fmt.Sprint(one[column]), fmt.Sprint(other[column]))) {
					return
				}
			}
		}
	}
}

// both are the keys of two maps, in order.
func both[K ~string, V any](a, b map[K]V) []K {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
