//go:build linux

package hyperv

import (
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The families of generic netlink. A family's number is this emulator's affair.
const (
	familyDatapath uint16 = 0x20 + iota
	familyVport
	familyFlow
	familyPacket
	familyMeter
	familyCtLimit
)

// connection tracking's messages are the netfilter's: subsystem and command.
const (
	ctNew    uint16 = unix.NFNL_SUBSYS_CTNETLINK << 8
	ctGet    uint16 = unix.NFNL_SUBSYS_CTNETLINK<<8 | 1
	ctDelete uint16 = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2
)

const vportGroup = 0x21 // of multicast

type family struct {
	id    uint16
	name  string
	group uint32
}

var families = []family{
	{id: familyDatapath, name: "ovs_datapath"},
	{id: familyVport, name: "ovs_vport", group: vportGroup},
	{id: familyFlow, name: "ovs_flow"},
	{id: familyPacket, name: "ovs_packet"},
	{id: familyMeter, name: "ovs_meter"},
	{id: familyCtLimit, name: "ovs_ct_limit"},
}

// command is what a message asks for, by its type and, with generic netlink, its command.
type command struct {
	kind    uint16
	command uint8
}

// commands are those of Datapath.c. Others are refused: there is no command to delete a datapath.
func (d *datapath) commands() map[command]handler {
	return map[command]handler{
		{familyDatapath, cmdNew}:       d.transact,
		{familyDatapath, cmdGet}:       d.transact,
		{familyDatapath, cmdSet}:       d.transact,
		{familyVport, cmdNew}:          d.newVport,
		{familyVport, cmdDelete}:       d.vports.delete,
		{familyVport, cmdGet}:          d.vports.get,
		{familyVport, cmdSet}:          d.vports.set,
		{familyFlow, cmdNew}:           d.flows.put,
		{familyFlow, cmdDelete}:        d.flows.put,
		{familyFlow, cmdSet}:           d.flows.put,
		{familyFlow, cmdGet}:           d.flows.get,
		{familyPacket, packetExecute}:  d.executePacket,
		{familyMeter, meterFeatures}:   d.meters.features,
		{familyMeter, meterSet}:        d.meters.set,
		{familyMeter, meterGet}:        d.meters.get,
		{familyMeter, meterDelete}:     d.meters.delete,
		{familyCtLimit, ctLimitSet}:    d.conntrack.zones.set,
		{familyCtLimit, ctLimitGet}:    d.conntrack.zones.get,
		{familyCtLimit, ctLimitDelete}: d.conntrack.zones.delete,
		{kind: ctGet}:                  d.conntrack.dump,
		{kind: ctDelete}:               d.conntrack.delete,
	}
}

// The numbers of commands.
const (
	cmdNew    = 1
	cmdDelete = 2
	cmdGet    = 3
	cmdSet    = 4

	packetMiss    = 1
	packetAction  = 2
	packetExecute = 3

	meterFeatures = 1
	meterSet      = 2
	meterDelete   = 3
	meterGet      = 4

	ctLimitSet    = 1
	ctLimitDelete = 2
	ctLimitGet    = 3
)

// lookupFamily answers what the kernel's nlctrl would.
func lookupFamily(m message) message {
	if len(m.body) < 4 || m.body[0] != unix.CTRL_CMD_GETFAMILY {
		return errorMessage(m, unix.EOPNOTSUPP)
	}
	attrs, err := attributesOf(m.body[4:])
	if err != nil {
		return errorMessage(m, unix.EINVAL)
	}
	for _, f := range families {
		if f.name != attrs.text(unix.CTRL_ATTR_FAMILY_NAME) {
			continue
		}
		encoded, err := encode(func(a *netlink.AttributeEncoder) error {
			a.String(unix.CTRL_ATTR_FAMILY_NAME, f.name)
			a.Uint16(unix.CTRL_ATTR_FAMILY_ID, f.id)
			a.Uint32(unix.CTRL_ATTR_VERSION, 1)
			a.Uint32(unix.CTRL_ATTR_HDRSIZE, 4)
			a.Uint32(unix.CTRL_ATTR_MAXATTR, 32)
			if f.group == 0 {
				return nil
			}
			a.Nested(unix.CTRL_ATTR_MCAST_GROUPS, func(a *netlink.AttributeEncoder) error {
				a.Nested(1, func(a *netlink.AttributeEncoder) error {
					a.String(unix.CTRL_ATTR_MCAST_GRP_NAME, f.name)
					a.Uint32(unix.CTRL_ATTR_MCAST_GRP_ID, f.group)
					return nil
				})
				return nil
			})
			return nil
		})
		if err != nil {
			return errorMessage(m, unix.EINVAL)
		}
		body := append([]byte{unix.CTRL_CMD_NEWFAMILY, 2, 0, 0}, encoded...)
		return message{kind: unix.GENL_ID_CTRL, seq: m.seq, port: m.port, body: body}
	}
	return errorMessage(m, unix.ENOENT)
}
