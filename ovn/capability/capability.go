// Package capability is the table of what Open vSwitch's datapath on Windows cannot do: the translation keeps to it,
// the documentation shows it, and a lab's record of what Windows nodes execute is held against it.
package capability

import (
	"slices"
	"strings"
)

// Limit is something that Open vSwitch's datapath on Windows, an extension of the Hyper-V switch,
// cannot do, in the last releases that have it (branch-3.7 of openvswitch/ovs).
type Limit struct {
	// Feature is Open vSwitch's or OVN's name for it.
	Feature string
	// Effect is what a user sees, if nobody did anything about it.
	Effect string
	// Answer is what weft does about it.
	Answer string
	// Source is where it was read: files and functions, in datapath-windows/ovsext where no folder
	// is named. None of it was run on Windows.
	Source string
	// Forbids are the datapath actions and keys that no packet of a Windows node may meet, by the names that test/hyperv's
	// record has for them. One that ends with a space is the beginning of all names that no line has in full.
	Forbids []string
	// Bears are, by the same names, what packets and flows of a Windows node meet all the same. Answer says how that goes.
	Bears []string
}

// Ability is something that the driver does as OVN means it.
type Ability struct {
	// Feature is what it does.
	Feature string
	// Does are the names that the record has for it.
	Does []string
	// Source is where it was read, as that of a Limit.
	Source string
}

// What users are told of, where it concerns them. Each is part of Limits.
var (
	TrackedProtocols = Limit{
		Feature: "connection tracking of SCTP and other protocols",
		Effect: "only TCP, UDP and ICMP (ICMPv6) reach and leave pods, since all their IP packets are tracked; others, as " +
			"SCTP, GRE and ESP, are dropped",
		Answer: "SCTP load balancers are kept off the nodes' switches, and SCTP endpoints on the nodes are left out " +
			"everywhere; an Event on the Service and on the Node says so",
		Source: "Conntrack.c: OvsDetectCtPacket, OvsCtEntryCreate; Actions.c: OvsDoExecuteActions drops a packet whose ct " +
			"action fails",
	}
	ClonedPackets = Limit{
		Feature: "clone",
		Effect: "what is done with a copy of a packet, or before its last action, is left out where it cannot be undone, " +
			"as connection tracking right behind a patch port: all that a gateway router sends, and the way of a translated " +
			"packet back into its distributed gateway's router",
		Answer: "the external bridge tracks what comes by the patch port in a table of its own, a Windows node is no " +
			"gateway for other nodes, and weft mirrors no ports",
		Source: "Actions.c: OvsDoExecuteActions; Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: " +
			"clone_xlate_actions; ofproto/ofproto-dpif.c: check_clone, check_max_sample_nesting",
		Forbids: []string{"clone"},
	}
	ConntrackTimeouts = Limit{
		Feature: "connection tracking timeout policies",
		Effect: "ovs-vswitchd takes the datapath to have them, and they have no effect: how long a connection is " +
			"remembered cannot be set, and one that has ended is forgotten after 30 s: a server that has ended it remembers " +
			"it for a minute or more, and may not answer another client of the same address, as the gateway's is, that comes " +
			"by the same port in between",
		Answer: "weft sets none",
		Source: "Conntrack.c: OvsExecuteConntrackAction has no OVS_CT_ATTR_TIMEOUT; Conntrack-tcp.c: " +
			"OvsConntrackUpdateTcpEntry; Documentation/faq/releases.rst",
		Forbids: []string{"ct timeout"},
	}
	InjectedPackets = Limit{
		Feature: "learning from injected packets",
		Effect: "what ovn-controller sends into the switch is not given to ovs-vswitchd again (userspace(pid=0)): routers " +
			"do not learn the MAC addresses of those who answer on the node itself",
		Answer: "gateway routers of Windows nodes know the cluster's router and their host by rows Static_MAC_Binding",
		Source: "lib/dpif-netlink.c: dpif_netlink_port_get_pid; Actions.c: OvsOutputUserspaceAction",
		Bears:  []string{"userspace lost"},
	}
	HopLimit = Limit{
		Feature: "set of IPv6 fields",
		Effect:  "routers leave the hop limit of IPv6 packets as it is, without an error: traceroute does not see them",
		Answer: "nothing: addresses are translated by connection tracking, and ARP, ICMP and neighbour discovery are " +
			"answered by ovs-vswitchd and ovn-controller; an Event on the Node says so",
		Source: "Actions.c: OvsExecuteSetAction knows Ethernet, IPv4, tunnel, TCP and UDP; lib/odp-util.c: " +
			"commit_set_arp_action, commit_set_icmp_action, commit_set_nd_action",
		Forbids: []string{"set ipv6_src", "set ipv6_dst", "set ipv6_dscp", "set ipv6_label"},
		Bears:   []string{"set ipv6", "set ipv6_hlimit"},
	}
)

// Limits is the whole table, as the documentation shows it.
var Limits = []Limit{
	TrackedProtocols,
	{
		Feature: "flush of a single connection",
		Effect: "if it is asked for when a UDP endpoint goes, a client that has sent to it within the last minute loses " +
			"the way back of all its translated IPv4 connections, as those to ClusterIPs; so do, on the node's gateway " +
			"router, all clients outside; over IPv6 nothing is flushed",
		Answer: "unless its key conntrack-flush is true, the agent lets no such message of ovn-controller's pass to the " +
			"switch, which sends it whichever node's load balancer loses an endpoint: a client on a Windows node whose socket " +
			"never rests goes on sending to the endpoint that is gone until it has been silent for a minute",
		Source: "Conntrack.c: OvsCtFlush reads the links of connections outside of their lists' locks, and ends with " +
			"OvsNatFlush of the whole zone, which is that of one switch port or router, MapNlToCtTuple refuses IPv6 " +
			"addresses; lib/ct-dpif.c: ct_dpif_flush_tuple, which asks for the entries that match alone; before Open vSwitch " +
			"3.1 there is no such flush (NXT_CT_FLUSH)",
	},
	ClonedPackets,
	{
		Feature: "sample with actions of its own",
		Effect: "of several actions only the first one is done, unless they are a copy for ovs-vswitchd alone. " +
			"ovs-vswitchd finds three levels of samples within each other, and clones by none",
		Answer: "as with clone; weft samples nothing. ovs-vswitchd has a sample do what a log line of a policy has a meter " +
			"for, so the agent takes the meter out of br-int's flows and bounds the lines itself",
		Source: "Actions.c: OvsExecuteSampleAction; Recirc.c: OvsProcessDeferredActions; Flow.c: " +
			"OvsProbeSupportedFeature; ofproto/ofproto-dpif.c: check_max_sample_nesting; ofproto/ofproto-dpif-xlate.c: " +
			"clone_xlate_actions",
		Forbids: []string{"sample actions", "sample nesting "},
	},
	{
		Feature: "nd_ext",
		Effect: "ovs-vswitchd refuses flows that rewrite the options of neighbour discovery, and all flows of their " +
			"transaction; Linux' kernel datapath has this limit, too",
		Answer: "no flow does: the host has permanent neighbours, gateway routers have rows Static_MAC_Binding. A flow " +
			"that a bridge refuses does not take others along, and is told",
		Source:  "ofproto/ofproto-dpif.c: check_nd_extensions, check_actions",
		Forbids: []string{"set nd_ext", "match nd_ext"},
	},
	InjectedPackets,
	{
		Feature: "unknown actions",
		Effect:  "skipped without a word; as the last of a packet's they end in an error",
		Answer:  "nothing: ovs-vswitchd probes for those that OVN uses, except for trunc",
		Source:  "Actions.c: OvsDoExecuteActions",
		Forbids: []string{"set_masked", "push_eth", "pop_eth", "push_nsh", "pop_nsh", "add_mpls", "dec_ttl", "psample",
			"tunnel_push", "tunnel_pop", "lb_output", "action ", "ct part ", "ct nat part "},
	},
	{
		Feature: "trunc",
		Effect:  "ovs-vswitchd takes the datapath to have it, and copies of packets are whole",
		Answer:  "weft mirrors no ports",
		Source:  "Actions.c: OvsDoExecuteActions has no OVS_ACTION_ATTR_TRUNC; ofproto/ofproto-dpif.c: check_trunc_action",
		Forbids: []string{"trunc"},
	},
	{
		Feature: "explicit drop",
		Effect:  "none: a flow without actions drops",
		Answer:  "nothing",
		Source:  "ofproto/ofproto-dpif.c: dpif_may_support_explicit_drop_action",
		Forbids: []string{"drop"},
	},
	{
		Feature: "recirculation",
		Effect: "a packet that asks for more than ten further passes is dropped. Passes within each other, of which the " +
			"driver has five levels, never happen: each pass has ended when the next one begins",
		Answer: "nothing: the longest way takes seven, from outside by the gateway and a load balancer to a pod with " +
			"policies",
		Source: "Recirc.h: DEFERRED_ACTION_QUEUE_SIZE, DEFERRED_ACTION_EXEC_LEVEL; Recirc.c: OvsAddDeferredActions, " +
			"OvsProcessDeferredActions; Actions.c: OvsActionsExecute, OvsDoRecirc",
		Forbids: []string{"recirc lost"},
	},
	{
		Feature: "first packet to a peer",
		Effect:  "the first packets to another tunnel's end are dropped, until Windows has found its MAC address",
		Answer:  "nothing: BFD and retransmissions come again",
		Source:  "IpHelper.c: OvsFwdIPHelperRequest; Geneve.c: OvsEncapGeneve",
	},
	HopLimit,
	{
		Feature: "set of other fields",
		Effect: "passed over without an error: of ARP, ICMP, neighbour discovery, SCTP and MPLS, and a packet's mark and " +
			"priority",
		Answer: "ovs-vswitchd sets those of ARP, ICMP and neighbour discovery itself. The mark, by which answers of pods " +
			"with an egress address are known, is set and read in one translation",
		Source: "Actions.c: OvsExecuteSetAction; lib/odp-util.c: commit_set_arp_action, commit_set_icmp_action, " +
			"commit_set_nd_action, commit_set_pkt_mark_action",
		Forbids: []string{"set ", "match priority"},
		Bears:   []string{"set skb_mark 42", "set skb_mark 0", "match skb_mark"}, // 42: ovn's answerMark
	},
	{
		Feature: "ports of IPv6",
		Effect: "a set of TCP's or UDP's ports in a packet of IPv6 changes the packet, and in its key a part of the " +
			"source's address: what follows is of another packet",
		Answer:  "no flow of OVN's or weft's does: ports are translated by connection tracking",
		Source:  "Actions.c: OvsUpdateTcpPorts, OvsUpdateUdpPorts",
		Forbids: []string{"set tcp6", "set udp6"},
	},
	{
		Feature: "set of DSCP",
		Effect: "a set of IPv4 that changes the class of traffic breaks the header's checksum, and the packet's receiver " +
			"drops it",
		Answer:  "no flow of OVN's or weft's sets it: weft has no rows QoS",
		Source:  "Actions.c: OvsUpdateIPv4Header; Offload.c: ChecksumUpdate16",
		Forbids: []string{"set ipv4_dscp"},
	},
	{
		Feature: "headers in pieces",
		Effect: "of a TCP or UDP packet whose addresses are set or translated the driver wants 20 bytes in one piece of " +
			"memory, however long its headers are. Where the first piece ends within them, it writes behind it: the machine " +
			"may stop",
		Answer: "nothing. In which pieces packets come is Windows' choice, and not known. The emulated extension has every " +
			"packet in one piece",
		Source: "Actions.c: OvsUpdateIPv4Header, OvsUpdateAddressAndPort, OvsUpdateAddressAndPortForIpv6 reckon hdrSize, " +
			"OvsGetHeaderBySize; BufferMgmt.c: OvsPartialCopyNBL",
	},
	{
		Feature: "congestion bits",
		Effect: "a router between the nodes that marks a tunnel's packet (ECN) marks the packet alone: a set of the class " +
			"of traffic leaves these two bits to a packet of IPv4, and all to one of IPv6. A tunnel over IPv6 has no class of " +
			"traffic in either direction",
		Answer: "nothing: connections notice the congestion when packets are lost",
		Source: "Actions.c: OvsUpdateIPv4Header, OvsExecuteSetAction; Geneve.c: OvsEncapGeneve, OvsDecapGeneve; " +
			"ofproto/tunnel.c: tnl_process_ecn",
		Bears: []string{"set ipv4_ecn", "set ipv6_ecn", "set tun_tos", "match tun_tos"},
	},
	{
		Feature: "flow label",
		Effect: "an IPv6 packet's key has it with its bytes in reverse: when ovs-vswitchd looks at a flow again, it takes " +
			"it for a flow of another label",
		Answer: "no flow of OVN's or weft's asks for one. ovs-vswitchd matches all of the header by itself where a flow " +
			"sets the hop limit",
		Source: "PacketParser.c: OvsParseIPv6; Flow.c: _MapFlowIpv6KeyToNlKey; lib/odp-util.c: commit; " +
			"ofproto/ofproto-dpif-upcall.c: recv_upcalls, revalidate_ukey",
		Bears: []string{"match ipv6_label"},
	},
	{
		Feature: "a second VLAN tag",
		Effect:  "beside a tag none is pushed, and one of 802.1ad becomes one of 802.1Q, without an error; a key has one tag",
		Answer:  "weft's networks have no tags",
		Source:  "Actions.c: OvsDoExecuteActions; Flow.c: OvsExtractFlow, _MapKeyAttrToFlowPut",
		Forbids: []string{"push_vlan again", "push_vlan 802.1ad", "match vlan again"},
	},
	{
		Feature: "MPLS",
		Effect: "labels are pushed and popped, and never changed; a key has the outer one of the three that ovs-vswitchd " +
			"finds. The emulated extension has none",
		Answer: "no flow of OVN's or weft's has labels",
		Source: "Actions.c: OvsActionMplsPush, OvsActionMplsPop, OvsExecuteSetAction; Flow.c: _MapKeyAttrToFlowPut, " +
			"OvsProbeSupportedFeature",
		Forbids: []string{"push_mpls", "pop_mpls", "set mpls", "match mpls"},
	},
	{
		Feature: "other fields of tunnels",
		Effect: "a packet whose tunnel is set with a source port, or with options of VXLAN, ERSPAN or GTP-U, is dropped. " +
			"Of an arriving one ovs-vswitchd is not told the ports, nor whether it may be fragmented, has a checksum or is of " +
			"OAM",
		Answer: "no flow of OVN's or weft's has them. Up to 3.5 ovs-vswitchd looks at the two flags of every arriving " +
			"packet, and has one flow for either value",
		Source: "Flow.c: OvsTunnelAttrToIPTunnelKey, nlFlowTunnelKeyPolicy, MapFlowTunKeyToNlKey; Geneve.c: " +
			"OvsDecapGeneve; ofproto/tunnel.c: tnl_wc_init",
		Forbids: []string{"set tun_tp_src", "set tun_vxlan_opts", "set tun_pad", "set tun_erspan_opts", "set tun_gtpu_opts",
			"match tun_oam", "match tun_tp_src", "match tun_tp_dst", "match tun_vxlan_opts", "match tun_pad",
			"match tun_erspan_opts", "match tun_gtpu_opts", "match tunnel part "},
		Bears: []string{"match tun_df", "match tun_csum"},
	},
	{
		Feature: "helpers of connection tracking",
		Effect:  "a packet whose flow asks for a helper other than those of FTP and TFTP is dropped",
		Answer:  "no flow of OVN's or weft's asks for one",
		Source:  "Conntrack.c: OvsExecuteConntrackAction, OvsCtExecute_",
		Forbids: []string{"ct helper"},
	},
	{
		Feature: "events of connections",
		Effect:  "whatever a flow asks for, the driver tells of new connections, and of changes of marks and labels alone",
		Answer:  "nothing: nobody asks",
		Source:  "Conntrack.c: OvsExecuteConntrackAction, OvsCtExecute_",
		Bears:   []string{"ct eventmask"},
	},
	{
		Feature: "choice of a translation's port",
		Effect:  "of a range the first port goes by a hash and the next ones by their order, whatever a flow asks for",
		Answer:  "nothing: each free port is as good",
		Source:  "Conntrack.c: OvsExecuteConntrackAction; Conntrack-nat.c: OvsNatTranslateCtEntry",
		Bears:   []string{"ct nat_persistent", "ct nat_hash", "ct nat_random"},
	},
	{
		Feature: "unknown keys",
		Effect:  "a flow is put without them, and is hit by packets that it is not for",
		Answer:  "nothing: ovs-vswitchd probes for those that OVN uses",
		Source:  "Flow.c: nlFlowKeyPolicy, _MapKeyAttrToFlowPut",
		Forbids: []string{"key ", "match key ", "match nsh", "match packet_type", "match tunnel_info"},
	},
	{
		Feature: "tcp_flags",
		Effect: "a flow is put without them: what ovs-vswitchd decides by the flags of a connection's packet it decides " +
			"for the next ones with other flags, too, until it looks at the flow again after seconds",
		Answer: "one flow of weft's matches them: of packets of no connection that the host sends by the gateway's bridge " +
			"it drops resets. A reset behind another packet of the kind goes out",
		Source: "Flow.c: _MapKeyAttrToFlowPut and MapFlowKeyToNlKey have no OVS_KEY_ATTR_TCP_FLAGS; " +
			"ofproto/ofproto-dpif-upcall.c: recv_upcalls, revalidate_ukey",
		Forbids: []string{"match tcp_flags "},
		Bears:   []string{"match tcp_flags rst"},
	},
	{
		Feature: "nd_target",
		Effect: "the target and the addresses of a neighbour solicitation or advertisement are lost where ovs-vswitchd " +
			"sees it first: no switch answers for its ports, and the question goes to all of them",
		Answer: "nothing: the port that is asked for answers itself, and routers answer once ovn-controller has had " +
			"the packet",
		Source: "PacketParser.c: OvsParseIcmpV6 looks for options where the target is",
		Bears:  []string{"match nd_target", "match nd_sll", "match nd_tll"},
	},
	{
		Feature: "translation to a port that is taken",
		Effect: "a connection that is translated to an address alone, and finds its port taken, gets another, of which " +
			"further zones do not know: two clients that ask an endpoint on the node through its gateway router from one port " +
			"at a time hinder each other. Of ICMPv6 a port is remembered that the message does not have",
		Answer: "the agent translates ICMPv6 by address alone; for the rest nothing: it takes two clients of one port",
		Source: "Conntrack-nat.c: OvsNatTranslateCtEntry, OvsNatPacket",
	},
	{
		Feature: "check_pkt_len",
		Effect:  "a router with gateway_mtu would send every packet through ovs-vswitchd",
		Answer: "gateway routers on the nodes have no gateway_mtu: a packet that is too large for a tunnel is not " +
			"answered by the router",
		Source: "Actions.c: OvsDoExecuteActions; Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: " +
			"xlate_check_pkt_larger",
		Forbids: []string{"check_pkt_len"},
	},
	{
		Feature: "ct_clear",
		Effect: "ovs-vswitchd leaves the action out: flows that follow see no connection, and the packet keeps zone and " +
			"tuple of the one before, see the next line",
		Answer:  "as there",
		Source:  "Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: compose_ct_clear_action, clear_conntrack",
		Forbids: []string{"ct_clear"},
	},
	{
		Feature: "tracking in two zones",
		Effect: "an IPv4 packet that bears the tuple of another zone is committed by that, not by its own: with any " +
			"policy, pings between pods of one node and connections by a ClusterIP to an endpoint on the client's node are " +
			"invalid from then on",
		Answer: "packets are looked up in a zone of no meaning before a connection is committed, and replies before a " +
			"router's second lookup in one zone, in the agent's flows and in ovn-controller's (conntrack-lookup)",
		Source: "Conntrack.c: OvsPickupCtTupleAsLookupKey, OvsCtExecute_, since 3.0",
	},
	{
		Feature: "ICMP errors",
		Effect: "those of IPv4 belong to no connection and are invalid; those of IPv6 are related, and what they tell of " +
			"is not translated back: pods learn of no smaller MTU outside the cluster, nor over IPv4 of ports that are closed",
		Answer: "nothing: pods' MTU fits the tunnels, and what leaves the cluster by a smaller link is lost",
		Source: "Conntrack.c: OvsCtSetupLookupCtx, OvsProcessConntrackEntry; Conntrack-nat.c: OvsNatPacket",
	},
	{
		Feature: "IPv6 tracked flows",
		Effect: "packets of a tracked IPv6 connection never find the flow that was made for them: each goes through " +
			"ovs-vswitchd",
		Answer: "nothing that helps: [what it costs](measurements.md#tracked-ipv6-on-a-windows-node), and what was " +
			"considered",
		Source: "Flow.c: OvsLookupFlow, FlowEqual: the key in the packet has a tuple, the flow's has none",
	},
	{
		Feature: "ct_orig_tuple6",
		Effect:  "ovs-vswitchd does not see the tuple of an IPv6 connection, and refuses flows that match its addresses",
		Answer:  "no flow of weft's matches them",
		Source:  "Flow.c: MapFlowKeyToNlKey; ofproto/ofproto-dpif.c: check_ct_orig_tuple6, check_mask",
		Forbids: []string{"match ct_orig_tuple6"},
	},
	{
		Feature: "FTP and TFTP",
		Effect: "helpers that nobody has asked for read what passes TCP port 21 or goes to UDP port 69, by the ports that " +
			"it has once it is translated. They look for the end of a command without a bound, wait for a lock that they " +
			"hold, and keep connections that are gone: a pod could stop the machine",
		Answer: "unless its key conntrack-ftp is true, the agent has no such connection begin: packets of ports 21 and 69, " +
			"of TCP and UDP, are dropped, and so are those that a Service leads to such a port. Packets that the host itself " +
			"sends and gets on its uplink are not tracked",
		Source: "Conntrack.c: OvsCtExecute_, OvsDetectFtpPacket, OvsDetectFtp6Packet, OvsDetectTftpPacket, " +
			"OvsDetectTftp6Packet; Conntrack-ftp.c: OvsCtHandleFtp; Conntrack-tcp.c: OvsCtHandleTftp; Conntrack-related.c: " +
			"OvsCtRelatedLookup, OvsCtRelatedEntryCreate, OvsCtRelatedKeyAreSame",
		Forbids: []string{"helper ftp", "helper tftp"},
	},
	{
		Feature: "protocols of translations",
		Effect: "a translation is found without regard to the protocol: a packet of TCP that a server sends to the port " +
			"from which a client has sent it UDP, by a Service or the gateway, is written beyond the memory of that " +
			"connection, and may stop the machine; one of UDP passes as an answer of a TCP connection; and a port that one " +
			"protocol has is taken for the others",
		Answer: "TCP has zones of its own. So what is taken for another protocol's is of UDP or ICMP, whose connections " +
			"have memory of one size. Fragments are put together in a zone without connections, before their protocol counts",
		Source: "Conntrack-nat.c: OvsNatKeyAreSame, OvsNatTranslateCtEntry; Conntrack.c: OvsCtSetupLookupCtx, " +
			"OvsCtUpdateEntry; Conntrack-tcp.c: OvsConntrackUpdateTcpEntry; Conntrack-other.c: OvsConntrackUpdateOtherEntry",
		Forbids: []string{"other protocol "},
	},
	{
		Feature: "ICMPv6 errors of no connection",
		Effect: "one that is committed begins a connection with the key of the packet that it tells of, and the memory of " +
			"ICMP: a packet of TCP with that key is written beyond it, and may stop the machine. Both may come from one " +
			"sender, a pod or a machine outside, to a pod, a node port or the host",
		Answer: "TCP has zones of its own, in which no error begins a connection. So errors of IPv6 about connections of " +
			"TCP belong to none, as those of IPv4 about all connections",
		Source: "Conntrack-icmp.c: OvsConntrackValidateIcmp6Packet; Conntrack.c: OvsCtSetupLookupCtx, OvsCtEntryCreate, " +
			"OvsCtUpdateEntry; Conntrack-tcp.c: OvsConntrackUpdateTcpEntry",
		Forbids: []string{"other protocol tcp over icmpv6"},
		Bears:   []string{"other protocol udp over icmpv6"},
	},
	{
		Feature: "length of ICMPv6",
		Effect: "a message that is translated is read as far as its IPv6 header says, also beyond its end: a machine " +
			"that a pod pings over IPv6 by the gateway could stop the node by an answer that says too much",
		Answer:  "nothing: no flow can tell such a message",
		Source:  "Actions.c: OvsUpdateAddressAndPortForIpv6, OvsCalculateICMPv6Checksum",
		Forbids: []string{"icmpv6 beyond the packet"},
	},
	{
		Feature: "ICMP without a header",
		Effect: "a tracked message of less than 8 bytes, of ICMP or ICMPv6, stops the machine: the driver reads what it " +
			"has not found. A pod or a machine that may send such a message to a pod, a node port or the host could do that",
		Answer:  "nothing: of IPv4, flows take it for an answer to a ping",
		Source:  "Conntrack.c: OvsCtSetupLookupCtx; PacketParser.h: OvsGetIcmp",
		Forbids: []string{"icmp without a header"},
	},
	{
		Feature: "translations of removed connections",
		Effect: "a connection that begins in the place of one that has expired, within two minutes, loses its translation " +
			"when the driver removes the other one, whose own is left and points to memory that is free",
		Answer: "nothing: the client begins again",
		Source: "Conntrack-nat.c: OvsNatDeleteKey; Conntrack.c: OvsCtEntryDelete, OvsCtSetupLookupCtx",
		Bears:  []string{"translation without connection"},
	},
	{
		Feature: "IGMP",
		Effect:  "dropped as all that is not TCP, UDP or ICMP: nobody hears who listens to a multicast group",
		Answer:  "weft forwards no multicast between nodes",
		Source:  "Conntrack.c: OvsDetectCtPacket",
	},
	ConntrackTimeouts,
	{
		Feature: "SNAT to all zeros",
		Effect: "a connection that goes to an endpoint directly, from the address and port of one that goes there by a " +
			"ClusterIP, fails",
		Answer: "nothing: OVN asks and does without",
		Source: "lib/dpif-netlink.c: dpif_netlink_ct_get_features",
	},
	{
		Feature: "dp_hash algorithm 1",
		Effect:  "which endpoint of a Service a connection gets follows the older hash (0), as the datapath has it",
		Answer:  "nothing: the endpoints share the connections",
		Source:  "ofproto/ofproto-dpif.c: check_max_dp_hash_alg; Actions.c: OvsExecuteHash",
		Forbids: []string{"hash algorithm "},
	},
	{
		Feature: "megaflows",
		Effect:  "the first packets of every connection go through ovs-vswitchd: new connections are slower",
		Answer:  "nothing",
		Source:  "Flow.c: FlowEqual; OVS_FLOW_ATTR_MASK is parsed and not used",
	},
	{
		Feature: "large tables",
		Effect: "connections and translations are found in tables of 1,024 lists, flows in one of 2,048: tens of " +
			"thousands of connections at a time are slow, 2,097,152 are the most",
		Answer: "every zone has a bound, and by default all bounds of a node fit the table " +
			"([connections](reference.md#connections-of-pods-on-windows-nodes)). The endpoints of a Service are not bounded",
		Source: "Conntrack.h: CT_HASH_TABLE_SIZE, CT_MAX_ENTRIES; Conntrack-nat.h: NAT_HASH_TABLE_SIZE; Flow.c: " +
			"OVS_FLOW_TABLE_SIZE",
	},
	{
		Feature: "limits of zones",
		Effect: "0, which OVN and Open vSwitch have for no limit, lets no connection begin. A default limit " +
			"(ct_zone_default_limit) takes the place of each zone's own",
		Answer: "no row has 0: a zone that is not bounded may have the whole table. weft sets no default limit",
		Source: "Conntrack.c: OvsCtExecute_, OvsCtSetZoneLimit",
	},
	{
		Feature: "QoS",
		Effect:  "no policing and no shaping",
		Answer:  "weft sets none",
		Source:  "Documentation/faq/releases.rst",
	},
	{
		Feature: "meters",
		Effect: "as many as there is memory for, of one band each, although Meter.h names 32. One that is changed is " +
			"added before its former self, which is never freed",
		Answer: "weft has one, of one band, which bounds the log lines of policies: beside Windows nodes all rules share " +
			"it (fair=false), or each rule that is logged would want its own. No flow of a Windows node has it. " +
			"ovn-controller is told of 65,536: of 2^32-1 it can count none",
		Source: "Meter.h: OVS_MAX_METERS, which nothing uses, OVS_MAX_BANDS; Meter.c: OvsNewMeterCmdHandler",
	},
	{
		Feature: "more than one datapath",
		Effect:  "the extension serves one Hyper-V switch: pods, tunnels and the node's gateway share its uplink",
		Answer:  "the agent makes one switch, and takes its bridge for all three",
		Source:  "Switch.c: OvsExtAttach refuses a second switch; Documentation/faq/releases.rst",
	},
}

// Abilities are what packets and flows of Windows nodes may meet, and no line of Limits is about.
var Abilities = []Ability{
	{"outputs", []string{"output"}, "Actions.c: OvsAddPorts, OvsOutputForwardingCtx"},
	{"packets for ovs-vswitchd, by a sample too", []string{"userspace", "sample"},
		"Actions.c: OvsOutputUserspaceAction, OvsExecuteSampleAction"},
	{"one VLAN tag", []string{"push_vlan", "pop_vlan", "match vlan"}, "Actions.c: OvsDoExecuteActions, " +
		"OvsPopVlanInPktBuf; Flow.c: OvsExtractFlow, _MapKeyAttrToFlowPut"},
	{"recirculation and hashes", []string{"recirc", "match recirc_id", "hash", "match dp_hash"},
		"Actions.c: OvsExecuteRecirc, OvsExecuteHash"},
	{"meters", []string{"meter"}, "Meter.c: OvsMeterExecute"},
	{"sets", []string{"set eth", "set ipv4", "set tcp", "set udp"},
		"Actions.c: OvsUpdateEthHeader, OvsUpdateIPv4Header, OvsUpdateTcpPorts, OvsUpdateUdpPorts"},
	{"connection tracking", []string{"ct", "ct commit", "ct force_commit", "ct zone", "ct mark", "ct labels",
		"match ct_state", "match ct_zone", "match ct_mark", "match ct_labels", "match ct_orig_tuple4"},
		"Conntrack.c: OvsExecuteConntrackAction, OvsCtExecute_, OvsConntrackSetMark, OvsConntrackSetLabels"},
	{"translation", []string{"ct nat", "ct nat_src", "ct nat_dst", "ct nat_ip_min", "ct nat_ip_max",
		"ct nat_proto_min", "ct nat_proto_max"},
		"Conntrack.c: OvsExecuteConntrackAction; Conntrack-nat.c: OvsNatTranslateCtEntry, OvsNatPacket"},
	{"tunnels", []string{"set tunnel", "set tun_id", "set tun_ipv4_src", "set tun_ipv4_dst", "set tun_ipv6_src",
		"set tun_ipv6_dst", "set tun_ttl", "set tun_df", "set tun_csum", "set tun_oam", "set tun_tp_dst",
		"set tun_geneve_opts", "match tun_id", "match tun_ipv4_src", "match tun_ipv4_dst", "match tun_ipv6_src",
		"match tun_ipv6_dst", "match tun_ttl", "match tun_geneve_opts"},
		"Flow.c: OvsTunnelAttrToIPTunnelKey, MapTunAttrToFlowPut, MapFlowTunKeyToNlKey; Geneve.c: OvsEncapGeneve, " +
			"OvsDecapGeneve"},
	{"keys", []string{"match in_port", "match eth", "match eth_type", "match ipv4", "match ipv6", "match tcp", "match udp",
		"match sctp", "match icmp", "match icmpv6", "match arp"},
		"Flow.c: OvsExtractFlow, _MapKeyAttrToFlowPut, MapFlowKeyToNlKey"},
}

// Undecided is what forbids a name that no line of Limits and Abilities has.
const Undecided = "the table has no line of it"

// Forbidden is the feature of the table that forbids a datapath action, or a key that a flow has or matches, as
// test/hyperv's record names it: the extension of the Hyper-V switch does something else than OVN means, or nobody has
// looked what it does. Empty: nothing does.
func Forbidden(executed string) (feature string) {
	feature = Undecided
	for _, l := range Limits {
		if slices.Contains(l.Bears, executed) {
			return ""
		}
		for _, name := range l.Forbids {
			if name == executed {
				return l.Feature
			}
			if strings.HasSuffix(name, " ") && strings.HasPrefix(executed, name) {
				feature = l.Feature
			}
		}
	}
	for _, a := range Abilities {
		if slices.Contains(a.Does, executed) {
			return ""
		}
	}
	return feature
}
