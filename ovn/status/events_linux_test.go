package status

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// eventOn is an Event on an object.
func eventOn(object involved, reason, message string, count int, age time.Duration) event {
	return event{InvolvedObject: object, Reason: reason, Message: message, Count: count, LastTimestamp: before(age)}
}

// TestEventsAreGrouped by what they are about, whoever counts.
func TestEventsAreGrouped(t *testing.T) {
	a, b := involved{"Pod", "shop", "a"}, involved{"Pod", "shop", "b"}
	r := &reading{at: now}
	r.events[0].events = []event{eventOn(a, "AddressLost", "first", 2, time.Hour),
		eventOn(a, "AddressLost", "last", 0, time.Minute), eventOn(a, "AddressLost", "second", 3, 2*time.Minute),
		eventOn(a, "NoFreeAddress", "full", 1, 0)}
	r.events[1].events = []event{eventOn(b, "AddressLost", "other", 1, time.Minute)}
	r.groups = r.grouped()
	var lines []string
	for _, g := range r.list().Items[0].Events {
		lines = append(lines, fmt.Sprintf("%s %s %s %d %s", g.Component, g.Object, g.Reason, g.Count, g.Message))
	}
	want := []string{"weft-controller Pod shop/a NoFreeAddress 1 full", "weft-controller Pod shop/a AddressLost 6 last",
		"weft-node Pod shop/b AddressLost 1 other"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// eventServer answers as the API server does: it selects by fields, and has an order and pages.
func eventServer(t *testing.T, all []event) *cluster {
	t.Helper()
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b event) int {
		return cmp.Compare(namespaceOf(a), namespaceOf(b))
	})
	return &cluster{serving(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		selector, err := fields.ParseSelector(q.Get("fieldSelector"))
		if err != nil {
			t.Error(err)
		}
		from, _ := strconv.Atoi(q.Get("continue"))
		limit, _ := strconv.Atoi(q.Get("limit"))
		var items []string
		next := ""
		for i := from; i < len(sorted); i++ {
			e := sorted[i]
			if !selector.Matches(fields.Set{"type": "Warning", "source": "weft-controller", "metadata.namespace": namespaceOf(e),
				"involvedObject.namespace": e.InvolvedObject.Namespace}) ||
				r.URL.Path != "/api/v1/events" && r.URL.Path != "/api/v1/namespaces/"+namespaceOf(e)+"/events" {
				continue
			}
			if len(items) == limit {
				next = strconv.Itoa(i)
				break
			}
			items = append(items, fmt.Sprintf(`{"involvedObject": {"kind": %q, "namespace": %q, "name": %q}, "reason": %q, `+
				`"lastTimestamp": %q}`, e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Reason,
				e.LastTimestamp.UTC().Format(time.RFC3339)))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"metadata": {"continue": %q}, "items": [%s]}`, next, strings.Join(items, ","))
	})}
}

// namespaceOf is where an Event is.
func namespaceOf(e event) string { return cmp.Or(e.InvolvedObject.Namespace, "default") }

// TestANamespaceHidesNoOther: some fill all that is read and told, with the latest Events, and come first by name. The
// older Warnings of a Node and of other namespaces are told, and so is that others are not.
func TestANamespaceHidesNoOther(t *testing.T) {
	all := []event{
		eventOn(involved{"Node", "", "w1"}, "ChassisUnreachable", "", 1, 5*time.Minute),
		eventOn(involved{"Service", "shop", "web"}, "AddressTaken", "", 1, 5*time.Minute),
		eventOn(involved{"Pod", "web", "p0"}, "NoFreeAddress", "", 1, 5*time.Minute),
		eventOn(involved{"Pod", "web", "old"}, "NoFreeAddress", "", 1, eventAge+time.Second),
	}
	for _, namespace := range []string{"a", "default", "m"} {
		for i := range mostOf + 1 {
			service := involved{"Service", namespace, fmt.Sprint("s", i)}
			all = append(all, eventOn(service, "AddressTaken", "", 1, time.Minute))
		}
	}
	r := &reading{at: now}
	var err error
	if r.events[0], err = eventServer(t, all).events(t.Context(), components[0], now.Add(-eventAge)); err != nil {
		t.Fatal(err)
	}
	r.groups = r.grouped()
	s := r.list().Items[0]
	for _, object := range []string{"Node w1", "Service shop/web", "Pod web/p0"} {
		if !slices.ContainsFunc(s.Events, func(e api.EventGroup) bool { return e.Object == object }) {
			t.Errorf("%s is not listed", object)
		}
	}
	var found []string
	counted := 0
	for _, f := range s.Findings {
		if f.Reason == "Event" {
			counted += 1 + f.More
			found = append(found, f.Object)
		}
	}
	if len(found) != mostOfReason || found[0] != "Node w1" {
		t.Errorf("the findings are about %q", found)
	}
	if len(s.Events) != mostEvents || s.EventsLeftOut != counted-mostEvents || counted != 3*mostOf+3 ||
		!s.EventsTruncated {
		t.Errorf("%d are listed, %d left out, %d counted; truncated: %t", len(s.Events), s.EventsLeftOut, counted,
			s.EventsTruncated)
	}
}

// TestEventsThatFit are read by two questions, and those of objects without a namespace stay if the second fails.
func TestEventsThatFit(t *testing.T) {
	all := []event{eventOn(involved{"Node", "", "w1"}, "ChassisUnreachable", "", 1, time.Minute)}
	for i := range mostOf {
		all = append(all, eventOn(involved{"Pod", "shop", fmt.Sprint("p", i)}, "NoFreeAddress", "", 1, time.Minute))
	}
	w, err := eventServer(t, all).events(t.Context(), components[0], now.Add(-eventAge))
	if err != nil || w.truncated || len(w.events) != len(all) {
		t.Errorf("%d Events, truncated: %t, %v", len(w.events), w.truncated, err)
	}
	failing := &cluster{serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/events" {
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"metadata": {}, "items": [{"involvedObject": {"kind": "Node", "name": "w1"}, "lastTimestamp": %q}]}`,
			now.Format(time.RFC3339))
	})}
	w, err = failing.events(t.Context(), components[0], now.Add(-eventAge))
	if err == nil || len(w.events) != 1 {
		t.Errorf("%d Events, %v", len(w.events), err)
	}
}
