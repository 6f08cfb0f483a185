package ovsdb

import (
	"fmt"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// The functions below read a column of a row that a select has given. A value of another type is taken for none.

// TextMap is a column of a map.
func TextMap(value any) map[string]string {
	m, _ := value.(ovsdb.OvsMap)
	texts := make(map[string]string, len(m.GoMap))
	for k, v := range m.GoMap {
		texts[fmt.Sprint(k)] = fmt.Sprint(v)
	}
	return texts
}

// Texts is a column of a set of strings. A set of one value is sent as the value (RFC 7047, 5.1).
func Texts(value any) []string {
	if text, ok := value.(string); ok {
		return []string{text}
	}
	set, _ := value.(ovsdb.OvsSet)
	var texts []string
	for _, v := range set.GoSet {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// TextUUID is a column of a UUID, or of at most one; "" is none.
func TextUUID(value any) string {
	id, _ := value.(ovsdb.UUID)
	return id.GoUUID
}

// TextUUIDs is a column of a set of UUIDs. A set of one is sent as the UUID.
func TextUUIDs(value any) []string {
	if id := TextUUID(value); id != "" {
		return []string{id}
	}
	set, _ := value.(ovsdb.OvsSet)
	var ids []string
	for _, v := range set.GoSet {
		ids = append(ids, TextUUID(v))
	}
	return ids
}

// FirstBits are the first 32 of a UUID, as eight digits: by them OVN's flows name rows.
func FirstBits(uuid string) string {
	digits, _, _ := strings.Cut(uuid, "-")
	return digits
}
