package ctlookup

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
)

// experimenter is an action of Nicira's.
func experimenter(subtype uint16, fixed int, nested ...[]byte) []byte {
	a := make([]byte, fixed)
	binary.BigEndian.PutUint16(a, actionExperimenter)
	binary.BigEndian.PutUint32(a[4:], nicira)
	binary.BigEndian.PutUint16(a[8:], subtype)
	a = append(a, slices.Concat(nested...)...)
	binary.BigEndian.PutUint16(a[2:], uint16(len(a)))
	return a
}

func ct(flags, zone uint16, nested ...[]byte) []byte {
	a := experimenter(subtypeCT, ctLength, nested...)
	binary.BigEndian.PutUint16(a[ctFlags:], flags)
	binary.BigEndian.PutUint16(a[16:], zone)
	a[18] = 0xff
	return a
}

func toGroup(id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{0, actionGroup, 0, 8}, id)
}

func cloned(nested ...[]byte) []byte { return experimenter(subtypeClone, cloneHeader, nested...) }

func message(kind byte, body ...[]byte) []byte {
	m := append([]byte{version, kind, 0, 0, 1, 2, 3, 4}, slices.Concat(body...)...)
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	return m
}

func flowMod(actions ...[]byte) []byte {
	all := slices.Concat(actions...)
	head := make([]byte, flowMatch-messageHeader)
	match := []byte{0, 1, 0, 10, 0x80, 0, 0x0a, 2, 8, 0, 0, 0, 0, 0, 0, 0}
	gotoTable := []byte{0, 1, 0, 8, 9, 0, 0, 0}
	apply := []byte{0, applyActions, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(apply[2:], uint16(len(apply)+len(all)))
	return message(typeFlowMod, head, match, apply, all, gotoTable)
}

func groupMod(command uint16, id uint32, buckets ...[]byte) []byte {
	var list []byte
	for i, actions := range buckets {
		b := make([]byte, bucketHeader)
		property := []byte{0, 0, 0, 8, 0, 100, 0, 0}
		binary.BigEndian.PutUint16(b, uint16(len(b)+len(actions)+len(property)))
		binary.BigEndian.PutUint16(b[2:], uint16(len(actions)))
		binary.BigEndian.PutUint32(b[4:], uint32(i))
		list = slices.Concat(list, b, actions, property)
	}
	head := make([]byte, groupBuckets-messageHeader)
	binary.BigEndian.PutUint16(head, command)
	binary.BigEndian.PutUint32(head[4:], id)
	binary.BigEndian.PutUint16(head[8:], uint16(len(list)))
	return message(typeGroupMod, head, list)
}

func inBundle(m []byte, rest ...byte) []byte {
	return message(typeBundleAdd, []byte{0, 0, 0, 7, 0, 0, 0, 3}, m, rest)
}

var (
	look    = toBeforeCommit[:]
	undo    = toBeforeUndo[:]
	choose  = toByProtocol[:]
	learn   = experimenter(subtypeLearn, 32)
	further = onward(1) // to the table after that of flowMod's
	output  = []byte{0, 0, 0, 16, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0}
	nat     = experimenter(36, 16)
	commitB = ct(ctCommit, 2, nat)
)

// tablesInBundle are the flows of the tables of ours in the bundle of [inBundle].
func tablesInBundle() []byte {
	var all []byte
	for _, flow := range slices.Concat(zones(), tables()) {
		copy(flow[4:], []byte{1, 2, 3, 4})
		all = append(all, inBundle(flow)...)
	}
	return all
}

func TestLookupIsOnTheWireWhatOpenVSwitchHas(t *testing.T) {
	if !bytes.Equal(lookup[:], ct(0, Zone)) {
		t.Errorf("got % x", lookup)
	}
}

// onward is resubmit(,table).
func onward(table byte) []byte {
	a := experimenter(subtypeResubmit, resubmitLength)
	binary.BigEndian.PutUint16(a[10:], 0xfff8)
	a[12] = table
	return a
}

// zoneIn is a lookup in the zone that a register has.
func zoneIn(number uint32) []byte {
	a := ct(0, 15)
	binary.BigEndian.PutUint32(a[ctZone:], 0x00010004|number<<9)
	return a
}

// emptied is the message by which ovn-controller begins.
func emptied() []byte {
	m := message(typeFlowMod, make([]byte, flowMatch-messageHeader), []byte{0, 1, 0, 4, 0, 0, 0, 0})
	m[flowTable], m[flowCommand] = allTables, flowDelete
	return m
}

// committedIn is a ct that commits, whose zone is in a register.
func committedIn(number uint32) []byte {
	a := zoneIn(number)
	binary.BigEndian.PutUint16(a[ctFlags:], ctCommit)
	return a
}

// TestMessages: each is sent after those before it, on one connection.
func TestMessages(t *testing.T) {
	put := func(table byte, m []byte) []byte {
		return slices.Concat(slices.Concat(wholes(table, "")...), inTable(table, m))
	}
	foreign := flowMod(commitB)
	foreign[0] = 4
	for _, c := range []struct {
		name       string
		sent, want []byte
	}{
		{"hello", []byte{version, 0, 0, 8, 0, 0, 0, 1}, nil},
		{"a barrier", message(20), nil},
		{"a flow that commits nothing", flowMod(ct(0, 2, nat), output), nil},
		{"a lookup in a router's zone", flowMod(zoneIn(11)), put(0, flowMod(choose, undo, zoneIn(11)))},
		{"one that learns", flowMod(output, learn), flowMod(output, learn, further)},
		{"and goes on", flowMod(learn, output), nil},
		{"one in a port's", flowMod(zoneIn(13)), flowMod(choose, zoneIn(13))},
		{"of a clone of another table", inTable(3, flowMod(cloned(zoneIn(12)))), put(3, flowMod(cloned(choose, zoneIn(12))))},
		{"all flows go", emptied(), slices.Concat(emptied(), slices.Concat(zones()...), slices.Concat(tables()...))},
		{"all flows go in a bundle", inBundle(emptied()), slices.Concat(inBundle(emptied()), tablesInBundle())},
		{"a flow that commits", flowMod(output, commitB, output), put(0, flowMod(output, look, commitB, output))},
		{"in a register's zone", flowMod(committedIn(11)), flowMod(choose, look, committedIn(11))},
		{"twice", flowMod(commitB, ct(ctCommit|2, 3)), flowMod(look, commitB, look, ct(ctCommit|2, 3))},
		{"within clones", flowMod(cloned(output, cloned(commitB)), output), flowMod(cloned(output, cloned(look, commitB)),
			output)},
		{"in a bundle", inBundle(flowMod(commitB)), inBundle(flowMod(look, commitB))},
		{"in a bundle with properties", inBundle(flowMod(commitB), 1, 2, 3, 4, 5, 6, 7, 8), inBundle(flowMod(look, commitB),
			1, 2, 3, 4, 5, 6, 7, 8)},
		{"another OpenFlow", foreign, nil},
		{"a group of which nothing is known", flowMod(toGroup(5)), nil},
		{"a group that commits", inBundle(groupMod(0, 5, output, slices.Concat(output, commitB))), nil},
		{"one that does not", groupMod(0, 6, output, ct(0, 3)), nil},
		{"a flow to the first", flowMod(toGroup(5)), flowMod(look, toGroup(5))},
		{"in a clone", flowMod(cloned(toGroup(5))), flowMod(cloned(look, toGroup(5)))},
		{"a flow to the other", flowMod(toGroup(6)), nil},
		{"a bucket more", groupMod(groupInsert, 6, commitB), nil},
		{"which commits", flowMod(toGroup(6)), flowMod(look, toGroup(6))},
		{"the group is another", groupMod(1, 6, output), nil},
		{"which does not", flowMod(toGroup(6)), nil},
		{"a group whose zone is a register's", groupMod(0, 7, output, committedIn(13)), nil},
		{"a flow to it", flowMod(toGroup(7)), flowMod(choose, look, toGroup(7))},
		{"it has another bucket", groupMod(groupInsert, 7, output), nil},
		{"and the former one", flowMod(toGroup(7)), flowMod(choose, look, toGroup(7))},
		{"all groups go", groupMod(groupDelete, allGroups), nil},
		{"there is none", flowMod(toGroup(5)), nil},
	} {
		if c.want == nil {
			c.want = c.sent
		}
		if c.name == "hello" {
			stream = newFlows(Changes{Lookups: true, FTP: true})
		}
		got, err := stream.message(c.sent)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %v, got\n% x, want\n% x", c.name, err, got, c.want)
		}
	}
}

var stream flows

// TestWithoutLookups: the rest is done without.
func TestWithoutLookups(t *testing.T) {
	f := newFlows(Changes{FTP: true})
	for _, c := range []struct{ sent, want []byte }{{groupMod(0, 5, commitB), groupMod(0, 5, commitB)},
		{flowMod(commitB, toGroup(5), zoneIn(11)), slices.Concat(slices.Concat(wholes(0, "")...),
			flowMod(commitB, toGroup(5), choose, zoneIn(11)))},
		{emptied(), slices.Concat(emptied(), slices.Concat(zones()...))},
		{inTable(4, flowMod(output, learn)), inTable(4, flowMod(output, learn, onward(5)))}} {
		if got, err := f.message(c.sent); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%v, got\n% x, want\n% x", err, got, c.want)
		}
	}
}

// TestWhatCannotBeReadPasses: as it came, after what guards its table, and is told.
func TestWhatCannotBeReadPasses(t *testing.T) {
	long := bytes.Repeat(commitB, (0xffff-200)/len(commitB))
	deep := commitB
	for range deepest + 2 {
		deep = cloned(deep)
	}
	short := flowMod(commitB)
	short[flowMatch+16+8+3]-- // the first action's length
	for name, m := range map[string][]byte{
		"no room": flowMod(long), "too deep": flowMod(deep), "an action's length": short,
		"a match's length": append(flowMod()[:flowMatch], 0, 1, 0xff, 0xff), "no bucket": message(typeGroupMod,
			make([]byte, 8)),
		"a bundle of a bundle": inBundle(inBundle(flowMod(commitB))), "no message": inBundle([]byte{6, 14, 0, 4, 0, 0, 0, 0}),
	} {
		binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
		f := newFlows(Changes{Lookups: true, FTP: true})
		if got, err := f.message(m); err == nil || !bytes.HasSuffix(got, m) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// flushOf is the message that has a zone forgotten.
func flushOf(zone uint16) []byte {
	return message(typeExperimenter, []byte{0, 0, 0x23, 0x20, 0, 0, 0, subtypeFlushZone, 0, 0, 0, 0, 0, 0},
		binary.BigEndian.AppendUint16(nil, zone))
}

// TestStream: messages come in any pieces, and leave whole.
func TestStream(t *testing.T) {
	sent := slices.Concat(message(0), flushOf(5), flowMod(commitB), inBundle(flowMod(output)), flowMod(commitB, commitB))
	want := slices.Concat(message(0), flushOf(5), flushOf(5|OfTCP), slices.Concat(wholes(0, "")...),
		flowMod(look, commitB), inBundle(flowMod(output)),
		flowMod(look, commitB, look, commitB))
	for _, size := range []int{1, 7, 24, len(sent)} {
		ours, switchs := net.Pipe()
		c := Over(ours, Changes{Lookups: true, FTP: true}, func(err error) { t.Error(err) })
		go func() {
			for piece := range slices.Chunk(sent, size) {
				if n, err := c.Write(piece); err != nil || n != len(piece) {
					t.Errorf("wrote %d of %d: %v", n, len(piece), err)
				}
			}
			_ = c.CloseWrite() // a pipe has it not
		}()
		if got, err := io.ReadAll(switchs); err != nil || !bytes.Equal(got, want) {
			t.Errorf("in pieces of %d: %v, got\n% x, want\n% x", size, err, got, want)
		}
	}
	ours, _ := net.Pipe()
	if _, err := Over(ours, Changes{Lookups: true, FTP: true}, nil).Write([]byte{6, 0, 0, 7, 0, 0, 0, 0}); err == nil {
		t.Error("a message shorter than its header")
	}
}

// TestNoSingleConnectionIsForgotten, while whole zones are.
func TestNoSingleConnectionIsForgotten(t *testing.T) {
	flush := func(protocol byte, properties ...[]byte) []byte {
		return message(typeExperimenter, []byte{0, 0, 0x23, 0x20, 0, 0, 0, subtypeCTFlush, protocol, 0, 0, 0, 0, 0, 0, 0},
			slices.Concat(properties...))
	}
	zone, tuple := []byte{0, ctFlushZone, 0, 6, 0, 5, 0, 0}, []byte{0, 0, 0, 4, 0, 0, 0, 0}
	for _, c := range []struct {
		name   string
		m      []byte
		passes bool
	}{
		{"all", flush(0), true}, {"a zone", flush(0, zone), true}, {"a zone, as older ones ask", flushOf(5), true},
		{"all zones, as older ones ask", flushOf(0), true}, {"one of TCP", flushOf(5 | OfTCP), true},
		{"another message", message(typeExperimenter, make([]byte, 16)), true},
		{"a protocol", flush(17), false}, {"a tuple", flush(0, tuple), false}, {"a zone's tuple", flush(0, zone, tuple),
			false},
		{"what no switch reads", flush(0, []byte{0, ctFlushZone, 0, 0, 0, 0, 0, 0}), false},
	} {
		want := c.m
		if !c.passes {
			want = nil
		} else if c.name == "a zone, as older ones ask" {
			want = slices.Concat(want, flushOf(5|OfTCP))
		}
		for _, lookups := range []bool{false, true} {
			f := newFlows(Changes{Lookups: lookups, FTP: true})
			if got, err := f.message(c.m); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: % x, %v", c.name, got, err)
			}
		}
		f := newFlows(Changes{Flushes: true, FTP: true})
		if got, err := f.message(c.m); err != nil || !bytes.HasPrefix(got, c.m) {
			t.Errorf("%s, of a driver that may be asked: % x, %v", c.name, got, err)
		}
	}
}

// TestMeters: what comes from a switch passes in any pieces, and it has no more meters than ovn-controller can count.
func TestMeters(t *testing.T) {
	features := func(most uint32) []byte {
		return message(typeMultipartReply, []byte{0, meterFeatures, 0, 0, 0, 0, 0, 0}, binary.BigEndian.AppendUint32(nil,
			most), make([]byte, 12))
	}
	other := message(typeMultipartReply, []byte{0, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	sent := slices.Concat(message(0), features(1<<32-1), other, features(7), message(typeMultipartReply))
	want := slices.Concat(message(0), features(maxMeters), other, features(7), message(typeMultipartReply))
	for _, size := range []int{1, 7, len(sent)} {
		ours, switchs := net.Pipe()
		go func() {
			for piece := range slices.Chunk(sent, size) {
				if _, err := switchs.Write(piece); err != nil {
					t.Error(err)
				}
			}
			switchs.Close()
		}()
		if got, err := io.ReadAll(Over(ours, Changes{Lookups: true, FTP: true}, nil)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("in pieces of %d: %v, got\n% x, want\n% x", size, err, got, want)
		}
	}
	for _, wrong := range [][]byte{{6, 0, 0, 7, 0, 0, 0, 0}, {6, 0, 0, 16, 0, 0, 0, 0}} {
		ours, switchs := net.Pipe()
		go func() { _, _ = switchs.Write(wrong); switchs.Close() }()
		if got, err := io.ReadAll(Over(ours, Changes{Lookups: true, FTP: true}, nil)); err == nil || len(got) > 0 {
			t.Errorf("% x: got % x", wrong, got)
		}
	}
}

// FuzzMessage: whatever comes, what leaves is the same without the lookups, and as long as it says.
func FuzzMessage(f *testing.F) {
	for _, m := range [][]byte{flowMod(output, commitB), flowMod(cloned(commitB), toGroup(5)), groupMod(0, 5, commitB),
		inBundle(flowMod(commitB, toGroup(5)))} {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		if len(m) < messageHeader || len(m) > 0xffff {
			return
		}
		binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
		if forgets(m) || ofTCP(m) != nil || bytes.Contains(m, look) || bytes.Contains(m, undo) || empties(m) || bundles(m) &&
			empties(m[bundled:]) {
			return
		}
		s := newFlows(Changes{Lookups: true, FTP: true})
		s.groups[5] = found{commits: true}
		_, _ = s.message(bytes.Clone(m)) // has its guards sent
		got, err := s.message(bytes.Clone(m))
		if err != nil {
			if !bytes.Equal(got, m) {
				t.Fatalf("%v: and it has changed", err)
			}
			return
		}
		if int(binary.BigEndian.Uint16(got[2:])) != len(got) {
			t.Fatalf("%d bytes say %d", len(got), binary.BigEndian.Uint16(got[2:]))
		}
		if ways := len(got) - len(m); ways%resubmitLength != 0 || ways < resubmitLength*(bytes.Count(got, look)+
			bytes.Count(got, undo)) {
			t.Fatalf("% x became % x", m, got)
		}
		if again, err := s.message(bytes.Clone(got)); err != nil {
			t.Fatalf("what leaves cannot be read: %v, % x", err, again)
		}
		guarded := newFlows(Changes{})
		if once, err := guarded.message(bytes.Clone(m)); err == nil && len(once) < messageHeader {
			t.Fatalf("% x became % x", m, once)
		}
	})
}
