package nodes

import (
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// Pods is what nodes see of pods.
type Pods interface {
	// Keeps says whether something of a node's pods is kept. TouchOn has the rows of pods made again.
	Keeps(node string) bool
	TouchOn(node string)
	// Readdress is told that a node has other subnets than before, or none. Its pods lose their addresses.
	Readdress(n *topology.Node)
	// HasNetworks says whether a node has PodNetworks, or gets one.
	HasNetworks(node string) bool
}

// Surroundings is what nodes see of all other parts.
type Surroundings interface {
	// HasSharedGateway says whether there is a gateway that nodes share.
	HasSharedGateway() bool
	// AddToNode adds what other parts have among a node's rows.
	AddToNode(n *topology.Node, change *ovsdb.Change)
	// NodesChanged is told of nodes that were looked at.
	NodesChanged(touched []*topology.Node)
	// PlacementsChanged is told that a node has come to have a switch or a gateway router, or has one no more, and
	// DatapathsChanged that another node than before runs Windows, the first or the last one maybe.
	PlacementsChanged()
	DatapathsChanged(firstOrLast bool)
}
