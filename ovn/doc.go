// Package ovn turns Kubernetes objects into rows of the OVN Northbound database and runs the controller that keeps them
// so.
//
// An object passes through it once, from left to right:
//
//	watch ──────► trim ────► events ──► cluster ────► changes ──► Northbound.Apply
//	watch/        objects/   watch/     cluster.go,
//	                                    its parts
//
// The translation is pure: no client, no clock, no I/O. A cluster is made of parts, one for each subject. newCluster
// has the list of them: what kinds of objects each takes, and what owners' rows it gives. Package part says what a part
// is. A part keeps what must be remembered of its subject between events (which node has which number and subnets,
// which pod which address), and what of it is to be written anew. It sees other parts by interfaces of its own.
// Whoever reads another part's state has its own rows made again when that changes, by what the other part tells. What
// concerns several parts at once is in surroundings.go.
//
// Each part is a package of its own, which knows nothing of this one: nodes, topology, namespaces, servicecidrs, pods,
// services, policies, egress, pools, domains, flushes. Package claims decides who has which address and port outside.
//
// All of it can be rebuilt from the Northbound's rows (package records) or, where they are lost, from the Kubernetes
// objects alone: a restarted controller comes to the same rows. Only controller.go and what it uses (packages watch,
// writeback, hosting and election, lead.go, serve.go) talk to the world.
//
// What the datapath of Windows nodes cannot do is the table of package capability. The rows that follow from it are in
// packages topology, loadbalancer and pods.
package ovn
