//go:build linux

package hyperv

import (
	"fmt"
	"io"
	"slices"
)

// deferredLost is counted for a recirculation that had no place left; it is no action.
const deferredLost = 0xffff

var actionNames = map[uint16]string{
	actionOutput: "output", actionUserspace: "userspace", actionSet: "set", actionPushVLAN: "push_vlan",
	actionPopVLAN: "pop_vlan",
	actionSample:  "sample", actionRecirc: "recirc", actionHash: "hash", actionPushMPLS: "push_mpls",
	actionPopMPLS: "pop_mpls",
	actionCT:      "ct", actionMeter: "meter", deferredLost: "recirc lost",
	11: "set_masked", 13: "trunc", 14: "push_eth", 15: "pop_eth", 16: "ct_clear", 17: "push_nsh", 18: "pop_nsh",
	20: "clone",
	21: "check_pkt_len", 22: "add_mpls", 23: "dec_ttl", 24: "drop", 25: "psample",
}

var keyNames = map[uint16]string{
	keyEthernet: "eth", keyVLAN: "vlan", keyIPv4: "ipv4", keyIPv6: "ipv6", keyTCP: "tcp", keyUDP: "udp", keyICMP: "icmp",
	keyICMPv6: "icmpv6", keyARP: "arp", keyND: "nd", keySKBMark: "skb_mark", keyTunnel: "tunnel", keySCTP: "sctp",
	keyMPLS:     "mpls",
	keyPriority: "priority", keyNDExtensions: "nd_ext",
}

// matchNames are those of keys that no action sets, beside keyNames.
var matchNames = map[uint16]string{
	keyInPort: "in_port", keyEtherType: "eth_type", keyTCPFlags: "tcp_flags", keyDPHash: "dp_hash",
	keyRecircID: "recirc_id", keyCtState: "ct_state", keyCtZone: "ct_zone", keyCtMark: "ct_mark", keyCtLabels: "ct_labels",
	keyCtTupleIPv4: "ct_orig_tuple4", keyCtTupleIPv6: "ct_orig_tuple6",
}

// ndParts are the fields of neighbour discovery's key, and where each ends.
var ndParts = []struct {
	name string
	end  int
}{{"nd_target", 16}, {"nd_sll", 22}, {"nd_tll", 28}}

// ctNames are those of what a ct action asks for.
var ctNames = map[uint16]string{
	ctAttrCommit: "ct commit", ctAttrZone: "ct zone", ctAttrMark: "ct mark", ctAttrLabels: "ct labels",
	ctAttrHelper: "ct helper", ctAttrNAT: "ct nat", ctAttrForceCommit: "ct force_commit",
	ctAttrEventMask: "ct eventmask", ctAttrTimeout: "ct timeout",
}

// count records that a packet has met an action, by its name; that of a set has its field's. What a
// ct action asks for counts, too. What ovs-vswitchd tries in order to find out whether it is there
// does not count.
func (e *Extension) count(a attribute) {
	if e.probing {
		return
	}
	name := actionNames[a.kind]
	if name == "" {
		name = fmt.Sprintf("action %d", a.kind)
	}
	if a.kind == actionSet && len(a.data) >= 4 {
		field := native.Uint16(a.data[2:]) & 0x3fff
		if keyNames[field] == "" {
			name += fmt.Sprintf(" field %d", field)
		} else {
			name += " " + keyNames[field]
		}
	}
	e.record(name)
	if a.kind == actionCT {
		e.countTracking(a)
	}
}

func (e *Extension) countTracking(a attribute) {
	parts, err := parseAttributes(a.data)
	if err != nil {
		return // the action fails
	}
	for _, part := range parts {
		name := ctNames[part.kind]
		if name == "" {
			name = fmt.Sprintf("ct part %d", part.kind)
		}
		e.record(name)
	}
}

// record counts a name. The first time it is written down, too, where it outlives the emulator.
func (e *Extension) record(name string) {
	e.executed[name]++
	if e.executed[name] > 1 || e.config.Record == nil {
		return
	}
	if _, err := io.WriteString(e.config.Record, name+"\n"); err != nil {
		e.log.Error("what packets meet is not written down", "name", name, "err", err)
	}
}

// recordFlow records of a flow what the driver passes over, and what it matches.
func (e *Extension) recordFlow(key, request attributes) {
	e.recordKeys(key)
	data, masked := request[flowAttrMask]
	if !masked {
		e.recordMatches(key, false)
	} else if mask, err := attributesOf(data); err == nil { // the driver does not read it
		e.recordMatches(mask, true)
	}
}

// recordKeys records those parts of a flow's key that the driver passes over.
func (e *Extension) recordKeys(attrs attributes) {
	for kind := range attrs {
		if _, ok := keySizes[kind]; !ok && kind != keyEncap && kind != keyTunnel && kind != keyMPLS {
			e.record(fmt.Sprintf("key %d", kind))
		}
	}
}

// recordMatches records what a flow matches: the parts of its mask that are not all zero. A flow without a mask matches
// each part of its key. The driver has no masks and compares whole keys, so what a flow's key has and does not match
// makes only more flows of one. What it matches and the driver's keys do not have makes one flow of several.
func (e *Extension) recordMatches(parts attributes, masked bool) {
	for kind, data := range parts {
		switch {
		case masked && isZero(data): // of nested attributes the headers are not zero
		case kind == keyEncap:
			if inner, err := attributesOf(data); err == nil {
				e.recordMatches(inner, masked)
			}
		case kind == keyTunnel && masked && emptyTunnel(data):
		case kind == keyND && len(data) == 28:
			from := 0
			for _, part := range ndParts {
				if !masked || !isZero(data[from:part.end]) {
					e.record("match " + part.name)
				}
				from = part.end
			}
		default:
			e.record("match " + matchName(kind))
		}
	}
}

func matchName(kind uint16) string {
	if name := keyNames[kind]; name != "" {
		return name
	}
	if name := matchNames[kind]; name != "" {
		return name
	}
	return fmt.Sprintf("key %d", kind)
}

// emptyTunnel says whether a tunnel's mask has no bit.
func emptyTunnel(mask []byte) bool {
	parts, err := parseAttributes(mask)
	return err == nil && !slices.ContainsFunc(parts, func(part attribute) bool { return !isZero(part.data) })
}
