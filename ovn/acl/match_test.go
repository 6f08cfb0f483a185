package acl

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

var (
	web = Packet{Inport: "a", Outport: "b", Src: addr("10.244.0.3"), Dst: addr("10.244.1.3"), Proto: TCP, SrcPort: 40000,
		DstPort: 80,
		EthSrc:  net.HardwareAddr{10, 88, 10, 244, 0, 3}, EthDst: net.HardwareAddr{10, 88, 10, 244, 1, 3}}
	dns6 = Packet{Inport: "a", Outport: "b", Src: addr("fd00::3"), Dst: addr("fd00:1::3"), Proto: UDP, SrcPort: 40000,
		DstPort: 53}
	ping  = Packet{Inport: "a", Outport: "b", Src: addr("10.244.0.3"), Dst: addr("10.244.1.3"), Proto: ICMP, ICMPType: 8}
	ping6 = Packet{Inport: "a", Outport: "b", Src: addr("fd00::3"), Dst: addr("fd00:1::3"), Proto: ICMPv6, ICMPType: 128}
	ask6  = Packet{Inport: "a", Src: addr("fe80::3"), Dst: addr("ff02::1:ff00:3"), Proto: ICMPv6, ICMPType: 135}
	arp   = Packet{Inport: "a", ARP: true}
	m3ua  = Packet{Inport: "c", Outport: "d", Src: addr("10.244.0.5"), Dst: addr("192.0.2.9"), Proto: SCTP, SrcPort: 5,
		DstPort: 2905}
)

// packets have a letter each: a case of a table names those that match.
var packets = map[rune]Packet{'w': web, 'd': dns6, 'p': ping, '6': ping6, 'n': ask6, 'a': arp, 's': m3ua}

func environment(t testing.TB) *Env {
	set := func(addresses ...string) *Set {
		s, err := NewSet(addresses)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return &Env{
		Sets: map[string]*Set{
			"pods_ip4": set("10.244.0.3", "10.244.9.9", "192.0.2.0/28"), "pods_ip6": set("fd00::3"),
			"empty": set(), "mixed": set("10.244.0.3", "fd00::3"), "macs": set("0a:58:0a:f4:00:03"), "ports": set("80", "53"),
		},
		Groups: map[string]Ports{"ab": {"a": {}, "b": {}}, "cd": {"c": {}, "d": {}}},
	}
}

// meanings are matches that OVN reads, and the packets that they match.
var meanings = []struct{ match, packets string }{
	{"1", "wdp6nas"},
	{"0", ""},
	{"!0", "wdp6nas"},
	{"ip", "wdp6ns"},
	{"ip4", "wps"},
	{"ip6", "d6n"},
	{"arp", "a"},
	{"tcp", "w"},
	{"udp", "d"},
	{"sctp", "s"},
	{"icmp", "p6n"},
	{"icmp4", "p"},
	{"icmp6", "6n"},
	{"nd", "n"},
	{"nd_ns", "n"},
	{"nd_na", ""},
	{"tcp == 1", "w"},
	{"tcp != 0", "w"},
	{"1 == tcp", "w"},
	{"!(tcp == 0)", "w"},
	{"!(!(tcp))", "w"},
	{"ip && !(ip4.src == 10.244.0.3)", "s"},
	{`inport == "a"`, "wdp6na"},
	{`"c" == inport`, "s"},
	{`inport == {"c", "b"} || outport == "b"`, "wdp6s"},
	{"inport == @ab", "wdp6na"},
	{"outport == @ab", "wdp6"},
	{"outport == {@cd, \"b\"}", "wdp6s"},
	{"outport == \"\"", ""},
	{"!(inport != @ab)", "wdp6na"},
	{"ip4.src == 10.244.0.3", "wp"},
	{"ip4.src == 10.244.0.0/24", "wps"},
	{"ip4.src == 10.244.0.0/255.255.0.255", ""},
	{"ip4.src == 10.244.0.3/255.255.0.255", "wp"},
	{"ip4.src != 10.244.0.3", "s"},
	{"ip4.src != {10.244.0.3, 10.244.0.5}", ""},
	{"!(ip4.src == {10.244.0.3 10.244.0.5})", ""},
	{"ip4.src == {10.244.0.3, 10.244.0.5,}", "wps"},
	{"ip4.src == 0.0.0.0/0", "wps"},
	{"ip4.src != 0.0.0.0/0", ""},
	{"ip4.src == 0/0x0", "wps"},
	{"ip4.src == 0x0af40003", "wp"},
	{"ip4.src > 10.244.0.3", "s"},
	{"10.244.0.3 < ip4.src <= 10.244.0.5", "s"},
	{"ip6.src == fd00::/16", "d6"},
	{"ip6.src == ::/0 && udp", "d"},
	{"ip6.dst == ff02::/ffff::", "n"},
	{"ip6.src != ::", "d6n"},
	{"ip4.src == $pods_ip4", "wp"},
	{"ip4.dst == $pods_ip4", "s"},
	{"ip4.src != $pods_ip4", "s"},
	{"ip4.src == {$pods_ip4, 10.244.0.5}", "wps"},
	{"(ip4.src == $pods_ip4 || ip6.src == $pods_ip6)", "wdp6"},
	{"ip4.src == $empty", ""},
	{"ip4.src != $empty", "wdp6nas"},
	{"!(ip4.src == $empty)", "wdp6nas"},
	{"ip6.src == $mixed", "d6"},
	{"eth.src == $macs", "w"},
	{"eth.src == 0a:58:0a:f4:00:03", "w"},
	{"eth.dst == 0a:58:00:00:00:00/ff:ff:00:00:00:00", "w"},
	{"eth.type == 0x806", "a"},
	{"tcp.dst == $ports || udp.dst == $ports", "wd"},
	{"ip4.src == $missing", ""},
	{"1 || ip4.src == $missing", ""},
	{"1 || inport == @missing", ""},
	{"1 || ip4.src == $mixed", ""},
	{"tcp.dst == 80", "w"},
	{"tcp.dst == {80, 443} || udp.dst == 53", "wd"},
	{"tcp.dst != 443", "w"},
	{"!(tcp.dst == 443)", "w"},
	{"!(tcp.dst == 80)", ""},
	{"!tcp.dst", ""},
	{"tcp.dst >= 70 && tcp.dst <= 90", "w"},
	{"70 <= tcp.dst <= 90", "w"},
	{"90 >= tcp.dst > 80", ""},
	{"!(70 <= tcp.dst <= 90)", ""},
	{"!(100 <= tcp.dst <= 900)", "w"},
	{"sctp.dst == 2905 && sctp.src < 6", "s"},
	{"ip.proto == 6 || ip.proto == 17", "wd"},
	{"icmp4.type == 8 && icmp4.code == 0", "p"},
	{"icmp6.type == {128, 129}", "6"},
	{"outport == @ab && (ip4.src == {$pods_ip4, 10.0.0.0/16} || ip6.src == $pods_ip6) && (tcp.dst == {80, 443} || " +
		"(udp.dst >= 50 && udp.dst <= 60) || sctp)", "wd"},
	{"ip4 // of old\n && tcp /* alone */", "w"},
}

func TestMeanings(t *testing.T) {
	env := environment(t)
	for _, c := range meanings {
		m, err := Parse(c.match)
		if err != nil {
			t.Error(err)
			continue
		}
		again, err := Parse(m.String())
		if err != nil {
			t.Errorf("%s prints as %s: %v", c.match, m, err)
			continue
		}
		for letter, packet := range packets {
			want := strings.ContainsRune(c.packets, letter)
			if got := m.Matches(packet, env); got != want {
				t.Errorf("%s: packet %c: %t, want %t", c.match, letter, got, want)
			}
			if got := again.Matches(packet, env); got != want {
				t.Errorf("%s prints as %s: packet %c: %t, want %t", c.match, m, letter, got, want)
			}
		}
	}
}

// refusals are matches that OVN refuses, with what the error must hold.
var refusals = []struct{ match, want string }{
	{"", "column 1: the match is empty; write 1"},
	{"ip4 && tcp || udp", "column 12: && and || stand side by side; put one"},
	{"(ip4", "column 5: the end where a parenthesis"},
	{"ip4)", "column 4: unexpected ) after"},
	{"ip4 tcp", "column 5: unexpected tcp"},
	{"ip4 &&", "column 7: the end where a constant"},
	{"ip4 & tcp", "column 5: '&' has no place"},
	{"!tcp.dst == 80", "column 2: ! stands before a comparison; put parentheses"},
	{"!!ip4", "column 2: ! where a constant"},
	{"!tcp", "column 2: tcp may not be negated"},
	{"tcp == 0", "column 1: tcp may not be negated"},
	{"tcp == {0, 1}", "tcp may not be negated"},
	{"tcp == 2", "2 does not fit the 1 bits of tcp"},
	{"!(ip4 && (tcp.dst == 80))", "column 3: ip4 may not be negated"},
	{"ip.proto != 6", "ip.proto may not be tested for inequality"},
	{`inport != "a"`, "inport may not be tested for inequality"},
	{`!(inport == "a")`, "inport may not be tested for inequality"},
	{`inport < "a"`, "inport has no order"},
	{"inport", "inport is not compared with anything"},
	{"inport == 1", "inport is compared with a number"},
	{"inport == $pods", "inport is compared with a number or an address"},
	{"ip4.src == @pods", "ip4.src is compared with a port"},
	{`ip4.src == {1.2.3.4, "a"}`, `column 22: "a" is of another type`},
	{"tcp.dst", "tcp.dst is not compared with anything"},
	{"tcp.dst = 80", "column 9: '=' has no place"},
	{"tcp.dst == 65536", "65536 does not fit the 16 bits of tcp.dst"},
	{"ip4.src == fd00::1", "fd00::1 does not fit the 32 bits"},
	{"tcp.dst < {80, 443}", "compared with a set by <"},
	{"tcp.dst < 0/0x0", "masked constant by <"},
	{"ip.proto < 6", "ip.proto has no order"},
	{"1 < tcp.dst > 5", "< and > make no range"},
	{"1 == tcp.dst == 1", "== and == make no range"},
	{"80", "80 is not compared"},
	{"ip4.src == 10.0.0.0/33", "10.0.0.0/33 does not fit its mask"},
	{"ip4.src == 10.0.0.300", `"10.0.0.300" is no constant`},
	{"tcp.dst == 080", "080 is no number"},
	{"tcp.dst == 18446744073709551616", "is no number"},
	{"tcp.dst == 0x", `"0x" is no constant`},
	{"eth.src == 0a:58:0a:f4:00", `is no constant`},
	{"ip4.src == {}", "} where a constant"},
	{"ip4.src == {10.0.0.1", "the end where a constant"},
	{`inport == "a`, "column 11: a string does not end"},
	{`inport == "\q"`, "cannot be read"},
	{"ip4.src == $", "column 12: $ without a name"},
	{"/* ip4", "a comment does not end"},
	{"ip5", "there is no symbol ip5"},
	{"$pods == $pods", "$pods where a symbol"},
	{strings.Repeat("(", 101) + "1" + strings.Repeat(")", 101), "nested deeper than 100"},
}

func TestRefusals(t *testing.T) {
	for _, c := range refusals {
		_, err := Parse(c.match)
		var parse *ParseError
		if !errors.As(err, &parse) {
			t.Errorf("%s: no error", c.match)
		} else if !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v; want %q", c.match, err, c.want)
		}
	}
}

// unsupported are matches that OVN accepts and this package does not.
var unsupported = []string{"ct.new", "ip4 && ct.est && ct_mark == 1", "reg0 == 1", "ip.ttl == 64", "eth.mcast",
	"ip4.src[0..7] == 10", `is_chassis_resident("a")`, "tcp.flags == 2", "vlan.present"}

func TestUnsupported(t *testing.T) {
	for _, match := range append(unsupported, "ip4.src == ^address") {
		if _, err := Parse(match); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", match, err)
		}
	}
}

func TestSetLeavesOutWhatIsNoAddress(t *testing.T) {
	s, err := NewSet([]string{"10.0.0.1", "web", "10.0.0.0/40", "10.1.0.0/16"})
	if err == nil || !strings.Contains(err.Error(), `address "web"`) || !strings.Contains(err.Error(),
		`address "10.0.0.0/40"`) {
		t.Errorf("error %v, want both named", err)
	}
	for text, want := range map[string]bool{"10.0.0.1": true, "10.1.2.3": true, "10.0.0.2": false} {
		if got := s.has(addressNumber(addr(text))); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range meanings {
		f.Add(c.match)
	}
	for _, c := range refusals {
		f.Add(c.match)
	}
	for _, match := range unsupported {
		f.Add(match)
	}
	env := environment(f)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		again, err := Parse(m.String())
		if err != nil {
			t.Fatalf("%q prints as %q: %v", text, m, err)
		}
		if again.String() != m.String() {
			t.Errorf("%q prints as %q, and that as %q", text, m, again)
		}
		for letter, packet := range packets {
			if m.Matches(packet, env) != again.Matches(packet, env) {
				t.Errorf("%q and %q differ on packet %c", text, m, letter)
			}
		}
	})
}

// TestUnmet: which parts of a conjunction a packet lacks.
func TestUnmet(t *testing.T) {
	clients, err := NewSet([]string{"10.244.0.3"})
	if err != nil {
		t.Fatal(err)
	}
	env := &Env{Sets: map[string]*Set{"clients": clients}, Groups: map[string]Ports{"db": {"shop_db": {}}}}
	packet := Packet{Outport: "shop_db", Src: netip.MustParseAddr("10.244.0.4"), Dst: netip.MustParseAddr("10.244.1.3"),
		Proto: TCP, SrcPort: 40000, DstPort: 80}
	for text, want := range map[string][]string{
		"outport == @db && ip4.src == $clients && tcp.dst == 3306": {"ip4.src == $clients", "tcp.dst == 3306"},
		"outport == @db && 80 <= tcp.dst <= 90":                    nil,
		"outport == @db && (udp || tcp.dst == 81)":                 {"udp || tcp.dst == 81"},
		"79 <= tcp.dst <= 79":                                      {"79 <= tcp.dst <= 79"},
		"udp || tcp.dst == 81":                                     {"udp || tcp.dst == 81"},
		"tcp":                                                      nil,
	} {
		match, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := match.Unmet(packet, env); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
