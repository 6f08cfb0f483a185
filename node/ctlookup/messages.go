package ctlookup

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Messages of OpenFlow 1.5: its sections 7.3.4.2 and 7.3.4.3, 7.3.9 for bundles.
const (
	version           = 6
	messageHeader     = 8
	typeFlowMod       = 14
	typeGroupMod      = 15
	typeBundleControl = 33
	typeBundleAdd     = 34
	flowTable         = 24
	flowCommand       = 25
	flowDelete        = 3
	allTables         = 0xff
	flowMatch         = 48 // where a flow mod's match begins
	matchEverything   = 4  // the length of a match without fields
	writeActions      = 3  // the instructions with actions
	applyActions      = 4
	instruction       = 8  // their header
	groupLength       = 16 // where a group mod has the length of its buckets
	groupBuckets      = 24 // and where they begin
	groupDelete       = 2
	groupInsert       = 3
	groupRemove       = 5
	allGroups         = 0xfffffffc
	bucketHeader      = 8
	bundled           = 16 // where the message of a bundle's begins
	deepestOfBundles  = 1
)

// flows is what one connection of a controller's has said.
type flows struct {
	Changes
	groups    map[uint32]found     // those that have to do with connections
	guarded   map[guarded]struct{} // what is guarded
	unguarded [][]byte             // messages that guard something, which are to be sent before the one at hand
}

// guarded is a table that commits, or what a switch or router does with connections in a table: see datapathOf.
type guarded struct {
	table    byte
	commits  bool
	datapath string
}

func newFlows(changes Changes) flows {
	return flows{Changes: changes, groups: map[uint32]found{}, guarded: map[guarded]struct{}{}}
}

// message returns a message as the switch must get it, and what it takes besides: nothing of one that it must not
// get. After an error it is the one that came, or one that drops.
func (f *flows) message(m []byte) ([]byte, error) {
	if !f.Flushes && forgets(m) {
		return nil, nil
	}
	if m[0] == version && m[1] == typeBundleControl { // the switch may have refused the bundle before, guards and all
		clear(f.guarded)
	}
	anew, err := f.nested(m, 0)
	if len(f.unguarded) > 0 {
		anew = append(beside(m, f.unguarded), anew...)
		f.unguarded = nil
	}
	if empties(m) || bundles(m) && empties(m[bundled:]) {
		clear(f.guarded)
		anew = append(anew, beside(m, zones())...)
		if f.Lookups {
			anew = append(anew, beside(m, tables())...)
		}
		if !f.FTP {
			anew = append(anew, beside(m, readable(firstTable))...)
		}
	}
	if further := ofTCP(m); further != nil {
		return slices.Concat(anew, further), err // m may be a part of what came
	}
	return anew, err
}

// beside are messages as another one is sent: if that is in a bundle, then in the same.
func beside(other []byte, messages [][]byte) []byte {
	var all []byte
	for _, m := range messages {
		if bundles(other) {
			m = inBundleOf(other, m)
		}
		all = append(all, m...)
	}
	return all
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
		anew, err = f.groupMod(m)
	case typeBundleAdd:
		if depth == deepestOfBundles {
			return m, fmt.Errorf("a bundle's message in a bundle's message")
		}
		anew, err = f.bundleAdd(m, depth)
	default:
		return m, nil
	}
	if anew == nil {
		return m, err
	}
	if err := setLength(anew[2:], len(anew)); err != nil {
		return m, err
	}
	return anew, err
}

// flowMod rewrites the actions that a flow applies. An action set, which it may write besides, has one ct at most. A
// flow that could lead a packet to a helper has no actions afterwards.
func (f *flows) flowMod(m []byte) ([]byte, error) {
	if len(m) < flowMatch+4 {
		return nil, fmt.Errorf("a flow mod of %d bytes", len(m))
	}
	length := int(binary.BigEndian.Uint16(m[flowMatch+2:]))
	match := (length + 7) / 8 * 8
	if length < matchEverything || flowMatch+match > len(m) {
		return nil, fmt.Errorf("a match of %d bytes in a flow mod of %d", match, len(m))
	}
	instructions, err := split(m[flowMatch+match:])
	if err != nil {
		return nil, err
	}
	anew := append(make([]byte, 0, len(m)+4*resubmitLength), m[:flowMatch+match]...)
	if drop, err := f.guard(m[flowTable], datapathOf(m[flowMatch:flowMatch+length]), instructions); drop {
		return anew, err
	}
	rewriting := rewriting{lookups: f.Lookups, table: m[flowTable], group: f.group}
	for _, one := range instructions {
		if binary.BigEndian.Uint16(one) != applyActions {
			anew = append(anew, one...)
			continue
		}
		start := len(anew)
		if anew, err = rewriting.append(append(anew, one[:instruction]...), one[instruction:], 0); err != nil {
			return nil, err
		}
		if err := setLength(anew[start+2:], len(anew)-start); err != nil {
			return nil, err
		}
	}
	return anew, nil
}

// split divides a list of instructions.
func split(rest []byte) (instructions [][]byte, err error) {
	for len(rest) > 0 {
		if len(rest) < instruction {
			return nil, fmt.Errorf("%d bytes are no instruction", len(rest))
		}
		length := int(binary.BigEndian.Uint16(rest[2:]))
		if length < instruction || length > len(rest) {
			return nil, fmt.Errorf("an instruction of %d bytes in %d", length, len(rest))
		}
		instructions = append(instructions, rest[:length])
		rest = rest[length:]
	}
	return instructions, nil
}

// guard has the table of a flow guarded that has to do with connections. It says whether the flow itself is to drop:
// where it translates to a port of a helper's, and where it cannot be read.
func (f *flows) guard(table byte, datapath string, instructions [][]byte) (drop bool, err error) {
	var all found
	for _, one := range instructions {
		if kind := binary.BigEndian.Uint16(one); kind != applyActions && kind != writeActions {
			continue
		}
		what, err := find(one[instruction:], f.group, 0)
		if err != nil {
			return !f.FTP, err
		}
		all = all.or(what)
	}
	if all.zoned || all.commits {
		f.protect(guarded{table: table, datapath: datapath}, wholes(table, datapath))
	}
	if all.commits && !f.FTP {
		f.protect(guarded{table: table, commits: true}, readable(table))
	}
	return all.toHelper && !f.FTP, nil
}

// protect has the messages sent that guard something, if they are lacking.
func (f *flows) protect(what guarded, messages [][]byte) {
	if _, known := f.guarded[what]; !known {
		f.guarded[what] = struct{}{}
		f.unguarded = append(f.unguarded, messages...)
	}
}

// group is what a group's buckets do.
func (f *flows) group(number uint32) found { return f.groups[number] }

// groupMod remembers which groups have to do with connections. A bucket that could lead a packet to a helper has no
// actions afterwards.
func (f *flows) groupMod(m []byte) ([]byte, error) {
	if len(m) < groupBuckets {
		return nil, fmt.Errorf("a group mod of %d bytes", len(m))
	}
	command, id := binary.BigEndian.Uint16(m[messageHeader:]), binary.BigEndian.Uint32(m[messageHeader+4:])
	if command == groupDelete {
		delete(f.groups, id)
		if id == allGroups {
			clear(f.groups)
		}
		return m, nil
	}
	// A bucket more or less leaves the others.
	if command != groupInsert && command != groupRemove {
		delete(f.groups, id)
	}
	length := int(binary.BigEndian.Uint16(m[groupLength:]))
	if groupBuckets+length > len(m) {
		return nil, fmt.Errorf("buckets of %d bytes in a group mod of %d", length, len(m))
	}
	var problem error
	anew := append(make([]byte, 0, len(m)), m[:groupBuckets]...)
	for buckets := m[groupBuckets : groupBuckets+length]; len(buckets) > 0; {
		if len(buckets) < bucketHeader {
			return nil, fmt.Errorf("%d bytes are no bucket", len(buckets))
		}
		whole, actions := int(binary.BigEndian.Uint16(buckets)), int(binary.BigEndian.Uint16(buckets[2:]))
		if whole < bucketHeader || whole > len(buckets) || bucketHeader+actions > whole {
			return nil, fmt.Errorf("a bucket of %d bytes with actions of %d in %d", whole, actions, len(buckets))
		}
		what, err := find(buckets[bucketHeader:bucketHeader+actions], f.group, 0)
		if err != nil {
			problem, what = err, found{commits: true, toHelper: true, zoned: true}
		}
		if what.commits || what.zoned {
			f.groups[id] = f.groups[id].or(found{commits: what.commits, zoned: what.zoned})
		}
		start := len(anew)
		anew = append(anew, buckets[:bucketHeader]...)
		if what.toHelper && !f.FTP {
			binary.BigEndian.PutUint16(anew[start:], uint16(whole-actions))
			binary.BigEndian.PutUint16(anew[start+2:], 0)
		} else {
			anew = append(anew, buckets[bucketHeader:bucketHeader+actions]...)
		}
		anew = append(anew, buckets[bucketHeader+actions:whole]...)
		buckets = buckets[whole:]
	}
	binary.BigEndian.PutUint16(anew[groupLength:], uint16(len(anew)-groupBuckets))
	return append(anew, m[groupBuckets+length:]...), problem
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
	anew := append(make([]byte, 0, len(m)+len(inner)-length), m[:bundled]...)
	return append(append(anew, inner...), m[bundled+length:]...), err
}
