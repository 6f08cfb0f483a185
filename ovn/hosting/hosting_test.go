package hosting

import (
	"slices"
	"testing"

	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
)

// pod is the one object that is watched.
type pod struct{ key objects.Key }

func (p pod) Get(e part.Event) any { return map[part.Event]any{p.key: "a pod"}[e] }

func (p pod) Keys() []part.Event { return []part.Event{p.key} }

// TestSource: a signal has its chassis beside the objects, as long as a port is on one.
func TestSource(t *testing.T) {
	key := objects.Key{Kind: objects.PodKind, Name: "default/a"}
	port := part.Signal{What: egress.Hosting, Name: "e"}
	known := map[part.Event]string{port: "chassis-1"}
	s := NewSource(pod{key}, known)
	want := func(when, chassis string, keys ...part.Event) {
		t.Helper()
		if got, _ := s.Get(port).(string); got != chassis {
			t.Errorf("%s: the port is on %q, want %q", when, got, chassis)
		}
		if got := s.Keys(); !slices.Equal(got, keys) {
			t.Errorf("%s: the keys are %v, want %v", when, got, keys)
		}
		if got := s.Get(key); got != "a pod" {
			t.Errorf("%s: the object is %v", when, got)
		}
	}
	want("at first", "chassis-1", key, port)
	s.Moved(port, "chassis-2")
	want("moved", "chassis-2", key, port)
	s.Moved(port, "")
	want("nowhere", "", key)
	if known[port] != "chassis-1" {
		t.Error("what was known is changed")
	}
}
