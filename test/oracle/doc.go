// Package oracle has no code but its tests: they make up clusters, policies and packets, and compare what
// Weft's rows do with a packet with what others say that the policies mean: cyclonus for NetworkPolicies, and
// kube-network-policies for these and ClusterNetworkPolicies. A sample also goes through ovn-northd and
// ovn-trace. It is a module of its own, so that the oracles are no dependencies of Weft.
//
// When Weft's go.mod changes, go mod tidy is due here, too.
//
// Cases follow from -seed and their number; -cases says how many there are, -first where they begin.
package oracle
