// Package ctprobe finds out whether a bridge's datapath needs a lookup before each commit, as package ctlookup gives it
// one: whether it takes a packet that was tracked in one zone of connection tracking for another one in a second zone.
//
// It is a self-test with packets. Of each of two kinds of exchange it sends a request and its reply:
//
//	a ping                             198.18.1.N -> 198.18.0.1
//	a connection by a virtual address  198.18.1.N -> 198.18.0.2, which becomes 198.18.0.1
//
// The request is tracked and committed in one zone, as in its sender's, and then looked up and committed in a second
// one, as in its receiver's. The reply is looked up in that second zone. A sound datapath knows it for a reply. The
// extension of the Hyper-V switch does not, since it has committed the request by the tuple of the first zone
// (OvsPickupCtTupleAsLookupKey of datapath-windows/ovsext/Conntrack.c). Where a reply is not known, the exchange is
// done once more, with a lookup in zone 64009 before the commit. Only where that cures it, the lookup is needed: a
// datapath which fails in both is one of which nothing is known.
//
// # Where the packets go
//
//	packet-out, in_port=LOCAL -> table 240 -> ct zone 64010 -> 241 -> commit -> ct zone 64011 -> 242 -> commit -> 243
//	packet-out, in_port=LOCAL -> table 244 -> ct zone 64011 -> 245
//
// Tables 243 and 245 count, and drop. No flow of the probe sends a packet to a port, and no packet of anybody else's
// comes by its tables. The zones are the probe's own. A packet has the bridge's own port as its input. The extension
// drops one without a port, or of a port that is not connected, where it would ask ovs-vswitchd for a flow (OvsDoRecirc
// of Actions.c); before 3.6.0 it follows a null reference there. So the bridge is best one whose port is an interface
// that is up.
//
// # Why there is no bridge of its own
//
// The flows are on a bridge that is there already, and not on one that comes and goes:
//   - On Windows each bridge has a port of type internal. Open vSwitch has Hyper-V's management make a vNIC for it, and
//     then disables and renames the first adapter whose name has the port's in it (create_wmi_port of lib/wmi.c). An
//     adapter that appears and goes at each start is an event for whoever watches the host's network.
//   - A bridge is in a database that outlives a boot. The extension is off after a boot, and ovs-vswitchd ends over
//     each bridge until it is on. So a bridge that a killed process has left would keep ovs-vswitchd from running.
//   - Flows are in ovs-vswitchd's memory. These have a cookie of their own, by which the next probe sweeps them, and a
//     hard timeout, by which ovs-vswitchd does so itself.
//
// Whoever controls the bridge may delete all of its flows, as ovn-controller does when it connects. Then the probe's
// are gone with them, it says so, and can be run again.
package ctprobe
