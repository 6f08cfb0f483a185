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
		Effect: "flows track all IP packets of pods, and the driver tracks only TCP, UDP and ICMP (ICMPv6). It drops " +
			"packets of other protocols from and to pods, such as SCTP, GRE and ESP",
		Answer: "no switch of a Windows node has SCTP load balancers, and no load balancer has SCTP endpoints on " +
			"Windows nodes. An Event on the Service and one on the Node say so",
		Source: "Conntrack.c: OvsDetectCtPacket, OvsCtEntryCreate; Actions.c: OvsDoExecuteActions drops a packet whose ct " +
			"action fails",
	}
	ClonedPackets = Limit{
		Feature: "clone",
		Effect: "ovs-vswitchd needs clone for an action that cannot be undone and is not a packet's last one, such as " +
			"connection tracking right behind a patch port. On Windows it leaves such an action out. That would concern " +
			"all packets that a gateway router sends, and translated packets that go back into the router of a " +
			"distributed gateway",
		Answer: "the external bridge tracks packets from the patch port in a table of its own, a Windows node is no " +
			"gateway for other nodes, and Weft mirrors no ports",
		Source: "Actions.c: OvsDoExecuteActions; Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: " +
			"clone_xlate_actions; ofproto/ofproto-dpif.c: check_clone, check_max_sample_nesting",
		Forbids: []string{"clone"},
	}
	ConntrackTimeouts = Limit{
		Feature: "connection tracking timeout policies",
		Effect: "ovs-vswitchd believes that the datapath has them, and they have no effect. So nobody can set how " +
			"long the driver remembers a connection. It forgets a connection 30 s after its end. A server that has " +
			"ended the connection remembers it for a minute or more. If another client comes from the same address and " +
			"port in that time, the server may not answer. All clients behind a gateway have one address",
		Answer: "Weft sets none",
		Source: "Conntrack.c: OvsExecuteConntrackAction has no OVS_CT_ATTR_TIMEOUT; Conntrack-tcp.c: " +
			"OvsConntrackUpdateTcpEntry; Documentation/faq/releases.rst",
		Forbids: []string{"ct timeout"},
	}
	InjectedPackets = Limit{
		Feature: "learning from injected packets",
		Effect: "a packet that ovn-controller injects has no port in the driver. If its flow hands it to ovs-vswitchd once " +
			"more (userspace), the driver drops it there. So routers do not learn the MAC addresses of neighbours on " +
			"the node itself",
		Answer: "gateway routers of Windows nodes have rows Static_MAC_Binding for the cluster's router and for their " +
			"host",
		Source: "User.c: OvsExecuteDpIoctl, OvsCreateQueueNlPacket; Actions.c: OvsOutputUserspaceAction",
		Bears:  []string{"userspace lost"},
	}
	HopLimit = Limit{
		Feature: "set of IPv6 fields",
		Effect: "routers do not count down the hop limit of IPv6 packets, without an error. So traceroute does not " +
			"show these routers",
		Answer: "nothing. No flow needs another field of IPv6: connection tracking translates addresses, and " +
			"ovs-vswitchd and ovn-controller answer ARP, ICMP and neighbour discovery. An Event on the Node names the " +
			"limit",
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
		Effect: "to forget one connection, the driver forgets all translations of its zone. ovn-controller asks for " +
			"that when a UDP endpoint goes. A client that has sent to it within the last minute would lose the answers " +
			"of all its translated IPv4 connections, such as those to ClusterIPs. On the node's gateway router all " +
			"clients outside would lose theirs. Over IPv6 the driver forgets nothing",
		Answer: "the agent does not pass such a request to the switch, unless its key conntrack-flush is true. " +
			"ovn-controller sends it for load balancers of all nodes. So a client on a Windows node, or one outside " +
			"whose packets come by the node's gateway router, goes on sending to the endpoint that is gone while it keeps " +
			"its socket, until it has been silent for 30 s, or for a minute if that endpoint has never answered",
		Source: "Conntrack.c: OvsCtFlush reads the links of connections outside of their lists' locks, and ends with " +
			"OvsNatFlush of the whole zone, which is that of one switch port or router, MapNlToCtTuple refuses IPv6 " +
			"addresses; lib/ct-dpif.c: ct_dpif_flush_tuple, which asks for the entries that match alone; before Open vSwitch " +
			"3.1 there is no such flush (NXT_CT_FLUSH)",
	},
	ClonedPackets,
	{
		Feature: "sample with actions of its own",
		Effect: "of several actions within a sample, the driver does only the first one, unless the sample is only a " +
			"copy for ovs-vswitchd. ovs-vswitchd finds that samples may be nested in three levels, and uses none of " +
			"them in place of clone",
		Answer: "as for clone. Weft itself samples nothing. A log line of a policy has a meter, for which " +
			"ovs-vswitchd would use a sample. So the agent takes the meter out of the flows of br-int, and limits " +
			"the number of lines itself",
		Source: "Actions.c: OvsExecuteSampleAction; Recirc.c: OvsProcessDeferredActions; Flow.c: " +
			"OvsProbeSupportedFeature; ofproto/ofproto-dpif.c: check_max_sample_nesting; ofproto/ofproto-dpif-xlate.c: " +
			"clone_xlate_actions",
		Forbids: []string{"sample actions", "sample nesting "},
	},
	{
		Feature: "nd_ext",
		Effect: "ovs-vswitchd refuses flows that set the reserved field or the type of an option in neighbour " +
			"discovery, and all other flows of their transaction. Linux' kernel datapath has this limit, too",
		Answer: "Weft has no such flow: the host has permanent entries for its neighbours, and gateway routers " +
			"have rows Static_MAC_Binding. If the external bridge refuses a flow, the agent installs all others, " +
			"and the Event ExternalFlowsRefused names the flow. For br-int there is no such Event",
		Source:  "ofproto/ofproto-dpif.c: check_nd_extensions, check_actions",
		Forbids: []string{"set nd_ext", "match nd_ext"},
	},
	InjectedPackets,
	{
		Feature: "unknown actions",
		Effect: "the driver skips them without an error. The result is an error only if no later action of the packet " +
			"has a result, and no output is left to do",
		Answer: "nothing: ovs-vswitchd probes for the actions that OVN uses, except for trunc",
		Source: "Actions.c: OvsDoExecuteActions",
		Forbids: []string{"set_masked", "push_eth", "pop_eth", "push_nsh", "pop_nsh", "add_mpls", "dec_ttl", "psample",
			"tunnel_push", "tunnel_pop", "lb_output", "action ", "ct part ", "ct nat part "},
	},
	{
		Feature: "trunc",
		Effect:  "ovs-vswitchd believes that the datapath has it, and copies of packets are not cut",
		Answer:  "Weft mirrors no ports",
		Source:  "Actions.c: OvsDoExecuteActions has no OVS_ACTION_ATTR_TRUNC; ofproto/ofproto-dpif.c: check_trunc_action",
		Forbids: []string{"trunc"},
	},
	{
		Feature: "explicit drop",
		Effect:  "there is no such action: a flow without actions drops",
		Answer:  "nothing",
		Source:  "ofproto/ofproto-dpif.c: check_drop_action",
		Forbids: []string{"drop"},
	},
	{
		Feature: "recirculation",
		Effect: "the driver does at most ten further passes (recirculations) and samples of a packet, together. A " +
			"sample that is only a copy for ovs-vswitchd does not count. A packet that needs one more pass is lost at " +
			"this point, after what it did before. The driver also drops a packet if more than five recirculations " +
			"would be nested. A packet's own recirculations are never nested: each one has ended when the next one begins",
		Answer: "nothing: the longest way takes seven further passes, from outside by the gateway and a load balancer " +
			"to a pod with policies",
		Source: "Recirc.h: DEFERRED_ACTION_QUEUE_SIZE, DEFERRED_ACTION_EXEC_LEVEL; Recirc.c: OvsAddDeferredActions, " +
			"OvsProcessDeferredActions; Actions.c: OvsActionsExecute, OvsDoRecirc",
		Forbids: []string{"recirc lost"},
	},
	{
		Feature: "first packet to a peer",
		Effect: "the driver drops the first packets to the other end of a tunnel, until Windows has found the MAC " +
			"address of the next hop",
		Answer: "nothing: BFD and retransmissions send further packets",
		Source: "IpHelper.c: OvsFwdIPHelperRequest; Geneve.c: OvsEncapGeneve",
	},
	HopLimit,
	{
		Feature: "set of other fields",
		Effect: "the driver ignores a set of fields of ARP, ICMP, neighbour discovery, SCTP and MPLS, and of a " +
			"packet's mark and priority, without an error",
		Answer: "ovs-vswitchd sets fields of ARP, ICMP and neighbour discovery itself. OVN marks answers of pods that " +
			"have an egress address. ovs-vswitchd sets and reads this mark itself, before the packet goes on",
		Source: "Actions.c: OvsExecuteSetAction; lib/odp-util.c: commit_set_arp_action, commit_set_icmp_action, " +
			"commit_set_nd_action, commit_set_pkt_mark_action",
		Forbids: []string{"set ", "match priority"},
		Bears:   []string{"set skb_mark 42", "set skb_mark 0", "match skb_mark"}, // 42: ovn's answerMark
	},
	{
		Feature: "ports of IPv6",
		Effect: "if a flow sets a TCP or UDP port of an IPv6 packet, the driver changes the packet. In the packet's " +
			"key it changes a part of the source address in place of the port. So the flows that follow are those of " +
			"another packet",
		Answer:  "no flow of OVN or Weft sets these ports: connection tracking translates them",
		Source:  "Actions.c: OvsUpdateTcpPorts, OvsUpdateUdpPorts",
		Forbids: []string{"set tcp6", "set udp6"},
	},
	{
		Feature: "set of DSCP",
		Effect: "if a flow changes the class of traffic of an IPv4 packet, the driver breaks the header's checksum, " +
			"and the receiver drops the packet",
		Answer:  "no flow of OVN or Weft sets it: Weft's QoS rows only set marks",
		Source:  "Actions.c: OvsUpdateIPv4Header; Offload.c: ChecksumUpdate16",
		Forbids: []string{"set ipv4_dscp"},
	},
	{
		Feature: "headers in pieces",
		Effect: "Windows may hand over a packet in several pieces of memory. To set or translate addresses of a TCP " +
			"or UDP packet, the driver asks for 20 bytes in one piece, however long the headers are. If the first piece " +
			"ends within the headers, the driver writes behind that piece, and the machine may stop",
		Answer: "nothing. It is not known in which pieces Windows hands over packets. The emulated extension has " +
			"every packet in one piece",
		Source: "Actions.c: OvsUpdateIPv4Header, OvsUpdateAddressAndPort, OvsUpdateAddressAndPortForIpv6 compute " +
			"hdrSize, OvsGetHeaderBySize; BufferMgmt.c: OvsPartialCopyNBL",
	},
	{
		Feature: "congestion bits",
		Effect: "a router between the nodes may mark a tunnel's packet (ECN). The inner packet does not get the mark: " +
			"a set of the class of traffic does not change these two bits of IPv4, and does not change IPv6 at all. A " +
			"tunnel over IPv6 has no class of traffic in either direction",
		Answer: "nothing: connections notice the congestion when packets are lost",
		Source: "Actions.c: OvsUpdateIPv4Header, OvsExecuteSetAction; Geneve.c: OvsEncapGeneve, OvsDecapGeneve; " +
			"ofproto/tunnel.c: tnl_process_ecn",
		Bears: []string{"set ipv4_ecn", "set ipv6_ecn", "set tun_tos", "match tun_tos"},
	},
	{
		Feature: "flow label",
		Effect: "the key of an IPv6 packet has the bytes of its flow label in reverse order. When ovs-vswitchd " +
			"looks at the flow again, it believes that the flow is for another label",
		Answer: "no flow of OVN or Weft matches a label. Where a flow sets the hop limit, ovs-vswitchd itself matches " +
			"and sets the whole header. Then it may change the label that the flow sets, and the driver ignores that " +
			"(set of IPv6 fields)",
		Source: "PacketParser.c: OvsParseIPv6; Flow.c: _MapFlowIpv6KeyToNlKey; lib/odp-util.c: commit; " +
			"ofproto/ofproto-dpif-upcall.c: recv_upcalls, revalidate_ukey",
		Bears: []string{"match ipv6_label"},
	},
	{
		Feature: "a second VLAN tag",
		Effect: "if a packet has a tag beside its bytes (Ieee8021QNetBufferListInfo), the driver pushes no second one. " +
			"To push a tag of 802.1ad, it pushes one of 802.1Q. There is no error in either case. A key has one tag",
		Answer:  "Weft's networks have no tags",
		Source:  "Actions.c: OvsDoExecuteActions; Flow.c: OvsExtractFlow, _MapKeyAttrToFlowPut",
		Forbids: []string{"push_vlan again", "push_vlan 802.1ad", "match vlan again"},
	},
	{
		Feature: "MPLS",
		Effect: "the driver pushes and pops labels, and does not change them. ovs-vswitchd believes that a key has up " +
			"to three labels, but it has only the outer one. The emulated extension has no MPLS",
		Answer: "no flow of OVN or Weft has labels",
		Source: "Actions.c: OvsActionMplsPush, OvsActionMplsPop, OvsExecuteSetAction; Flow.c: _MapKeyAttrToFlowPut, " +
			"OvsProbeSupportedFeature",
		Forbids: []string{"push_mpls", "pop_mpls", "set mpls", "match mpls"},
	},
	{
		Feature: "other fields of tunnels",
		Effect: "the driver drops a packet if a flow sets its tunnel's source port, or options of VXLAN, ERSPAN or " +
			"GTP-U. Of an arriving tunnel's packet it tells ovs-vswitchd neither the ports nor three flags: do not " +
			"fragment, checksum and OAM",
		Answer: "no flow of OVN or Weft uses these fields. Up to 3.5, ovs-vswitchd matches the flags for fragments " +
			"and checksum of every arriving packet, and has one flow for both values of a flag",
		Source: "Flow.c: OvsTunnelAttrToIPTunnelKey, nlFlowTunnelKeyPolicy, MapFlowTunKeyToNlKey; Geneve.c: " +
			"OvsDecapGeneve; ofproto/tunnel.c: tnl_wc_init",
		Forbids: []string{"set tun_tp_src", "set tun_vxlan_opts", "set tun_pad", "set tun_erspan_opts", "set tun_gtpu_opts",
			"match tun_oam", "match tun_tp_src", "match tun_tp_dst", "match tun_vxlan_opts", "match tun_pad",
			"match tun_erspan_opts", "match tun_gtpu_opts", "match tunnel part "},
		Bears: []string{"match tun_df", "match tun_csum"},
	},
	{
		Feature: "helpers of connection tracking",
		Effect:  "the driver drops a packet whose flow asks for a helper other than that of FTP or TFTP",
		Answer:  "no flow of OVN or Weft asks for a helper",
		Source:  "Conntrack.c: OvsExecuteConntrackAction, OvsCtExecute_",
		Forbids: []string{"ct helper"},
	},
	{
		Feature: "events of connections",
		Effect: "the driver reports new and removed connections, even if no flow asks for that. If a flow asks for " +
			"changes of marks or labels, it reports changes of both. It reports nothing else",
		Answer: "nothing: no program asks for these events",
		Source: "Conntrack.c: OvsExecuteConntrackAction, OvsCtExecute_, OvsCtEntryDelete",
		Bears:  []string{"ct eventmask"},
	},
	{
		Feature: "choice of a translation's port",
		Effect: "of a range of ports, the driver tries one that a hash chooses, and then the next ones in their " +
			"order, whatever a flow asks for",
		Answer: "nothing: each free port is as good as another",
		Source: "Conntrack.c: OvsExecuteConntrackAction; Conntrack-nat.c: OvsNatTranslateCtEntry",
		Bears:  []string{"ct nat_persistent", "ct nat_hash", "ct nat_random"},
	},
	{
		Feature: "unknown keys",
		Effect: "the driver stores a flow without the parts of the key that it does not know. So packets that do not " +
			"fit the flow hit it, too",
		Answer:  "nothing: ovs-vswitchd probes for the keys that OVN uses",
		Source:  "Flow.c: nlFlowKeyPolicy, _MapKeyAttrToFlowPut",
		Forbids: []string{"key ", "match key ", "match nsh", "match packet_type", "match tunnel_info"},
	},
	{
		Feature: "tcp_flags",
		Effect: "the driver stores a flow without TCP's flags. If ovs-vswitchd decides by the flags of a packet, the " +
			"next packets of the connection get the same actions, even with other flags. After some seconds " +
			"ovs-vswitchd looks at the flow again, and corrects it",
		Answer: "two flows of Weft match flags, one for each version of IP. On the gateway's bridge they drop resets " +
			"that the host sends and that belong to no connection. Such a reset still goes out if the host has sent " +
			"another packet with the same addresses and ports, and without that flag, some seconds before",
		Source: "Flow.c: _MapKeyAttrToFlowPut and MapFlowKeyToNlKey have no OVS_KEY_ATTR_TCP_FLAGS; " +
			"ofproto/ofproto-dpif-upcall.c: recv_upcalls, revalidate_ukey",
		Forbids: []string{"match tcp_flags "},
		Bears:   []string{"match tcp_flags rst"},
	},
	{
		Feature: "nd_target",
		Effect: "when a neighbour solicitation or advertisement comes to ovs-vswitchd for the first time, its target " +
			"and its link-layer addresses are missing, unless the target's bytes look like options, as in 2a02::/16. So a " +
			"logical switch does not answer for its ports, and sends the question to all of them",
		Answer: "nothing: the port with the address answers itself, and a router answers after ovn-controller has " +
			"processed the packet",
		Source: "PacketParser.c: OvsParseIcmpV6 looks for options where the target is",
		Bears:  []string{"match nd_target", "match nd_sll", "match nd_tll"},
	},
	{
		Feature: "translation to a port that is taken",
		Effect: "if a connection is translated to an address only, and the port there is taken, the driver chooses " +
			"another port, and further zones do not know that port. So two clients hinder each other if they ask an " +
			"endpoint on the node through its gateway router at the same time from the same port. For ICMPv6 the driver " +
			"only remembers the port that it chooses, and does not change the message. So no answer belongs to the " +
			"connection. This also concerns a translation to a range of ports",
		Answer: "the agent translates ICMPv6 to an address only. Nothing else: the problem needs two clients with " +
			"the same port, or with the same identifier of ICMPv6",
		Source: "Conntrack-nat.c: OvsNatTranslateCtEntry, OvsNatPacket",
	},
	{
		Feature: "check_pkt_len",
		Effect:  "a router with gateway_mtu would send every packet through ovs-vswitchd",
		Answer: "gateway routers of Windows nodes and the shared gateway have no gateway_mtu. So they do not answer a " +
			"packet that is too large for a tunnel",
		Source: "Actions.c: OvsDoExecuteActions; Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: " +
			"xlate_check_pkt_larger",
		Forbids: []string{"check_pkt_len"},
	},
	{
		Feature: "ct_clear",
		Effect: "ovs-vswitchd leaves the action out. Flows that follow see no connection, but in the driver the " +
			"packet keeps the zone and the tuple of its last lookup. The next row says what follows from that",
		Answer:  "as in the next row",
		Source:  "Flow.c: OvsProbeSupportedFeature; ofproto/ofproto-dpif-xlate.c: compose_ct_clear_action, clear_conntrack",
		Forbids: []string{"ct_clear"},
	},
	{
		Feature: "tracking in two zones",
		Effect: "the driver may commit an IPv4 packet by the tuple that it has from another zone, and not by its own " +
			"addresses. OVN tracks all packets of pods as soon as there is a Service or a policy. So pings between pods " +
			"of one node become invalid, and connections by a ClusterIP to an endpoint on the client's node, too",
		Answer: "before a connection is committed, its packet is looked up in a zone that has no connections. A reply " +
			"is looked up there before a router looks it up a second time in one zone. Both lookups are in the flows of " +
			"the agent and of ovn-controller (key conntrack-lookup)",
		Source: "Conntrack.c: OvsPickupCtTupleAsLookupKey, OvsCtExecute_, since 2.17",
	},
	{
		Feature: "ICMP errors",
		Effect: "an error over IPv4 belongs to no connection, and is invalid. An error over IPv6 is related to its " +
			"connection, and the packet within it is not translated back. So pods do not learn of a smaller MTU outside " +
			"the cluster. If a policy selects a pod of the node, the node's pods do not learn either, over IPv4, that a " +
			"UDP port is closed",
		Answer: "nothing: the MTU of pods fits the tunnels. A packet that leaves the cluster over a link with a " +
			"smaller MTU is lost. An error over IPv6 about TCP belongs to no connection, since TCP has zones of " +
			"its own",
		Source: "Conntrack.c: OvsCtSetupLookupCtx, OvsProcessConntrackEntry; Conntrack-nat.c: OvsNatPacket",
	},
	{
		Feature: "IPv6 tracked flows",
		Effect: "packets of a tracked IPv6 connection never hit the flow that was made for them. So each packet goes " +
			"through ovs-vswitchd",
		Answer: "nothing that helps. [Measurements](measurements.md#tracked-ipv6-on-a-windows-node) has the cost, and " +
			"the remedies that were considered",
		Source: "Flow.c: OvsLookupFlow, FlowEqual: the key in the packet has a tuple, the flow's has none",
	},
	{
		Feature: "ct_orig_tuple6",
		Effect:  "ovs-vswitchd does not get the tuple of an IPv6 connection, and refuses flows that match its addresses",
		Answer:  "no flow of Weft matches them",
		Source:  "Flow.c: MapFlowKeyToNlKey; ofproto/ofproto-dpif.c: check_ct_orig_tuple6, check_mask",
		Forbids: []string{"match ct_orig_tuple6"},
	},
	{
		Feature: "FTP and TFTP",
		Effect: "helpers in the driver read packets of TCP port 21 and packets to UDP port 69, even if no flow " +
			"asks for that. For a translated packet, its new ports decide. The helpers search for the end of a " +
			"command without a bound, wait for a lock that they hold themselves, and keep connections that are " +
			"gone. So a pod could stop the machine",
		Answer: "the agent lets no such connection begin, unless its key conntrack-ftp is true. It drops packets " +
			"with port 21 or 69 of TCP or UDP, and packets that a Service leads to such a port. The host's own " +
			"packets of these ports on the uplink pass, and belong to no connection. If they are in fragments of " +
			"IPv4, they are dropped where the gateway's flows track them",
		Source: "Conntrack.c: OvsCtExecute_, OvsDetectFtpPacket, OvsDetectFtp6Packet, OvsDetectTftpPacket, " +
			"OvsDetectTftp6Packet; Conntrack-ftp.c: OvsCtHandleFtp; Conntrack-tcp.c: OvsCtHandleTftp; Conntrack-related.c: " +
			"OvsCtRelatedLookup, OvsCtRelatedEntryCreate, OvsCtRelatedKeyAreSame",
		Forbids: []string{"helper ftp", "helper tftp"},
	},
	{
		Feature: "protocols of translations",
		Effect: "the driver finds a translation without regard to the protocol. For example, a client sends UDP to a " +
			"server by a Service or the gateway, and the server sends a TCP packet to the client's port. Then the " +
			"driver writes beyond the memory of the UDP connection, and may stop the machine. A UDP packet passes as an " +
			"answer of a TCP connection. A port that one protocol uses is taken for the others, too",
		Answer: "TCP has zones of its own. So only UDP and ICMP can be taken for each other, and their connections " +
			"have memory of the same size. Fragments are put together in a zone without connections before their " +
			"protocol counts",
		Source: "Conntrack-nat.c: OvsNatKeyAreSame, OvsNatTranslateCtEntry; Conntrack.c: OvsCtSetupLookupCtx, " +
			"OvsCtUpdateEntry; Conntrack-tcp.c: OvsConntrackUpdateTcpEntry; Conntrack-other.c: OvsConntrackUpdateOtherEntry",
		Forbids: []string{"other protocol "},
	},
	{
		Feature: "ICMPv6 errors of no connection",
		Effect: "if such an error is committed, it begins a connection with the key of the packet within it and the " +
			"memory of ICMP. The driver writes a TCP packet with that key beyond this memory, and may stop the machine. " +
			"Both packets may come from one sender, a pod or a machine outside, to a pod, a node port or the host",
		Answer: "TCP has zones of its own, in which no error begins a connection. So errors over IPv6 about TCP " +
			"belong to no connection, as all errors over IPv4 do",
		Source: "Conntrack-icmp.c: OvsConntrackValidateIcmp6Packet; Conntrack.c: OvsCtSetupLookupCtx, OvsCtEntryCreate, " +
			"OvsCtUpdateEntry; Conntrack-tcp.c: OvsConntrackUpdateTcpEntry",
		Forbids: []string{"other protocol tcp over icmpv6"},
		Bears:   []string{"other protocol udp over icmpv6"},
	},
	{
		Feature: "length of ICMPv6",
		Effect: "to translate a message, the driver reads as many bytes as the IPv6 header says, even beyond the end " +
			"of the packet. A pod may ping a machine outside over IPv6 by the gateway. That machine could stop the node " +
			"by an answer whose header gives too large a length",
		Answer:  "nothing: no flow can recognize such a message",
		Source:  "Actions.c: OvsUpdateAddressAndPortForIpv6, OvsCalculateICMPv6Checksum",
		Forbids: []string{"icmpv6 beyond the packet"},
	},
	{
		Feature: "ICMP without a header",
		Effect: "a tracked message of ICMP or ICMPv6 with less than 8 bytes stops the machine: the driver reads a " +
			"header that it has not found. Every pod or machine that may send such a message to a pod, a node port or " +
			"the host could do that",
		Answer:  "nothing, for IPv4 and IPv6. Over IPv4, flows cannot tell such a message from an answer to a ping",
		Source:  "Conntrack.c: OvsCtSetupLookupCtx; PacketParser.h: OvsGetIcmp",
		Forbids: []string{"icmp without a header"},
	},
	{
		Feature: "translations of removed connections",
		Effect: "the driver keeps an expired connection for up to two minutes. A client may ask a Service again from the " +
			"same port meanwhile. If that leads to the same endpoint, the endpoint's port is taken by the expired " +
			"connection. Then the driver leads the client to another port of the endpoint, where mostly nobody listens. " +
			"The new connection also loses its translation when the driver removes the expired one. " +
			"The translation of the expired one is left, and points to memory that is free",
		Answer: "nothing: the client begins another connection, from another port. A client with a fixed port, such as " +
			"some of UDP, has to wait for two minutes",
		Source: "Conntrack-nat.c: OvsNatTranslateCtEntry, OvsNatDeleteKey; Conntrack.c: OvsCtEntryDelete, " +
			"OvsCtSetupLookupCtx, OvsConntrackEntryCleaner",
		Bears: []string{"translation without connection"},
	},
	{
		Feature: "IGMP",
		Effect: "the driver drops it, like all that is not TCP, UDP or ICMP. So nobody learns which pods listen to a " +
			"multicast group",
		Answer: "Weft forwards no multicast between nodes",
		Source: "Conntrack.c: OvsDetectCtPacket",
	},
	ConntrackTimeouts,
	{
		Feature: "SNAT to all zeros",
		Effect: "a client may have a connection to an endpoint by a ClusterIP. Then a second connection from the same " +
			"address and port to the endpoint itself fails",
		Answer: "nothing: OVN finds out that the datapath lacks this, and does without it",
		Source: "lib/dpif-netlink.c: dpif_netlink_ct_get_features",
	},
	{
		Feature: "dp_hash algorithm 1",
		Effect:  "the endpoint of a Service's connection is chosen by the older hash (0)",
		Answer:  "nothing: connections are still spread over all endpoints",
		Source:  "ofproto/ofproto-dpif.c: check_max_dp_hash_alg; Actions.c: OvsExecuteHash",
		Forbids: []string{"hash algorithm "},
	},
	{
		Feature: "megaflows",
		Effect: "a flow of the driver fits only packets with exactly its key. So the first packets of every " +
			"connection go through ovs-vswitchd, and new connections are slower",
		Answer: "nothing",
		Source: "Flow.c: FlowEqual; OVS_FLOW_ATTR_MASK is parsed and not used",
	},
	{
		Feature: "large tables",
		Effect: "the driver has connections in 1,024 lists, translations in 1,024 and flows in 2,048. With tens of " +
			"thousands of connections at the same time it is slow. More than 2,097,152 are not possible",
		Answer: "by default every zone has a bound, and all bounds of a node together fit the table " +
			"([connections](reference.md#connections-of-pods-on-windows-nodes))",
		Source: "Conntrack.h: CT_HASH_TABLE_SIZE, CT_MAX_ENTRIES; Conntrack-nat.h: NAT_HASH_TABLE_SIZE; Flow.c: " +
			"OVS_FLOW_TABLE_SIZE",
	},
	{
		Feature: "limits of zones",
		Effect: "for OVN and Open vSwitch, the limit 0 means that there is no limit. In the driver it lets no " +
			"connection begin. A default limit (ct_zone_default_limit) replaces the limits of all zones",
		Answer: "Weft never writes the limit 0. If a key of bounds is 0, the controller writes the size of the whole " +
			"table, 2,097,152, as the limit of OVN's zones, since a pod's zone without a limit has that of its " +
			"switch. The zones of the external bridge then have no limit. Weft sets no default limit",
		Source: "Conntrack.c: OvsCtExecute_, OvsCtSetZoneLimit",
	},
	{
		Feature: "QoS",
		Effect:  "there is no policing and no shaping",
		Answer:  "Weft sets none",
		Source:  "Documentation/faq/releases.rst",
	},
	{
		Feature: "meters",
		Effect: "a meter has one band, and only memory bounds their number, although Meter.h names 32. To change a " +
			"meter, the driver adds a new one before the former one, and never frees the former one",
		Answer: "Weft has one meter with one band, which bounds the log lines of policies. If there are Windows " +
			"nodes, all rules share it (fair=false): else each rule that is logged would need a meter of its own. " +
			"The agent takes the meter out of the flows of Windows nodes. It tells ovn-controller that there are " +
			"65,536 meters, since ovn-controller cannot count 2^32-1",
		Source: "Meter.h: OVS_MAX_METERS, which nothing uses, OVS_MAX_BANDS; Meter.c: OvsNewMeterCmdHandler",
	},
	{
		Feature: "more than one datapath",
		Effect:  "the extension serves one Hyper-V switch. So pods, tunnels and the node's gateway share its uplink",
		Answer:  "the agent makes one switch, and one bridge of its uplink for all three",
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
