// Package ctlookup has a packet looked up in a connection tracking zone of no meaning before a connection is
// committed, in all flows that a controller sends to a switch.
//
// The extension of the Hyper-V switch looks an IPv4 packet up by the original tuple that it bears from an earlier lookup, if
// that was in the same zone (OvsPickupCtTupleAsLookupKey of datapath-windows/ovsext/Conntrack.c, since Open vSwitch 3.0). A
// lookup that finds nothing sets the packet's zone and leaves the tuple of the zone before (OvsCtExecute_). So the commit that
// follows,
//
//	ct(zone=A,nat) ... ct(zone=B) ... ct(commit,zone=B)
//
// makes a connection of the tuple of zone A, whose packets are no packets of it, and which are invalid from then on. Another lookup in
// between sets another zone:
//
//	ct(zone=A,nat) ... ct(zone=B) ... ct(zone=64009),ct(commit,zone=B)
//
// It is for that driver alone. Linux' datapaths, the kernel's and the userspace one, know a connection that they have just
// translated by the packet's last lookup. With another one in between they take what is committed twice in a zone, as OVN does with a load
// balancer's packets where there are policies, for two connections. The driver finds the first of them by its table of translations.
//
// Where a group's bucket commits, the lookup is before the group: a bucket is an action set, which has one ct at most. ovs-vswitchd
// takes ct_state and its like from a packet after either action, so no flow sees a difference.
//
// Messages are OpenFlow 1.5's, which ovn-controller speaks. Those of which nothing is known pass as they are. Whole libraries of OpenFlow
// were left aside: they would have to know every match and action of every OVN there is, to write anew what they have read.
package ctlookup
