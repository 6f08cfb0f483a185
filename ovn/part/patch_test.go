package part

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/ovn/objects"
)

// readiness is a status.
type readiness struct {
	Conditions Conditions `json:"conditions"`
	Node       *string    `json:"node"`
}

func (r readiness) At(now time.Time) any {
	r.Conditions = r.Conditions.At(now)
	return r
}

func ready(node string, since metav1.Time) readiness {
	return readiness{Conditions{{Type: "Ready", Status: metav1.ConditionTrue, LastTransitionTime: since}}, &node}
}

var web = &metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"}

// TestPatchesOfOneContent are equal, whatever they share in memory. No others are.
func TestPatchesOfOneContent(t *testing.T) {
	note := func(key, value string) Patch { return Annotate(objects.PodKind, web, key, Text(value)) }
	status := func(node string) Patch { return PatchStatus(objects.PodKind, web, ready(node, metav1.Time{})) }
	dated := PatchStatus(objects.PodKind, web, ready("a", metav1.Unix(1700000000, 0)))
	another := note("a", "1")
	another.UID = "u2"
	all := map[string]func() Patch{
		"an annotation":             func() Patch { return note("a", "1") },
		"another value":             func() Patch { return note("a", "2") },
		"another annotation":        func() Patch { return note("b", "1") },
		"another object":            func() Patch { return another },
		"an object of another kind": func() Patch { return Annotate(objects.NodeKind, web, "a", Text("1")) },
		"a status":                  func() Patch { return status("a") },
		"another status":            func() Patch { return status("b") },
		"a status with a time":      func() Patch { return dated },
	}
	for name, one := range all {
		for other, two := range all {
			if same := one().Equal(two()); same != (name == other) {
				t.Errorf("%s and %s: equal is %t", name, other, same)
			}
		}
	}
}

// TestTimesOfWriting: a patch that is made again has the time of then. One that has a time keeps it.
func TestTimesOfWriting(t *testing.T) {
	p := PatchStatus(objects.PodKind, web, ready("a", metav1.Time{}))
	for second, want := range map[int64]string{1700000000: "2023-11-14T22:13:20Z", 1700000001: "2023-11-14T22:13:21Z"} {
		want := `{"metadata":{"uid":"u1"},"status":{"conditions":[{"type":"Ready","status":"True",` +
			`"lastTransitionTime":"` + want + `","reason":"","message":""}],"node":"a"}}`
		if got := string(p.JSON(time.Unix(second, 0))); got != want {
			t.Errorf("at %d it is\n%s, not\n%s", second, got, want)
		}
	}
	since := metav1.Unix(1600000000, 0)
	if got := ready("a", since).At(time.Unix(1700000000, 0)); !reflect.DeepEqual(got, ready("a", since)) {
		t.Errorf("with a time of its own it is %v", got)
	}
}

// TestStatusesAreNotedOnce: when the object does not have them, and not again until another one is wanted.
func TestStatusesAreNotedOnce(t *testing.T) {
	written := metav1.Unix(1700000000, 0)
	const there = `{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2023-11-14T22:13:20Z",` +
		`"reason":"","message":""}],"node":"a"}`
	for name, c := range map[string]struct {
		there string
		asked []readiness
		want  int
	}{
		"there is none":                       {"", []readiness{ready("a", written)}, 1},
		"it is there":                         {there, []readiness{ready("a", written)}, 0},
		"it says the same and has no time":    {there, []readiness{ready("a", metav1.Time{})}, 1},
		"another one is there":                {there, []readiness{ready("b", written)}, 1},
		"it is asked for again":               {there, []readiness{ready("b", written), ready("b", written)}, 1},
		"the one that is there is asked back": {there, []readiness{ready("b", written), ready("a", written)}, 2},
		"a field is to go":                    {there, []readiness{{ready("a", written).Conditions, nil}}, 1},
		"a field is gone":                     {"{}", []readiness{{}}, 0},
	} {
		out, noted := NewOutbox(), Body(nil)
		for _, status := range c.asked {
			out.NoteStatus(objects.PodKind, &objects.Custom{ObjectMeta: *web, Status: c.there}, status, &noted)
		}
		if got := len(out.TakeNotes()); got != c.want {
			t.Errorf("%s: %d patches, not %d", name, got, c.want)
		}
	}
}
