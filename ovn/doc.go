// Package ovn turns Kubernetes objects into rows of the OVN Northbound database and runs the controller that keeps them
// so.
//
// An object passes through it once, from left to right:
//
//	watch ──────► trim ────► events ──► cluster ────► changes ──► Northbound.Apply
//	informers.go  objects/   queue.go   cluster.go,
//	                                    its parts
//
// The translation is pure: no client, no clock, no I/O. A cluster is made of parts, one for each subject. newCluster
// has the list of them: what kinds of objects each takes, and what owners' rows it gives. Package part says what a part
// is. A part keeps what must be remembered of its subject between events (which node has which number and subnets,
// which pod which address), and what of it is to be written anew. It sees the other parts by the views of views.go.
// What concerns several parts at once is in surroundings.go.
//
// All of it can be rebuilt from the Northbound's rows (records.go) or, where they are lost, from the Kubernetes objects
// alone: a restarted controller comes to the same rows. Only controller.go and what it uses (informers.go, annotate.go,
// events.go, elect.go, serve.go) talk to the world.
//
// What the parts stand on are packages of their own, which know nothing of this one. Package objects has the objects,
// settings what the controller is told, ipam who has which number and address, pools who has which address outside,
// and northbound what the parts agree on about rows.
//
// What the datapath of Windows nodes cannot do is the table of package capability; the rows that follow from it are all
// in node.go, service.go and gateway.go.
package ovn
