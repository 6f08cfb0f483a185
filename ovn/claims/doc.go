// Package claims decides who has which address and port outside of the cluster: Services, pods' host ports, or the
// hosts themselves. Nodes' agents decide the same, by the rules of models/outside.
//
// An [Arbiter] knows what each Service wants, in the order of their rights (book.go), and what stays the hosts' own
// (hosts.go). [Arbiter.Arbitrate] says what of it a Service gets (arbitrate.go). Whoever tells the arbiter of a change
// is told for whom it makes a difference, and has their rows made again. The arbiter itself has no rows.
//
// What it sees of others is in views.go.
//
// Of packages below ovn it imports part, objects, settings, ipam and topology.
package claims
