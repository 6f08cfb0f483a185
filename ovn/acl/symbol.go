package acl

import (
	"slices"
	"strings"
)

// symbol is a field or predicate of a match.
type symbol struct {
	name string
	// width is in bits: 1 for a predicate, 0 for a string.
	width int
	// nominal fields can be compared for equality alone.
	nominal bool
	// predicate says that has is all there is to it.
	predicate bool
	// has tests the prerequisites; a predicate, itself.
	has func(*Packet) bool
	// number and text read an integer and a string field of a packet that has it.
	number func(*Packet) number
	text   func(*Packet) string
}

var symbols = map[string]*symbol{}

func always(*Packet) bool { return true }

func isProto(proto uint8) func(*Packet) bool {
	return func(p *Packet) bool { return p.isIP() && p.Proto == proto }
}

func isICMP4(p *Packet) bool { return p.is4() && p.Proto == ICMP }
func isICMP6(p *Packet) bool { return p.is6() && p.Proto == ICMPv6 }

// isND takes the hop limit of 255, which neighbour discovery must have, for granted.
func isND(types ...uint8) func(*Packet) bool {
	return func(p *Packet) bool {
		return isICMP6(p) && p.ICMPCode == 0 && slices.Contains(types, p.ICMPType)
	}
}

func init() {
	predicate := func(name string, has func(*Packet) bool) {
		symbols[name] = &symbol{name: name, width: 1, nominal: true, predicate: true, has: has}
	}
	field := func(name string, width int, nominal bool, has func(*Packet) bool, value func(*Packet) number) {
		symbols[name] = &symbol{name: name, width: width, nominal: nominal, has: has, number: value}
	}
	port := func(name string, text func(*Packet) string) {
		symbols[name] = &symbol{name: name, nominal: true, has: always, text: text}
	}
	port("inport", func(p *Packet) string { return p.Inport })
	port("outport", func(p *Packet) string { return p.Outport })

	predicate("ip", (*Packet).isIP)
	predicate("ip4", (*Packet).is4)
	predicate("ip6", (*Packet).is6)
	predicate("arp", func(p *Packet) bool { return p.ARP })
	predicate("tcp", isProto(TCP))
	predicate("udp", isProto(UDP))
	predicate("sctp", isProto(SCTP))
	predicate("icmp4", isICMP4)
	predicate("icmp6", isICMP6)
	predicate("icmp", func(p *Packet) bool { return isICMP4(p) || isICMP6(p) })
	predicate("nd", isND(135, 136))
	predicate("nd_rs", isND(133))
	predicate("nd_ra", isND(134))
	predicate("nd_ns", isND(135))
	predicate("nd_na", isND(136))

	small := func(value func(*Packet) uint64) func(*Packet) number {
		return func(p *Packet) number { return number{0, value(p)} }
	}
	field("flags.loopback", 1, false, always, small(func(p *Packet) uint64 {
		if p.Loopback {
			return 1
		}
		return 0
	}))
	field("eth.type", 16, true, func(p *Packet) bool { return p.ARP || p.isIP() }, small(func(p *Packet) uint64 {
		switch {
		case p.ARP:
			return 0x806
		case p.is4():
			return 0x800
		}
		return 0x86dd
	}))
	field("eth.src", 48, false, func(p *Packet) bool { return len(p.EthSrc) == 6 }, func(p *Packet) number {
		return macNumber(p.EthSrc)
	})
	field("eth.dst", 48, false, func(p *Packet) bool { return len(p.EthDst) == 6 }, func(p *Packet) number {
		return macNumber(p.EthDst)
	})
	field("ip.proto", 8, true, (*Packet).isIP, small(func(p *Packet) uint64 { return uint64(p.Proto) }))
	for family, is := range map[string]func(*Packet) bool{"ip4": (*Packet).is4, "ip6": (*Packet).is6} {
		width := map[string]int{"ip4": 32, "ip6": 128}[family]
		field(family+".src", width, false, is, func(p *Packet) number { return addressNumber(p.Src.Unmap()) })
		field(family+".dst", width, false, is, func(p *Packet) number { return addressNumber(p.Dst.Unmap()) })
	}
	for name, proto := range map[string]uint8{"tcp": TCP, "udp": UDP, "sctp": SCTP} {
		field(name+".src", 16, false, isProto(proto), small(func(p *Packet) uint64 { return uint64(p.SrcPort) }))
		field(name+".dst", 16, false, isProto(proto), small(func(p *Packet) uint64 { return uint64(p.DstPort) }))
	}
	for name, is := range map[string]func(*Packet) bool{"icmp4": isICMP4, "icmp6": isICMP6} {
		field(name+".type", 8, true, is, small(func(p *Packet) uint64 { return uint64(p.ICMPType) }))
		field(name+".code", 8, true, is, small(func(p *Packet) uint64 { return uint64(p.ICMPCode) }))
	}
}

// elsewhere are the prefixes of symbols that OVN has and this package does not.
var elsewhere = []string{"ct.", "ct_", "reg", "xreg", "xxreg", "flags", "vlan.", "eth.", "arp.", "rarp", "ip.", "ip4.",
	"ip6.",
	"tcp.flags", "nd.", "nd_ns_mcast", "igmp", "mld", "pkt.mark", "icmp4.frag_mtu", "icmp6.frag_mtu",
	"is_chassis_resident", "remote_outport"}

func inOVN(name string) bool {
	return slices.ContainsFunc(elsewhere, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
