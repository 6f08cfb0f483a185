package acl

import (
	"net"
	"net/netip"
)

// The IP protocol numbers of what policies speak of.
const (
	ICMP   = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
	SCTP   = 132
)

// Packet is what a match can ask of a packet on a logical switch.
type Packet struct {
	// Inport and Outport are the logical switch ports where it came in and goes out; "" is none.
	Inport, Outport string
	// Src and Dst are addresses of one family; a packet without a Src is no IP packet.
	Src, Dst netip.Addr
	// Proto is the IP protocol number.
	Proto uint8
	// SrcPort and DstPort are those of TCP, UDP or SCTP.
	SrcPort, DstPort uint16
	// ICMPType and ICMPCode are those of ICMP of either family.
	ICMPType, ICMPCode uint8
	// EthSrc and EthDst may be left out: no comparison with them holds then.
	EthSrc, EthDst net.HardwareAddr
	// ARP says that it is an ARP packet; Src and Dst are left out then.
	ARP bool
	// Loopback says that it may go out where it came in, as a pod's to itself through a load balancer.
	Loopback bool
}

func (p *Packet) is4() bool { return !p.ARP && (p.Src.Is4() || p.Src.Is4In6()) }
func (p *Packet) is6() bool { return !p.ARP && p.Src.Is6() && !p.Src.Is4In6() }
func (p *Packet) isIP() bool {
	return !p.ARP && p.Src.IsValid()
}

// Ports are the names of the logical switch ports of a port group.
type Ports map[string]struct{}

// Env holds what a match refers to by name.
type Env struct {
	// Sets are the address sets by name, with those of port groups' addresses (GROUP_ip4, GROUP_ip6).
	Sets map[string]*Set
	// Groups are the port groups by name, each with its ports on the switch in question. OVN knows a
	// group only on a switch that has a port of it.
	Groups map[string]Ports
}
