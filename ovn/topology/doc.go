// Package topology is the logical network that pods and Services are put into: the cluster's router, the switch and the
// gateway router of each node, and the gateway that nodes share.
//
// A [Node] is what is decided of a node. All that its rows follow from is in it, and all that other packages see of it.
// [NodeChange] makes its rows. Package nodes decides it.
//
// Two parts are here. [Cluster] is what exists once, and the zones that nodes are in. [SharedGateway] is the gateway of
// the nodes that have none of their own.
//
// [Rows] has what other packages need for routers to the outside, as egress for those of EgressIPs.
package topology
