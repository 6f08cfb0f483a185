package objects

import (
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
)

// LabelSet is an object's labels, as selectors read them. Those that many objects have in common are in
// memory once.
type LabelSet struct{ text unique.Handle[string] }

func NewLabelSet(set map[string]string) LabelSet {
	if len(set) == 0 {
		return LabelSet{}
	}
	return LabelSet{unique.Make(labels.Set(set).String())}
}

// Lookup is part of [labels.Labels].
func (l LabelSet) Lookup(label string) (value string, ok bool) {
	if l == (LabelSet{}) {
		return "", false
	}
	for pair := range strings.SplitSeq(l.text.Value(), ",") {
		if key, value, _ := strings.Cut(pair, "="); key == label {
			return value, true
		}
	}
	return "", false
}

// Has is part of [labels.Labels].
func (l LabelSet) Has(label string) bool {
	_, ok := l.Lookup(label)
	return ok
}

// Get is part of [labels.Labels].
func (l LabelSet) Get(label string) string {
	value, _ := l.Lookup(label)
	return value
}
