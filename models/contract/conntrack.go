package contract

import "net/netip"

// MaxConnections is how many connections an agent tells at once. The rest of a node's is counted.
const MaxConnections = 50_000

// ConnectionRecord is one line of JSON of what a node's agent tells `weft observe` about connections: one of them, or
// the end of the answer. An answer without an end is not complete.
type ConnectionRecord struct {
	Connection *Connection     `json:"connection,omitempty"`
	End        *ConnectionsEnd `json:"end,omitempty"`
}

// Connection is an entry of connection tracking on a node's datapath. A connection has an entry in each zone that its
// packets pass, such as that of a pod's port or of a router.
type Connection struct {
	// Protocol is tcp, udp, sctp, icmp, icmpv6, or what else Open vSwitch calls it.
	Protocol string `json:"protocol"`
	// Original is the packets of whoever began the connection, as they come to this zone.
	Original Direction `json:"original"`
	// Reply is the packets that come back, as they come to this zone: its destination and source are what Original's
	// packets have behind the zone.
	Reply Direction `json:"reply"`
	// ID is the identifier of an echo (ICMP).
	ID uint16 `json:"id,omitempty"`
	// State is that of TCP or SCTP, such as ESTABLISHED.
	State string `json:"state,omitempty"`
}

// Direction is the packets of a connection that have the same ends, whose ports are 0 in protocols without ports.
type Direction struct {
	Source      netip.AddrPort `json:"source"`
	Destination netip.AddrPort `json:"destination"`
	// Packets and Bytes are how many there were, 0 where the datapath does not count.
	Packets uint64 `json:"packets,omitempty"`
	Bytes   uint64 `json:"bytes,omitempty"`
}

// ConnectionsEnd is the end of an answer.
type ConnectionsEnd struct {
	// Omitted is how many connections there are beyond [MaxConnections].
	Omitted int `json:"omitted,omitempty"`
	// Error says why there is nothing, or nothing more.
	Error string `json:"error,omitempty"`
}
