package ctlookup

import "encoding/binary"

// The ports whose packets the extension's helpers read: of TCP, and of UDP. The extension finds a translation without
// regard to the protocol (OvsNatKeyAreSame of Conntrack-nat.c), and gives the packet the ports of the one that it has
// found. So in a zone that both protocols share, a packet of one can get a port that a client of the other one had.
// Since TCP has zones of its own, it is a second protection to drop either port in both protocols.
const (
	FTP  = 21
	TFTP = 69
)

// Headers of a match's fields.
const (
	protocolIs = 0x80001401 // OXM_OF_IP_PROTO
	tcpFrom    = 0x80001a02 // OXM_OF_TCP_SRC
	tcpTo      = 0x80001c02 // OXM_OF_TCP_DST
	udpFrom    = 0x80001e02 // OXM_OF_UDP_SRC
	udpTo      = 0x80002002 // OXM_OF_UDP_DST
	fragmentIs = 0x00013502 // NXM_NX_IP_FRAG, with a mask
	datapathIs = 0x80000408 // OXM_OF_METADATA, by which OVN's flows are of one switch or router of its own
)

const (
	fieldHeader  = 4
	protocolTCP  = 6
	protocolUDP  = 17
	isFragment   = 1
	firstTable   = 0
	highest      = 1<<16 - 1 // OVN commits by lower priorities
	subtypeNAT   = 36
	natHeader    = 16
	natPresent   = 14 // the field that says which parts of the translation there are
	natFirstPort = 1 << 4
	natLastPort  = 1 << 5
)

// lengths are those of a translation's parts before its ports, by their bits: addresses of IPv4 and of IPv6.
var lengths = [4]int{4, 4, 16, 16}

// readable are the messages by which a table drops what a helper would read. In words of ovs-ofctl, for tcp, tcp6, udp
// and udp6:
//
//	priority=65535,tcp,tp_src=21 actions=drop
//	priority=65535,tcp,tp_dst=21 actions=drop
//	priority=65535,tcp,tp_src=69 actions=drop
//	priority=65535,tcp,tp_dst=69 actions=drop
//
// A helper of TFTP reads the answers to a client of port 69, too.
func readable(table byte) [][]byte {
	var all [][]byte
	for _, family := range []uint16{ipv4, ipv6} {
		for _, port := range []struct {
			protocol byte
			field    uint32
		}{{protocolTCP, tcpFrom}, {protocolTCP, tcpTo}, {protocolUDP, udpFrom}, {protocolUDP, udpTo}} {
			for _, number := range []uint16{FTP, TFTP} {
				match := append(binary.BigEndian.AppendUint32(nil, protocolIs), port.protocol)
				match = binary.BigEndian.AppendUint32(match, port.field)
				all = append(all, flowOf(table, highest, ether(family, binary.BigEndian.AppendUint16(match, number))))
			}
		}
	}
	return all
}

// datapathOf is the field of a match by which a flow is of one of OVN's switches or routers, "" of a flow of all.
func datapathOf(match []byte) string {
	for fields := match[matchEverything:]; len(fields) >= fieldHeader; {
		length := fieldHeader + int(fields[3])
		if length > len(fields) {
			return ""
		}
		if binary.BigEndian.Uint32(fields) == datapathIs {
			return string(fields[:length])
		}
		fields = fields[length:]
	}
	return ""
}

// toHelper says that a ct translates to a port whose packets a helper reads, of whichever protocol they are.
func toHelper(ct []byte) bool {
	for nested := ct[ctLength:]; len(nested) > 0; {
		_, one, err := next(nested)
		if err != nil {
			return false // the switch refuses it
		}
		if first, last := translatedPorts(one); first <= FTP && FTP <= last || first <= TFTP && TFTP <= last {
			return true
		}
		nested = nested[len(one):]
	}
	return false
}

// translatedPorts are those to which an action translates: none is 1 to 0.
func translatedPorts(action []byte) (first, last uint16) {
	if len(action) < natHeader || binary.BigEndian.Uint16(action) != actionExperimenter ||
		binary.BigEndian.Uint32(action[4:]) != nicira || binary.BigEndian.Uint16(action[8:]) != subtypeNAT {
		return 1, 0
	}
	present, ports := binary.BigEndian.Uint16(action[natPresent:]), action[natHeader:]
	for bit, length := range lengths {
		if present&(1<<bit) != 0 {
			ports = ports[min(length, len(ports)):]
		}
	}
	if present&natFirstPort == 0 || len(ports) < 4 { // actions are padded
		return 1, 0
	}
	first = binary.BigEndian.Uint16(ports)
	if present&natLastPort == 0 {
		return first, first
	}
	return first, binary.BigEndian.Uint16(ports[2:])
}
