package ctlookup

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Zone is the one in which nothing is ever committed. ovn-controller takes the lowest that are free.
const Zone = 64009

// The tables that look a packet up in [Zone] where that is needed. ovn-controller's begin at 0; OVN 25.03 has 88.
const (
	beforeCommit = 250
	beforeUndo   = 251
)

// Actions as they are on the wire: OpenFlow 1.5, 7.2.6, and Nicira's extensions (struct nx_action_conntrack and struct
// ext_action_header of Open vSwitch's lib/ofp-actions.c).
const (
	actionHeader       = 4
	actionGroup        = 22
	actionExperimenter = 0xffff
	nicira             = 0x2320
	subtypeResubmit    = 14
	subtypeLearn       = 16
	subtypeLearn2      = 45
	subtypeCT          = 35
	subtypeClone       = 42
	resubmitLength     = 16
	ctLength           = 24 // without nested actions
	ctFlags            = 10
	ctZone             = 12 // the field that has the zone, 0 of one whose number is in the action
	ctTable            = 18 // the table that follows
	ctCommit           = 1
	cloneHeader        = 16
	register11         = 0x00011604 // NXM_NX_REG11, by which OVN knows a router's zone for translated destinations
)

// lookup is ct(zone=64009) on the wire: flags, the zone's source and the well-known port are zero, no table follows.
var lookup = [ctLength]byte{0xff, 0xff, 0, ctLength, 0, 0, 0x23, 0x20, 0, subtypeCT, 0, 0, 0, 0, 0, 0, Zone >> 8,
	Zone & 0xff, 0xff}

// forget is ct_clear on the wire.
var forget = [16]byte{0xff, 0xff, 0, 16, 0, 0, 0x23, 0x20, 0, 43}

// resubmit is resubmit(,table) on the wire: the port is the packet's own.
func resubmit(table byte) [resubmitLength]byte {
	return [resubmitLength]byte{0xff, 0xff, 0, resubmitLength, 0, 0, 0x23, 0x20, 0, subtypeResubmit, 0xff, 0xf8, table}
}

var toBeforeCommit, toBeforeUndo = resubmit(beforeCommit), resubmit(beforeUndo)

// kind is what an action is as far as it matters here.
type kind int

const (
	other kind = iota
	commits
	undoes
	looks
	learns
	group
	clone
)

// next reads the first of actions.
func next(actions []byte) (kind, []byte, error) {
	if len(actions) < actionHeader {
		return other, nil, fmt.Errorf("%d bytes are no action", len(actions))
	}
	length := int(binary.BigEndian.Uint16(actions[2:]))
	if length < 8 || length%8 != 0 || length > len(actions) {
		return other, nil, fmt.Errorf("an action of %d bytes in %d", length, len(actions))
	}
	one := actions[:length]
	switch binary.BigEndian.Uint16(one) {
	case actionGroup:
		return group, one, nil
	case actionExperimenter:
		return niciraKind(one), one, nil
	}
	return other, one, nil
}

func niciraKind(action []byte) kind {
	if len(action) < cloneHeader || binary.BigEndian.Uint32(action[4:]) != nicira {
		return other
	}
	switch binary.BigEndian.Uint16(action[8:]) {
	case subtypeClone:
		return clone
	case subtypeLearn, subtypeLearn2:
		return learns
	case subtypeCT:
		switch {
		case len(action) < ctLength:
		case binary.BigEndian.Uint16(action[ctFlags:])&ctCommit != 0:
			return commits
		case binary.BigEndian.Uint32(action[ctZone:]) == register11:
			return undoes
		default:
			return looks
		}
	}
	return other
}

// deepest bounds clones within clones: each level may cost a copy of all that is in it.
const deepest = 32

// inRegister says that a ct has its zone from a register, as OVN's have. Its number depends on the packet's protocol.
func inRegister(what kind, action []byte) bool {
	return (what == commits || what == undoes || what == looks) && binary.BigEndian.Uint32(action[ctZone:]) != 0
}

// rewriting is of a flow's actions.
type rewriting struct {
	lookups bool
	table   byte // the flow's
	group   func(number uint32) found
}

// append appends actions to out. Before each ct whose zone is in a register it has the way to the table that chooses
// between zones, and before each that commits or undoes a router's translation the way to a lookup. Before a group is
// what its buckets' ct would have. A flow that learns and does no more sends the packet on.
func (r rewriting) append(out, actions []byte, depth int) ([]byte, error) {
	if depth > deepest {
		return nil, fmt.Errorf("more than %d clones within each other", deepest)
	}
	for len(actions) > 0 {
		what, one, err := next(actions)
		if err != nil {
			return nil, err
		}
		actions = actions[len(one):]
		does := found{commits: what == commits, zoned: inRegister(what, one)}
		if what == group {
			does = r.group(binary.BigEndian.Uint32(one[4:]))
		}
		if does.zoned {
			out = append(out, toByProtocol[:]...)
		}
		switch {
		case r.lookups && does.commits:
			out = append(out, toBeforeCommit[:]...)
		case r.lookups && what == undoes:
			out = append(out, toBeforeUndo[:]...)
		case what == learns && len(actions) == 0 && depth == 0:
			further := resubmit(r.table + 1)
			out = append(append(out, one...), further[:]...)
			continue
		case what == clone:
			start := len(out)
			if out, err = r.append(append(out, one[:cloneHeader]...), one[cloneHeader:], depth+1); err != nil {
				return nil, err
			}
			if err := setLength(out[start+2:], len(out)-start); err != nil {
				return nil, err
			}
			continue
		}
		out = appendUnmetered(out, one)
	}
	return out, nil
}

// found is what there is in a list of actions.
type found struct {
	commits  bool // a connection
	toHelper bool // a connection is translated to a port whose packets a helper reads
	zoned    bool // a ct has its zone from a register
}

func (f found) or(g found) found {
	return found{f.commits || g.commits, f.toHelper || g.toHelper, f.zoned || g.zoned}
}

// find looks for what has to do with connections. A group does what it is said to do.
func find(actions []byte, ofGroup func(number uint32) found, depth int) (found, error) {
	var all found
	if depth > deepest {
		return all, fmt.Errorf("more than %d clones within each other", deepest)
	}
	for len(actions) > 0 {
		what, one, err := next(actions)
		if err != nil {
			return all, err
		}
		actions = actions[len(one):]
		all.zoned = all.zoned || inRegister(what, one)
		switch what {
		case commits:
			all = all.or(found{commits: true, toHelper: toHelper(one)})
		case group:
			all = all.or(ofGroup(binary.BigEndian.Uint32(one[4:])))
		case clone:
			nested, err := find(one[cloneHeader:], ofGroup, depth+1)
			if err != nil {
				return all, err
			}
			all = all.or(nested)
		}
	}
	return all, nil
}

// setLength writes a length of 16 bits.
func setLength(at []byte, length int) error {
	if length > 0xffff {
		return fmt.Errorf("%d bytes do not fit with a lookup before each commit", length)
	}
	binary.BigEndian.PutUint16(at, uint16(length))
	return nil
}

// Before is whether a flow's action, as ovs-ofctl writes it, wants a lookup before it.
func Before(action string) bool { return strings.HasPrefix(action, "ct(commit") }
