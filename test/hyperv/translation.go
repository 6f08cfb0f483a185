//go:build linux

package hyperv

// natKey is what translations are known by: Conntrack-nat.c, OvsNatKeyAreSame. It has neither a protocol nor a version
// of IP.
type natKey struct {
	src, dst endpoint
	zone     uint16
}

func (k connKey) nat() natKey { return natKey{k.src, k.dst, k.zone} }

// translation is a translated connection in the tables of both directions.
type translation struct {
	key, value natKey
	conn       *connection
}

// translations are those of all connections, by their keys and by those of their answers: Conntrack-nat.c.
type translations struct {
	faults          Faults
	byKey, byAnswer *table[natKey, *translation]
	collisions      []Collision // the last ones, see collide
}

func (t *translations) reset(faults Faults) {
	*t = translations{faults: faults, byKey: newTable[natKey, *translation](translationLists, faults),
		byAnswer: newTable[natKey, *translation](translationLists, faults)}
}

// rehash puts all entries in their places after a fault was switched.
func (t *translations) rehash() {
	t.byKey.setFaults(t.faults)
	t.byAnswer.setFaults(t.faults)
}

func (t *translations) compared() uint64 { return t.byKey.compared + t.byAnswer.compared }

// find is the newest translation with a key, by the fault of whichever protocol and version of IP.
func (t *translations) find(table *table[natKey, *translation], k connKey) *translation {
	for found := range table.of(k.nat()) {
		if of := found.conn.key; t.faults[OtherProtocol] || of.proto == k.proto && of.ether == k.ether {
			return found
		}
	}
	return nil
}

// The ports that are tried where those asked for are all taken.
const (
	minEphemeral = 1024
	maxEphemeral = 65535
)

// maxAddresses bounds how many addresses of a range the emulator tries.
const maxAddresses = 1024

// allocate finds a translated address and port that no connection has, and writes them into the connection's answers:
// Conntrack-nat.c, OvsNatTranslateCtEntry. It says whether there was one. Without the fault a destination whose answers
// are another connection's stays, and the client's port is another, as Linux has it.
func (t *translations) allocate(conn *connection) bool {
	low, high := conn.nat.minPort, conn.nat.maxPort
	source := conn.nat.flags&natSrc != 0
	switch {
	case source && conn.nat.flags&natSrcPort == 0:
		low, high = conn.key.src.port, conn.key.src.port
	case conn.nat.flags&natDst != 0 && !source && conn.nat.flags&natDstPort == 0:
		low, high = conn.key.dst.port, conn.key.dst.port
	}
	if high < low {
		return false
	}
	start := hashRange(conn)
	if t.allocateIn(conn, start, [2]uint16{low, high}) {
		return true
	}
	if !source && !t.faults[DNATPort] {
		return t.shift(conn)
	}
	if !t.allocateIn(conn, start, [2]uint16{minEphemeral, maxEphemeral}) {
		return false
	}
	switch {
	case !source:
		t.collide(conn, DNATPort)
	case conn.nat.flags&natSrcPort == 0 && t.faults[NATPort]:
		t.collide(conn, NATPort)
	}
	return true
}

func (t *translations) allocateIn(conn *connection, start uint32, ports [2]uint16) bool {
	addresses := natAddresses(conn, start)
	count := uint32(ports[1]) - uint32(ports[0]) + 1
	for _, address := range addresses {
		for i := range count {
			port := ports[0] + uint16((start+i)%count)
			if ports[0] == minEphemeral && ports[1] == maxEphemeral {
				port = ports[0] + uint16(i)
			}
			conn.setTranslated(address, port)
			if t.find(t.byAnswer, conn.rev) == nil {
				t.remember(conn)
				return true
			}
			if conn.key.proto == protoICMP {
				break // it has no port to try
			}
		}
	}
	return false
}

// shift finds another port of the client's for a translated destination.
func (t *translations) shift(conn *connection) bool {
	if conn.key.proto != protoTCP && conn.key.proto != protoUDP {
		return false
	}
	for port := uint16(minEphemeral); port != 0; port++ {
		conn.rev.dst.port = port
		if t.find(t.byAnswer, conn.rev) == nil {
			conn.shifted = true
			t.remember(conn)
			return true
		}
	}
	return false
}

// natAddresses are those of the range, from start on; of IPv6 the first one.
func natAddresses(conn *connection, start uint32) [][16]byte {
	if conn.key.ether != etherIPv4 {
		return [][16]byte{conn.nat.minAddr}
	}
	low, high := order.Uint32(conn.nat.minAddr[:4]), order.Uint32(conn.nat.maxAddr[:4])
	if high < low {
		return nil
	}
	size := uint64(high) - uint64(low) + 1
	var all [][16]byte
	for i := range min(size, maxAddresses) {
		var address [16]byte
		order.PutUint32(address[:4], low+uint32((uint64(start)+i)%size))
		all = append(all, address)
	}
	return all
}

// setTranslated writes a candidate into the connection's answers. An ICMP identifier of IPv4 is not
// translated.
func (conn *connection) setTranslated(address [16]byte, port uint16) {
	side := &conn.rev.src
	if conn.nat.flags&natSrc != 0 {
		side = &conn.rev.dst
	}
	side.addr = address
	if conn.key.proto != protoICMP {
		side.port = port
	}
}

func (t *translations) remember(conn *connection) {
	added := &translation{conn.key.nat(), conn.rev.nat(), conn}
	t.byKey.add(added.key, added)
	t.byAnswer.add(added.value, added)
}

// forget: Conntrack-nat.c, OvsNatDeleteKey. Of several translations of a key it forgets the newest one, whichever
// connection that is of.
func (t *translations) forget(k connKey) {
	if found := t.find(t.byKey, k); found != nil {
		t.remove(found)
	}
}

func (t *translations) remove(of *translation) {
	t.byKey.remove(of.key, of)
	t.byAnswer.remove(of.value, of)
}

// flush: Conntrack-nat.c, OvsNatFlush. Zone 0 is all of them.
func (t *translations) flush(zone uint16) {
	for _, of := range t.byKey.all() {
		if zone == 0 || of.key.zone == zone {
			t.remove(of)
		}
	}
}
