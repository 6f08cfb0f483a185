package ctlookup

import "encoding/binary"

// An action that hands the controller a copy of a packet (struct nx_action_controller2 of Open vSwitch's
// lib/ofp-actions.c), and the message that brings it (struct nx_packet_in2 of lib/ofp-packet.c). Both have properties.
const (
	subtypeController2 = 37
	controller2Header  = 16
	propertyMeter      = 5
	subtypePacketIn2   = 30
	packetIn2Header    = 16
	propertyUserdata   = 7
)

// opcodeLog begins the userdata of a packet that ovn-controller writes a line about (ACTION_OPCODE_LOG of OVN's
// include/ovn/actions.h).
const opcodeLog = 7

// property is where in a list the first property of a kind is, with its padding: from and to are equal if there is
// none.
func property(list []byte, kind uint16) (from, to int) {
	for from+propertyHeader <= len(list) {
		length := int(binary.BigEndian.Uint16(list[from+2:]))
		if length < propertyHeader || from+length > len(list) {
			break
		}
		to = min(from+(length+7)/8*8, len(list))
		if binary.BigEndian.Uint16(list[from:]) == kind {
			return from, to
		}
		from = to
	}
	return 0, 0
}

// appendUnmetered appends an action without its meter, if it is one for the controller and has one. For a copy with a
// meter ovs-vswitchd has the datapath do sample(meter,userspace). Of a sample's actions the extension does the first
// one alone, so no copy would come (OvsExecuteSampleAction). OVN has a meter for the lines of policies' logs, which
// [Conn] bounds in its place.
func appendUnmetered(out, action []byte) []byte {
	start := len(out)
	out = append(out, action...)
	if len(action) < controller2Header || binary.BigEndian.Uint16(action) != actionExperimenter ||
		binary.BigEndian.Uint32(action[4:]) != nicira || binary.BigEndian.Uint16(action[8:]) != subtypeController2 {
		return out
	}
	list := action[controller2Header:]
	from, to := property(list, propertyMeter)
	out = append(append(out[:start+controller2Header], list[:from]...), list[to:]...)
	binary.BigEndian.PutUint16(out[start+2:], uint16(len(out)-start))
	return out
}

// logs says that a message of a switch's brings a packet that the controller is to write a line about.
func logs(m []byte) bool {
	if len(m) < packetIn2Header || m[0] != version || m[1] != typeExperimenter ||
		binary.BigEndian.Uint32(m[messageHeader:]) != nicira ||
		binary.BigEndian.Uint32(m[messageHeader+4:]) != subtypePacketIn2 {
		return false
	}
	list := m[packetIn2Header:]
	from, to := property(list, propertyUserdata)
	userdata := list[from:to]
	return len(userdata) >= propertyHeader+4 && binary.BigEndian.Uint32(userdata[propertyHeader:]) == opcodeLog
}
