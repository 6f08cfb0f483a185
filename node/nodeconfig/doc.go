// Package nodeconfig is what `weft node` is told: its keys, their defaults on each system, and what is wrong with
// them. Whatever follows from the keys alone is a method of [Config]. It imports no other room of the agent but
// those that say what a key may be.
package nodeconfig
