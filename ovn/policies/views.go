package policies

import (
	"iter"
	"net/netip"

	"github.com/weftnet/weft/ovn/objects"
)

// Pod is what the parts see of a pod that wants a port.
type Pod interface {
	Object() *objects.Pod
	// Addresses are none while it waits for them.
	Addresses() []netip.Prefix
	// Selected is what the parts remember of the pod.
	Selected() *Selected
}

// Selected says in which selections a pod is, and where its named ports are counted.
type Selected struct {
	by      []*selectionState
	counted []portCount
}

// Pods are what the parts see of pods.
type Pods interface {
	// At is a pod, by key.
	At(key string) (Pod, bool)
	// Namespaces are those that have pods, and In are the pods of one, by key.
	Namespaces() iter.Seq[string]
	In(namespace string) iter.Seq2[string, Pod]
	// Touched are those of which the rows are made again. Touch has that of one.
	Touched() iter.Seq2[string, Pod]
	Touch(key string)
}

// Nodes are what the parts see of nodes.
type Nodes interface {
	// All are the labels of those that have a switch, by name.
	All() iter.Seq2[string, objects.LabelSet]
	HasWindows() bool
	// Touch has a node's rows made again.
	Touch(name string)
}

// Namespaces are what the parts see of Namespaces.
type Namespaces interface {
	// Labels are those of a Namespace that is there.
	Labels(name string) (set objects.LabelSet, there bool)
}
