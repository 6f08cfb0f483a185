package ctlookup

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Zone is the one in which nothing is ever committed. ovn-controller takes the lowest that are free.
const Zone = 64009

// Action is the lookup, as ovs-ofctl writes it.
const Action = "ct(zone=64009)"

// Actions as they are on the wire: OpenFlow 1.5, 7.2.6, and Nicira's extensions (struct nx_action_conntrack and struct
// ext_action_header of Open vSwitch's lib/ofp-actions.c).
const (
	actionHeader       = 4
	actionGroup        = 22
	actionExperimenter = 0xffff
	nicira             = 0x2320
	subtypeCT          = 35
	subtypeClone       = 42
	ctLength           = 24 // without nested actions
	ctFlags            = 10
	ctCommit           = 1
	cloneHeader        = 16
)

// lookup is [Action] on the wire: flags, the zone's source and the well-known port are zero, no table follows.
var lookup = [ctLength]byte{0xff, 0xff, 0, ctLength, 0, 0, 0x23, 0x20, 0, subtypeCT, 0, 0, 0, 0, 0, 0, Zone >> 8, Zone & 0xff, 0xff}

// kind is what an action is as far as it matters here.
type kind int

const (
	other kind = iota
	commits
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
	case subtypeCT:
		if len(action) >= ctLength && binary.BigEndian.Uint16(action[ctFlags:])&ctCommit != 0 {
			return commits
		}
	}
	return other
}

// deepest bounds clones within clones: each level may cost a copy of all that is in it.
const deepest = 32

// rewrite appends actions to out with a lookup before each that commits, and before each group of which committing says so.
func rewrite(out, actions []byte, committing func(group uint32) bool, depth int) ([]byte, error) {
	if depth > deepest {
		return nil, fmt.Errorf("more than %d clones within each other", deepest)
	}
	for len(actions) > 0 {
		what, one, err := next(actions)
		if err != nil {
			return nil, err
		}
		actions = actions[len(one):]
		switch {
		case what == commits, what == group && committing(binary.BigEndian.Uint32(one[4:])):
			out = append(out, lookup[:]...)
		case what == clone:
			start := len(out)
			if out, err = rewrite(append(out, one[:cloneHeader]...), one[cloneHeader:], committing, depth+1); err != nil {
				return nil, err
			}
			if err := setLength(out[start+2:], len(out)-start); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, one...)
	}
	return out, nil
}

// commit says whether any of the actions commits a connection.
func commit(actions []byte, depth int) (bool, error) {
	if depth > deepest {
		return false, fmt.Errorf("more than %d clones within each other", deepest)
	}
	for len(actions) > 0 {
		what, one, err := next(actions)
		if err != nil || what == commits {
			return what == commits, err
		}
		if what == clone {
			if nested, err := commit(one[cloneHeader:], depth+1); err != nil || nested {
				return nested, err
			}
		}
		actions = actions[len(one):]
	}
	return false, nil
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
