package endpointslice

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// Conditions are an endpoint's.
type Conditions struct{ Ready, Serving, Terminating bool }

// ReadConditions reads them; one that is not there means what the API says that it means.
func ReadConditions(c discoveryv1.EndpointConditions) Conditions {
	return Conditions{c.Ready == nil || *c.Ready, c.Serving == nil || *c.Serving, c.Terminating != nil && *c.Terminating}
}

// rank orders endpoints: those that are ready, those that still serve while they terminate, and the others.
func (c Conditions) rank() int {
	switch {
	case c.Ready:
		return 2
	case c.Serving && c.Terminating:
		return 1
	}
	return 0
}

// Choose takes the endpoints that get traffic, as kube-proxy does: those that are ready; if there is none, those that
// still serve while they terminate. With publishNotReadyAddresses all are ready. The list stays in order, and is not
// changed.
func Choose[E any](list []E, of func(*E) Conditions, publishNotReady bool) []E {
	if publishNotReady {
		return list
	}
	rank := func(e E) int { return of(&e).rank() }
	best := 1
	for _, e := range list {
		best = max(best, rank(e))
	}
	if !slices.ContainsFunc(list, func(e E) bool { return rank(e) != best }) {
		return list
	}
	var chosen []E
	for _, e := range list {
		if rank(e) == best {
			chosen = append(chosen, e)
		}
	}
	return chosen
}
