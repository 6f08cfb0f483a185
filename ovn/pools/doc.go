// Package pools gives Services the addresses of AddressPools, and decides by which node each is answered.
//
// An [Allocator] knows who has which address of all pools, finds the first that is free, and remembers which were freed
// since somebody last looked. It is pure: it knows no client, no clock and no Kubernetes object but ranges.
//
// A [Part] decides which ranges are used (ranges.go), to whom an address is given (allocate.go), and which node's
// gateway router answers for it (announcers.go). It has no rows: those of Services and nodes say what it has decided.
// [Liveness] has the rows by which nodes watch each other, so that another node takes over what a lost one has
// announced.
//
// What they see of others is in views.go.
package pools
