package hyperv

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fault is a known fault of the driver, by a name of ours.
type Fault string

// The faults. docs/hyperv.md says where each one is in the driver's source.
const (
	// StaleTuple: a lookup of IPv4 in the zone of the packet's last lookup takes the original tuple of the connection
	// that the packet found or began last, in whichever zone, for its key.
	StaleTuple Fault = "stale-tuple"
	// TrackedIPv6: a packet of a tracked IPv6 connection hits no flow.
	TrackedIPv6 Fault = "tracked-ipv6"
	// ICMPErrors: an ICMP error is never related to its connection.
	ICMPErrors Fault = "icmp-errors"
	// SetIPv6: a set of IPv6 fields is passed over.
	SetIPv6 Fault = "set-ipv6"
	// NDTarget: the key of a neighbour discovery packet has no target and no addresses, unless the target's bytes look
	// like options.
	NDTarget Fault = "nd-target"
	// FlushNAT: the flush of one connection forgets all translations of its zone.
	FlushNAT Fault = "flush-nat"
	// NATPort: a translation to an address alone that finds the port taken chooses another, which the key does not learn.
	NATPort Fault = "nat-port"
	// DNATPort: a translation to a destination whose answers are another connection's goes to another port of it.
	DNATPort Fault = "dnat-port"
	// OtherProtocol: translations are found without regard to the protocol, and their connections change as those of the
	// packet's protocol do.
	OtherProtocol Fault = "other-protocol"
	// ErrorBegins: an ICMPv6 error of no connection begins one of the packet that it tells of.
	ErrorBegins Fault = "error-begins"
	// ICMPv6Length: to translate an ICMPv6 message the driver reads as many bytes as its header says, there or not.
	ICMPv6Length Fault = "icmpv6-length"
	// ICMPHeader: the driver looks at the header of a tracked ICMP message that is too short to have one.
	ICMPHeader Fault = "icmp-header"
	// Protocols: protocols other than TCP, UDP and ICMP cannot be tracked.
	Protocols Fault = "protocols"
	// FTPHelper: a helper reads packets of connections that have a port of FTP's or TFTP's, and may stop the machine.
	FTPHelper Fault = "ftp-helper"
	// FirstPacket: the first packet to a tunnel's peer is lost.
	FirstPacket Fault = "first-packet"
	// FixedTables: the tables have a fixed number of lists, which become long.
	FixedTables Fault = "fixed-tables"
)

// AllFaults are the driver's as it is.
var AllFaults = []Fault{StaleTuple, TrackedIPv6, ICMPErrors, SetIPv6, NDTarget, FlushNAT, NATPort, DNATPort,
	OtherProtocol, ErrorBegins, ICMPv6Length, ICMPHeader, Protocols, FTPHelper, FirstPacket, FixedTables}

// Faults are those that are switched on.
type Faults map[Fault]bool

// KnownFaults are all of them.
func KnownFaults() Faults {
	f := Faults{}
	for _, fault := range AllFaults {
		f[fault] = true
	}
	return f
}

// ParseFaults reads a list with commas; "all" and "none" are such lists, too, and a fault with "-"
// before it is taken out.
func ParseFaults(list string) (Faults, error) {
	f := Faults{}
	for word := range strings.SplitSeq(list, ",") {
		name, without := strings.CutPrefix(strings.TrimSpace(word), "-")
		switch {
		case name == "" || name == "none":
		case name == "all":
			maps.Copy(f, KnownFaults())
		case !slices.Contains(AllFaults, Fault(name)):
			return nil, fmt.Errorf("no such fault: %q. Faults are %v, all and none", name, AllFaults)
		case without:
			delete(f, Fault(name))
		default:
			f[Fault(name)] = true
		}
	}
	return f, nil
}
