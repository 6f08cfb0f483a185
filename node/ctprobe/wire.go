package ctprobe

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftnet/weft/node/openflow"
)

// OpenFlow 1.3, sections 7.3.4.1 and 7.3.7.
const (
	flowMatch      = 48 // where a flow mod's match begins
	flowAdd        = 0
	flowDelete     = 3
	allTables      = 0xff
	applyActions   = 4
	portLocal      = 0xfffffffe
	nothing        = 0xffffffff // no buffer; any port, any group
	expireSeconds  = 60
	matchOfFields  = 1 // OFPMT_OXM
	experimenter   = 0xffff
	nicira         = 0x2320
	subtypeGoOn    = 14 // resubmit to a table
	subtypeCT      = 35
	subtypeNAT     = 36
	ctCommit       = 1
	ctNoTable      = 0xff
	natDestination = 2
	natAddress     = 0x01 // of what a NAT action has
	natPort        = 0x10
	portOfPacket   = 0xfff8
)

// Headers of a match's fields.
const (
	fieldEtherType   = 0x80000a02
	fieldSource      = 0x80001604
	fieldDestination = 0x80001804
	fieldState       = 0x0001d308 // NXM_NX_CT_STATE, with a mask
	etherIPv4        = 0x0800
)

// Bits of a connection's state: struct ofp_ct_state's in Open vSwitch's lib/packets.h.
const (
	stateNew         = 0x01
	stateEstablished = 0x02
	stateReply       = 0x08
	stateTracked     = 0x20
)

func ipv4Source(a netip.Addr) []byte { return append(ipv4Field(fieldSource), a.AsSlice()...) }

func ipv4Destination(a netip.Addr) []byte { return append(ipv4Field(fieldDestination), a.AsSlice()...) }

// ipv4Field is the header of a field that only IPv4 has, after what says that a packet is of IPv4.
func ipv4Field(header uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, fieldEtherType)
	b = binary.BigEndian.AppendUint16(b, etherIPv4)
	return binary.BigEndian.AppendUint32(b, header)
}

// ctState matches packets whose state has all of these bits.
func ctState(bits uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, fieldState)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, bits), bits)
}

// flow is one of the probe's; without actions it drops.
type flow struct {
	table          byte
	priority       uint16
	cookie         uint64
	match, actions []byte
}

// add is the message that adds it.
func (f flow) add() []byte {
	m := flowMod(f.table, flowAdd, f.match)
	binary.BigEndian.PutUint64(m[8:], f.cookie|cookieMark)
	binary.BigEndian.PutUint16(m[28:], expireSeconds)
	binary.BigEndian.PutUint16(m[30:], f.priority)
	if len(f.actions) > 0 {
		m = binary.BigEndian.AppendUint16(m, applyActions)
		m = binary.BigEndian.AppendUint16(m, uint16(8+len(f.actions)))
		m = append(append(m, 0, 0, 0, 0), f.actions...)
	}
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	return m
}

// removal is the message that deletes the flows of every probe.
func removal() []byte {
	m := flowMod(allTables, flowDelete, nil)
	binary.BigEndian.PutUint64(m[8:], cookieMark)
	binary.BigEndian.PutUint64(m[16:], cookieMask)
	return m
}

// flowMod is a message of that type without instructions.
func flowMod(table, command byte, match []byte) []byte {
	m := openflow.Message(openflow.FlowMod, 0, make([]byte, flowMatch-openflow.HeaderSize)...)
	m[24], m[25] = table, command
	for _, at := range []int{32, 36, 40} { // buffer, port and group
		binary.BigEndian.PutUint32(m[at:], nothing)
	}
	m = binary.BigEndian.AppendUint16(m, matchOfFields)
	m = padded(append(binary.BigEndian.AppendUint16(m, uint16(4+len(match))), match...))
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	return m
}

// packetOut is the message that injects a packet by the bridge's own port into a table.
func packetOut(table byte, packet []byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, nothing)
	body = binary.BigEndian.AppendUint32(body, portLocal)
	action := binary.BigEndian.AppendUint16(extension(subtypeGoOn), portOfPacket)
	action = sized(append(action, table))
	body = binary.BigEndian.AppendUint16(body, uint16(len(action)))
	body = append(append(body, 0, 0, 0, 0, 0, 0), action...)
	return openflow.Message(openflow.PacketOut, 0, append(body, packet...)...)
}

// ctAction is Open vSwitch's ct. A packet goes on in a table, if there is one, with what was found.
type ctAction struct {
	zone   uint16
	commit bool
	table  byte
	nat    []byte
}

// encode: struct nx_action_conntrack of Open vSwitch's lib/ofp-actions.c.
func (a ctAction) encode() []byte {
	flags, table := uint16(0), byte(ctNoTable)
	if a.commit {
		flags = ctCommit
	}
	if a.table != 0 {
		table = a.table
	}
	b := binary.BigEndian.AppendUint16(extension(subtypeCT), flags)
	b = binary.BigEndian.AppendUint32(b, 0) // the zone is in no field
	b = binary.BigEndian.AppendUint16(b, a.zone)
	b = append(b, table, 0, 0, 0, 0, 0) // no helper
	return sized(append(b, a.nat...))
}

// natAgain translates as the connection is translated, natTo a new one to a destination: struct nx_action_nat.
func natAgain() []byte {
	return sized(append(extension(subtypeNAT), 0, 0, 0, 0, 0, 0))
}

func natTo(to netip.Addr, port uint16) []byte {
	b := append(extension(subtypeNAT), 0, 0, 0, natDestination, 0, natAddress|natPort)
	return sized(binary.BigEndian.AppendUint16(append(b, to.AsSlice()...), port))
}

// extension is the beginning of an action of Nicira's: type, length, vendor and subtype.
func extension(subtype uint16) []byte {
	b := binary.BigEndian.AppendUint16(nil, experimenter)
	b = binary.BigEndian.AppendUint32(append(b, 0, 0), nicira)
	return binary.BigEndian.AppendUint16(b, subtype)
}

// sized pads an action, and writes its length into it.
func sized(action []byte) []byte {
	action = padded(action)
	binary.BigEndian.PutUint16(action[2:], uint16(len(action)))
	return action
}

func padded(b []byte) []byte { return append(b, make([]byte, (8-len(b)%8)%8)...) }
