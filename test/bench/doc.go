// Package bench measures the controller as it is shipped, between a real kube-apiserver and a real
// Northbound, on the load of package load. `make bench` runs it; docs/measurements.md explains what
// it prints. It has no code but its tests.
package bench
