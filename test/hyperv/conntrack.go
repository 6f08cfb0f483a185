//go:build linux

package hyperv

import (
	"log/slog"
	"time"
)

// The bits of a connection's state (OVS_CS_F_*).
const (
	stateNew         = 0x01
	stateEstablished = 0x02
	stateRelated     = 0x04
	stateReply       = 0x08
	stateInvalid     = 0x10
	stateTracked     = 0x20
	stateSrcNAT      = 0x40
	stateDstNAT      = 0x80
)

// The states of UDP (Conntrack-other.c) and of ICMP (Conntrack-icmp.c).
const (
	udpFirst = iota
	udpAgain
	udpAnswered

	icmpFirst    = 0
	icmpAnswered = 1
)

// Conntrack.h.
const (
	maxConnections  = 1 << 21
	cleanupInterval = 2 * time.Minute
	otherTimeout    = 60 * time.Second
	otherBoth       = 30 * time.Second
)

// endpoint is one side of a connection. An ICMP message's identifier stands where ports stand.
type endpoint struct {
	addr     [16]byte
	port     uint16
	icmpType uint8
	icmpCode uint8
}

// connKey is what a connection is known by.
type connKey struct {
	src, dst endpoint
	ether    uint16
	proto    uint8
	zone     uint16
}

func (k connKey) reversed() connKey {
	k.src, k.dst = k.dst, k.src
	return k
}

// bucket is the same for both directions, as the driver's hash is.
func (k connKey) bucket() connKey {
	r := k.reversed()
	for i, c := range k.src.addr {
		if c != r.src.addr[i] {
			if c < r.src.addr[i] {
				return k
			}
			return r
		}
	}
	if k.src.port != r.src.port {
		if k.src.port < r.src.port {
			return k
		}
		return r
	}
	if k.src.icmpType < r.src.icmpType {
		return k
	}
	return r
}

// connection is a tracked connection.
type connection struct {
	key, rev   connKey // rev is of the answers, with translated addresses
	expiration time.Time
	started    time.Time
	mark       uint32
	labels     [16]byte
	nat        natAction
	shifted    bool                               // the client has another port: see shift
	counts     [2]struct{ packets, bytes uint64 } // by direction
	made       uint8                              // the protocol of the packet that has begun it
	peers      [2]tcpPeer                         // that of UDP and ICMP is the state of the first one
	removed    bool                               // a translation may be left: see forget
}

// conntrack are the driver's connections, with what bounds and translates them: Conntrack.c.
type conntrack struct {
	log        *slog.Logger
	faults     Faults
	clock      *clock
	statistics *statistics
	record     *record

	connections *table[connKey, *connection] // by bucket
	zones       zones
	nat         translations
	cleaned     time.Time
}

func (c *conntrack) reset() {
	c.connections = newTable[connKey, *connection](connectionLists, c.faults)
	c.zones.reset()
	c.nat.reset(c.faults)
	c.cleaned = time.Time{}
}

// rehash puts all entries in their places after a fault was switched.
func (c *conntrack) rehash() {
	c.connections.setFaults(c.faults)
	c.nat.rehash()
}

// compared is how many entries of its tables were looked at.
func (c *conntrack) compared() uint64 { return c.connections.compared + c.nat.compared() }

// full says whether a zone has no room for a connection.
func (c *conntrack) full(zone uint16) bool {
	return c.connections.count >= maxConnections || c.zones.full(zone)
}

// lookup: Conntrack.c, OvsCtLookup. One that has expired hides others of the same key.
func (c *conntrack) lookup(k connKey, now time.Time) (found *connection, reply bool) {
	for conn := range c.connections.of(k.bucket()) {
		switch conn.key {
		case k:
		case k.reversed():
			reply = true
		default:
			continue
		}
		if conn.expiration.Before(now) {
			return nil, false
		}
		return conn, reply
	}
	return nil, false
}

// add: Conntrack.c, OvsCtAddEntry.
func (c *conntrack) add(conn *connection) {
	c.connections.add(conn.key.bucket(), conn)
	c.zones.counts[conn.key.zone]++
}

// remove: Conntrack.c, OvsCtEntryDelete.
func (c *conntrack) remove(conn *connection) {
	c.connections.remove(conn.key.bucket(), conn)
	conn.removed = true
	c.zones.counts[conn.key.zone]--
	if conn.nat.flags != 0 {
		c.nat.forget(conn.key)
	}
}

// clean: Conntrack.c, OvsConntrackEntryCleaner. Until then an expired connection keeps its translation.
func (c *conntrack) clean(now time.Time) {
	if now.Sub(c.cleaned) < cleanupInterval {
		return
	}
	c.cleaned = now
	for _, conn := range c.connections.all() {
		if conn.expiration.Before(now) {
			c.remove(conn)
		}
	}
}
