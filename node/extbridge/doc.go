// Package extbridge divides the traffic of a node's external bridge between the host and the gateway router
// behind the bridge's patch port, by OpenFlow.
//
// Where the gateway router has the host's own MAC and addresses, a frame does not tell whose it is.
// Connections do: connection tracking remembers by a mark who began one, and translates the pods' addresses in
// the same zone in which it sees the host's connections, so that the two never use one port.
//
//	         outside                    mark 1   of the gateway: to the patch port
//	            │ uplink                mark 2   of the host: to LOCAL
//	  ┌─────────┴─────────┐             mark 3   from the gateway to the host, by the host's alias
//	  │  external bridge  │
//	  └───┬───────────┬───┘
//	LOCAL │           │ patch
//	     host      gw-NODE
//
// An entry's address and port say by themselves whose a packet is, there and back, and cost no tracking: they are
// below 32768, from where on pods' connections have their ports, or at an address that is not the host's. The host's
// own system keeps away from them, since the agent's proxies listen there. Entries above are tracked, and so
// are fragments, which do not tell their port. Errors do not tell it either: those that belong to no tracked
// connection go to host and router, and each knows its own. An entry that goes leaves its connections to the
// host, which refuses them.
//
// Open vSwitch's userspace datapath looks at a packet eight times again and no more, and OVN's router takes up to
// six of them: the flows add one at most to what has come by a load balancer.
//
// What the flows hold to:
//   - In doubt a packet is the host's: without a connection, or with one that began before the flows came.
//   - The host's side does not depend on the patch port's number, which changes when ovn-controller makes the
//     port anew: what comes from the router is known by its source MAC on a port that is neither LOCAL nor
//     the uplink.
//   - The learning table has the shared MAC at LOCAL always: what comes from the router passes NORMAL as if
//     the host had sent it.
//   - Hyper-V's datapath can do all of it: connection tracking with zone, mark and NAT, and Ethernet
//     addresses. No flow answers ARP or neighbour discovery: neither Hyper-V's nor Linux' kernel datapath rewrites
//     the options of an advertisement (nd_ext), and ovs-vswitchd refuses flows that do. Host and router have
//     neighbours for good instead, see [Neighbours] and table Static_MAC_Binding.
//   - What comes by the patch port is not tracked in the first table: OVN does more with the packet after it has
//     sent it there, so ovs-vswitchd asks for a clone of what cannot be undone, as ct (reversible_actions of
//     ofproto/ofproto-dpif-xlate.c), which Hyper-V's has not. A resubmit can be undone.
package extbridge
