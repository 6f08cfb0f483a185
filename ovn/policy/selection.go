package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selection is a set of pods, by their labels and their namespaces'. Two that are equal select the same
// pods; pods that share their node's address are in none.
type Selection struct {
	// Namespace is the one that all pods are in; "": those that Namespaces selects, a selector as
	// labels.Parse reads it, "" being all.
	Namespace, Namespaces string
	// Pods is a selector, too.
	Pods string
}

// Nodes is a set of nodes by their labels, a selector as labels.Parse reads it.
type Nodes string

// Selectors are a selection's, ready for use; namespaces is nil where there is but one namespace.
func (s Selection) Selectors() (namespaces, pods labels.Selector) {
	if s.Namespace == "" {
		namespaces = parsed(s.Namespaces)
	}
	return namespaces, parsed(s.Pods)
}

// Selector is the nodes', ready for use.
func (n Nodes) Selector() labels.Selector { return parsed(string(n)) }

// parsed reads a selector's own text back.
func parsed(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil { // it was written by a selector
		panic(fmt.Sprintf("selector %q: %v", text, err))
	}
	return selector
}

// String is another text for each selection. No selector is "*", which stands for all.
func (s Selection) String() string {
	namespaces := s.Namespace
	if namespaces == "" {
		namespaces = "namespaces " + cmp.Or(s.Namespaces, "*")
	}
	return namespaces + ": pods " + cmp.Or(s.Pods, "*")
}

// NamespaceOf is the namespace whose pods a selection may select, by the selection's text; "" where there are several.
func NamespaceOf(selection string) string {
	namespace, _, _ := strings.Cut(selection, ": pods ")
	if strings.HasPrefix(namespace, "namespaces ") {
		return ""
	}
	return namespace
}

// selector reads a selector into a text that is the same for all that ask for the same; ok is false where it
// cannot be read.
func (r *reader) selector(field string, s *metav1.LabelSelector) (text string, ok bool) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		r.wrong(field, "%v; nobody can say whom it selects; correct it", quoted(err.Error()))
		return "", false
	}
	requirements, _ := selector.Requirements()
	var texts []string
	for i := range requirements {
		texts = append(texts, requirements[i].String())
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ","), true
}
