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
		effect:  "what OVN does with a copy of a packet is left out where it cannot be undone, as the way of a translated packet back into its distributed gateway's router",
		answer:  "a Windows node is no gateway for other nodes, and weft mirrors no ports",
		source:  "Actions.c: OvsDoExecuteActions; Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: clone_xlate_actions; ofproto/ofproto-dpif.c: check_clone, check_max_sample_nesting",
	}
	conntrackTimeouts = limit{
		feature: "connection tracking timeout policies",
		effect:  "how long a connection is remembered cannot be set, and one that has ended is forgotten after 30 s: a server that has ended it remembers it for a minute or more, and may not answer another client of the same address, as the gateway's is, that comes by the same port in between",
		answer:  "weft sets none",
		source:  "Conntrack.c: OvsExecuteConntrackAction has no OVS_CT_ATTR_TIMEOUT; Conntrack-tcp.c: OvsConntrackUpdateTcpEntry; Documentation/faq/releases.rst",
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
	hopLimit,
	{
		feature: "check_pkt_len",
		effect:  "a router with gateway_mtu would send every packet through ovs-vswitchd",
		answer:  "gateway routers on the nodes have no gateway_mtu: a packet that is too large for a tunnel is not answered by the router",
		source:  "Actions.c: OvsDoExecuteActions; Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: xlate_check_pkt_larger",
	},
	{
		feature: "ct_clear",
		effect:  "none: ovs-vswitchd leaves the action out, and what follows looks at the connection anew",
		answer:  "nothing",
		source:  "Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: compose_ct_clear_action",
	},
	conntrackTimeouts,
	{
		feature: "SNAT to all zeros",
		effect:  "a connection that goes to an endpoint directly, from the address and port of one that goes there by a ClusterIP, fails",
		answer:  "nothing: OVN asks and does without",
		source:  "lib/dpif-netlink.c: dpif_netlink_ct_get_features",
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
		effect:  "32 at most, of one band each: flows that need one more are refused",
		answer:  "weft has one, of one band, which bounds the log lines of policies: beside Windows nodes all rules share it (fair=false), or each rule that is logged would want its own",
		source:  "Meter.h: OVS_MAX_METERS, OVS_MAX_BANDS",
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
