//go:build linux

package hyperv

// The flags of a translation (NAT_ACTION_*).
const (
	natReverse = 1 << iota
	natSrc
	natSrcPort
	natDst
	natDstPort
)

// natAction is what a ct action says about translation.
type natAction struct {
	flags            uint16
	minAddr, maxAddr [16]byte
	minPort, maxPort uint16
}

func (n natAction) forward() bool { return n.flags&(natSrc|natDst) != 0 }

const (
	natAttrSrc      = 1
	natAttrDst      = 2
	natAttrIPMin    = 3
	natAttrIPMax    = 4
	natAttrProtoMin = 5
	natAttrProtoMax = 6
)

// parseNAT: Conntrack.c, OvsExecuteConntrackAction. Persistent, hashed and random choices are passed over.
func parseNAT(data []byte) (natAction, error) {
	var n natAction
	list, err := parseAttributes(data)
	if err != nil {
		return n, dropped("a malformed NAT")
	}
	has := map[uint16]bool{}
	for _, a := range list {
		has[a.kind] = true
		switch {
		case a.kind == natAttrSrc:
			n.flags |= natSrc
		case a.kind == natAttrDst:
			n.flags |= natDst
		case a.kind == natAttrIPMin && len(a.data) <= 16:
			copy(n.minAddr[:], a.data)
		case a.kind == natAttrIPMax && len(a.data) <= 16:
			copy(n.maxAddr[:], a.data)
		case a.kind == natAttrProtoMin && len(a.data) == 2:
			n.minPort = native.Uint16(a.data)
		case a.kind == natAttrProtoMax && len(a.data) == 2:
			n.maxPort = native.Uint16(a.data)
		}
	}
	if n.flags == 0 {
		n.flags = natReverse
	}
	if has[natAttrIPMin] && !has[natAttrIPMax] {
		n.maxAddr = n.minAddr
	}
	if has[natAttrProtoMin] && !has[natAttrProtoMax] {
		n.maxPort = n.minPort
	}
	if has[natAttrProtoMin] || has[natAttrProtoMax] {
		switch {
		case n.flags&natSrc != 0:
			n.flags |= natSrcPort
		case n.flags&natDst != 0:
			n.flags |= natDstPort
		}
	}
	return n, nil
}

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

// find is the newest translation with a key, by the fault of whichever protocol and version of IP.
func (c *conntrack) find(table *table[natKey, *translation], k connKey) *translation {
	for t := range table.of(k.nat()) {
		if of := t.conn.key; c.faults[OtherProtocol] || of.proto == k.proto && of.ether == k.ether {
			return t
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
func (c *conntrack) allocate(conn *connection) bool {
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
	if c.allocateIn(conn, start, [2]uint16{low, high}) {
		return true
	}
	if !source && !c.faults[DNATPort] {
		return c.shift(conn)
	}
	if !c.allocateIn(conn, start, [2]uint16{minEphemeral, maxEphemeral}) {
		return false
	}
	switch {
	case !source:
		c.collide(conn, DNATPort)
	case conn.nat.flags&natSrcPort == 0 && c.faults[NATPort]:
		c.collide(conn, NATPort)
	}
	return true
}

func (c *conntrack) allocateIn(conn *connection, start uint32, ports [2]uint16) bool {
	addresses := natAddresses(conn, start)
	count := uint32(ports[1]) - uint32(ports[0]) + 1
	for _, address := range addresses {
		for i := range count {
			port := ports[0] + uint16((start+i)%count)
			if ports[0] == minEphemeral && ports[1] == maxEphemeral {
				port = ports[0] + uint16(i)
			}
			conn.setTranslated(address, port)
			if c.find(c.unnat, conn.rev) == nil {
				c.remember(conn)
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
func (c *conntrack) shift(conn *connection) bool {
	if conn.key.proto != protoTCP && conn.key.proto != protoUDP {
		return false
	}
	for port := uint16(minEphemeral); port != 0; port++ {
		conn.rev.dst.port = port
		if c.find(c.unnat, conn.rev) == nil {
			conn.shifted = true
			c.remember(conn)
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

func (c *conntrack) remember(conn *connection) {
	t := &translation{conn.key.nat(), conn.rev.nat(), conn}
	c.nat.add(t.key, t)
	c.unnat.add(t.value, t)
}

// forget: Conntrack-nat.c, OvsNatDeleteKey. Of several translations of a key it forgets the newest one, whichever
// connection that is of.
func (c *conntrack) forget(k connKey) {
	if t := c.find(c.nat, k); t != nil {
		c.drop(t)
	}
}

func (c *conntrack) drop(t *translation) {
	c.nat.remove(t.key, t)
	c.unnat.remove(t.value, t)
}

// flushNAT: Conntrack-nat.c, OvsNatFlush. Zone 0 is all of them.
func (c *conntrack) flushNAT(zone uint16) {
	for _, t := range c.nat.all() {
		if zone == 0 || t.key.zone == zone {
			c.drop(t)
		}
	}
}

// translate writes a connection's addresses into its packet: Conntrack-nat.c, OvsNatPacket. The key has
// the new port only where the action named ports.
func (f *forwarding) translate(conn *connection, k *key, reply bool) error {
	flags := conn.nat.flags
	if flags&(natSrc|natDst) == 0 {
		return nil
	}
	of := conn.rev
	if reply {
		of = conn.key
	}
	src := flags&natSrc != 0 && !reply || flags&natDst != 0 && reply
	n := &k.network
	address, port, to := &n.dst, &n.portDst, of.src
	k.ct.state |= map[bool]uint32{true: stateSrcNAT, false: stateDstNAT}[src]
	if src {
		address, port, to = &n.src, &n.portSrc, of.dst
	}
	if *address != to.addr {
		if err := f.readICMPv6(k); err != nil {
			return err
		}
	}
	f.rewrite(k.ether, src, to)
	*address = to.addr
	if conn.shifted {
		other, client := &n.portSrc, of.dst
		if src {
			other, client = &n.portDst, of.src
		}
		f.rewrite(k.ether, !src, client)
		*other = client.port
	}
	named := flags&(natSrcPort|natDstPort) != 0
	if (named || !f.e.faults[NATPort] && (f.layers.tcp || f.layers.udp)) && *port != 0 {
		*port = to.port
	}
	return nil
}

// rewrite: Actions.c, OvsUpdateAddressAndPort and OvsUpdateAddressAndPortForIpv6.
func (f *forwarding) rewrite(ether uint16, src bool, to endpoint) {
	l := f.layers
	transport := f.checksumPlace()
	switch {
	case ether == etherIPv4 && src:
		f.write(l.l3+12, to.addr[:4], f.packet.data[l.l3+10:l.l3+12], transport)
	case ether == etherIPv4:
		f.write(l.l3+16, to.addr[:4], f.packet.data[l.l3+10:l.l3+12], transport)
	case src:
		f.write(l.l3+8, to.addr[:], transport)
	default:
		f.write(l.l3+24, to.addr[:], transport)
	}
	if !l.tcp && !l.udp {
		return
	}
	at := l.l4 + 2
	if src {
		at = l.l4
	}
	f.write(at, order.AppendUint16(nil, to.port), transport)
}
