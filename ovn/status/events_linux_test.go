package status

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// on is an object that an Event names.
func on(kind, namespace, name string) involved {
	return involved{Kind: kind, Namespace: namespace, Name: name, UID: types.UID("uid of " + name)}
}

// eventOn is an Event on an object.
func eventOn(object involved, reason, message string, count int, age time.Duration) event {
	return event{InvolvedObject: object, Reason: reason, Message: message, Count: count, LastTimestamp: before(age)}
}

// TestEventsAreGrouped by what they are about, whoever counts.
func TestEventsAreGrouped(t *testing.T) {
	a, b := on("Pod", "shop", "a"), on("Pod", "shop", "b")
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
		eventOn(on("Node", "", "w1"), "ChassisUnreachable", "", 1, 5*time.Minute),
		eventOn(on("Node", "", "w2"), "WindowsDatapath", "", 1, time.Minute), // which is no finding
		eventOn(on("Service", "shop", "web"), "AddressTaken", "", 1, 5*time.Minute),
		eventOn(on("Service", "night", "web"), "AddressTaken", "", 1, recent+time.Minute), // nor is this
		eventOn(on("Pod", "web", "p0"), "NoFreeAddress", "", 1, 5*time.Minute),
		eventOn(on("Pod", "web", "old"), "NoFreeAddress", "", 1, eventAge+time.Second),
	}
	for _, namespace := range []string{"a", "default", "m"} {
		for i := range mostOf + 1 {
			service := on("Service", namespace, fmt.Sprint("s", i))
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
	for _, object := range []string{"Node w1", "Node w2", "Service shop/web", "Service night/web", "Pod web/p0"} {
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
	groups := counted + 2 // with those of w2 and night
	if len(s.Events) != mostEvents || s.EventsLeftOut != groups-mostEvents || counted != 3*mostOf+3 || !s.EventsTruncated {
		t.Errorf("%d are listed, %d left out, %d counted; truncated: %t", len(s.Events), s.EventsLeftOut, counted,
			s.EventsTruncated)
	}
}

// TestEventsThatFit are read by two questions, and those of objects without a namespace stay if the second fails.
func TestEventsThatFit(t *testing.T) {
	all := []event{eventOn(on("Node", "", "w1"), "ChassisUnreachable", "", 1, time.Minute)}
	for i := range mostOf {
		all = append(all, eventOn(on("Pod", "shop", fmt.Sprint("p", i)), "NoFreeAddress", "", 1, time.Minute))
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

// TestObjectsThatAreGone have no finding: they were deleted, another one has their name, or no such object can be. Of
// what cannot be told, the Warning counts.
func TestObjectsThatAreGone(t *testing.T) {
	c := &cluster{serving(t, func(w http.ResponseWriter, r *http.Request) {
		item := map[string]string{
			"/api/v1/namespaces/shop/services metadata.name=web": `{"metadata": {"name": "web", "uid": "uid of web"}}`,
			"/api/v1/namespaces/shop/pods metadata.name=p0":      `{"metadata": {"name": "p0", "uid": "another"}}`,
			"/api/v1/namespaces/shop/pods metadata.name=static": `{"metadata": {"name": "static", "uid": "u", "annotations": ` +
				`{"kubernetes.io/config.hash": "uid of static"}}}`,
			"/api/v1/nodes metadata.name=w1":                    `{"metadata": {"name": "w1", "uid": "u"}}`,
			"/apis/weft.net/v1alpha1/egressips metadata.name=e": `{"metadata": {"name": "e", "uid": "u"}}`,
		}[r.URL.Path+" "+r.URL.Query().Get("fieldSelector")]
		if r.URL.Path == "/api/v1/namespaces/bank/pods" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"metadata": {}, "items": [%s]}`, item)
	})}
	for _, o := range []struct {
		object involved
		gone   bool
	}{
		{on("Service", "shop", "web"), false},
		{on("Service", "shop", "badext"), true},
		{on("Service", "shop", "web,metadata.namespace=x"), true},
		{on("Service", "shop", strings.Repeat("x", 1<<20)), true},
		{on("Pod", "shop", "p0"), true},
		{on("Pod", "shop", "static"), false},
		{involved{Kind: "Pod", Namespace: "shop", Name: "p0"}, false},
		{involved{Kind: "Node", Name: "w1", UID: "w1"}, false},
		{involved{Kind: "Node", Namespace: "shop", Name: "w1", UID: "w1"}, true},
		{on("Node", "", "w2"), true},
		{involved{Kind: "EgressIP", Name: "e", UID: "u"}, false},
		{on("ServiceCIDR", "", "s"), false},
		{on("Pod", "bank", "p0"), false},
	} {
		groups := []group{{o.object, api.EventGroup{Reason: "AddressTaken", Last: before(time.Minute)}}}
		err := c.lookUp(t.Context(), groups, now)
		if gone := groups[0].told.Gone; gone != o.gone || (err != nil) != (o.object.Namespace == "bank") {
			t.Errorf("%+v is gone: %t, %v", o.object, gone, err)
		}
		found := Judge(&api.NetworkStatus{Time: metav1.NewMicroTime(now), Leader: well().Leader,
			Events: []api.EventGroup{groups[0].told}})
		if (len(found) == 0) != o.gone {
			t.Errorf("%+v: %+v", o.object, found)
		}
	}
}

// TestFewObjectsAreLookedUp, each once, and none for Events that are no finding.
func TestFewObjectsAreLookedUp(t *testing.T) {
	var asked atomic.Int32
	c := &cluster{serving(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"metadata": {}, "items": []}`)
	})}
	var groups []group
	for i := range 2 * mostLookedUp {
		object := on("Pod", "shop", fmt.Sprint("p", i))
		for _, reason := range []string{"AddressLost", "NoFreeAddress"} {
			groups = append(groups, group{object, api.EventGroup{Reason: reason, Last: before(time.Minute)}})
		}
	}
	long := group{on("Pod", "shop", strings.Repeat("x", 254)), groups[0].told}
	if err := c.lookUp(t.Context(), []group{long}, now); err != nil || asked.Load() > 0 {
		t.Errorf("a name that no object can have: %d questions, %v", asked.Load(), err)
	}
	old := group{on("Pod", "shop", "old"), api.EventGroup{Reason: "AddressLost", Last: before(recent + 1)}}
	if err := c.lookUp(t.Context(), append([]group{old}, groups...), now); err != nil || asked.Load() != mostLookedUp {
		t.Errorf("%d objects were looked up, %v", asked.Load(), err)
	}
}
