// Package domains finds out what addresses the domain names in policies have: it watches what the
// cluster's DNS servers on this node answer, and tells the controller by the node's ResolvedNames object.
//
//	EndpointSlices ──► [Watcher] ──► captures ──► frames ──► answers ──► book ──► ResolvedNames
//	ClusterNetworkPolicies ─┘        (AF_PACKET)             (wanted names, until when)
//
// A capture sees the frames that come out of one DNS server's own interface. What anybody else sends, be
// it with a DNS server's address and port, never comes by there: nobody but the cluster's DNS servers can
// say what a name means.
package domains
