package ctlookup

import "encoding/binary"

// NXT_CT_FLUSH of Open vSwitch (include/openflow/nicira-ext.h): after the experimenter's header an IP protocol and a
// family, and properties: tuples of both directions, a zone, marks and labels.
const (
	typeExperimenter   = 4
	subtypeCTFlush     = 32
	experimenterHeader = 16
	ctFlushHeader      = experimenterHeader + 8
	propertyHeader     = 4
	ctFlushZone        = 2
)

// forgets says that a message has the switch forget single connections, not whole zones.
//
// ovn-controller sends it when a load balancer with ct_flush loses an endpoint, for the load balancers of all switches
// that it can reach over routers, so of all nodes. The extension forgets the translations of the connection's whole
// zone with it, and reads the links of its lists outside of their locks (OvsCtFlush of Conntrack.c).
func forgets(m []byte) bool {
	if len(m) < ctFlushHeader || m[0] != version || m[1] != typeExperimenter ||
		binary.BigEndian.Uint32(m[messageHeader:]) != nicira ||
		binary.BigEndian.Uint32(m[messageHeader+4:]) != subtypeCTFlush {
		return false
	}
	if m[experimenterHeader] != 0 {
		return true
	}
	for rest := m[ctFlushHeader:]; len(rest) >= propertyHeader; {
		if binary.BigEndian.Uint16(rest) != ctFlushZone {
			return true
		}
		length := (int(binary.BigEndian.Uint16(rest[2:])) + 7) / 8 * 8
		if length < propertyHeader || length > len(rest) {
			return true // the switch would refuse it
		}
		rest = rest[length:]
	}
	return false
}
