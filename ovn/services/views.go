package services

import (
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// Nodes are what the part sees of nodes.
type Nodes interface {
	// At is what is known of a node, nil for nothing.
	At(name string) *topology.Node
}

// Pods are what the part sees of the pods that want a port.
type Pods interface {
	// TouchHostPorts has the rows made again of all pods whose host ports are claimed, and TouchHostPortsOn those of all
	// pods of a node that have any.
	TouchHostPorts(claims []objects.Claim)
	TouchHostPortsOn(node string)
}

// Surroundings is what the part sees of all others.
type Surroundings interface {
	// Placements are the nodes that have a switch, as Services' rows depend on them.
	Placements() *loadbalancer.Nodes
	// SlicesChanged is told of a Service with other slices than before.
	SlicesChanged(service string)
	// APIServersMoved is told of other API servers.
	APIServersMoved()
}
