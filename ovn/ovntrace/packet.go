package ovntrace

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
)

// Protocol is what a packet carries.
type Protocol string

// Protocols that a packet may carry. ICMP is an echo, of the family of the packet's addresses.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	SCTP Protocol = "sctp"
	ICMP Protocol = "icmp"
)

// Packet is one that enters a logical switch.
type Packet struct {
	// Inport is the logical port by which it enters.
	Inport         string
	EthSrc, EthDst net.HardwareAddr
	Src, Dst       netip.Addr
	Protocol       Protocol
	// SrcPort and DstPort are 0 of ICMP.
	SrcPort, DstPort uint16
	// Reply says that conntrack knows its connection, and that it goes from the server to the client.
	Reply bool
}

// ttl is that of a packet which a host sends.
const ttl = 64

// name is what names of ports consist of that Weft gives. A port of another name is not asked about.
var name = regexp.MustCompile(`^[A-Za-z0-9._@-]+$`)

// Expression is the packet in the language of OVN's expressions (ovn-sb(5), Logical_Flow).
func (p Packet) Expression() (string, error) {
	switch {
	case !name.MatchString(p.Inport):
		return "", fmt.Errorf("the logical port %q has a name that Weft gives none", p.Inport)
	case len(p.EthSrc) != 6 || len(p.EthDst) != 6:
		return "", fmt.Errorf("the packet at %s has the MAC addresses %q and %q; each needs 6 bytes", p.Inport, p.EthSrc,
			p.EthDst)
	case !p.Src.IsValid() || !p.Dst.IsValid() || p.Src.Is4() != p.Dst.Is4() || p.Src.Zone() != "" || p.Dst.Zone() != "":
		return "", fmt.Errorf("the packet at %s goes from %s to %s, which are not of one family", p.Inport, p.Src, p.Dst)
	}
	transport, err := p.transport()
	if err != nil {
		return "", err
	}
	ip := "ip4"
	if p.Src.Is6() {
		ip = "ip6"
	}
	return strings.Join([]string{
		fmt.Sprintf("inport == %q", p.Inport), "eth.src == " + p.EthSrc.String(), "eth.dst == " + p.EthDst.String(),
		fmt.Sprintf("ip.ttl == %d", ttl), ip + ".src == " + p.Src.String(), ip + ".dst == " + p.Dst.String(), transport,
	}, " && "), nil
}

// transport is the part of the expression above IP.
func (p Packet) transport() (string, error) {
	switch p.Protocol {
	case TCP, UDP, SCTP:
		return fmt.Sprintf("%[1]s.src == %[2]d && %[1]s.dst == %[3]d", p.Protocol, p.SrcPort, p.DstPort), nil
	case ICMP:
		return p.echo(), nil
	}
	return "", fmt.Errorf("the protocol %q is none of tcp, udp, sctp and icmp", p.Protocol)
}

// echo is ICMP's request, or the reply to it (RFC 792, RFC 4443).
func (p Packet) echo() string {
	word, request, reply := "icmp4", 8, 0
	if p.Src.Is6() {
		word, request, reply = "icmp6", 128, 129
	}
	kind := request
	if p.Reply {
		kind = reply
	}
	return fmt.Sprintf("%[1]s.type == %[2]d && %[1]s.code == 0", word, kind)
}

// conntrack is what each look-up of the packet in conntrack finds.
func (p Packet) conntrack() string {
	if p.Reply {
		return "trk,est,rpl"
	}
	return "trk,new"
}
