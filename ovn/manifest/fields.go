package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
)

// fault is something wrong with a field.
type fault struct {
	field string // as "spec.ingress[0].from"
	text  string
}

// decode reads JSON into an object. A field that the object does not have is a fault, and so is a value that
// is not of its field's type.
func decode(text []byte, into any) []fault {
	unknown, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return misfits("", text, reflect.TypeOf(into))
	}
	var list []fault
	for _, err := range unknown {
		var at kjson.FieldError
		if errors.As(err, &at) {
			list = append(list, fault{at.FieldPath(), "there is no such field; correct or remove it"})
		} else {
			list = append(list, fault{"", err.Error()})
		}
	}
	return list
}

// misfits finds the innermost values that are not of their types.
func misfits(field string, text []byte, t reflect.Type) []fault {
	if kjson.UnmarshalCaseSensitivePreserveInts(text, reflect.New(t).Interface()) == nil {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var list []fault
	var object map[string]json.RawMessage
	var array []json.RawMessage
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()): // only it knows what is within
	case t.Kind() == reflect.Struct && json.Unmarshal(text, &object) == nil:
		types := map[string]reflect.Type{}
		fieldsOf(t, types)
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if of := types[key]; of != nil {
				list = append(list, misfits(field+"."+key, object[key], of)...)
			}
		}
	case t.Kind() == reflect.Map && json.Unmarshal(text, &object) == nil:
		for _, key := range slices.Sorted(maps.Keys(object)) {
			list = append(list, misfits(field+"."+key, object[key], t.Elem())...)
		}
	case t.Kind() == reflect.Slice && json.Unmarshal(text, &array) == nil:
		for i, item := range array {
			list = append(list, misfits(fmt.Sprintf("%s[%d]", field, i), item, t.Elem())...)
		}
	}
	if len(list) > 0 {
		return list
	}
	return []fault{{strings.TrimPrefix(field, "."), fmt.Sprintf("is %s, and has to be %s", shown(text), wanted(t, text))}}
}

// fieldsOf are the types of a struct's fields by their names in JSON.
func fieldsOf(t reflect.Type, types map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			fieldsOf(f.Type, types)
		} else {
			types[name] = f.Type
		}
	}
}

// maxShown bounds what is shown of a value.
const maxShown = 50

func shown(text []byte) string {
	switch {
	case text[0] == '{':
		return "an object"
	case text[0] == '[':
		return "a list"
	case len(text) > maxShown:
		return strings.ToValidUTF8(string(text[:maxShown]), "") + "…"
	}
	return string(text)
}

// wanted is what a value of a type has to be, instead of a text.
func wanted(t reflect.Type, text []byte) string {
	switch {
	case t == reflect.TypeFor[intstr.IntOrString]():
		return "a number or a name"
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return "a " + strings.ToLower(t.Name())
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.String:
		if text[0] == '{' || text[0] == '[' {
			return "a text"
		}
		return "a text; put it in quotes"
	case reflect.Bool:
		return "true or false"
	case reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	}
	return "a number"
}
