// Package ctlookup changes what the controller of a Windows node and its switch tell each other, where Open vSwitch's
// extension of the Hyper-V switch does something else than ovn-controller expects.
//
// # Lookups
//
// The extension looks an IPv4 packet up by the original tuple that it bears from an earlier lookup, if that was in the
// same zone (OvsPickupCtTupleAsLookupKey of datapath-windows/ovsext/Conntrack.c, since Open vSwitch 2.17). A lookup
// that finds nothing sets the packet's zone and leaves the tuple of the zone before (OvsCtExecute_). So the commit that
// follows,
//
//	ct(zone=A,nat) ... ct(zone=B) ... ct(commit,zone=B)
//
// makes a connection of the tuple of zone A, whose packets are no packets of it, and which are invalid from then on.
// Another lookup in between sets another zone:
//
//	ct(zone=A,nat) ... ct(zone=B) ... ct(zone=64009),ct(commit,zone=B)
//
// It is left out where the packet is translated in its connection's direction. Then its last lookup has found a
// connection, whose tuple it bears, and by its own addresses it would be another connection:
//
//	ct(zone=B,nat) ... ct(commit,zone=B)
//
// So the lookup is in a table of its own, to which each commit is preceded by a resubmit. Linux' datapaths pass it,
// too. Package ctprobe finds out whether a datapath needs it.
//
// A reply has another tuple than its connection. A router looks it up twice in the zone of translated destinations if
// its receiver's address is a load balancer's, and the second time it would be taken for a packet in the other
// direction. So lookups in that zone have a table before them, too, which has the lookup in zone 64009 for replies.
//
// Where a group's bucket commits, the resubmit is before the group: a bucket is an action set, which has one ct at
// most. ovs-vswitchd takes ct_state and its like from a packet after either action, so no flow sees a difference.
//
// # First packets
//
// OVN remembers the endpoint of a load balancer's client (affinity_timeout) by a flow that learns and does no more: the
// packet is lost. When the client sends it again, the packet is translated already, and is committed a second time.
// Over IPv6 the extension, which has no tuple to look it up by, makes another connection of it, and nothing comes back.
// So such a flow sends its packet on.
//
// # Forgotten connections
//
// The extension forgets more than it is asked to when a single connection is to be forgotten. So it is not asked,
// unless [Changes.Flushes] says that this driver may be: see forgets.
//
// # Helpers
//
// The extension has helpers of FTP and TFTP (OvsCtExecute_). They read packets of TCP with the port 21, and of UDP to
// the port 69, whether ct asks for a helper or not. They do so in all zones and directions, of IPv4 and IPv6, and by
// the ports that a packet has once it is translated. They may stop the machine. A packet that has no connection in a
// zone is not read there. So no connection begins that has such packets:
//
//	table 0             drops what has such a port
//	tables that commit  do the same: the ports of fragments are known when a lookup has put them together
//	ct(commit,nat(…))   to such a port: the flow, or the group's bucket, drops
//
// OVN commits in few tables, which the package finds by what it reads. It asks for no helper. [Changes.FTP] says that
// this driver has none of its own.
//
// # Protocols
//
// The extension knows a translation without its protocol (OvsNatKeyAreSame of Conntrack-nat.c), and lets an error of
// ICMPv6 begin a connection with the protocol of the packet that it tells of (OvsCtEntryCreate). It writes by the
// protocol of the packet that it has (OvsCtUpdateEntry). So a packet of TCP that it finds a connection of UDP or ICMPv6
// for is written beyond that one's memory. The other way round there is room, and UDP and ICMP have as much as each
// other. So TCP has zones of its own, by one bit of the registers that OVN has its zones in:
//
//	resubmit(,252),ct(zone=NXM_NX_REG13[0..15],…)
//
// Table 252 sets the bit for TCP, and clears it for all else. Fragments are put together before, in each table that
// tracks, by a lookup in zone 64009: those of IPv6 tell no protocol, except for the first one. The state that the
// lookup finds is cleared. When ovn-controller has a zone forgotten, that of TCP is forgotten with it.
//
// # Lines in logs
//
// OVN has a meter for the packets that ovn-controller writes a line about. The extension hands up no packet that has a
// meter. So the meter is taken out of flows, and packets beyond the meter's rate are left out of what the controller
// gets: see appendUnmetered and [Conn.Read].
//
// # Meters
//
// The extension has 2^32-1 meters, which is more than ovn-controller can count, see boundMeters.
//
// Messages are OpenFlow 1.5's, which ovn-controller speaks. Those of which nothing is known pass as they are. Whole
// libraries of OpenFlow were left aside: they would have to know every match and action of every OVN there is, to write
// anew what they have read.
package ctlookup
