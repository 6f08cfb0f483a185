package ctlookup

import "encoding/binary"

// The flags of ct_state (struct ofp_ct_state's in Open vSwitch's lib/packets.h).
const (
	isReply   = 0x08
	isTracked = 0x20
	srcNAT    = 0x40
	dstNAT    = 0x80
)

// Headers of a match's fields.
const (
	ctState  = 0x0001d308 // NXM_NX_CT_STATE, with a mask
	ctZoneIs = 0x0001d402 // NXM_NX_CT_ZONE
	etherIs  = 0x80000a02 // OXM_OF_ETH_TYPE
	ipv4     = 0x0800
	ipv6     = 0x86dd
)

// priority of flows that match a state; the others have zero.
const priority = 1

// tables are the messages that fill the tables of ours. In words of ovs-ofctl:
//
//	table=250,priority=1,ip,ct_state=+trk-rpl+dnat actions=drop
//	table=250,priority=1,ip,ct_state=+trk-rpl+snat actions=drop
//	table=250,priority=0,ip actions=ct(zone=64009)
//	table=251,priority=1,ip,ct_state=+trk+rpl-dnat actions=ct(zone=64009)
//
// A resubmit to a flow without actions does nothing, as one to a table without a flow that matches.
func tables() [][]byte {
	return [][]byte{
		flowOf(beforeCommit, priority, ether(ipv4, stateMatch(isTracked|dstNAT, isTracked|dstNAT|isReply))),
		flowOf(beforeCommit, priority, ether(ipv4, stateMatch(isTracked|srcNAT, isTracked|srcNAT|isReply))),
		flowOf(beforeCommit, 0, ether(ipv4, nil), lookup[:]...),
		flowOf(beforeUndo, priority, ether(ipv4, stateMatch(isTracked|isReply, isTracked|isReply|dstNAT)), lookup[:]...),
	}
}

// stateMatch is a field of a match.
func stateMatch(value, mask uint32) []byte {
	field := binary.BigEndian.AppendUint32(nil, ctState)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(field, value), mask)
}

// ether is the field of a match for an Ethernet type, with further fields that want it.
func ether(kind uint16, further []byte) []byte {
	return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, etherIs), kind), further...)
}

// flowOf is the message that adds a flow with the fields of a match.
func flowOf(table byte, priority uint16, fields []byte, actions ...byte) []byte {
	m := make([]byte, flowMatch, 128)
	m[0], m[1], m[flowTable] = version, typeFlowMod, table
	binary.BigEndian.PutUint16(m[30:], priority)
	for _, at := range []int{32, 36, 40} { // no buffer, no port, no group
		binary.BigEndian.PutUint32(m[at:], 0xffffffff)
	}
	m = binary.BigEndian.AppendUint16(m, 1) // the match is OXM's
	m = append(binary.BigEndian.AppendUint16(m, uint16(matchEverything+len(fields))), fields...)
	m = append(m, make([]byte, (8-len(m)%8)%8)...)
	if len(actions) > 0 {
		m = binary.BigEndian.AppendUint16(m, applyActions)
		m = binary.BigEndian.AppendUint16(m, uint16(instruction+len(actions)))
		m = append(append(m, 0, 0, 0, 0), actions...)
	}
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	return m
}
