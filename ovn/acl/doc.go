// Package acl reads the ACLs of a Northbound and says what becomes of a packet under them, as
// ovn-northd and ovn-controller would.
//
// Parse reads the expression of an ACL's match column (man ovn-sb, Logical_Flow, match). New takes
// rows, listed off a live Northbound or, by FromChanges, desired ones; Judge follows the first packet
// of a connection through them, stage by stage and tier by tier, and tells every ACL it met.
//
// The package does no I/O. What it cannot know, connection tracking, chassis and registers, it
// refuses in a match with ErrUnsupported.
package acl
