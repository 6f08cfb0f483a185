package ovn

import (
	"iter"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// What the parts of a cluster see of each other. Whoever reads another part's state has its own rows made again when
// that changes, by what the other part tells: see [surroundings] for what concerns several.

// nodeView is what others see of nodes.
type nodeView interface {
	// At is what is known of a node, nil for nothing.
	At(name string) *topology.Node
	// Placed are the nodes that have a switch, in the order of their names.
	Placed() iter.Seq[*topology.Node]
}

// surroundings is what concerns several parts. The cluster knows which.
type surroundings interface {
	// namespaceChanged is told of a Namespace that has changed or is gone (nil), in its labels or otherwise.
	namespaceChanged(name string, object *objects.Namespace, relabelled bool)
	// rangesChanged is told of other ranges of ClusterIPs.
	rangesChanged()
}
