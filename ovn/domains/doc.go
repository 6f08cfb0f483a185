// Package domains keeps the address sets of domain names that policies name.
//
// domains.go has the part: which names and patterns policies use, and what addresses they have now by what nodes'
// agents have seen (ResolvedNames). servers.go says which nodes are believed: those that DNS servers run on.
//
// An address counts until its time is over. The part expects [Instant] as long as there is such a time.
//
// Of packages below ovn it imports part, objects, settings and northbound.
package domains
