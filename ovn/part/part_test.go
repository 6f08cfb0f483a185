package part

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// TestBatch: names are sorted, each once, whatever the order of events is.
func TestBatch(t *testing.T) {
	later := NewSignal("later", 0)
	pod, node := objects.Key{Kind: objects.PodKind, Name: "default/b"}, objects.Key{Kind: objects.NodeKind, Name: "n1"}
	known := map[Event]any{pod: &objects.Pod{Node: "n1"}, Signal{later, "x"}: "chassis"}
	b := NewBatch([]Event{pod, Signal{later, "y"}, node, objects.Key{Kind: objects.PodKind, Name: "default/a"}, pod,
		Signal{later, "x"}, Signal{Again, "Pod/default/c"}, Signal{Again, "Cluster"}, Signal{Again, "Pod/default/a"}},
		func(e Event) any { return known[e] })
	for what, c := range map[string]struct{ got, want []string }{
		"pods":                {b.Names(objects.PodKind), []string{"default/a", "default/b"}},
		"nodes":               {b.Names(objects.NodeKind), []string{"n1"}},
		"Services":            {b.Names(objects.ServiceKind), nil},
		"signals":             {b.Signals(later), []string{"x", "y"}},
		"pods' rows again":    {b.Again("Pod"), []string{"default/a", "default/c"}},
		"pods to look at":     {b.Looks(objects.PodKind), []string{"default/a", "default/b", "default/c"}},
		"nodes to look at":    {b.Looks(objects.NodeKind), []string{"n1"}},
		"names, as they were": {b.Names(objects.PodKind), []string{"default/a", "default/b"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s are %v, want %v", what, c.got, c.want)
		}
	}
	if !b.AsksFor("Cluster") || b.AsksFor("Gateway/shared") || !b.Asks(later) || b.Asks(Again) {
		t.Error("it asks for something else")
	}
	if p := Object[objects.Pod](b, objects.PodKind, "default/b"); p == nil || p.Node != "n1" {
		t.Errorf("the pod is %v", p)
	}
	if Object[objects.Pod](b, objects.PodKind, "default/a") != nil || b.Text(later, "x") != "chassis" ||
		b.Text(later, "y") != "" {
		t.Error("it finds something else")
	}
}

// TestOutbox: what was told is not told again until it was right in between.
func TestOutbox(t *testing.T) {
	o := NewOutbox()
	wrong := func(text string) objects.Problem {
		return objects.Problemf(objects.PodKind, &metav1.ObjectMeta{Name: "a"}, &reasons.Event{Name: "Wrong"}, "%s", text)
	}
	for i, step := range []struct {
		told []objects.Problem
		want int
	}{
		{[]objects.Problem{wrong("a")}, 1},
		{[]objects.Problem{wrong("a")}, 0},
		{[]objects.Problem{wrong("a"), wrong("b")}, 1},
		{nil, 0},
		{[]objects.Problem{wrong("a")}, 1},
	} {
		o.Tell("Pod/default/a", step.told...)
		if got := len(o.TakeProblems()); got != step.want {
			t.Errorf("step %d tells %d, want %d", i, got, step.want)
		}
	}
	o.Tell("Pod/default/a")
	if len(o.Told) > 0 {
		t.Errorf("%v is remembered", o.Told)
	}
}

// TestStages: policies, and what they need, are made together and in between.
func TestStages(t *testing.T) {
	for s := range Stages {
		if s.Together() != slices.Contains([]Stage{Sets, Nodes, Numbers, Ports, Policies, NoPolicies}, s) {
			t.Errorf("stage %d", s)
		}
	}
	var list []string
	for at, owner := range Join(Once(false, Common, "no"), Once(true, Common, "one"),
		Of(false, map[string]int{"a": 1}, map[string]int{"c": 1, "b": 1}, Nodes, func(name string) ovsdb.Owner {
			return ovsdb.Owner("x/" + name)
		})) {
		list = append(list, fmt.Sprint(at, owner))
	}
	if want := []string{fmt.Sprint(Common, "one"), fmt.Sprint(Nodes, "x/b"), fmt.Sprint(Nodes, "x/c")}; !slices.Equal(list,
		want) {
		t.Errorf("owners are %v, want %v", list, want)
	}
}
