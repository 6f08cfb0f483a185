package ovn

import "strings"

// limit is something that Open vSwitch's datapath on Windows, an extension of the Hyper-V switch,
// cannot do, in the last releases that have it (branch-3.7 of openvswitch/ovs).
type limit struct {
	// feature is Open vSwitch's or OVN's name for it.
	feature string
	// effect is what a user sees, if nobody did anything about it.
	effect string
	// answer is what weft does about it.
	answer string
	// source is where it was read: files and functions, in datapath-windows/ovsext where no folder
	// is named. None of it was run on Windows.
	source string
}

// What users are told of, where it concerns them. Each is part of hyperVLimits.
var (
	trackedProtocols = limit{
		feature: "connection tracking of SCTP and other protocols",
		effect:  "only TCP, UDP and ICMP (ICMPv6) reach and leave pods, since all their IP packets are tracked; others, as SCTP, GRE and ESP, are dropped",
		answer:  "SCTP load balancers are kept off the nodes' switches, and SCTP endpoints on the nodes are left out everywhere; an Event on the Service and on the Node says so",
		source:  "Conntrack.c: OvsDetectCtPacket, OvsCtEntryCreate; Actions.c: OvsDoExecuteActions drops a packet whose ct action fails",
	}
	clonedPackets = limit{
		feature: "clone",
		effect:  "what is done with a copy of a packet, or before its last action, is left out where it cannot be undone, as connection tracking right behind a patch port: all that a gateway router sends, and the way of a translated packet back into its distributed gateway's router",
		answer:  "the external bridge tracks what comes by the patch port in a table of its own, a Windows node is no gateway for other nodes, and weft mirrors no ports",
		source:  "Actions.c: OvsDoExecuteActions; Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: clone_xlate_actions; ofproto/ofproto-dpif.c: check_clone, check_max_sample_nesting",
	}
	conntrackTimeouts = limit{
		feature: "connection tracking timeout policies",
		effect:  "ovs-vswitchd takes the datapath to have them, and they have no effect: how long a connection is remembered cannot be set, and one that has ended is forgotten after 30 s: a server that has ended it remembers it for a minute or more, and may not answer another client of the same address, as the gateway's is, that comes by the same port in between",
		answer:  "weft sets none",
		source:  "Conntrack.c: OvsExecuteConntrackAction has no OVS_CT_ATTR_TIMEOUT; Conntrack-tcp.c: OvsConntrackUpdateTcpEntry; Documentation/faq/releases.rst",
	}
	injectedPackets = limit{
		feature: "learning from injected packets",
		effect:  "what ovn-controller sends into the switch is not given to ovs-vswitchd again (userspace(pid=0)): routers do not learn the MAC addresses of those who answer on the node itself",
		answer:  "gateway routers of Windows nodes know the cluster's router and their host by rows Static_MAC_Binding",
		source:  "lib/dpif-netlink.c: dpif_netlink_port_get_pid; Actions.c: OvsOutputUserspaceAction",
	}
	hopLimit = limit{
		feature: "set of IPv6 fields",
		effect:  "routers leave the hop limit of IPv6 packets as it is, without an error: traceroute does not see them",
		answer:  "nothing: addresses are translated by connection tracking, and ARP, ICMP and neighbour discovery are answered by ovs-vswitchd and ovn-controller; an Event on the Node says so",
		source:  "Actions.c: OvsExecuteSetAction knows Ethernet, IPv4, tunnel, TCP and UDP; lib/odp-util.c: commit_set_arp_action, commit_set_icmp_action, commit_set_nd_action",
	}
)

// hyperVLimits is the whole table, as the documentation shows it.
var hyperVLimits = []limit{
	trackedProtocols,
	{
		feature: "flush of a single connection",
		effect:  "when a UDP endpoint goes, a client that has sent to it within the last minute loses the way back of all its translated IPv4 connections, as those to ClusterIPs; so do, on the node's gateway router, all clients outside; over IPv6 nothing is flushed",
		answer:  "UDP is flushed on the nodes, too (ct_flush): a datagram socket that never rests would not leave an endpoint that is gone, while lost connections are made anew. Services of UDP port 53 alone have copies without ct_flush for the nodes: DNS clients ask from a new port each time, and are almost all pods. The annotation weft.net/flush-on-windows of a Service (true or false) says otherwise",
		source:  "Conntrack.c: OvsCtFlush ends with OvsNatFlush of the whole zone, which is that of one switch port or router, MapNlToCtTuple refuses IPv6 addresses; lib/ct-dpif.c: ct_dpif_flush_tuple, which asks for the entries that match alone; before Open vSwitch 3.1 there is no such flush (NXT_CT_FLUSH)",
	},
	clonedPackets,
	{
		feature: "sample nesting beyond 3",
		effect:  "ovs-vswitchd has no other way to clone",
		answer:  "as with clone",
		source:  "Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif.c: check_max_sample_nesting; ofproto/ofproto-dpif-xlate.c: clone_xlate_actions",
	},
	{
		feature: "nd_ext",
		effect:  "ovs-vswitchd refuses flows that rewrite the options of neighbour discovery, and all flows of their transaction; so it is on Linux' kernel datapath",
		answer:  "no flow does: the host has permanent neighbours, gateway routers have rows Static_MAC_Binding. A flow that a bridge refuses does not take others along, and is told",
		source:  "ofproto/ofproto-dpif.c: check_nd_extensions, check_actions",
	},
	injectedPackets,
	{
		feature: "unknown actions",
		effect:  "skipped without a word; as the last of a packet's they end in an error",
		answer:  "nothing: ovs-vswitchd probes for those that OVN uses, but for trunc",
		source:  "Actions.c: OvsDoExecuteActions",
	},
	{
		feature: "trunc",
		effect:  "ovs-vswitchd takes the datapath to have it, and copies of packets are whole",
		answer:  "weft mirrors no ports",
		source:  "Actions.c: OvsDoExecuteActions has no OVS_ACTION_ATTR_TRUNC; ofproto/ofproto-dpif.c: check_trunc_action",
	},
	{
		feature: "explicit drop",
		effect:  "none: a flow without actions drops",
		answer:  "nothing",
		source:  "ofproto/ofproto-dpif.c: dpif_may_support_explicit_drop_action",
	},
	{
		feature: "recirculation",
		effect:  "a packet that waits for more than ten further passes, or is more than four levels deep, is dropped",
		answer:  "nothing",
		source:  "Recirc.h: DEFERRED_ACTION_QUEUE_SIZE, DEFERRED_ACTION_EXEC_LEVEL",
	},
	{
		feature: "first packet to a peer",
		effect:  "the first packets to another tunnel's end are dropped, until Windows has found its MAC address",
		answer:  "nothing: BFD and retransmissions come again",
		source:  "IpHelper.c: OvsFwdIPHelperRequest; Geneve.c: OvsEncapGeneve",
	},
	hopLimit,
	{
		feature: "check_pkt_len",
		effect:  "a router with gateway_mtu would send every packet through ovs-vswitchd",
		answer:  "gateway routers on the nodes have no gateway_mtu: a packet that is too large for a tunnel is not answered by the router",
		source:  "Actions.c: OvsDoExecuteActions; Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: xlate_check_pkt_larger",
	},
	{
		feature: "ct_clear",
		effect:  "ovs-vswitchd leaves the action out: flows that follow see no connection, and the packet keeps zone and tuple of the one before, see the next line",
		answer:  "as there",
		source:  "Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: compose_ct_clear_action, clear_conntrack",
	},
	{
		feature: "tracking in two zones",
		effect:  "an IPv4 packet that bears the tuple of another zone is committed by that, not by its own: with any policy, pings between pods of one node and connections by a ClusterIP to an endpoint on the client's node are invalid from then on",
		answer:  "packets are looked up in a zone of no meaning before a connection is committed, in the agent's flows and in ovn-controller's (conntrack-lookup)",
		source:  "Conntrack.c: OvsPickupCtTupleAsLookupKey, OvsCtExecute_, since 3.0",
	},
	{
		feature: "ICMP errors",
		effect:  "they belong to no connection and are invalid: pods learn of no smaller MTU on their way, nor of ports that are closed",
		answer:  "nothing: pods' MTU fits the tunnels, and what leaves the cluster by a smaller link is lost",
		source:  "Conntrack.c: OvsCtSetupLookupCtx, OvsProcessConntrackEntry",
	},
	{
		feature: "IPv6 tracked flows",
		effect:  "packets of a tracked IPv6 connection never find the flow that was made for them: each goes through ovs-vswitchd",
		answer:  "nothing",
		source:  "Flow.c: OvsLookupFlow, FlowEqual: the key in the packet has a tuple, the flow's has none",
	},
	{
		feature: "ct_orig_tuple6",
		effect:  "ovs-vswitchd does not see the tuple of an IPv6 connection, and refuses flows that match its addresses",
		answer:  "no flow of weft's matches them",
		source:  "Flow.c: MapFlowKeyToNlKey; ofproto/ofproto-dpif.c: check_ct_orig_tuple6, check_mask",
	},
	{
		feature: "IGMP",
		effect:  "dropped as all that is not TCP, UDP or ICMP: nobody hears who listens to a multicast group",
		answer:  "weft forwards no multicast between nodes",
		source:  "Conntrack.c: OvsDetectCtPacket",
	},
	conntrackTimeouts,
	{
		feature: "SNAT to all zeros",
		effect:  "a connection that goes to an endpoint directly, from the address and port of one that goes there by a ClusterIP, fails",
		answer:  "nothing: OVN asks and does without",
		source:  "lib/dpif-netlink.c: dpif_netlink_ct_get_features",
	},
	{
		feature: "dp_hash algorithm 1",
		effect:  "which endpoint of a Service a connection gets follows the older hash (0), as the datapath has it",
		answer:  "nothing: the endpoints share the connections",
		source:  "ofproto/ofproto-dpif.c: check_max_dp_hash_alg; Actions.c: OvsExecuteHash",
	},
	{
		feature: "megaflows",
		effect:  "the first packets of every connection go through ovs-vswitchd: new connections are slower",
		answer:  "nothing",
		source:  "Flow.c: FlowEqual; OVS_FLOW_ATTR_MASK is parsed and not used",
	},
	{
		feature: "large tables",
		effect:  "connections and translations are found in tables of 1,024 lists, flows in one of 2,048: tens of thousands of connections at a time are slow, 2,097,152 are the most",
		answer:  "nothing: it does not bound the endpoints of a Service",
		source:  "Conntrack.h: CT_HASH_TABLE_SIZE, CT_MAX_ENTRIES; Conntrack-nat.h: NAT_HASH_TABLE_SIZE; Flow.c: OVS_FLOW_TABLE_SIZE",
	},
	{
		feature: "QoS",
		effect:  "no policing and no shaping",
		answer:  "weft sets none",
		source:  "Documentation/faq/releases.rst",
	},
	{
		feature: "meters",
		effect:  "32 at most, of one band each: ovs-vswitchd refuses one more, and the flows that name it. One that is changed is added before its former self, which is never freed",
		answer:  "weft has one, of one band, which bounds the log lines of policies: beside Windows nodes all rules share it (fair=false), or each rule that is logged would want its own",
		source:  "Meter.h: OVS_MAX_METERS, OVS_MAX_BANDS; Meter.c: OvsNewMeterCmdHandler",
	},
	{
		feature: "more than one datapath",
		effect:  "the extension serves one Hyper-V switch: pods, tunnels and the node's gateway share its uplink",
		answer:  "the agent makes one switch, and takes its bridge for all three",
		source:  "Switch.c: OvsExtAttach refuses a second switch; Documentation/faq/releases.rst",
	},
}

// updateDatapath takes in whether a node runs Windows, and has the Services looked at again whose rows
// depend on that, and the policies whose owners have to know.
func (c *cluster) updateDatapath(n *nodeState) {
	_, before := c.windows[n.name]
	now := n.object != nil && n.windows()
	if now == before {
		return
	}
	if now {
		c.windows[n.name] = struct{}{}
	} else {
		delete(c.windows, n.name)
	}
	for name := range c.byDatapath["sctp"] {
		c.dirtyServices[name] = struct{}{}
	}
	edge := len(c.windows) == 0 || now && len(c.windows) == 1 // the first, or the last
	for name := range c.byDatapath["udp"] {
		_, perNode := c.perNode[name]
		_, hinted := c.hinted[name]
		if _, outward := c.outward[name]; perNode || hinted || outward || edge {
			c.dirtyServices[name] = struct{}{}
		}
	}
	if edge {
		c.policies.dirtyCommon = true // its meter
		for k, p := range c.policies.all {
			if p.asksSCTP() {
				c.policies.dirty[k] = struct{}{}
			}
		}
	}
}

// datapathProblems are what a Windows node's owner is told: what differs for its pods.
func (n *nodeState) datapathProblems() []problem {
	if !n.placed || !n.windows() {
		return nil
	}
	var effects []string
	for _, l := range []limit{trackedProtocols, conntrackTimeouts, hopLimit} {
		effects = append(effects, l.feature+": "+l.effect)
	}
	return []problem{limitf("Node", &n.object.ObjectMeta, "WindowsDatapath",
		"Open vSwitch on Windows cannot do all that it can on Linux, and weft leaves out what depends on it. It lacks %s", strings.Join(effects, ". It lacks "))}
}
