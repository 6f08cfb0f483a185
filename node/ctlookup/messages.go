package ctlookup

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Messages of OpenFlow 1.5: its sections 7.3.4.2 and 7.3.4.3, 7.3.9 for bundles.
const (
	version          = 6
	messageHeader    = 8
	typeFlowMod      = 14
	typeGroupMod     = 15
	typeBundleAdd    = 34
	flowTable        = 24
	flowCommand      = 25
	flowDelete       = 3
	allTables        = 0xff
	flowMatch        = 48 // where a flow mod's match begins
	matchEverything  = 4  // the length of a match without fields
	applyActions     = 4  // the instruction
	instruction      = 8  // its header
	groupBuckets     = 24 // where a group mod's buckets begin
	groupDelete      = 2
	groupInsert      = 3
	groupRemove      = 5
	allGroups        = 0xfffffffc
	bucketHeader     = 8
	bundled          = 16 // where the message of a bundle's begins
	deepestOfBundles = 1
)

// flows is what one connection of a controller's has said.
type flows struct {
	Changes
	committing map[uint32]struct{} // groups
}

func newFlows(changes Changes) flows { return flows{changes, map[uint32]struct{}{}} }

// message returns a message as the switch shall get it, and what it takes besides: nothing of one that it shall not
// get. After an error it is the one that came.
func (f *flows) message(m []byte) ([]byte, error) {
	if !f.Flushes && forgets(m) {
		return nil, nil
	}
	anew, err := f.nested(m, 0)
	if err != nil || !f.Lookups {
		return anew, err
	}
	switch {
	case empties(m):
		for _, flow := range tables() {
			anew = append(anew, flow...)
		}
	case bundles(m) && empties(m[bundled:]):
		for _, flow := range tables() {
			anew = append(anew, inBundleOf(m, flow)...)
		}
	}
	return anew, nil
}

// empties says that a message deletes all flows, those of the tables of ours among them. ovn-controller sends it first
// on each connection.
func empties(m []byte) bool {
	return len(m) >= flowMatch+matchEverything && m[0] == version && m[1] == typeFlowMod && m[flowTable] == allTables &&
		m[flowCommand] == flowDelete && binary.BigEndian.Uint16(m[flowMatch+2:]) == matchEverything
}

func bundles(m []byte) bool {
	return len(m) >= bundled+messageHeader && m[0] == version && m[1] == typeBundleAdd
}

// inBundleOf puts a message into the bundle of another one, which has its number (xid).
func inBundleOf(other, m []byte) []byte {
	anew := append(slices.Clone(other[:bundled]), m...)
	copy(anew[bundled+4:], other[4:messageHeader])
	binary.BigEndian.PutUint16(anew[2:], uint16(len(anew)))
	return anew
}

func (f *flows) nested(m []byte, depth int) ([]byte, error) {
	if m[0] != version {
		return m, nil
	}
	var anew []byte
	var err error
	switch m[1] {
	case typeFlowMod:
		anew, err = f.flowMod(m)
	case typeGroupMod:
		return m, f.groupMod(m)
	case typeBundleAdd:
		if depth == deepestOfBundles {
			return m, fmt.Errorf("a bundle's message in a bundle's message")
		}
		anew, err = f.bundleAdd(m, depth)
	default:
		return m, nil
	}
	if err != nil {
		return m, err
	}
	if err := setLength(anew[2:], len(anew)); err != nil {
		return m, err
	}
	return anew, nil
}

// flowMod rewrites the actions that a flow applies. An action set, which it may write besides, has one ct at most.
func (f *flows) flowMod(m []byte) ([]byte, error) {
	if len(m) < flowMatch+4 {
		return nil, fmt.Errorf("a flow mod of %d bytes", len(m))
	}
	match := (int(binary.BigEndian.Uint16(m[flowMatch+2:])) + 7) / 8 * 8
	if match < 8 || flowMatch+match > len(m) {
		return nil, fmt.Errorf("a match of %d bytes in a flow mod of %d", match, len(m))
	}
	anew := append(make([]byte, 0, len(m)+4*resubmitLength), m[:flowMatch+match]...)
	rewriting := rewriting{lookups: f.Lookups, table: m[flowTable], committing: f.commits}
	for rest := m[flowMatch+match:]; len(rest) > 0; {
		if len(rest) < instruction {
			return nil, fmt.Errorf("%d bytes are no instruction", len(rest))
		}
		length := int(binary.BigEndian.Uint16(rest[2:]))
		if length < instruction || length > len(rest) {
			return nil, fmt.Errorf("an instruction of %d bytes in %d", length, len(rest))
		}
		one := rest[:length]
		rest = rest[length:]
		if binary.BigEndian.Uint16(one) != applyActions {
			anew = append(anew, one...)
			continue
		}
		start := len(anew)
		var err error
		if anew, err = rewriting.append(append(anew, one[:instruction]...), one[instruction:], 0); err != nil {
			return nil, err
		}
		if err := setLength(anew[start+2:], len(anew)-start); err != nil {
			return nil, err
		}
	}
	return anew, nil
}

func (f *flows) commits(group uint32) bool {
	_, ok := f.committing[group]
	return ok
}

// groupMod remembers which groups commit.
func (f *flows) groupMod(m []byte) error {
	if len(m) < groupBuckets {
		return fmt.Errorf("a group mod of %d bytes", len(m))
	}
	command, id := binary.BigEndian.Uint16(m[messageHeader:]), binary.BigEndian.Uint32(m[messageHeader+4:])
	if command == groupDelete {
		delete(f.committing, id)
		if id == allGroups {
			clear(f.committing)
		}
		return nil
	}
	// A bucket more or less leaves the others.
	if command != groupInsert && command != groupRemove {
		delete(f.committing, id)
	}
	length := int(binary.BigEndian.Uint16(m[messageHeader+8:]))
	if groupBuckets+length > len(m) {
		return fmt.Errorf("buckets of %d bytes in a group mod of %d", length, len(m))
	}
	for buckets := m[groupBuckets : groupBuckets+length]; len(buckets) > 0; {
		if len(buckets) < bucketHeader {
			return fmt.Errorf("%d bytes are no bucket", len(buckets))
		}
		whole, actions := int(binary.BigEndian.Uint16(buckets)), int(binary.BigEndian.Uint16(buckets[2:]))
		if whole < bucketHeader || whole > len(buckets) || bucketHeader+actions > whole {
			return fmt.Errorf("a bucket of %d bytes with actions of %d in %d", whole, actions, len(buckets))
		}
		found, err := commit(buckets[bucketHeader:bucketHeader+actions], 0)
		if err != nil {
			return err
		}
		if found {
			f.committing[id] = struct{}{}
		}
		buckets = buckets[whole:]
	}
	return nil
}

// bundleAdd rewrites the message within. What is after it, padding and properties, stays.
func (f *flows) bundleAdd(m []byte, depth int) ([]byte, error) {
	if !bundles(m) {
		return nil, fmt.Errorf("a bundle's message of %d bytes", len(m))
	}
	length := int(binary.BigEndian.Uint16(m[bundled+2:]))
	if length < messageHeader || bundled+length > len(m) {
		return nil, fmt.Errorf("a message of %d bytes in a bundle's of %d", length, len(m))
	}
	inner, err := f.nested(m[bundled:bundled+length], depth+1)
	if err != nil {
		return nil, err
	}
	anew := append(make([]byte, 0, len(m)+len(inner)-length), m[:bundled]...)
	return append(append(anew, inner...), m[bundled+length:]...), nil
}
