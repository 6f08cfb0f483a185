package detours

import (
	"iter"

	"github.com/weftnet/weft/ovn/topology"
)

// Nodes are what the part reads of nodes. The part of package nodes has it.
type Nodes interface {
	// Placed are the nodes that have a switch, in the order of their names.
	Placed() iter.Seq[*topology.Node]
}
