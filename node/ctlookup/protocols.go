package ctlookup

import "encoding/binary"

// OfTCP is the bit of a zone's number that the zones of TCP have. ovn-controller takes the lowest numbers that are
// free, of which it needs one for each port and two for each router.
const OfTCP = 1 << 15

// byProtocol is the table that sets the bit in the registers that have OVN's zones.
const byProtocol = 252

// zoneRegisters are those from which OVN's ct has its zone: a router's for translated destinations and for translated
// sources, and a port's. They are headers of a match's field with a mask.
var zoneRegisters = [...]uint32{register11 + withMask, register12 + withMask, register13 + withMask}

const (
	register12 = 0x00011804 // NXM_NX_REG12
	register13 = 0x00011a04 // NXM_NX_REG13
	withMask   = 0x0104     // is added to the header of a field of four bytes: the flag, and four bytes more
	setField   = 25         // an action
	setLength4 = 16         // its length, for a field of four bytes with a mask
)

var toByProtocol = resubmit(byProtocol)

// zones are the messages that fill the table that chooses between zones. In words of ovs-ofctl:
//
//	table=252,priority=1,tcp actions=set_field:0x8000/0x8000->reg11,…reg12,…reg13
//	table=252,priority=1,tcp6 actions=the same
//	table=252,priority=0 actions=set_field:0/0x8000->reg11,…reg12,…reg13
func zones() [][]byte {
	tcp := append(binary.BigEndian.AppendUint32(nil, protocolIs), protocolTCP)
	return [][]byte{
		flowOf(byProtocol, priority, ether(ipv4, tcp), inZones(OfTCP)...),
		flowOf(byProtocol, priority, ether(ipv6, tcp), inZones(OfTCP)...),
		flowOf(byProtocol, 0, nil, inZones(0)...),
	}
}

// inZones are the actions that give the bit of a zone a value in all registers of zones.
func inZones(value uint32) []byte {
	var actions []byte
	for _, register := range zoneRegisters {
		actions = append(actions, 0, setField, 0, setLength4)
		for _, word := range []uint32{register, value, OfTCP} {
			actions = binary.BigEndian.AppendUint32(actions, word)
		}
	}
	return actions
}

// wholes are the messages by which a table puts fragments together that no lookup has put together yet, those of a
// switch or router whose field of a match it is given. In words of ovs-ofctl, for ip and ipv6:
//
//	priority=65535,ip,ip_frag=yes,ct_state=-trk,metadata=0x1 actions=ct(table=this one,zone=64009)
//	priority=65535,ip,ct_state=+trk,ct_zone=64009,metadata=0x1 actions=ct_clear,resubmit(,this one)
//
// The packet comes to the table again when it is whole. A lookup in [Zone] finds no connection, so the packet is taken
// for none of another protocol's. Its state there is forgotten: an answer is invalid where there is no connection, and
// OVN's flows that do not track a packet would drop it. Fragments of other switches and routers stay as they are, until
// they come to a table that asks for connections.
func wholes(table byte, datapath string) [][]byte {
	again, goOn := lookup, resubmit(table)
	again[ctTable] = table
	forgetAndGoOn := append(forget[:], goOn[:]...)
	var all [][]byte
	for _, family := range []uint16{ipv4, ipv6} {
		fragment := append(binary.BigEndian.AppendUint32(nil, fragmentIs), isFragment, isFragment)
		fragment = append(append(fragment, stateMatch(0, isTracked)...), datapath...)
		whole := append(binary.BigEndian.AppendUint32(nil, ctZoneIs), Zone>>8, Zone&0xff)
		whole = append(append(whole, stateMatch(isTracked, isTracked)...), datapath...)
		all = append(all, flowOf(table, highest, ether(family, fragment), again[:]...),
			flowOf(table, highest, ether(family, whole), forgetAndGoOn...))
	}
	return all
}

// NXT_CT_FLUSH_ZONE of Open vSwitch, by which ovn-controller has a zone forgotten that it gives to another port.
const (
	subtypeFlushZone = 29
	flushZoneLength  = experimenterHeader + 8
	flushZone        = experimenterHeader + 6 // where the number is
)

// ofTCP is the message that does in a zone of TCP what another one does in the zone of all other protocols: nil of one
// that asks for no flush of a single zone.
func ofTCP(m []byte) []byte {
	if len(m) != flushZoneLength || m[0] != version || m[1] != typeExperimenter ||
		binary.BigEndian.Uint32(m[messageHeader:]) != nicira ||
		binary.BigEndian.Uint32(m[messageHeader+4:]) != subtypeFlushZone {
		return nil
	}
	zone := binary.BigEndian.Uint16(m[flushZone:])
	if zone == 0 || zone&OfTCP != 0 { // all of them, or no zone of OVN's
		return nil
	}
	anew := append([]byte(nil), m...)
	binary.BigEndian.PutUint16(anew[flushZone:], zone|OfTCP)
	return anew
}
