// Package interconnect has the rows by which nodes with different Northbounds reach each other: docs/zones.md describes
// them. A zone is the nodes of one Northbound. A [View] turns the rows of a whole cluster into those of one zone.
//
// No program of Weft has zones yet. Tests send packets between two zones, and `make bench-zones` measures large ones.
package interconnect
