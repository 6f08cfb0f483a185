package part

import (
	"encoding/json"
	"hash/maphash"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// Outbox is what the translation has to say beside rows. All parts of a cluster share one.
type Outbox struct {
	Notes    []Annotation
	Expected []Event
	Problems []objects.Problem
	Told     map[ovsdb.Owner]map[uint64]struct{} // hashes of messages
}

// NewOutbox is an outbox of which nobody has told anything.
func NewOutbox() *Outbox { return &Outbox{Told: map[ovsdb.Owner]map[uint64]struct{}{}} }

// Annotation is one that an object shall have.
type Annotation struct {
	Kind            *objects.Kind
	Namespace, Name string
	UID             types.UID
	Key, Value      string
}

// NewAnnotation is one of an object, by a key and with a value.
func NewAnnotation(k *objects.Kind, object *metav1.ObjectMeta, key, value string) Annotation {
	return Annotation{k, object.Namespace, object.Name, object.UID, key, value}
}

// StatusKey stands for an annotation's key where the value is the object's status.
const StatusKey = "status"

// Note has an object get an annotation or a status.
func (o *Outbox) Note(a Annotation) { o.Notes = append(o.Notes, a) }

// Expect has an event given to the parts after a while: see [Wait].
func (o *Outbox) Expect(e Event) { o.Expected = append(o.Expected, e) }

var messageSeed = maphash.MakeSeed()

// Tell reports what is wrong with an owner's objects now. What was told before is not told again until it was right in
// between.
func (o *Outbox) Tell(owner ovsdb.Owner, found ...objects.Problem) {
	before := o.Told[owner]
	if len(found) == 0 {
		if before != nil {
			delete(o.Told, owner)
		}
		return
	}
	found = objects.Few(found)
	now := make(map[uint64]struct{}, len(found))
	for _, p := range found {
		h := maphash.String(messageSeed, p.Message)
		now[h] = struct{}{}
		if _, told := before[h]; !told {
			o.Problems = append(o.Problems, p)
		}
	}
	o.Told[owner] = now
}

// NoteStatus has an object's status written where it is not what it shall be. Noted is what was asked for last.
func (o *Outbox) NoteStatus(k *objects.Kind, object *objects.Custom, status map[string]any, noted *string) {
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
	if !asked && json.Unmarshal([]byte(object.Status), &have) == nil && reflect.DeepEqual(want, have) {
		return
	}
	o.Note(NewAnnotation(k, &object.ObjectMeta, StatusKey, string(text)))
}

// TakeNotes returns the annotations that objects lack, once.
func (o *Outbox) TakeNotes() []Annotation {
	notes := o.Notes
	o.Notes = nil
	return notes
}

// TakeExpected returns events that the parts are to be given after a while: what they wait for is due then, or a
// problem if it is not there by then.
func (o *Outbox) TakeExpected() []Event {
	expected := o.Expected
	o.Expected = nil
	return expected
}

// TakeProblems returns what became wrong since the last call.
func (o *Outbox) TakeProblems() []objects.Problem {
	problems := o.Problems
	o.Problems = nil
	return problems
}
