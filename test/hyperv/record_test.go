//go:build linux

package hyperv

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/ovn/capability"
)

// What ovs-vswitchd may send a datapath, as Open vSwitch 3.7.1 lists it in include/linux/openvswitch.h, by the record's
// names in the order of their numbers. Those of keys have no verb yet.
var (
	// allActions: enum ovs_action_attr, from 1 on.
	allActions = strings.Fields("output userspace set push_vlan pop_vlan sample recirc hash push_mpls pop_mpls " +
		"set_masked ct trunc push_eth pop_eth ct_clear push_nsh pop_nsh meter clone check_pkt_len add_mpls dec_ttl " +
		"drop psample tunnel_push tunnel_pop lb_output")
	// allKeys: enum ovs_key_attr, from 1 on.
	allKeys = strings.Fields("encap priority in_port eth vlan eth_type ipv4 ipv6 tcp udp icmp icmpv6 arp nd skb_mark " +
		"tunnel sctp tcp_flags dp_hash recirc_id mpls ct_state ct_zone ct_mark ct_labels ct_orig_tuple4 ct_orig_tuple6 " +
		"nsh packet_type nd_ext tunnel_info")
	// allTunnelKeys: enum ovs_tunnel_key_attr, from 0 on.
	allTunnelKeys = strings.Fields("tun_id tun_ipv4_src tun_ipv4_dst tun_tos tun_ttl tun_df tun_csum tun_oam " +
		"tun_geneve_opts tun_tp_src tun_tp_dst tun_vxlan_opts tun_ipv6_src tun_ipv6_dst tun_pad tun_erspan_opts " +
		"tun_gtpu_opts")
	// allCt: enum ovs_ct_attr, from 1 on; allNAT: enum ovs_nat_attr, from 1 on.
	allCt  = strings.Fields("commit zone mark labels helper nat force_commit eventmask timeout")
	allNAT = strings.Fields("nat_src nat_dst nat_ip_min nat_ip_max nat_proto_min nat_proto_max nat_persistent nat_hash " +
		"nat_random")
)

// The record has a name for each number of Open vSwitch's lists, and none for what is not there.
func TestTheRecordNamesAll(t *testing.T) {
	for name, c := range map[string]struct {
		names  map[uint16]string
		prefix string
		first  int
		all    []string
	}{
		"actions": {actionNames, "", 1, allActions}, "keys": {keyNames, "", 1, allKeys},
		"tunnels": {tunnelNames, "", 0, allTunnelKeys}, "ct": {ctNames, "ct ", 1, allCt}, "NAT": {natNames, "ct ", 1, allNAT},
	} {
		if len(c.names) != len(c.all) {
			t.Errorf("%s: the record has %d names of %d", name, len(c.names), len(c.all))
		}
		for i, want := range c.all {
			if got := c.names[uint16(c.first+i)]; got != c.prefix+want {
				t.Errorf("%s: %d is recorded as %q, want %q", name, c.first+i, got, c.prefix+want)
			}
		}
	}
}

// recordable are all names that the record may have, except for numbers.
func recordable() []string {
	names := []string{recircLost, userspaceLost, helperFTP, helperTFTP, orphan, overlong, headless, "push_vlan again",
		"push_vlan 802.1ad", "sample actions", "set tcp6", "set udp6", "set ipv4_ecn", "set ipv4_dscp", "match vlan again",
		"match ipv6_label"}
	for part := range ipv6Changes(make([]byte, 40), make([]byte, 40)) {
		names = append(names, "set ipv6_"+part)
	}
	for _, packet := range protocolNames {
		for _, connection := range protocolNames {
			if packet != connection {
				names = append(names, otherProtocol+packet+" over "+connection)
			}
		}
	}
	for _, action := range allActions {
		if action != "set" { // it has its field's name
			names = append(names, action)
		}
	}
	for _, key := range slices.Concat(allKeys, allTunnelKeys) {
		names = append(names, "set "+key)
		switch key {
		case "encap", "tunnel": // what is in them is matched
		case "nd":
			for _, part := range ndParts {
				names = append(names, "match "+part.name)
			}
		case "tcp_flags":
			for _, flag := range tcpFlags {
				names = append(names, "match tcp_flags "+flag)
			}
		default:
			names = append(names, "match "+key)
		}
	}
	for _, part := range slices.Concat(allCt, allNAT) {
		names = append(names, "ct "+part)
	}
	return names
}

// The table has a decision for all that ovs-vswitchd may send, and for each number that nobody knows yet.
func TestTheTableDecidesAll(t *testing.T) {
	for _, name := range recordable() {
		if capability.Forbidden(name) == capability.Undecided {
			t.Errorf("%q: no line of the table is about it", name)
		}
	}
	for _, unknown := range []string{
		named(actionNames, 77, "action"), "set " + named(keyNames, 77, "field"), "match " + named(keyNames, 77, "key"),
		"match " + named(tunnelNames, 77, "tunnel part"), "set " + named(tunnelNames, 77, "tunnel part"),
		named(ctNames, 77, "ct part"), named(natNames, 77, "ct nat part"), "key 77", "hash algorithm 77",
		"sample nesting 77", "set skb_mark 77",
	} {
		if got := capability.Forbidden(unknown); got == "" || got == capability.Undecided {
			t.Errorf("%q is forbidden by %q", unknown, got)
		}
	}
}

// What the table of capabilities forbids, bears and lets pass has the names that the record has.
func TestForbiddenNames(t *testing.T) {
	names := recordable()
	lines := map[string][]string{}
	for _, l := range capability.Limits {
		lines[l.Feature] = slices.Concat(l.Forbids, l.Bears)
	}
	for _, a := range capability.Abilities {
		lines[a.Feature] = a.Does
	}
	beginnings := []string{"action ", "ct part ", "ct nat part ", "set ", "key ", "match key ", "match tunnel part ",
		"match tcp_flags ", "hash algorithm ", "sample nesting ", "set skb_mark ", otherProtocol}
	for feature, of := range lines {
		for _, name := range of {
			begins := slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(name, b) })
			if !slices.Contains(names, name) && !begins {
				t.Errorf("%s names %q, which the record never has", feature, name)
			}
		}
	}
}

// lets says whether the table lets a name pass as something that the driver does.
func lets(name string) bool {
	return slices.ContainsFunc(capability.Abilities, func(a capability.Ability) bool {
		return slices.Contains(a.Does, name)
	})
}

// The table lets those parts of a key pass that the driver's keys have, and has a line for each that they do not have,
// or have empty: flows that match it are hit by packets that they are not for. Of MPLS the emulator knows the key
// alone.
func TestTheTableKnowsWhatKeysLack(t *testing.T) {
	has := map[string]bool{}
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
			has[keyNames[kind]] = true
		}
	}
	for _, name := range allKeys {
		if name == "encap" || name == "nd" || name == "tunnel" || name == "tcp_flags" { // by their parts
			continue
		}
		if got := lets("match " + name); got != has[name] {
			t.Errorf("%q: the driver's keys have it: %t; the table lets it pass: %t", name, has[name], got)
		}
	}
	for _, part := range ndParts {
		if lets("match " + part.name) {
			t.Errorf("%q: the driver's keys have it empty", part.name)
		}
	}
}

// The table lets those parts of a tunnel pass that arriving packets' keys have. The class of traffic is there over IPv4
// alone; the ports are told as 0, and are not compared.
func TestTheTableKnowsWhatTunnelsLack(t *testing.T) {
	has := map[string]bool{}
	for _, peer := range []netip.Addr{client, client6} {
		tunnel := tunnelKey{src: peer, dst: peer, options: "\x01\x02\x80\x00"}
		data, err := encode(tunnel.encode)
		if err != nil {
			t.Fatal(err)
		}
		told, err := attributesOf(data)
		if err != nil {
			t.Fatal(err)
		}
		for kind := range told {
			has[tunnelNames[kind]] = true
		}
	}
	for _, name := range []string{"tun_tos", "tun_tp_src", "tun_tp_dst"} {
		delete(has, name)
	}
	for _, name := range allTunnelKeys {
		if got := lets("match " + name); got != has[name] {
			t.Errorf("%q: the driver's keys have it: %t; the table lets it pass: %t", name, has[name], got)
		}
	}
}

// The table lets those actions pass that the emulated driver does not pass over.
func TestTheTableKnowsActions(t *testing.T) {
	for i, name := range allActions {
		if name == "set" || strings.HasSuffix(name, "_mpls") { // it has its field's name; MPLS the emulator has not
			continue
		}
		e, h := bare(t, KnownFaults())
		o := send(t, e, h, udp(client, server, 1, 2, "x"), attribute{kind: uint16(i + 1)})
		if done := o.err != errNotSupported; done != lets(name) {
			t.Errorf("%q: the driver does it: %t; the table lets it pass: %t", name, done, lets(name))
		}
	}
}

// A set of a tunnel fails where the driver refuses one of its parts, and the table forbids that part.
func TestTheTableKnowsWhatTunnelsAreSet(t *testing.T) {
	for i, name := range allTunnelKeys {
		size := tunnelSizes[uint16(i)]
		e, h := bare(t, KnownFaults())
		o := send(t, e, h, udp(client, server, 1, 2, "x"), nested(t, actionSet, func(a *netlink.AttributeEncoder) {
			a.Nested(keyTunnel, func(a *netlink.AttributeEncoder) error {
				a.Bytes(uint16(i), make([]byte, size))
				return nil
			})
		}))
		if forbidden := capability.Forbidden("set "+name) != ""; forbidden != (o.err != nil) {
			t.Errorf("%q: %v; the table forbids it: %t", name, o.err, forbidden)
		}
		if e.Executed()["set "+name] != 1 {
			t.Errorf("%q: executed %v", name, e.Executed())
		}
	}
}

// Of an action that the driver does in part the record says which part a packet has met.
func TestRecordOfActions(t *testing.T) {
	sample := func(actions func(*netlink.AttributeEncoder)) attribute {
		return nested(t, actionSample, func(a *netlink.AttributeEncoder) {
			a.Nested(sampleActions, func(a *netlink.AttributeEncoder) error {
				actions(a)
				return nil
			})
		})
	}
	upcall := func(a *netlink.AttributeEncoder) { a.Bytes(actionUserspace, nil) }
	output := func(a *netlink.AttributeEncoder) { a.Uint32(actionOutput, 4) }
	within := func(inner func(*netlink.AttributeEncoder)) func(*netlink.AttributeEncoder) {
		return func(a *netlink.AttributeEncoder) {
			s := sample(inner)
			a.Bytes(s.kind, s.data)
		}
	}
	field := func(kind uint16, data []byte) attribute {
		return nested(t, actionSet, func(a *netlink.AttributeEncoder) { a.Bytes(kind, data) })
	}
	four, six := udp(client, server, 1, 2, "x"), udp(client6, server6, 1, 2, "x")
	ipv4 := []byte{10, 0, 0, 1, 10, 0, 0, 2, protoUDP, 0, 64, 0}
	ipv6 := slices.Concat(client6.AsSlice(), server6.AsSlice(), []byte{0, 0, 0, 0, protoUDP, 0, 64, 0})
	with := func(of []byte, place int, value byte) []byte {
		changed := slices.Clone(of)
		changed[place] = value
		return changed
	}
	set6 := func(place int, value byte) attribute { return field(keyIPv6, with(ipv6, place, value)) }
	tag := attribute{actionPushVLAN, []byte{0x81, 0, 0x10, 5}}
	provider := attribute{actionPushVLAN, []byte{0x88, 0xa8, 0, 5}}
	symmetric, mark := attribute{actionHash, slices.Concat(native.AppendUint32(nil, 1), make([]byte, 4))},
		native.AppendUint32(nil, 42)
	for name, c := range map[string]struct {
		frame   []byte
		actions []attribute
		want    []string
	}{
		"a sample":           {four, []attribute{sample(upcall)}, []string{"sample", userspaceLost}},
		"a sample's outputs": {four, []attribute{sample(output)}, []string{"output", "sample", "sample actions"}},
		"four samples": {four, []attribute{sample(within(within(within(upcall))))}, []string{"sample", "sample actions",
			"sample nesting 2", "sample nesting 3", "sample nesting 4", userspaceLost}},
		"a hash":            {four, []attribute{{actionHash, make([]byte, 8)}}, []string{"hash"}},
		"another algorithm": {four, []attribute{symmetric}, []string{"hash", "hash algorithm 1"}},
		"a tag":             {four, []attribute{tag}, []string{"push_vlan"}},
		"two tags":          {four, []attribute{tag, tag}, []string{"push_vlan", "push_vlan again"}},
		"a provider's tag":  {four, []attribute{provider}, []string{"push_vlan", "push_vlan 802.1ad"}},
		"IPv4":              {four, []attribute{field(keyIPv4, with(ipv4, 10, 63))}, []string{"set ipv4"}},
		"IPv4's class": {four, []attribute{field(keyIPv4, with(ipv4, 9, 0xb8))},
			[]string{"set ipv4", "set ipv4_dscp"}},
		"IPv4's congestion":   {four, []attribute{field(keyIPv4, with(ipv4, 9, 3))}, []string{"set ipv4", "set ipv4_ecn"}},
		"IPv6, as it is":      {six, []attribute{field(keyIPv6, ipv6)}, []string{"set ipv6"}},
		"IPv6's source":       {six, []attribute{set6(15, 9)}, []string{"set ipv6", "set ipv6_src"}},
		"IPv6's destination":  {six, []attribute{set6(31, 9)}, []string{"set ipv6", "set ipv6_dst"}},
		"IPv6's label":        {six, []attribute{set6(32, 9)}, []string{"set ipv6", "set ipv6_label"}},
		"IPv6's class":        {six, []attribute{set6(37, 0xb8)}, []string{"set ipv6", "set ipv6_dscp"}},
		"IPv6's congestion":   {six, []attribute{set6(37, 3)}, []string{"set ipv6", "set ipv6_ecn"}},
		"IPv6's hop limit":    {six, []attribute{set6(38, 63)}, []string{"set ipv6", "set ipv6_hlimit"}},
		"UDP":                 {four, []attribute{field(keyUDP, []byte{0, 7, 0, 8})}, []string{"set udp"}},
		"UDP over IPv6":       {six, []attribute{field(keyUDP, []byte{0, 7, 0, 8})}, []string{"set udp6"}},
		"a mark":              {four, []attribute{field(keySKBMark, mark)}, []string{"set skb_mark 42"}},
		"an unknown field":    {four, []attribute{field(77, nil)}, []string{"set field 77"}},
		"a packet for nobody": {four, []attribute{userspace(t, 7)}, []string{"userspace", userspaceLost}},
	} {
		t.Run(name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			send(t, e, h, c.frame, c.actions...)
			got := slices.Sorted(maps.Keys(e.Executed()))
			if !slices.Equal(got, c.want) {
				t.Errorf("recorded %q, want %q", got, c.want)
			}
		})
	}
}

// Of a flow that is put those parts are recorded as matched of which its mask has a bit, and all parts without a
// mask. What is deleted, what ovs-vswitchd tries, and a packet of a port that it does not know, is not.
func TestRecordOfMatches(t *testing.T) {
	nd := make([]byte, 28)
	nd[20] = 1 // a source's link-layer address
	mask := func(a *netlink.AttributeEncoder) error {
		a.Uint32(keyInPort, 0xffffffff)
		a.Uint32(keySKBMark, 0)
		a.Bytes(keyTCPFlags, []byte{0, 8})
		a.Bytes(keyCtTupleIPv6, make([]byte, 40))
		a.Bytes(keyND, nd)
		a.Bytes(keyNDExtensions, []byte{0, 0, 0, 0, 1, 0, 0, 0})
		a.Nested(keyTunnel, func(a *netlink.AttributeEncoder) error {
			a.Uint64(tunnelID, 0)
			a.Bytes(tunnelIPv4Src, []byte{255, 255, 255, 255})
			a.Flag(tunnelChecksum, true)
			return nil
		})
		label := make([]byte, 40)
		label[34] = 1
		a.Bytes(keyIPv6, label)
		a.Nested(keyEncap, func(a *netlink.AttributeEncoder) error {
			a.Bytes(keyIPv4, []byte{0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0})
			a.Uint32(77, 1)
			a.Bytes(keyVLAN, []byte{0x10, 5})
			return nil
		})
		return nil
	}
	masked := []string{"match in_port", "match ipv4", "match ipv6_label", "match key 77", "match nd_ext", "match nd_sll",
		"match tcp_flags psh", "match tun_csum", "match tun_ipv4_src", "match vlan again"}
	for name, c := range map[string]struct {
		command uint8
		mask    func(*netlink.AttributeEncoder) error
		probe   bool
		drops   bool
		want    []string
	}{
		"put":          {cmdNew, mask, false, false, masked},
		"put to drop":  {cmdNew, mask, false, true, masked},
		"tried":        {cmdNew, mask, true, false, nil},
		"no mask":      {cmdNew, nil, false, false, []string{"match ct_state", "match in_port", "match ipv4"}},
		"unknown port": {cmdNew, nil, false, true, nil},
		"deleted":      {cmdDelete, mask, false, false, nil},
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
				a.Nested(flowAttrActions, func(a *netlink.AttributeEncoder) error {
					if !c.drops {
						a.Uint32(actionOutput, 1)
					}
					return nil
				})
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
	e.datapath.record.writer = &record
	for range 2 {
		send(t, e, h, udp(client, server, 1, 2, "x"), act(77, 0), act(actionOutput, 4))
	}
	e.datapath.record.keys(attributes{keyIPv4: nil, keyTunnel: nil, 77: nil})
	timeout := func(a *netlink.AttributeEncoder) {
		a.String(ctAttrTimeout, "short")
		a.Uint32(77, 0)
	}
	send(t, e, h, udp(client, server, 1, 2, "x"), ct(t, 1, true, timeout, nat(0, client, 0)))
	want := []string{"action 77", "output", "key 77", "ct", "ct zone", "ct commit", "ct timeout", "ct part 77",
		"ct nat"}
	if got := strings.Split(strings.TrimSpace(record.String()), "\n"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if e.Executed()["output"] != 2 {
		t.Error(e.Executed())
	}
}

// full is a disk that has room for so many bytes.
type full struct {
	text bytes.Buffer // no embedded one, whose ReadFrom would take all
	room int
}

func (f *full) Write(text []byte) (int, error) {
	n := min(f.room, len(text))
	f.room -= n
	_, _ = f.text.Write(text[:n])
	if n < len(text) {
		return n, unix.ENOSPC
	}
	return n, nil
}

// What cannot be written down is told by whoever asks, and is written once there is room.
func TestRecordThatCannotBeWritten(t *testing.T) {
	e, h := bare(t, KnownFaults())
	disk := &full{room: 3}
	e.datapath.record.writer = disk
	send(t, e, h, udp(client, server, 1, 2, "x"), act(77, 0), act(actionOutput, 4))
	if text, err := e.Control([]string{"executed"}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%q, %v", text, err)
	}
	disk.room = 100
	text, err := e.Control([]string{"executed"})
	if err != nil || !strings.Contains(text, `"output":1`) {
		t.Errorf("%q, %v", text, err)
	}
	if disk.text.String() != "action 77\noutput\n" {
		t.Errorf("%q", disk.text.String())
	}
}
