//go:build linux

package hyperv

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// actionNames are those of all actions that ovs-vswitchd knows (OVS_ACTION_ATTR_*), whether the driver has them or not.
var actionNames = map[uint16]string{
	actionOutput: "output", actionUserspace: "userspace", actionSet: "set", actionPushVLAN: "push_vlan",
	actionPopVLAN: "pop_vlan", actionSample: "sample", actionRecirc: "recirc", actionHash: "hash",
	actionPushMPLS: "push_mpls", actionPopMPLS: "pop_mpls", actionCT: "ct", actionMeter: "meter",
	11: "set_masked", 13: "trunc", 14: "push_eth", 15: "pop_eth", 16: "ct_clear", 17: "push_nsh", 18: "pop_nsh",
	20: "clone", 21: "check_pkt_len", 22: "add_mpls", 23: "dec_ttl", 24: "drop", 25: "psample", 26: "tunnel_push",
	27: "tunnel_pop", 28: "lb_output",
}

// What is counted beside actions: a recirculation that had no place left, and a packet for ovs-vswitchd that came to
// nobody.
const (
	recircLost    = "recirc lost"
	userspaceLost = "userspace lost"
)

// keyNames are those of all parts of a key (OVS_KEY_ATTR_*). The parts of nested ones have names of their own.
var keyNames = map[uint16]string{
	keyEncap: "encap", keyPriority: "priority", keyInPort: "in_port", keyEthernet: "eth", keyVLAN: "vlan",
	keyEtherType: "eth_type", keyIPv4: "ipv4", keyIPv6: "ipv6", keyTCP: "tcp", keyUDP: "udp", keyICMP: "icmp",
	keyICMPv6: "icmpv6", keyARP: "arp", keyND: "nd", keySKBMark: "skb_mark", keyTunnel: "tunnel", keySCTP: "sctp",
	keyTCPFlags: "tcp_flags", keyDPHash: "dp_hash", keyRecircID: "recirc_id", keyMPLS: "mpls", keyCtState: "ct_state",
	keyCtZone: "ct_zone", keyCtMark: "ct_mark", keyCtLabels: "ct_labels", keyCtTupleIPv4: "ct_orig_tuple4",
	keyCtTupleIPv6: "ct_orig_tuple6", keyNSH: "nsh", keyPacketType: "packet_type", keyNDExtensions: "nd_ext",
	keyTunnelInfo: "tunnel_info",
}

// tunnelNames are those of a tunnel's parts (OVS_TUNNEL_KEY_ATTR_*).
var tunnelNames = map[uint16]string{
	tunnelID: "tun_id", tunnelIPv4Src: "tun_ipv4_src", tunnelIPv4Dst: "tun_ipv4_dst", tunnelTOS: "tun_tos",
	tunnelTTL: "tun_ttl", tunnelDontFragment: "tun_df", tunnelChecksum: "tun_csum", tunnelOAM: "tun_oam",
	tunnelGeneveOpts: "tun_geneve_opts", tunnelTPSrc: "tun_tp_src", tunnelTPDst: "tun_tp_dst",
	tunnelIPv6Src: "tun_ipv6_src", tunnelIPv6Dst: "tun_ipv6_dst",
	11: "tun_vxlan_opts", 14: "tun_pad", 15: "tun_erspan_opts", 16: "tun_gtpu_opts",
}

// ndParts are the fields of neighbour discovery's key, and where each ends.
var ndParts = []struct {
	name string
	end  int
}{{"nd_target", 16}, {"nd_sll", 22}, {"nd_tll", 28}}

// tcpFlags are the names of the flags' bits, the lowest one first.
var tcpFlags = []string{"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"}

// ctNames are those of what a ct action asks for (OVS_CT_ATTR_*), and natNames of its translation (OVS_NAT_ATTR_*).
var (
	ctNames = map[uint16]string{
		ctAttrCommit: "ct commit", ctAttrZone: "ct zone", ctAttrMark: "ct mark", ctAttrLabels: "ct labels",
		ctAttrHelper: "ct helper", ctAttrNAT: "ct nat", ctAttrForceCommit: "ct force_commit",
		ctAttrEventMask: "ct eventmask", ctAttrTimeout: "ct timeout",
	}
	natNames = map[uint16]string{
		natAttrSrc: "ct nat_src", natAttrDst: "ct nat_dst", natAttrIPMin: "ct nat_ip_min", natAttrIPMax: "ct nat_ip_max",
		natAttrProtoMin: "ct nat_proto_min", natAttrProtoMax: "ct nat_proto_max",
		7: "ct nat_persistent", 8: "ct nat_hash", 9: "ct nat_random",
	}
)

// record counts what packets meet and flows match, by its name. The names are written down, where they outlive the
// emulator.
type record struct {
	log    *slog.Logger
	writer io.Writer // nil: none of them is
	counts map[string]uint64
	// unwritten are the lines that writer has not got yet, the first one perhaps in part, and err is why.
	unwritten []byte
	err       error
	// probing: the actions at hand are those by which ovs-vswitchd finds out what there is.
	probing bool
}

// named is an attribute's name, or its number behind what the table has for those without one.
func named(names map[uint16]string, kind uint16, unknown string) string {
	if name := names[kind]; name != "" {
		return name
	}
	return fmt.Sprint(unknown, " ", kind)
}

// action records that a packet has met an action, by its name, and what of it the driver does otherwise than the rest.
// That of a set has its field's.
func (r *record) action(a attribute, p *packet) {
	if a.kind == actionSet {
		r.set(a.data, p)
		return
	}
	name := named(actionNames, a.kind, "action")
	r.add(name)
	switch {
	case a.kind == actionCT:
		r.parts(a.data, ctNames, "ct part")
	case a.kind == actionSample:
		r.sample(a.data)
	case a.kind == actionHash && len(a.data) >= 4 && native.Uint32(a.data) != 0:
		r.add(fmt.Sprint("hash algorithm ", native.Uint32(a.data)))
	case a.kind == actionPushVLAN && p.tag != 0:
		r.add("push_vlan again")
	case a.kind == actionPushVLAN && len(a.data) == 4 && order.Uint16(a.data) != etherVLAN:
		r.add("push_vlan 802.1ad")
	}
}

// parts records what is in a nested attribute. One that is malformed fails, and counts as nothing.
func (r *record) parts(data []byte, names map[uint16]string, unknown string) {
	parts, err := parseAttributes(data)
	if err != nil {
		return
	}
	for _, part := range parts {
		name := named(names, part.kind, unknown)
		r.add(name)
		if name == ctNames[ctAttrNAT] {
			r.parts(part.data, natNames, "ct nat part")
		}
	}
}

// sample records of a sample whether it is more than a packet for ovs-vswitchd, and how many samples are
// within each other.
func (r *record) sample(data []byte) {
	if actions := actionsOfSample(data); len(actions) > 1 || len(actions) == 1 && actions[0].kind != actionUserspace {
		r.add("sample actions")
	}
	if depth := sampleDepth(data); depth > 1 {
		r.add(fmt.Sprint("sample nesting ", depth))
	}
}

func sampleDepth(data []byte) int {
	inner := 0
	for _, a := range actionsOfSample(data) {
		if a.kind == actionSample {
			inner = max(inner, sampleDepth(a.data))
		}
	}
	return 1 + inner
}

// actionsOfSample are none of a malformed one, which fails.
func actionsOfSample(data []byte) []attribute {
	attrs, err := attributesOf(data)
	if err != nil {
		return nil
	}
	actions, err := parseAttributes(attrs[sampleActions])
	if err != nil {
		return nil
	}
	return actions
}

// set records which field a packet meets a set of. Of IPv6 it names the parts that change, since the driver
// changes none, and of IPv4 the one that it keeps and the one that breaks the header's checksum.
func (r *record) set(data []byte, p *packet) {
	list, err := parseAttributes(data)
	if err != nil || len(list) == 0 {
		return // the action fails
	}
	field := list[0]
	name, header := "set "+named(keyNames, field.kind, "field"), p.data[min(p.layers.l3, len(p.data)):]
	switch {
	case field.kind == keySKBMark && len(field.data) == 4:
		name = fmt.Sprint(name, " ", native.Uint32(field.data))
	case (field.kind == keyTCP || field.kind == keyUDP) && p.layers.ipv6:
		name += "6"
	case field.kind == keyTunnel:
		r.tunnel("set ", field.data, false)
	case field.kind == keyIPv4 && len(field.data) == 12 && len(header) >= 20:
		changes := field.data[9] ^ header[1]
		if changes&3 != 0 {
			r.add("set ipv4_ecn")
		}
		if changes&^3 != 0 {
			r.add("set ipv4_dscp")
		}
	case field.kind == keyIPv6 && len(field.data) == 40 && len(header) >= 40:
		for part, changes := range ipv6Changes(header, field.data) {
			if changes {
				r.add("set ipv6_" + part)
			}
		}
	}
	r.add(name)
}

// ipv6Changes says of each part of a header whether a set changes it. A label that stays is the packet's where
// ovs-vswitchd has read the packet (recv_upcalls of ofproto/ofproto-dpif-upcall.c). Where it looks at a flow again it
// is the one of the flow's key, in the order of the host.
func ipv6Changes(header, set []byte) map[string]bool {
	class, label := header[0]<<4|header[1]>>4, order.Uint32(header)&0xfffff
	return map[string]bool{
		"src": !slices.Equal(set[:16], header[8:24]), "dst": !slices.Equal(set[16:32], header[24:40]),
		"label": order.Uint32(set[32:]) != label && native.Uint32(set[32:]) != label,
		"dscp":  (set[37]^class)&^3 != 0,
		"ecn":   (set[37]^class)&3 != 0, "hlimit": set[38] != header[7],
	}
}

// tunnel records the parts of a tunnel that are set or, where the attribute is a mask, those of which the mask has
// a bit. A flag has no bytes: it is there or not.
func (r *record) tunnel(verb string, data []byte, masked bool) {
	parts, err := parseAttributes(data)
	if err != nil {
		return
	}
	for _, part := range parts {
		if !masked || len(part.data) == 0 || !isZero(part.data) {
			r.add(verb + named(tunnelNames, part.kind, "tunnel part"))
		}
	}
}

// add counts a name, unless ovs-vswitchd only tries whether something is there. The first time it is written
// down, too, where it outlives the emulator.
func (r *record) add(name string) {
	if r.probing {
		return
	}
	if r.counts[name]++; r.counts[name] == 1 {
		r.unwritten = append(append(r.unwritten, name...), '\n')
	}
	r.write()
}

// write writes down what has not been. What fails is tried again with each name that is met, and told when
// somebody asks.
func (r *record) write() {
	if r.writer == nil || len(r.unwritten) == 0 {
		return
	}
	n, err := r.writer.Write(r.unwritten)
	r.unwritten = r.unwritten[n:]
	if err != nil && r.err == nil {
		r.log.Error("what packets meet is not written down", "err", err)
	}
	r.err = err
}

// written is an error unless all that was met is written down, where it is to be.
func (r *record) written() error {
	r.write()
	if r.err != nil {
		return fmt.Errorf("what packets meet is not written down: %w", r.err)
	}
	return nil
}

// flow records of a flow what the driver passes over, and what it matches. A packet of a port that ovs-vswitchd does
// not know, such as a tunnel from a node that the chassis has not heard of yet, has a flow with neither mask nor
// actions (recv_upcalls of ofproto/ofproto-dpif-upcall.c). It drops the same packets whatever more it could match.
func (r *record) flow(key, request attributes) {
	r.keys(key)
	data, masked := request[flowAttrMask]
	switch {
	case masked:
		if mask, err := attributesOf(data); err == nil { // the driver does not read it
			r.matches(mask, true)
		}
	case len(request[flowAttrActions]) > 0:
		r.matches(key, false)
	}
}

// keys records those parts of a flow's key that the driver passes over.
func (r *record) keys(attrs attributes) {
	for kind := range attrs {
		if _, ok := keySizes[kind]; !ok && kind != keyEncap && kind != keyTunnel && kind != keyMPLS {
			r.add(fmt.Sprint("key ", kind))
		}
	}
}

// matches records what a flow matches: the parts of its mask that are not all zero. A flow without a mask matches
// each part of its key. The driver has no masks and compares whole keys, so what a flow's key has and does not match
// makes only more flows of one. What it matches and the driver's keys do not have makes one flow of several.
func (r *record) matches(parts attributes, masked bool) {
	for kind, data := range parts {
		matched := func(part []byte) bool { return !masked || !isZero(part) }
		switch {
		case kind == keyEncap:
			if inner, err := attributesOf(data); err == nil {
				if tag := inner[keyVLAN]; tag != nil && matched(tag) {
					r.add("match vlan again")
				}
				delete(inner, keyVLAN)
				r.matches(inner, masked)
			}
		case kind == keyTunnel:
			r.tunnel("match ", data, masked)
		case !matched(data):
		case kind == keyTCPFlags && len(data) == 2:
			mask := order.Uint16(data)
			if !masked {
				mask = 0xfff
			}
			r.add("match tcp_flags " + flagsOf(mask))
		case kind == keyIPv6 && len(data) == 40:
			if matched(data[32:36]) {
				r.add("match ipv6_label")
			}
			if matched(slices.Concat(data[:32], data[36:])) {
				r.add("match ipv6")
			}
		case kind == keyND && len(data) == 28:
			from := 0
			for _, part := range ndParts {
				if matched(data[from:part.end]) {
					r.add("match " + part.name)
				}
				from = part.end
			}
		default:
			r.add("match " + named(keyNames, kind, "key"))
		}
	}
}

// flagsOf names the flags of TCP that a mask has.
func flagsOf(mask uint16) string {
	var names []string
	for bit, name := range tcpFlags {
		if mask&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}
