package ovn

import (
	"encoding/json"
	"github.com/weftnet/weft/ovn/objects"
	"reflect"
	"strings"
	"time"
)

// statusKey stands for an annotation's key where the value is the object's status.
const statusKey = "status"

// statusPatch is a merge patch of a status that fails on an object of another UID. Conditions that have
// changed get the time of now.
func (a annotation) statusPatch(now time.Time) []byte {
	value := strings.ReplaceAll(a.value, `"lastTransitionTime":null`, `"lastTransitionTime":"`+now.UTC().Format(time.RFC3339)+`"`)
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": a.uid}, "status": json.RawMessage(value)})
	if err != nil { // JSON and a string
		panic(err)
	}
	return text
}

// noteStatus has an object's status written where it is not what it shall be. noted is what was asked
// for last.
func (out *outbox) noteStatus(k objects.Kind, o *objects.Custom, status map[string]any, noted *string) {
	text, err := json.Marshal(status)
	if err != nil { // numbers, strings and conditions
		panic(err)
	}
	if string(text) == *noted {
		return
	}
	asked := *noted != "" // for another one, which may not have been written yet
	*noted = string(text)
	var want, have map[string]any
	if json.Unmarshal(text, &want) != nil {
		panic(string(text))
	}
	for field, value := range want {
		if value == nil {
			delete(want, field)
		}
	}
	if !asked && json.Unmarshal([]byte(o.Status), &have) == nil && reflect.DeepEqual(want, have) {
		return
	}
	out.note(annotation{k, "", o.Name, o.UID, statusKey, string(text)})
}
