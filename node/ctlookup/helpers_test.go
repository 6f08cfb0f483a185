package ctlookup

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// natTo is a translation to IPv4 addresses, and to ports.
func natTo(ports ...uint16) []byte {
	a := experimenter(subtypeNAT, natHeader)
	present := uint16(1)
	a = append(a, 10, 0, 0, 9)
	for i, port := range ports {
		present |= natFirstPort << i
		a = binary.BigEndian.AppendUint16(a, port)
	}
	return padded(a, present)
}

// natTo6 is one to an address of IPv6 and a port.
func natTo6(port uint16) []byte {
	a := append(experimenter(subtypeNAT, natHeader), make([]byte, 16)...)
	return padded(binary.BigEndian.AppendUint16(a, port), 1<<2|natFirstPort)
}

func padded(nat []byte, present uint16) []byte {
	nat = append(nat, make([]byte, (8-len(nat)%8)%8)...)
	binary.BigEndian.PutUint16(nat[2:], uint16(len(nat)))
	binary.BigEndian.PutUint16(nat[natPresent:], present)
	return nat
}

// dropping is a flow mod without instructions.
func dropping() []byte {
	m := flowMod()[:flowMatch+16]
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	return m
}

func inTable(table byte, m []byte) []byte {
	m = slices.Clone(m)
	m[flowTable] = table
	return m
}

// datapathField is that of a match.
func datapathField(number byte) string {
	return "\x80\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00" + string(rune(number))
}

// inDatapath is a flow mod that matches a datapath, too.
func inDatapath(number byte, m []byte) []byte {
	match := int(binary.BigEndian.Uint16(m[flowMatch+2:]))
	field := datapathField(number)
	fields := append(slices.Clone(m[flowMatch:flowMatch+match]), field...)
	binary.BigEndian.PutUint16(fields[2:], uint16(len(fields)))
	fields = append(fields, make([]byte, (8-len(fields)%8)%8)...)
	m = slices.Concat(m[:flowMatch], fields, m[flowMatch+(match+7)/8*8:])
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	return m
}

// TestHelpersGetNothing: each message is sent after those before it, on one connection.
func TestHelpersGetNothing(t *testing.T) {
	guards := func(table byte) [][]byte { return append(wholes(table, ""), readable(table)...) }
	guard := func(table byte) []byte { return slices.Concat(guards(table)...) }
	guardInBundle := func(table byte) (all []byte) {
		for _, flow := range guards(table) {
			copy(flow[4:], []byte{1, 2, 3, 4})
			all = append(all, inBundle(flow)...)
		}
		return all
	}
	open := message(typeBundleControl, make([]byte, 8))
	to := func(nat []byte) []byte { return ct(ctCommit, 2, nat) }
	deep := commitB
	for range deepest + 2 {
		deep = cloned(deep)
	}
	f := newFlows(Changes{})
	for _, c := range []struct {
		name       string
		sent, want []byte
		unread     bool
	}{
		{name: "all flows go", sent: emptied(), want: slices.Concat(emptied(), slices.Concat(zones()...),
			slices.Concat(readable(0)...))},
		{name: "a flow that only looks", sent: flowMod(ct(0, 2, nat), output)},
		{name: "one that commits", sent: flowMod(commitB), want: slices.Concat(guard(0), flowMod(commitB))},
		{name: "another of the table", sent: flowMod(cloned(commitB))},
		{name: "of a datapath", sent: inDatapath(3, flowMod(commitB)), want: slices.Concat(slices.Concat(wholes(0,
			datapathField(3))...), inDatapath(3, flowMod(commitB)))},
		{name: "another of the datapath", sent: inDatapath(3, flowMod(cloned(commitB)))},
		{name: "of another table", sent: inTable(9, flowMod(cloned(output, cloned(commitB)))),
			want: slices.Concat(guard(9), inTable(9, flowMod(cloned(output, cloned(commitB)))))},
		{name: "to another port", sent: flowMod(to(natTo(8021)))},
		{name: "to FTP's", sent: flowMod(output, to(natTo(21))), want: dropping()},
		{name: "to FTP's of IPv6", sent: flowMod(to(natTo6(21)), output), want: dropping()},
		{name: "to TFTP's", sent: flowMod(cloned(to(natTo(69)))), want: dropping()},
		{name: "to ports with TFTP's", sent: flowMod(to(natTo(60, 70))), want: dropping()},
		{name: "to ports without", sent: flowMod(to(natTo(1024, 65535)))},
		{name: "in a bundle", sent: inBundle(flowMod(to(natTo(21)))), want: inBundle(dropping())},
		{name: "a group", sent: groupMod(0, 5, to(natTo(80)), to(natTo(21))), want: groupMod(0, 5, to(natTo(80)), nil)},
		{name: "with one bucket more", sent: inBundle(groupMod(groupInsert, 5, to(natTo6(69)))),
			want: inBundle(groupMod(groupInsert, 5, nil))},
		{name: "a flow to it", sent: inTable(7, flowMod(toGroup(5))), want: slices.Concat(guard(7), inTable(7,
			flowMod(toGroup(5))))},
		{name: "a flow to another", sent: inTable(8, flowMod(toGroup(6)))},
		{name: "a bundle", sent: open},
		{name: "whose tables may have lost their guards", sent: inBundle(flowMod(commitB)), want: slices.Concat(
			guardInBundle(0), inBundle(flowMod(commitB)))},
		{name: "all flows go again, in a bundle", sent: inBundle(emptied())},
		{name: "too many clones", sent: flowMod(deep), want: dropping(), unread: true},
		{name: "in a bucket", sent: groupMod(0, 6, output, deep), want: groupMod(0, 6, output, nil), unread: true},
		{name: "and what leads to it", sent: inTable(8, flowMod(toGroup(6))), want: slices.Concat(guard(8), inTable(8,
			flowMod(choose, toGroup(6))))},
	} {
		if c.want == nil {
			c.want = c.sent
		}
		if c.name == "all flows go again, in a bundle" {
			for _, flow := range slices.Concat(zones(), readable(0)) {
				copy(flow[4:], []byte{1, 2, 3, 4})
				c.want = slices.Concat(c.want, inBundle(flow))
			}
		}
		got, err := f.message(slices.Clone(c.sent))
		if err != nil != c.unread || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %v, got\n% x, want\n% x", c.name, err, got, c.want)
		}
	}
}

// TestHelpersOfAnotherDriver: they are none.
func TestHelpersOfAnotherDriver(t *testing.T) {
	f := newFlows(Changes{FTP: true})
	translates := flowMod(ct(ctCommit, 2, natTo(21)))
	for _, c := range []struct{ sent, want []byte }{
		{emptied(), slices.Concat(emptied(), slices.Concat(zones()...))},
		{translates, slices.Concat(slices.Concat(wholes(0, "")...), translates)},
		{groupMod(0, 5, ct(ctCommit, 2, natTo(69))), groupMod(0, 5, ct(ctCommit, 2, natTo(69)))},
	} {
		if got, err := f.message(slices.Clone(c.sent)); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%v, got\n% x, want\n% x", err, got, c.want)
		}
	}
}
