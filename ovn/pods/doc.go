// Package pods gives pods their addresses, and their ports on the switches and hosts of their nodes.
//
// A [Part] allocates addresses out of the subnets of a pod's node (assign.go, nodes.go), makes the rows of its port
// (rows.go), and decides which of its host ports it gets (hostports.go). A pod's change also puts it into the sets of
// policies and EgressIPs, which see pods by [Part.ForPolicies] and [Part.ForEgress].
//
// What it sees of others is in views.go.
package pods
