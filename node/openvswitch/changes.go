package openvswitch

import (
	"fmt"
	"slices"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// changed tells which tables and columns operations change, and of a map which keys: an operator finds by it what
// another program writes, too.
func changed(operations []libovsdb.Operation) string {
	var all []string
	tell := func(text string) {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	for _, o := range operations {
		switch o.Op {
		case libovsdb.OperationUpdate:
			for column := range o.Row {
				tell(o.Table + " " + column)
			}
		case libovsdb.OperationMutate:
			for _, m := range o.Mutations {
				keys := keysOf(m.Value)
				for _, key := range keys {
					tell(fmt.Sprintf("%s %s:%s", o.Table, m.Column, key))
				}
				if len(keys) == 0 {
					tell(o.Table + " " + m.Column)
				}
			}
		default: // a row comes or goes
			tell(strings.TrimSpace(fmt.Sprintf("%s %s %v", o.Op, o.Table, nameOf(o.Row))))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func nameOf(row libovsdb.Row) string {
	name, _ := row["name"].(string)
	return name
}

// keysOf are those of a map, or of a map's entries that go. References to rows are none.
func keysOf(value any) (keys []string) {
	switch v := value.(type) {
	case libovsdb.OvsMap:
		for key := range v.GoMap {
			keys = append(keys, fmt.Sprint(key))
		}
	case libovsdb.OvsSet:
		for _, key := range v.GoSet {
			if text, ok := key.(string); ok {
				keys = append(keys, text)
			}
		}
	}
	return keys
}
