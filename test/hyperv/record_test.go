//go:build linux

package hyperv

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"

	"github.com/weftnet/weft/ovn/capability"
)

// What the table of capabilities forbids has the names that the record has.
func TestForbiddenNames(t *testing.T) {
	names := slices.AppendSeq(slices.Collect(maps.Values(actionNames)), maps.Values(ctNames))
	for _, field := range keyNames {
		names = append(names, "set "+field)
	}
	for field := range 32 {
		if name := matchName(uint16(field)); field != keyND && !strings.HasPrefix(name, "key ") {
			names = append(names, "match "+name)
		}
	}
	for _, part := range ndParts {
		names = append(names, "match "+part.name)
	}
	names = append(names, "action ", "ct part ", "set field ", "key ", "match key ") // and a number
	names = append(names, helperFTP, helperTFTP)
	for _, limit := range capability.Limits {
		for _, name := range slices.Concat(limit.Forbids, limit.Bears) {
			if !slices.Contains(names, name) {
				t.Errorf("%s names %q, which the record never has", limit.Feature, name)
			}
		}
	}
}

// The table has a line for each part of a key that the driver's keys do not have, or have empty: flows that match it
// are hit by packets that they are not for.
func TestTheTableKnowsWhatKeysLack(t *testing.T) {
	has := map[uint16]bool{keyTunnel: true, keyMPLS: true}
	for _, k := range []key{
		{ether: etherIPv4, network: networkKey{proto: protoTCP}}, {ether: etherIPv4, network: networkKey{proto: protoUDP}},
		{ether: etherIPv4, network: networkKey{proto: protoSCTP}}, {ether: etherIPv4, network: networkKey{proto: protoICMP}},
		{ether: etherIPv6, network: networkKey{proto: protoICMPv6, portSrc: ndSolicit}}, {ether: etherARP},
		{vlan: vlanCFI, hash: 1},
	} {
		data, err := encode(k.encode)
		if err != nil {
			t.Fatal(err)
		}
		told, err := attributesOf(data)
		if err != nil {
			t.Fatal(err)
		}
		for kind := range told {
			has[kind] = true
		}
	}
	delete(has, keyND)    // which is empty
	delete(has, keyEncap) // which has the others
	for kind := range uint16(32) {
		names := []string{"match " + matchName(kind)}
		if kind == keyND {
			names = nil
			for _, part := range ndParts {
				names = append(names, "match "+part.name)
			}
		}
		for _, name := range names {
			borne := slices.ContainsFunc(capability.Limits, func(l capability.Limit) bool {
				return slices.Contains(l.Bears, name)
			})
			if known := borne || capability.Forbidden(name) != ""; known == has[kind] {
				t.Errorf("%q: the driver's keys have it: %t; the table has a line of it: %t", name, has[kind], known)
			}
		}
	}
}

// Of a flow that is put those parts are recorded as matched of which its mask has a bit, and all parts without a
// mask. What is deleted, and what ovs-vswitchd tries, is not.
func TestRecordOfMatches(t *testing.T) {
	nd := make([]byte, 28)
	nd[20] = 1 // a source's link-layer address
	mask := func(a *netlink.AttributeEncoder) error {
		a.Uint32(keyInPort, 0xffffffff)
		a.Uint32(keySKBMark, 0)
		a.Uint16(keyTCPFlags, 0x400)
		a.Bytes(keyCtTupleIPv6, make([]byte, 40))
		a.Bytes(keyND, nd)
		a.Bytes(keyNDExtensions, []byte{0, 0, 0, 0, 1, 0, 0, 0})
		a.Nested(keyTunnel, func(a *netlink.AttributeEncoder) error {
			a.Uint64(tunnelID, 0)
			return nil
		})
		a.Nested(keyEncap, func(a *netlink.AttributeEncoder) error {
			a.Bytes(keyIPv4, []byte{0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0})
			a.Uint32(28, 1)
			return nil
		})
		return nil
	}
	masked := []string{"match in_port", "match ipv4", "match key 28", "match nd_ext", "match nd_sll", "match tcp_flags"}
	for name, c := range map[string]struct {
		command uint8
		mask    func(*netlink.AttributeEncoder) error
		probe   bool
		want    []string
	}{
		"put":       {cmdNew, mask, false, masked},
		"tried":     {cmdNew, mask, true, nil},
		"no mask":   {cmdNew, nil, false, []string{"match ct_state", "match in_port", "match ipv4"}},
		"a deleted": {cmdDelete, mask, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := bare(t, KnownFaults())
			_, _ = try(t, e, familyFlow, c.command, func(a *netlink.AttributeEncoder) { // there may be nothing to delete
				a.Nested(flowAttrKey, func(a *netlink.AttributeEncoder) error {
					a.Uint32(keyInPort, 0)
					a.Bytes(keyIPv4, make([]byte, 12))
					a.Uint32(keyCtState, 1)
					return nil
				})
				if c.mask != nil {
					a.Nested(flowAttrMask, c.mask)
				}
				a.Nested(flowAttrActions, func(*netlink.AttributeEncoder) error { return nil })
				a.Flag(flowAttrProbe, c.probe)
			})
			if got := slices.Sorted(maps.Keys(e.Executed())); !slices.Equal(got, c.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// What a packet meets is written down once, with the parts of ct and with keys that the driver passes over.
func TestRecord(t *testing.T) {
	e, h := bare(t, KnownFaults())
	var record bytes.Buffer
	e.config.Record = &record
	for range 2 {
		send(t, e, h, udp(client, server, 1, 2, "x"), act(77, 0), act(actionOutput, 4))
	}
	e.recordKeys(attributes{keyIPv4: nil, keyTunnel: nil, 32: nil})
	timeout := func(a *netlink.AttributeEncoder) {
		a.String(ctAttrTimeout, "short")
		a.Uint32(77, 0)
	}
	send(t, e, h, udp(client, server, 1, 2, "x"), ct(t, 1, true, timeout, nat(0, client, 0)))
	want := []string{"action 77", "output", "key 32", "ct", "ct zone", "ct commit", "ct timeout", "ct part 77", "ct nat"}
	if got := strings.Split(strings.TrimSpace(record.String()), "\n"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if e.Executed()["output"] != 2 {
		t.Error(e.Executed())
	}
}
