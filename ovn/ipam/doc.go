// Package ipam hands out numbers, addresses and subnets, and does the arithmetic of prefixes that this takes.
//
// A [NumberPool] hands out numbers in turn, so that a number that was freed comes back late. A [SubnetPool] hands out
// the addresses of a node's subnet, and a [SubnetAllocator] cuts such subnets out of a range. All of it is pure: it
// remembers what it has given, and knows no client, no clock and no object.
//
// It imports no other package of Weft.
package ipam
