// Package services is the part that knows Services and their EndpointSlices, and what their rows depend on beside them.
// The rows are made by package loadbalancer, and who has which address and port outside is decided by package claims.
//
// services.go has the part. claims.go has Services and pods looked at again where others want the same as they.
// nodeports.go knows the addresses of nodes that NodePorts have. behind.go says what a client gets at an address and
// port. [Pending] is a part of its own (pending.go): it tells Services that nobody gives them addresses.
//
// What they see of others is in views.go.
//
// Of packages below ovn it imports part, objects, settings, ipam, northbound, topology, loadbalancer, claims, flushes
// and pools.
package services
