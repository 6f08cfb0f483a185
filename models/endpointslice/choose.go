package endpointslice

import (
	"cmp"
	"net/netip"
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

// Look is what there is to know of an endpoint, in whatever type a program keeps it. The node may be set by it.
type Look[E any] func(*E) (at netip.AddrPort, node *string, c Conditions)

// Once sorts endpoints by address and port, and keeps each once: an endpoint that moves from one slice to another is
// in both for a while. The best of those that say the same endpoint counts; its node is known if one of them says it.
func Once[E any](list []E, look Look[E]) []E {
	slices.SortFunc(list, func(a, b E) int {
		at, node, c := look(&a)
		otherAt, otherNode, other := look(&b)
		return cmp.Or(at.Compare(otherAt), other.rank()-c.rank(), cmp.Compare(*node, *otherNode))
	})
	kept := list[:0]
	for _, e := range list {
		at, node, _ := look(&e)
		if len(kept) > 0 {
			if last, lastNode, _ := look(&kept[len(kept)-1]); last == at {
				*lastNode = cmp.Or(*lastNode, *node)
				continue
			}
		}
		kept = append(kept, e)
	}
	return kept
}

// Choose takes the endpoints that get traffic, as kube-proxy does: those that are ready; if there is none, those that
// still serve while they terminate. With publishNotReadyAddresses all are ready. The list stays in order, and is not
// changed.
func Choose[E any](list []E, look Look[E], publishNotReady bool) []E {
	if publishNotReady {
		return list
	}
	rank := func(e E) int {
		_, _, c := look(&e)
		return c.rank()
	}
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
