package domains

import "golang.org/x/net/bpf"

// packetOutgoing is PACKET_OUTGOING of linux/if_packet.h: the host sends the frame by the device. All other
// types are frames that come in by it.
const packetOutgoing = 4

// filter is the part of a [Source] that the kernel can do: frames of one direction with TCP or UDP from one
// of the ports. It lets first fragments pass and no others.
func filter(s Source) []bpf.Instruction {
	const all, none = 1 << 18, 0
	wrongWay := bpf.JumpEqual
	if s.Outgoing {
		wrongWay = bpf.JumpNotEqual
	}
	// ports ends the program, with the source port loaded.
	ports := func() []bpf.Instruction {
		var list []bpf.Instruction
		for _, port := range s.Ports {
			list = append(list, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(port), SkipTrue: 1}, bpf.RetConstant{Val: all})
		}
		return append(list, bpf.RetConstant{Val: none})
	}
	// transport goes on where the loaded protocol is TCP or UDP.
	transport := []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: protocolTCP, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: protocolUDP, SkipTrue: 1},
		bpf.RetConstant{Val: none},
	}
	join := func(parts ...[]bpf.Instruction) (all []bpf.Instruction) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	ipv4 := join(
		[]bpf.Instruction{bpf.LoadAbsolute{Off: 23, Size: 1}}, transport,
		[]bpf.Instruction{
			bpf.LoadAbsolute{Off: 20, Size: 2},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: 0x1fff, SkipTrue: 1},
			bpf.RetConstant{Val: none},
			bpf.LoadMemShift{Off: 14},
			bpf.LoadIndirect{Off: 14, Size: 2},
		}, ports())
	fragment := join(
		[]bpf.Instruction{
			bpf.LoadAbsolute{Off: 56, Size: 2},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: 0xfff8, SkipTrue: 1},
			bpf.RetConstant{Val: none},
			bpf.LoadAbsolute{Off: 54, Size: 1},
		}, transport,
		[]bpf.Instruction{bpf.LoadAbsolute{Off: 62, Size: 2}}, ports())
	ipv6 := join(
		[]bpf.Instruction{
			bpf.LoadAbsolute{Off: 20, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protocolFragment, SkipTrue: uint8(len(fragment))},
		}, fragment, transport,
		[]bpf.Instruction{bpf.LoadAbsolute{Off: 54, Size: 2}}, ports())
	return join(
		[]bpf.Instruction{
			bpf.LoadExtension{Num: bpf.ExtType},
			bpf.JumpIf{Cond: wrongWay, Val: packetOutgoing, SkipFalse: 1},
			bpf.RetConstant{Val: none},
			bpf.LoadAbsolute{Off: 12, Size: 2},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: etherIPv4, SkipTrue: uint8(len(ipv4))},
		}, ipv4,
		[]bpf.Instruction{
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherIPv6, SkipTrue: 1},
			bpf.RetConstant{Val: none},
		}, ipv6)
}
