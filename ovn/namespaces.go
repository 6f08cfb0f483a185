package ovn

import (
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
)

// namespaceBook has the labels of Namespaces, by which policies, EgressIPs and AddressPools select.
type namespaceBook struct {
	part.Immediate
	part.Rowless
	around surroundings
	all    map[string]objects.LabelSet
}

func newNamespaceBook(around surroundings) namespaceBook {
	return namespaceBook{around: around, all: map[string]objects.LabelSet{}}
}

// Take is part of [part.Part].
func (b *namespaceBook) Take(batch *part.Batch) {
	for _, name := range batch.Names(objects.NamespaceKind) {
		object := part.Object[objects.Namespace](batch, objects.NamespaceKind, name)
		before, known := b.all[name]
		relabelled := object == nil || !known || before != object.Labels
		if object == nil {
			delete(b.all, name)
		} else {
			b.all[name] = object.Labels
		}
		b.around.namespaceChanged(name, object, relabelled)
	}
}

// Labels is part of [policies.Namespaces].
func (b *namespaceBook) Labels(name string) (set objects.LabelSet, there bool) {
	set, there = b.all[name]
	return set, there
}
