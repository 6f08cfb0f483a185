// Package nodes decides what nodes have: their numbers and pod subnets, the networks outside that their gateways are
// on, and where their tunnels may end.
//
// A [Part] reads what a node's agent says (facts.go), and gives the node what no other node has (allocate.go,
// onlyone.go, tunneladdresses.go). What is decided is a [topology.Node], of which package topology makes the rows.
// The annotation of the Node tells it to the node's agent.
//
// What it sees of others is in views.go.
package nodes
