package status

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// Bounds of the Events that are read of each part, and of those that an answer lists. Whoever may write Events in a
// namespace can fill its own share of either, and not that of other namespaces.
const (
	mostEvents = 100
	// mostOfNamespace is how many Events a namespace may have among those that do not fit into an answer. Those with
	// more are left out of the next question.
	mostOfNamespace = mostOf / 10
	// mostQuestions is how often Events are asked for until they fit.
	mostQuestions = 5
)

// components are Weft's parts that write Events.
var components = [...]string{"weft-controller", agentComponent, "weft-chassis"}

// agentComponent is the part that runs on each node.
const agentComponent = "weft-node"

// involved is the object of an Event, as the Event names it.
type involved struct {
	Kind, Namespace, Name string
	UID                   types.UID
}

// event is what is read of an Event.
type event struct {
	InvolvedObject involved
	Reason         string
	Message        string
	Count          int
	LastTimestamp  metav1.Time
}

// warnings are the Events of a part. truncated says that there are more.
type warnings struct {
	events    []event
	truncated bool
}

// events are the Warnings of a part since a time. An error leaves those that were read before it: first of objects
// without a namespace, whose Events are in the namespace default alone.
func (c *cluster) events(ctx context.Context, component string, since time.Time) (w warnings, err error) {
	defer func() {
		w.events = slices.DeleteFunc(w.events, func(e event) bool { return e.LastTimestamp.Time.Before(since) })
	}()
	selector := "type=Warning,source=" + component
	w.events, w.truncated, err = list[event](ctx, c, query{fields: selector + ",involvedObject.namespace=", most: mostOf,
		path: "/api/v1/namespaces/" + metav1.NamespaceDefault + "/events"})
	if err != nil {
		return w, err
	}
	selector += ",involvedObject.namespace!="
	for question := 1; ; question++ {
		items, more, err := list[event](ctx, c, query{path: "/api/v1/events", fields: selector, most: mostOf})
		if err != nil {
			return w, err
		}
		w.truncated = w.truncated || more
		large := largeNamespaces(items)
		if !more || len(large) == 0 || question == mostQuestions {
			w.events = append(w.events, items...)
			return w, nil
		}
		for _, namespace := range large {
			selector += ",metadata.namespace!=" + namespace
		}
		w.events = append(w.events, slices.DeleteFunc(items, func(e event) bool {
			return !slices.Contains(large, e.InvolvedObject.Namespace) // the next answer has it
		})...)
	}
}

// largeNamespaces are those that have more than their share of an answer that has no room for all.
func largeNamespaces(events []event) (large []string) {
	count := map[string]int{}
	for _, e := range events {
		namespace := e.InvolvedObject.Namespace
		if count[namespace]++; count[namespace] == mostOfNamespace+1 {
			large = append(large, namespace)
		}
	}
	return large
}

// group is the Events of one reason on one object.
type group struct {
	object involved
	told   api.EventGroup
}

// grouped are Events by object and reason, in the order of [fair].
func (r *reading) grouped() []group {
	type key struct {
		component string
		object    involved
		reason    string
	}
	found := map[key]*group{}
	for i, warnings := range r.events {
		for _, e := range warnings.events {
			k, of := key{components[i], e.InvolvedObject, e.Reason}, e.InvolvedObject
			g := found[k]
			if g == nil {
				g = &group{of, api.EventGroup{Object: named(of.Kind, of.Namespace, of.Name), Reason: cut(e.Reason),
					Component: components[i]}}
				found[k] = g
			}
			g.told.Count += max(e.Count, 1)
			if !e.LastTimestamp.Before(&g.told.Last) {
				g.told.Last, g.told.Message = e.LastTimestamp, cut(e.Message)
			}
		}
	}
	var groups []group
	for _, g := range found {
		groups = append(groups, *g)
	}
	fair(groups, func(g group) bool { return reported(g.told, r.at) })
	return groups
}

// fair sorts groups for an answer that may have no room for all. Those that are findings come first, so that what is
// none takes no place of theirs. Of each of the two parts, the latest group of each namespace is first, then the second
// of each, and so on. Objects without a namespace count as one namespace, which is the first.
func fair(groups []group, isFinding func(group) bool) {
	slices.SortFunc(groups, func(a, b group) int { return latest(a.told, b.told) })
	type queue struct {
		part      int // 0 is of findings
		namespace string
	}
	type place struct {
		group
		queue
		turn int
	}
	turns, places := map[queue]int{}, make([]place, len(groups))
	for i, g := range groups {
		in := queue{1, g.object.Namespace}
		if isFinding(g) {
			in.part = 0
		}
		places[i] = place{g, in, turns[in]}
		turns[in]++
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.turn, b.turn),
			cmp.Compare(min(len(a.namespace), 1), min(len(b.namespace), 1)))
	})
	for i, p := range places {
		groups[i] = p.group
	}
}

func told(groups []group) (all []api.EventGroup) {
	for _, g := range groups {
		all = append(all, g.told)
	}
	return all
}

// latest orders groups by their last Event, the latest first.
func latest(a, b api.EventGroup) int {
	return cmp.Or(b.Last.Compare(a.Last.Time), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason),
		cmp.Compare(a.Component, b.Component))
}

// listed are the first groups, the latest first, and how many more there are.
func listed(groups []api.EventGroup) (kept []api.EventGroup, leftOut int) {
	kept = groups[:min(len(groups), mostEvents)]
	slices.SortFunc(kept, latest)
	return kept, len(groups) - len(kept)
}

// named is how an object is told.
func named(kind, namespace, name string) string {
	return strings.TrimSpace(cut(kind) + " " + strings.TrimPrefix(cut(namespace)+"/"+cut(name), "/"))
}
