// Package oracle makes up clusters, policies and packets, and asks others what the policies mean: cyclonus for
// NetworkPolicies, and kube-network-policies for these and ClusterNetworkPolicies. Its tests compare with that what
// Weft's rows do with a packet; a sample also goes through ovn-northd and ovn-trace. Command judge makes up what is to
// be put into a real cluster, and judges what is there. It is a module of its own, so that the oracles are no
// dependencies of Weft.
//
// When Weft's go.mod changes, go mod tidy is due here, too.
//
// Cases follow from -seed and their number; -cases says how many there are, -first where they begin.
package oracle
