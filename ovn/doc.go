// Package ovn turns Kubernetes objects into rows of the OVN Northbound database and runs the
// controller that keeps them so.
//
// An object passes through it once, from left to right:
//
//	watch ──► trim ────► events ──► cluster ──► changes ──► Northbound.Apply
//	(informers.go) objects/   queue.go    cluster.go    node.go, pod.go,
//	                                                    service.go, topology.go
//
// What the parts stand on are packages of their own, which know nothing of this one. Package objects has the objects,
// settings what the controller is told, ipam who has which number and address, and northbound what the parts agree
// on about rows. An event is the key of an object that may have changed, or a signal (signals.go).
//
// The translation is pure: no client, no clock, no I/O. A cluster has a part for each subject: nodes, pods, Services,
// EgressIPs, AddressPools, domain names and policies. A part keeps what must be remembered of its subject between
// events (which node has which number and subnets, which pod which address), and what of it is to be written anew. It
// sees the other parts by the views of views.go. What concerns several parts at once is in surroundings.go. The order
// in which they take in events and make changes is in cluster.go and extent.go.
//
// All of it can be rebuilt from the Northbound's rows (records.go) or, where they are lost, from the
// Kubernetes objects alone: a restarted controller comes to the same rows. Only controller.go and what it
// uses (informers.go, annotate.go, events.go, elect.go, serve.go) talk to the world.
//
// What the datapath of Windows nodes cannot do is the table of package capability; the rows that follow from it
// are all in node.go, service.go and gateway.go.
package ovn
