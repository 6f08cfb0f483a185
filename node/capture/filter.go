package capture

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/bpf"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
)

// Types of Ethernet frames.
const (
	etherIPv4 = 0x0800
	etherARP  = 0x0806
	etherIPv6 = 0x86dd
)

// Lengths of headers, in bytes.
const (
	ethernetHeader = 14
	ipv6Header     = 40
	udpHeader      = 8
	geneveHeader   = 8 // without options
)

// Protocol numbers of IP.
const (
	protocolICMP   = 1
	protocolTCP    = 6
	protocolUDP    = 17
	protocolICMPv6 = 58
	protocolSCTP   = 132
)

// instructions are a part of a program. A part that has its packet goes on behind its end, and any other packet is
// dropped.
type instructions []bpf.Instruction

const dropped = 0

// filter is the program that keeps the first bytes of packets of the spec's filter: packets of a pod, or those inside
// of GENEVE packets. It reads the frame that the filter is about relative to register X.
func filter(spec api.CaptureSpec, tunnels bool) instructions {
	keep := bpf.RetConstant{Val: uint32(spec.SnapLength)}
	begin := instructions{bpf.LoadConstant{Dst: bpf.RegX, Val: 0}}
	if tunnels {
		begin = intoTunnel()
	}
	if spec.Filter == (api.CaptureFilter{}) {
		return append(begin, keep)
	}
	program := append(begin, bpf.LoadIndirect{Off: 12, Size: 2})
	for _, kind := range []struct {
		ether uint32
		part  func(api.CaptureFilter) (part instructions, any bool)
	}{{etherARP, arp}, {etherIPv4, ipv4}, {etherIPv6, ipv6}} {
		if part, any := kind.part(spec.Filter); any {
			program = join(program, instructions{
				bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: kind.ether, SkipTrue: uint8(len(part) + 1)},
			}, part, instructions{keep})
		}
	}
	return append(program, bpf.RetConstant{Val: dropped})
}

func join(parts ...instructions) (all instructions) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// oneOf demands that register A has one of the values.
func oneOf(values ...uint32) (list instructions) {
	for i, value := range values {
		list = append(list, bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: uint8(len(values) - i)})
	}
	return append(list, bpf.RetConstant{Val: dropped})
}

// noFragment demands the first fragment of a packet of IPv4, which alone has the header of what is in the packet. It
// loads the fragment's offset.
func noFragment(load bpf.Instruction) instructions {
	return instructions{load, bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: 0x1fff, SkipTrue: 1},
		bpf.RetConstant{Val: dropped}}
}

// intoTunnel demands a GENEVE packet, and leaves in X where the frame inside of it begins.
func intoTunnel() instructions {
	over4 := join(
		instructions{bpf.LoadAbsolute{Off: ethernetHeader + 9, Size: 1}}, oneOf(protocolUDP),
		noFragment(bpf.LoadAbsolute{Off: ethernetHeader + 6, Size: 2}),
		instructions{bpf.LoadMemShift{Off: ethernetHeader}},
	)
	over6 := join(
		instructions{bpf.LoadAbsolute{Off: ethernetHeader + 6, Size: 1}}, oneOf(protocolUDP),
		instructions{bpf.LoadConstant{Dst: bpf.RegX, Val: ipv6Header}},
	)
	return join(
		instructions{
			bpf.LoadAbsolute{Off: 12, Size: 2},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: etherIPv4, SkipTrue: uint8(len(over4) + 1)},
		}, over4,
		instructions{bpf.Jump{Skip: uint32(len(oneOf(etherIPv6)) + len(over6))}}, oneOf(etherIPv6), over6,
		instructions{bpf.LoadIndirect{Off: ethernetHeader + 2, Size: 2}}, oneOf(contract.TunnelPort),
		instructions{
			bpf.LoadIndirect{Off: ethernetHeader + udpHeader, Size: 1}, // version, and the options' length in words
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0x3f},
			bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 2},
			bpf.ALUOpX{Op: bpf.ALUOpAdd},
			bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: ethernetHeader + udpHeader + geneveHeader},
			bpf.TAX{},
		})
}

// arp chooses by the sender and the target of ARP. Like [ipv4] and [ipv6], it says whether any frame of its type fits.
func arp(f api.CaptureFilter) (part instructions, any bool) {
	addr, _ := netip.ParseAddr(f.Address) // it is checked, or empty
	if f.Protocol != "" && f.Protocol != "arp" || f.Port != 0 || addr.Is6() {
		return nil, false
	}
	return ofAddress(addr, ethernetHeader+14, ethernetHeader+24), true
}

func ipv4(f api.CaptureFilter) (part instructions, any bool) {
	addr, _ := netip.ParseAddr(f.Address)
	if f.Protocol == "arp" || addr.Is6() {
		return nil, false
	}
	part = join(ofProtocol(f, protocolICMP, ethernetHeader+9), ofAddress(addr, ethernetHeader+12, ethernetHeader+16))
	if f.Port == 0 {
		return part, true
	}
	return join(part, noFragment(bpf.LoadIndirect{Off: ethernetHeader + 6, Size: 2}),
		instructions{ // the header says how long it is, and X moves behind it
			bpf.LoadIndirect{Off: ethernetHeader, Size: 1},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0x0f},
			bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 2},
			bpf.ALUOpX{Op: bpf.ALUOpAdd},
			bpf.TAX{},
		}, ofPort(f.Port, ethernetHeader)), true
}

// ipv6 does not look behind extension headers, which a program without loops cannot pass.
func ipv6(f api.CaptureFilter) (part instructions, any bool) {
	addr, _ := netip.ParseAddr(f.Address)
	if f.Protocol == "arp" || addr.Is4() {
		return nil, false
	}
	part = join(ofProtocol(f, protocolICMPv6, ethernetHeader+6), ofAddress(addr, ethernetHeader+8, ethernetHeader+24))
	if f.Port == 0 {
		return part, true
	}
	return join(part, ofPort(f.Port, ethernetHeader+ipv6Header)), true
}

// ofProtocol demands the filter's protocol, or one with ports if the filter has a port.
func ofProtocol(f api.CaptureFilter, icmp, at uint32) instructions {
	var wanted []uint32
	switch {
	case f.Protocol != "":
		wanted = []uint32{map[string]uint32{"tcp": protocolTCP, "udp": protocolUDP, "sctp": protocolSCTP,
			"icmp": icmp}[f.Protocol]}
	case f.Port != 0:
		wanted = []uint32{protocolTCP, protocolUDP, protocolSCTP}
	default:
		return nil
	}
	return join(instructions{bpf.LoadIndirect{Off: at, Size: 1}}, oneOf(wanted...))
}

// ofPort demands a port at one of the ends.
func ofPort(port uint16, at uint32) instructions {
	return join(instructions{
		bpf.LoadIndirect{Off: at, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(port), SkipTrue: uint8(1 + len(oneOf(0)))},
		bpf.LoadIndirect{Off: at + 2, Size: 2},
	}, oneOf(uint32(port)))
}

// ofAddress demands an address at one of two places; the zero address is any.
func ofAddress(addr netip.Addr, source, destination uint32) instructions {
	if !addr.IsValid() {
		return nil
	}
	words := addr.AsSlice()
	var first, second instructions
	for i := uint32(0); i < uint32(len(words)); i += 4 {
		word := binary.BigEndian.Uint32(words[i:])
		second = join(second, instructions{bpf.LoadIndirect{Off: destination + i, Size: 4}}, oneOf(word))
		rest := uint8(2*(len(words)/4-1-int(i/4)) + 1) // the other words, and the jump behind the second place
		first = append(first, bpf.LoadIndirect{Off: source + i, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: word, SkipTrue: rest})
	}
	return join(first, instructions{bpf.Jump{Skip: uint32(len(second))}}, second)
}
