// Package namespaces is the part that has the labels of Namespaces, by which policies, EgressIPs and AddressPools
// select.
//
// Of packages below ovn it imports part and objects.
package namespaces

import (
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
)

// Part has the labels of Namespaces.
type Part struct {
	part.Immediate
	part.Rowless
	around Surroundings
	all    map[string]objects.LabelSet
}

// Surroundings is what the part sees of all others.
type Surroundings interface {
	// NamespaceChanged is told of a Namespace that has changed or is gone (nil), in its labels or otherwise.
	NamespaceChanged(name string, object *objects.Namespace, relabelled bool)
}

// New knows of no Namespace yet.
func New(around Surroundings) *Part { return &Part{around: around, all: map[string]objects.LabelSet{}} }

// Take is part of [part.Part].
func (b *Part) Take(batch *part.Batch) {
	for _, name := range batch.Names(objects.NamespaceKind) {
		object := part.Object[objects.Namespace](batch, objects.NamespaceKind, name)
		before, known := b.all[name]
		relabelled := object == nil || !known || before != object.Labels
		if object == nil {
			delete(b.all, name)
		} else {
			b.all[name] = object.Labels
		}
		b.around.NamespaceChanged(name, object, relabelled)
	}
}

// Labels are those of a Namespace that is there.
func (b *Part) Labels(name string) (set objects.LabelSet, there bool) {
	set, there = b.all[name]
	return set, there
}
