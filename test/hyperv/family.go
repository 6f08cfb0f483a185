//go:build linux

package hyperv

import (
	"errors"
	"fmt"

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

// handler carries out a request and gives the bodies of its answers. Several are for a dump. No answer
// and no error is acknowledged.
type handler func(e *Extension, r request) ([][]byte, error)

// request is a message that has been found to be well formed.
type request struct {
	message
	command uint8
	dp      uint32
	dump    bool
	raw     []byte // the attributes
	attrs   attributes
}

type command struct {
	family  uint16
	command uint8
}

// commands are those of Datapath.c. Others are refused: there is no command to delete a datapath.
var commands = map[command]handler{
	{familyDatapath, cmdNew}:       getDatapath,
	{familyDatapath, cmdGet}:       getDatapath,
	{familyDatapath, cmdSet}:       getDatapath,
	{familyVport, cmdNew}:          newVport,
	{familyVport, cmdDelete}:       deleteVport,
	{familyVport, cmdGet}:          getVport,
	{familyVport, cmdSet}:          setVport,
	{familyFlow, cmdNew}:           putFlow,
	{familyFlow, cmdDelete}:        putFlow,
	{familyFlow, cmdSet}:           putFlow,
	{familyFlow, cmdGet}:           getFlow,
	{familyPacket, packetExecute}:  executePacket,
	{familyMeter, meterFeatures}:   getMeterFeatures,
	{familyMeter, meterSet}:        setMeter,
	{familyMeter, meterGet}:        getMeter,
	{familyMeter, meterDelete}:     deleteMeter,
	{familyCtLimit, ctLimitSet}:    setCtLimit,
	{familyCtLimit, ctLimitGet}:    getCtLimit,
	{familyCtLimit, ctLimitDelete}: deleteCtLimit,
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

// handle works on a datagram of requests and answers each. It is an error if the socket cannot be used
// any more.
func (e *Extension) handle(s *socket, datagram []byte) error {
	messages, err := parseMessages(datagram)
	if err != nil {
		return err
	}
	answered := false
	done := func() error {
		answered = true
		return s.answer(answerDone)
	}
	for _, m := range messages {
		if m.kind == unix.GENL_ID_CTRL {
			// What ovs-vswitchd knows by itself on Windows.
			if err := s.write(lookupFamily(m).appendTo(nil)); err != nil {
				return err
			}
			continue
		}
		if !e.Enabled() && !ofLinux(m) {
			return s.answer(answerLost)
		}
		e.delay()
		bodies, err := e.dispatch(m)
		dump := m.flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP
		if dump && !answered { // its answers may need a reader
			if err := done(); err != nil {
				return err
			}
		}
		if err := s.reply(m, dump, bodies, err); err != nil {
			return err
		}
	}
	if answered {
		return nil
	}
	return done()
}

// ofLinux: the ovs-vswitchd of Linux asks of each device that has a route whether it is a port, by its
// name alone (lib/netdev-linux.c, netdev_linux_netnsid_update__). That of Windows has
// lib/netdev-windows.c and lib/route-table-stub.c, and does not.
func ofLinux(m message) bool {
	if m.kind != familyVport || len(m.body) < ovsLength-headerLength || m.body[0] != cmdGet {
		return false
	}
	list, err := parseAttributes(m.body[8:])
	return err == nil && len(list) == 1 && list[0].kind == vportAttrName
}

// reply sends the answers to one request.
func (s *socket) reply(m message, dump bool, bodies [][]byte, err error) error {
	if err != nil || !dump && len(bodies) == 0 {
		return s.write(errorMessage(m, errnoOf(err)).appendTo(nil))
	}
	flags := uint16(0)
	if dump {
		flags = unix.NLM_F_MULTI
	}
	var datagram []byte
	for _, body := range bodies {
		one := message{kind: answerKind(m.kind), flags: flags, seq: m.seq, port: m.port, body: body}
		if len(datagram) > 0 && len(datagram)+len(body) > maxDatagram/4 {
			if err := s.write(datagram); err != nil {
				return err
			}
			datagram = datagram[:0]
		}
		datagram = one.appendTo(datagram)
	}
	if len(datagram) > 0 {
		if err := s.write(datagram); err != nil {
			return err
		}
	}
	if !dump {
		return nil
	}
	end := message{kind: unix.NLMSG_DONE, flags: flags, seq: m.seq, port: m.port, body: make([]byte, 4)}
	return s.write(end.appendTo(nil))
}

// answerKind is what an answer's type is: a connection that is dumped is told as a new one.
func answerKind(kind uint16) uint16 {
	if kind == ctGet {
		return ctNew
	}
	return kind
}

// errnoOf is the number of an error; 0 for none.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return errno
	}
	return unix.EINVAL
}

// dispatch finds the command of a message: ValidateNetlinkCmd and InvokeNetlinkCmdHandler of Datapath.c.
func (e *Extension) dispatch(m message) ([][]byte, error) {
	if m.kind == ctGet || m.kind == ctDelete {
		return e.dispatchConntrack(m)
	}
	if len(m.body) < ovsLength-headerLength {
		return nil, unix.EINVAL
	}
	r := request{message: m, command: m.body[0], dp: native.Uint32(m.body[4:]), raw: m.body[8:],
		dump: m.flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP}
	handle := commands[command{m.kind, r.command}]
	if handle == nil {
		return nil, fmt.Errorf("family %#x has no command %d: %w", m.kind, r.command, unix.EINVAL)
	}
	if needsDatapath(m.kind, r.command) && r.dp != datapathNumber {
		return nil, unix.EINVAL
	}
	var err error
	if r.attrs, err = attributesOf(r.raw); err != nil {
		return nil, errors.Join(err, unix.EINVAL)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return handle(e, r)
}

// needsDatapath: Datapath.c, validateDpIndex of each command.
func needsDatapath(kind uint16, number uint8) bool {
	return kind == familyVport || kind == familyFlow || kind == familyPacket || kind == familyDatapath && number == cmdSet
}

// answer begins an answer's body: the headers, and the attributes that add puts after them.
func (r request) answer(add func(*netlink.AttributeEncoder) error) ([]byte, error) {
	return genericBody(r.command, datapathNumber, add)
}

func genericBody(command uint8, dp uint32, add func(*netlink.AttributeEncoder) error) ([]byte, error) {
	encoded, err := encode(add)
	if err != nil {
		return nil, err
	}
	body := native.AppendUint32([]byte{command, 1, 0, 0}, dp)
	return append(body, encoded...), nil
}

func one(body []byte, err error) ([][]byte, error) {
	if err != nil {
		return nil, err
	}
	return [][]byte{body}, nil
}

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
