// Package services has no code but its tests: they make up clusters that change event by event, and compare what
// Weft's rows do with a client of a Service with what kube-proxy's own code picks for it. It is a module of its own,
// since Kubernetes' modules are of one version among themselves, and no dependencies of Weft.
//
// When Weft's go.mod or the version of Kubernetes in test/lab/kube changes, go mod tidy is due here, too.
//
// Cases follow from -seed and their number; -cases says how many there are, -first where they begin.
package services
