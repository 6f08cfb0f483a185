// Package node is the agent of one node: it prepares Open vSwitch for OVN, gives the host its port
// on the node's logical switch, tells the cluster what it found (contract.NodeFacts), and serves
// the CNI plugin.
//
//	Node, Pods ──watch──► agent ──OVSDB──► Open vSwitch ◄── ovn-controller
//	weft-cni ──socket──►    └──[Platform]──► the host's network and the pods' sandboxes
//
// The agent keeps no state of its own: what a pod has stands in the external_ids of its OVS
// interface. Everything but CNI calls happens in one loop that compares and corrects, so that a
// first start, a repair and a restart are the same.
package node
