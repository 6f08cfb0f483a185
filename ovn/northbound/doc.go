// Package northbound is what all parts of the translation agree on about rows of the OVN Northbound database.
//
// [Tables] lists the tables and columns that Weft writes. A [Builder] collects the rows of one owner and puts them into
// rows of others. The names of owners, and of the rows that several parts refer to, stand in names.go, so that a
// part can point at another part's row without importing that part.
//
// Of packages below ovn it imports objects, policy and ipam.
package northbound
