//go:build linux

package hyperv

import (
	"net/netip"
	"slices"
	"time"
)

// Collision is a connection whose translation found taken what it wanted, so that one of the faults nat-port and
// dnat-port has harmed it.
type Collision struct {
	Time  time.Time
	Fault Fault
	// Client and Server are the ends as the packet had them before its translation.
	Client, Server netip.AddrPort
}

// maxCollisions is how many of them are remembered.
const maxCollisions = 4096

// collide remembers that a translation has found another port than the one that it wanted.
func (t *translations) collide(conn *connection, fault Fault) {
	if len(t.collisions) == maxCollisions {
		t.collisions = slices.Delete(t.collisions, 0, 1)
	}
	t.collisions = append(t.collisions, Collision{conn.started, fault, conn.key.src.addrPort(conn.key.ether),
		conn.key.dst.addrPort(conn.key.ether)})
}

func (e endpoint) addrPort(ether uint16) netip.AddrPort {
	addr := netip.AddrFrom16(e.addr)
	if ether == etherIPv4 {
		addr = netip.AddrFrom4([4]byte(e.addr[:4]))
	}
	return netip.AddrPortFrom(addr, e.port)
}
