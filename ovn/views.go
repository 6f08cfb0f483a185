package ovn

import (
	"iter"

	"github.com/weftnet/weft/ovn/loadbalancer"
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

// podView is what others see of the pods that want a port.
type podView interface {
	// TouchHostPorts has the rows made again of all pods whose host ports are claimed, and TouchHostPortsOn those of all
	// pods of a node that have any.
	TouchHostPorts(claims []objects.Claim)
	TouchHostPortsOn(node string)
}

// serviceView is what others see of Services.
type serviceView interface {
	// Service is a Service by key, nil for none.
	Service(key string) *objects.Service
}

// surroundings is what concerns several parts. The cluster knows which.
type surroundings interface {
	// placements are the nodes that have a switch, as Services' rows depend on them.
	placements() *loadbalancer.Nodes
	// namespaceChanged is told of a Namespace that has changed or is gone (nil), in its labels or otherwise.
	namespaceChanged(name string, object *objects.Namespace, relabelled bool)
	// slicesChanged is told of a Service with other slices than before, serviceChanged of one that has changed itself, or
	// is gone (nil).
	slicesChanged(service string)
	serviceChanged(key string, object *objects.Service)
	// apiServersMoved is told of other API servers, rangesChanged of other ranges of ClusterIPs.
	apiServersMoved()
	rangesChanged()
}
