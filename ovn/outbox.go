package ovn

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// outbox is what the translation has to say beside rows. All parts of a cluster share one.
type outbox struct {
	notes    []annotation
	expected []event
	problems []objects.Problem
	told     map[ovsdb.Owner]map[uint64]struct{} // hashes of messages
}

func newOutbox() *outbox { return &outbox{told: map[ovsdb.Owner]map[uint64]struct{}{}} }

// annotation is one that an object shall have.
type annotation struct {
	kind            objects.Kind
	namespace, name string
	uid             types.UID
	key, value      string
}

// note has an object get an annotation or a status.
func (o *outbox) note(a annotation) { o.notes = append(o.notes, a) }

// expect has an event given to update after a while.
func (o *outbox) expect(e event) { o.expected = append(o.expected, e) }

var messageSeed = maphash.MakeSeed()

// tell reports what is wrong with an owner's objects now. What was told before is not told again until
// it was right in between.
func (o *outbox) tell(owner ovsdb.Owner, found ...objects.Problem) {
	before := o.told[owner]
	if len(found) == 0 {
		if before != nil {
			delete(o.told, owner)
		}
		return
	}
	found = objects.Few(found)
	now := make(map[uint64]struct{}, len(found))
	for _, p := range found {
		h := maphash.String(messageSeed, p.Message)
		now[h] = struct{}{}
		if _, told := before[h]; !told {
			o.problems = append(o.problems, p)
		}
	}
	o.told[owner] = now
}

// takeNotes returns the annotations that objects lack, once.
func (o *outbox) takeNotes() []annotation {
	notes := o.notes
	o.notes = nil
	return notes
}

// takeExpected returns events to be given to update after a while: what they wait for is due then, or a problem if
// it is not there by then.
func (o *outbox) takeExpected() []event {
	expected := o.expected
	o.expected = nil
	return expected
}

// takeProblems returns what became wrong since the last call.
func (o *outbox) takeProblems() []objects.Problem {
	problems := o.problems
	o.problems = nil
	return problems
}
