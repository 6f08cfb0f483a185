package part

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"reflect"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// Outbox is what the translation has to say beside rows. All parts of a cluster share one.
type Outbox struct {
	Notes    []Patch
	Expected []Event
	Problems []objects.Problem
	Told     map[ovsdb.Owner]map[uint64]struct{} // hashes of messages
}

// NewOutbox is an outbox of which nobody has told anything.
func NewOutbox() *Outbox { return &Outbox{Told: map[ovsdb.Owner]map[uint64]struct{}{}} }

// Note has an object patched.
func (o *Outbox) Note(p Patch) { o.Notes = append(o.Notes, p) }

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

// NoteStatus has an object's status written where it is not the wanted one yet. Noted is what was asked for last.
func (o *Outbox) NoteStatus(k *objects.Kind, object *objects.Custom, status Body, noted *Body) {
	if reflect.DeepEqual(status, *noted) {
		return
	}
	asked := *noted != nil // for another one, which may not have been written yet
	*noted = status
	if asked || !has(object, status) {
		o.Note(PatchStatus(k, &object.ObjectMeta, status))
	}
}

// has says whether an object's status is this one already.
func has(object *objects.Custom, status Body) bool {
	var want, have map[string]any
	text := marshal(status)
	if json.Unmarshal(text, &want) != nil {
		panic(string(text))
	}
	maps.DeleteFunc(want, func(_ string, value any) bool { return value == nil })
	return json.Unmarshal([]byte(object.Status), &have) == nil && reflect.DeepEqual(want, have)
}

// TakeNotes returns the patches that objects need, once.
func (o *Outbox) TakeNotes() []Patch {
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
