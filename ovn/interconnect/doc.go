// Package interconnect has the rows by which nodes with different Northbounds reach each other: docs/zones.md describes
// them. A zone is the nodes of one Northbound. A [View] turns the rows of a whole cluster into those of one zone.
package interconnect
