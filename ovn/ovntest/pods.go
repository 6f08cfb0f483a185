package ovntest

import (
	"iter"
	"maps"
	"net/netip"

	"github.com/weftnet/weft/ovn/objects"
)

// Pod is a made-up pod that has an address. A part's test adds what the part keeps at each pod.
type Pod struct{ Trimmed *objects.Pod }

// Object is the pod as the API server has it.
func (p Pod) Object() *objects.Pod { return p.Trimmed }

// Addresses are the same for each made-up pod.
func (p Pod) Addresses() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.244.0.3/24")}
}

// Pods are made-up pods as a part sees them. They are all in one namespace, which has no labels.
type Pods[P any] struct {
	There  map[string]P    // by namespace/name
	Looked map[string]bool // that are to be looked at again
}

// NewPods are none.
func NewPods[P any]() Pods[P] { return Pods[P]{map[string]P{}, map[string]bool{}} }

// At is the pod of a name.
func (p Pods[P]) At(key string) (P, bool) {
	found, ok := p.There[key]
	return found, ok
}

// All are all pods.
func (p Pods[P]) All() iter.Seq2[string, P] { return maps.All(p.There) }

// In are all pods, whatever the namespace.
func (p Pods[P]) In(string) iter.Seq2[string, P] { return p.All() }

// Touch has a pod looked at again.
func (p Pods[P]) Touch(key string) { p.Looked[key] = true }

// Touched are the pods that are there and are to be looked at again.
func (p Pods[P]) Touched() iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		for key := range p.Looked {
			if found, ok := p.There[key]; ok && !yield(key, found) {
				return
			}
		}
	}
}

// Labels are the namespace's.
func (p Pods[P]) Labels(string) (objects.LabelSet, bool) { return objects.LabelSet{}, true }
