// Package ovn turns Kubernetes objects into rows of the OVN Northbound database and runs the
// controller that keeps them so.
//
// An object passes through it once, from left to right:
//
//	watch ──► trim ──► dirty keys ──► cluster ──► changes ──► Northbound.Apply
//	(informers)  objects.go   queue.go    cluster.go    node.go, pod.go,
//	                                                    service.go, topology.go
//
// Everything from objects.go to topology.go is pure: no client, no clock, no I/O. The cluster type
// holds what must be remembered between events (which node has which number and subnets, which pod
// which address), and can be rebuilt from the Northbound's rows (records.go) or, where they are lost,
// from the Kubernetes objects alone: a restarted controller comes to the same rows. Only controller.go
// and what it uses (informers.go, annotate.go, events.go, elect.go, serve.go) talk to the world.
//
// What the datapath of Windows nodes cannot do is the table of package capability; the rows that follow from it
// are all in node.go, service.go and gateway.go.
package ovn
