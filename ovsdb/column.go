package ovsdb

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// atom reads, writes and prints one value of a column.
type atom[T comparable] struct {
	read   func(*scanner) T
	append func([]byte, T) []byte
}

var (
	stringAtom = atom[string]{(*scanner).str, appendString}
	intAtom    = atom[int]{(*scanner).integer, func(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }}
	boolAtom   = atom[bool]{(*scanner).boolean, strconv.AppendBool}
	floatAtom  = atom[float64]{(*scanner).float, func(b []byte, n float64) []byte {
		return strconv.AppendFloat(b, n, 'g', -1, 64)
	}}
	uuidAtom = atom[string]{readUUID, appendUUID}
)

func readUUID(s *scanner) (id string) {
	s.array(func(i int) {
		switch text := s.bytes(); {
		case i == 0 && string(text) != "uuid":
			s.fail(`"uuid"`)
		case i == 1:
			id = string(text)
		}
	})
	return id
}

func appendUUID(b []byte, id string) []byte {
	return append(appendString(append(b, `["uuid",`...), id), ']')
}

// codec moves one column's value between JSON and a pointer to a field of a model.
type codec interface {
	// read replaces the field's value.
	read(s *scanner, field any)
	// patch applies a difference as the server's update2 states it.
	patch(s *scanner, field any)
	append(b []byte, field any) []byte
	equal(a, b any) bool
	zero(field any) bool
	// text prints the value's atoms, with name applied to each.
	text(field any, name func(string) string) []string
}

// single is a column of exactly one value.
type single[T comparable] struct{ atom[T] }

func (c single[T]) read(s *scanner, field any)        { *field.(*T) = c.atom.read(s) }
func (c single[T]) patch(s *scanner, field any)       { c.read(s, field) }
func (c single[T]) append(b []byte, field any) []byte { return c.atom.append(b, *field.(*T)) }
func (c single[T]) equal(a, b any) bool               { return *a.(*T) == *b.(*T) }
func (c single[T]) zero(field any) bool               { var zero T; return *field.(*T) == zero }
func (c single[T]) text(field any, name func(string) string) []string {
	return []string{name(fmt.Sprint(*field.(*T)))}
}

// optional is a set column of at most one value.
type optional[T comparable] struct{ atom[T] }

func (c optional[T]) read(s *scanner, field any) {
	var value *T
	readSet(s, c.atom, func(v T) { value = &v })
	*field.(**T) = value
}
func (c optional[T]) patch(s *scanner, field any) { c.read(s, field) }
func (c optional[T]) append(b []byte, field any) []byte {
	if p := *field.(**T); p != nil {
		return c.atom.append(b, *p)
	}
	return append(b, `["set",[]]`...)
}
func (c optional[T]) equal(a, b any) bool {
	p, q := *a.(**T), *b.(**T)
	return p == q || p != nil && q != nil && *p == *q
}
func (c optional[T]) zero(field any) bool { return *field.(**T) == nil }
func (c optional[T]) text(field any, name func(string) string) []string {
	if p := *field.(**T); p != nil {
		return []string{name(fmt.Sprint(*p))}
	}
	return nil
}

// set is a set column; in the cache its values are sorted.
type set[T cmp.Ordered] struct{ atom[T] }

func readSet[T comparable](s *scanner, a atom[T], value func(T)) {
	if s.peek() != '[' {
		value(a.read(s))
		return
	}
	// A set of one may be written as the bare value, and a UUID is itself an array.
	start := s.at
	s.at++
	if string(s.bytes()) != "set" {
		s.at = start
		value(a.read(s))
		return
	}
	s.expect(',')
	s.array(func(int) { value(a.read(s)) })
	s.expect(']')
}

func (c set[T]) read(s *scanner, field any) {
	var values []T
	readSet(s, c.atom, func(v T) { values = append(values, v) })
	slices.Sort(values)
	*field.(*[]T) = values
}

// patch builds a new slice: the old one may be in a reader's hands.
func (c set[T]) patch(s *scanner, field any) {
	old := *field.(*[]T)
	values := slices.Clone(old)
	readSet(s, c.atom, func(v T) {
		if i, found := slices.BinarySearch(values, v); found {
			values = slices.Delete(values, i, i+1)
		} else {
			values = slices.Insert(values, i, v)
		}
	})
	*field.(*[]T) = values
}

func (c set[T]) append(b []byte, field any) []byte {
	return appendSet(b, c.atom, sorted(*field.(*[]T)))
}

func appendSet[T comparable](b []byte, a atom[T], values []T) []byte {
	b = append(b, `["set",[`...)
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = a.append(b, v)
	}
	return append(b, "]]"...)
}

// sorted is values in order and without repetition; values itself where it already is so.
func sorted[T cmp.Ordered](values []T) []T {
	for i := 1; i < len(values); i++ {
		if values[i-1] >= values[i] {
			values = slices.Clone(values)
			slices.Sort(values)
			return slices.Compact(values)
		}
	}
	return values
}

func (c set[T]) equal(a, b any) bool {
	return slices.Equal(sorted(*a.(*[]T)), sorted(*b.(*[]T)))
}
func (c set[T]) zero(field any) bool { return len(*field.(*[]T)) == 0 }
func (c set[T]) text(field any, name func(string) string) []string {
	var lines []string
	for _, v := range *field.(*[]T) {
		lines = append(lines, name(fmt.Sprint(v)))
	}
	return lines
}

// dict is a map column.
type dict[K cmp.Ordered, V comparable] struct {
	key   atom[K]
	value atom[V]
}

func (c dict[K, V]) pairs(s *scanner, pair func(K, V)) {
	s.expect('[')
	if string(s.bytes()) != "map" {
		s.fail(`"map"`)
	}
	s.expect(',')
	s.array(func(int) {
		s.expect('[')
		k := c.key.read(s)
		s.expect(',')
		v := c.value.read(s)
		s.expect(']')
		pair(k, v)
	})
	s.expect(']')
}

func (c dict[K, V]) read(s *scanner, field any) {
	var values map[K]V
	c.pairs(s, func(k K, v V) {
		if values == nil {
			values = map[K]V{}
		}
		values[k] = v
	})
	*field.(*map[K]V) = values
}

func (c dict[K, V]) patch(s *scanner, field any) {
	values := maps.Clone(*field.(*map[K]V))
	if values == nil {
		values = map[K]V{}
	}
	c.pairs(s, func(k K, v V) {
		if old, ok := values[k]; ok && old == v {
			delete(values, k)
		} else {
			values[k] = v
		}
	})
	*field.(*map[K]V) = values
}

func (c dict[K, V]) append(b []byte, field any) []byte {
	values := *field.(*map[K]V)
	b = append(b, `["map",[`...)
	first := true
	for k, v := range values {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = c.value.append(append(c.key.append(append(b, '['), k), ','), v)
		b = append(b, ']')
	}
	return append(b, "]]"...)
}

func (c dict[K, V]) equal(a, b any) bool { return maps.Equal(*a.(*map[K]V), *b.(*map[K]V)) }
func (c dict[K, V]) zero(field any) bool { return len(*field.(*map[K]V)) == 0 }
func (c dict[K, V]) text(field any, name func(string) string) []string {
	values := *field.(*map[K]V)
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, fmt.Sprintf("%v=%s", k, name(fmt.Sprint(values[k]))))
	}
	return lines
}

// marked reads the keys that stand in each of weft's rows without allocating them.
func marked(a atom[string]) atom[string] {
	read := a.read
	a.read = func(s *scanner) string {
		if s.peek() == '"' {
			switch rest := s.text[s.at:]; {
			case bytes.HasPrefix(rest, []byte(`"`+OwnerMark+`"`)):
				s.at += len(OwnerMark) + 2
				return OwnerMark
			case bytes.HasPrefix(rest, []byte(`"`+KeyMark+`"`)):
				s.at += len(KeyMark) + 2
				return KeyMark
			}
		}
		return read(s)
	}
	return a
}

// newCodec chooses by the field's Go type; the schema tells a UUID from other strings.
func newCodec(field any, schema *ovsdb.ColumnSchema) (codec, error) {
	text := func(t *ovsdb.BaseType) atom[string] {
		if t != nil && t.Type == ovsdb.TypeUUID {
			return uuidAtom
		}
		return stringAtom
	}
	key, value := schema.TypeObj.Key, schema.TypeObj.Value
	switch field.(type) {
	case *string:
		return single[string]{text(key)}, nil
	case *int:
		return single[int]{intAtom}, nil
	case *bool:
		return single[bool]{boolAtom}, nil
	case *float64:
		return single[float64]{floatAtom}, nil
	case **string:
		return optional[string]{text(key)}, nil
	case **int:
		return optional[int]{intAtom}, nil
	case **bool:
		return optional[bool]{boolAtom}, nil
	case **float64:
		return optional[float64]{floatAtom}, nil
	case *[]string:
		return set[string]{text(key)}, nil
	case *[]int:
		return set[int]{intAtom}, nil
	case *map[string]string:
		return dict[string, string]{marked(text(key)), text(value)}, nil
	case *map[string]int:
		return dict[string, int]{text(key), intAtom}, nil
	case *map[int]string:
		return dict[int, string]{intAtom, text(value)}, nil
	case *map[int]int:
		return dict[int, int]{intAtom, intAtom}, nil
	}
	return nil, fmt.Errorf("no codec for the Go type %T", field)
}
