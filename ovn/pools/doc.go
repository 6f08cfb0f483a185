// Package pools allocates the addresses of AddressPools.
//
// A [Pool] has the ranges of one AddressPool, and counts their addresses. An [Allocator] knows who has which address of
// all pools, finds the first that is free, and remembers which were freed since somebody last looked. Whom an address
// is given to, and what is told of it, others decide.
//
// It is pure: it knows no client, no clock and no Kubernetes object. Of packages below ovn it imports objects alone,
// for ranges.
package pools
