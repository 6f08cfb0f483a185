//go:build linux

package hyperv

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
)

// setting is an action that sets a field.
func setting(t *testing.T, field uint16, value []byte) attribute {
	t.Helper()
	return nested(t, actionSet, func(a *netlink.AttributeEncoder) { a.Bytes(field, value) })
}

// A set of Ethernet, IPv4, TCP and UDP changes the packet and its key. The bits of congestion stay, and so do all
// other fields, without an error. One of the class of traffic breaks the header's checksum: see TestSetOfTheClass.
func TestSet(t *testing.T) {
	class := func(tos uint8) []byte { return []byte{10, 0, 0, 1, 10, 0, 0, 2, protoTCP, tos, 64, 0} }
	syn, query := tcp(client, server, 1000, 80, tcpSYN, 1, 0), udp(client, server, 1000, 53, "q")
	congested := slices.Clone(syn)
	congested[15] = 0xb8 | 3
	copy(congested[24:], []byte{0, 0})
	order.PutUint16(congested[24:], fold(checksum(0, congested[14:34])))
	for _, c := range []struct {
		name  string
		frame []byte
		field uint16
		value []byte
		at    int // from where on
		want  []byte
	}{
		{"Ethernet", syn, keyEthernet, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}, 0,
			[]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}},
		{"IPv4's addresses", syn, keyIPv4, []byte{10, 0, 0, 9, 10, 0, 0, 8, protoTCP, 0, 64, 0}, 26,
			[]byte{10, 0, 0, 9, 10, 0, 0, 8}},
		{"IPv4's TTL", syn, keyIPv4, []byte{10, 0, 0, 1, 10, 0, 0, 2, protoTCP, 0, 63, 0}, 22, []byte{63}},
		{"IPv4's class", syn, keyIPv4, class(0xb8), 15, []byte{0xb8}},
		{"congestion is not set", syn, keyIPv4, class(0xb8 | 3), 15, []byte{0xb8}},
		{"congestion is not cleared", congested, keyIPv4, class(0x10), 15, []byte{0x10 | 3}},
		{"TCP's ports", syn, keyTCP, []byte{0, 7, 0, 8}, 34, []byte{0, 7, 0, 8}},
		{"UDP's ports", query, keyUDP, []byte{0, 7, 0, 8}, 34, []byte{0, 7, 0, 8}},
		{"ICMP", icmp(client, server, 8, 7), keyICMP, []byte{0, 1}, 34, []byte{8, 0}},
		{"SCTP", ip(client, server, protoSCTP, make([]byte, 24), -1), keySCTP, []byte{0, 7, 0, 8}, 34, make([]byte, 4)},
		{"ARP", frames()[7], keyARP, make([]byte, 24), 22, frames()[7][22:]},
		{"the mark", syn, keySKBMark, make([]byte, 4), 0, syn},
		{"the priority", syn, keyPriority, make([]byte, 4), 0, syn},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			o := send(t, e, h, c.frame, setting(t, c.field, c.value), act(actionOutput, 4))
			if o.err != nil || len(o.out["pod4"]) != 1 {
				t.Fatalf("%+v", o)
			}
			got := o.out["pod4"][0]
			if !slices.Equal(got[c.at:c.at+len(c.want)], c.want) {
				t.Errorf("% x became % x", c.frame, got)
			}
			var k key
			if err := extract(e.datapath.faults, &packet{data: got}, 3, tunnelKey{}, &k); err != nil || k != o.key {
				t.Errorf("the key is %+v, and the packet's %+v", o.key, k)
			}
			if got[15] == c.frame[15] && (k.network.proto == protoTCP || k.network.proto == protoUDP) {
				sound(t, got)
			}
		})
	}
}

// A set of the class of traffic changes the header's checksum as if the class was in the place of the version. Where
// the six bits of the packet's class are the eight that are wanted, nothing is set.
func TestSetOfTheClass(t *testing.T) {
	for name, c := range map[string]struct{ from, want, class uint8 }{
		"a class":            {0, 0xb8, 0xb8},
		"none":               {0xb8, 0, 0},
		"with congestion":    {0xbb, 0x10, 0x13},
		"the same":           {0xb8, 0xb8, 0xb8},
		"the fourth of it":   {0xb0, 0x2c, 0xb0},
		"congestion is kept": {0, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			frame := tcp(client, server, 1000, 80, tcpSYN, 1, 0)
			frame[15] = c.from
			copy(frame[24:], []byte{0, 0})
			order.PutUint16(frame[24:], fold(checksum(0, frame[14:34])))
			e, h := bare(t, KnownFaults())
			o := send(t, e, h, frame, setting(t, keyIPv4, []byte{10, 0, 0, 1, 10, 0, 0, 2, protoTCP, c.want, 64, 0}),
				act(actionOutput, 4))
			if o.err != nil || len(o.out["pod4"]) != 1 {
				t.Fatalf("%+v", o)
			}
			got := o.out["pod4"][0]
			if got[15] != c.class || o.key.network.tos != c.class {
				t.Errorf("the class is %#x, and the key's %#x", got[15], o.key.network.tos)
			}
			changed, right := c.class != c.from, fold(checksum(0, got[14:34])) == 0
			if right == changed {
				t.Errorf("the class has changed: %t; the checksum is right: %t", changed, right)
			}
			// As the driver reckons: with words as the processor has them, whose first byte is the low one.
			sum := uint32(^native.Uint16(frame[24:])) + uint32(^uint16(c.from)) + uint32(c.class)
			if want := fold(sum); changed && native.Uint16(got[24:]) != want {
				t.Errorf("the checksum is %#x, want %#x", native.Uint16(got[24:]), want)
			}
		})
	}
}

// A set of IPv6 fields changes nothing.
func TestSetIPv6(t *testing.T) {
	frame := tcp(client6, server6, 1000, 80, tcpSYN, 1, 0)
	other := slices.Concat(client6.AsSlice(), netip.MustParseAddr("fd00::9").AsSlice(),
		[]byte{0, 0, 0, 0, protoTCP, 0, 63, 0})
	for name, c := range map[string]struct {
		faults  Faults
		changed bool
	}{"fault": {KnownFaults(), false}, "no fault": {without(SetIPv6), true}} {
		t.Run(name, func(t *testing.T) {
			e, h := bare(t, c.faults)
			o := send(t, e, h, frame, setting(t, keyIPv6, other), act(actionOutput, 4))
			if o.err != nil || len(o.out["pod4"]) != 1 {
				t.Fatalf("%+v", o)
			}
			if changed := !slices.Equal(o.out["pod4"][0], frame); changed != c.changed {
				t.Errorf("changed: %v", changed)
			}
			sound(t, o.out["pod4"][0])
		})
	}
}

// A set of ports in a packet of IPv6 changes the ports, and no address.
func TestSetPortsOfIPv6(t *testing.T) {
	ports := []byte{0, 7, 0, 8}
	for kind, frame := range map[uint16][]byte{
		keyTCP: tcp(client6, server6, 1000, 80, tcpSYN, 1, 0), keyUDP: udp(client6, server6, 1000, 53, "q"),
	} {
		e, h := bare(t, KnownFaults())
		o := send(t, e, h, frame, setting(t, kind, ports), act(actionOutput, 4))
		if o.err != nil || len(o.out["pod4"]) != 1 {
			t.Fatalf("%+v", o)
		}
		got := o.out["pod4"][0]
		if !slices.Equal(got[:54], frame[:54]) || !slices.Equal(got[54:58], ports) {
			t.Errorf("% x became % x", frame, got)
		}
		sound(t, got)
	}
}
