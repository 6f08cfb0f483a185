// Package flows tells who talks to whom, in Kubernetes' names, of what nodes remember in connection tracking.
//
// A connection has an entry in each zone that its packets pass: that of the client's port, those of routers, that of
// the server's port, on one node or on two. An entry says how packets come to a zone, and how they leave it:
//
//	client's port    10.244.0.3:40000 → 10.96.0.10:80     leaves as  10.244.0.3:40000 → 10.244.1.4:8080
//	server's port    10.244.0.3:40000 → 10.244.1.4:8080   leaves as it comes
//
// What one entry's packets leave as, another one's come as. [Join] follows these chains: the first link is what the
// client has asked, the last is who answers. [Names] turns addresses into pods, Services and nodes. A [View] cuts flows
// down to what a user may see and has asked for.
//
// All of it is pure.
package flows
