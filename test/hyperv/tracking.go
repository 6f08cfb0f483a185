//go:build linux

package hyperv

import (
	"fmt"
	"time"
)

// ctAction is what a ct action asks for.
type ctAction struct {
	commit, force bool
	zone          uint16
	mark          *[2]uint32 // value and mask
	labels        *[2][16]byte
	nat           natAction
}

const (
	ctAttrCommit      = 1
	ctAttrZone        = 2
	ctAttrMark        = 3
	ctAttrLabels      = 4
	ctAttrHelper      = 5
	ctAttrNAT         = 6
	ctAttrForceCommit = 7
	ctAttrEventMask   = 8
	ctAttrTimeout     = 9
)

// parseCtAction: Conntrack.c, OvsExecuteConntrackAction. A timeout policy is passed over.
func parseCtAction(data []byte) (ctAction, error) {
	var c ctAction
	list, err := parseAttributes(data)
	if err != nil {
		return c, dropped("a malformed ct")
	}
	for _, a := range list {
		switch {
		case a.kind == ctAttrZone && len(a.data) == 2:
			c.zone = native.Uint16(a.data)
		case a.kind == ctAttrCommit:
			c.commit = true
		case a.kind == ctAttrForceCommit:
			c.commit, c.force = true, true
		case a.kind == ctAttrMark && len(a.data) == 8:
			c.mark = &[2]uint32{native.Uint32(a.data), native.Uint32(a.data[4:])}
		case a.kind == ctAttrLabels && len(a.data) == 32:
			c.labels = &[2][16]byte{[16]byte(a.data), [16]byte(a.data[16:])}
		case a.kind == ctAttrHelper:
			if h := (attributes{0: a.data}).text(0); h != "ftp" && h != "tftp" {
				return c, errNotSupported
			}
		case a.kind == ctAttrNAT:
			if c.nat, err = parseNAT(a.data); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// execute carries out a ct action: Conntrack.c, OvsCtExecute_.
func (c *conntrack) execute(p *packet, k *key, data []byte) error {
	action, err := parseCtAction(data)
	if err != nil {
		return err
	}
	t := tracking{conntrack: c, packet: p, key: k, action: action, now: c.clock.now()}
	c.clean(t.now)
	if t.lacksHeader() {
		return t.readHeader()
	}
	t.setUpLookup()
	conn, err := t.find()
	if err != nil || conn == nil {
		return err
	}
	if action.nat.flags != 0 {
		if err := t.translate(conn); err != nil {
			return err
		}
	}
	conn.setMark(action, k)
	if err := t.help(); err != nil {
		return err
	}
	conn.tell(k)
	return nil
}

func trackable(k *key) bool {
	switch k.network.proto {
	case protoTCP, protoUDP:
		return true
	case protoICMP:
		return k.ether == etherIPv4
	case protoICMPv6:
		return k.ether == etherIPv6
	}
	return false
}

// tracking is one packet's ct action.
type tracking struct {
	conntrack *conntrack
	packet    *packet
	key       *key
	action    ctAction
	now       time.Time

	at      connKey // of the lookup
	related bool
	reply   bool
}

// setUpLookup finds the key of the lookup: Conntrack.c, OvsCtSetupLookupCtx and OvsPickupCtTupleAsLookupKey.
func (t *tracking) setUpLookup() {
	c, k, n := t.conntrack, t.key, t.key.network
	t.at = connKey{ether: k.ether, proto: n.proto, zone: t.action.zone}
	t.at.src.addr, t.at.dst.addr = n.src, n.dst
	t.at.src.port, t.at.dst.port = n.portSrc, n.portDst
	switch {
	case k.ether == etherIPv4 && n.proto == protoICMP, k.ether == etherIPv6 && n.proto == protoICMPv6:
		if !t.setUpICMPLookup() {
			return
		}
	}
	if found := c.nat.find(c.nat.byAnswer, t.at); found != nil {
		if found.conn.removed {
			c.record.add(orphan)
		}
		t.at = found.conn.key.reversed()
		return
	}
	if c.nat.find(c.nat.byKey, t.at) != nil || k.ether != etherIPv4 || !c.faults[StaleTuple] {
		return
	}
	// The tuple is that of the last lookup that has found something, whichever zone that was in.
	if of := k.ct.tuple4; of.src != [4]byte{} && of.dst != [4]byte{} && k.ct.zone == t.action.zone {
		copy(t.at.src.addr[:4], of.src[:])
		copy(t.at.dst.addr[:4], of.dst[:])
		t.at.proto, t.at.src.port, t.at.dst.port = of.proto, of.portSrc, of.portDst
	}
}

// find looks up the packet's connection and changes it as the packet does, or begins one. It may find none.
func (t *tracking) find() (*connection, error) {
	c := t.conntrack
	conn, reply := c.lookup(t.at, t.now)
	t.reply = reply
	if t.action.force && reply && conn != nil {
		c.remove(conn)
		conn = nil
	}
	if conn == nil {
		if t.action.commit && c.full(t.at.zone) {
			return nil, dropped("too many connections")
		}
		return t.create(), nil
	}
	if conn.key.zone != t.key.ct.zone || t.key.ct.state&stateTracked == 0 {
		t.countPacket(conn)
	}
	if err := t.foreign(conn); err != nil {
		return nil, err
	}
	return t.process(conn), nil
}

func (t *tracking) countPacket(conn *connection) {
	c := &conn.counts[direction(t.reply)]
	c.packets++
	c.bytes += uint64(len(t.packet.data))
}

func direction(reply bool) int {
	if reply {
		return 1
	}
	return 0
}

// tellState: Conntrack.c, OvsCtUpdateFlowKey. The original tuple stays what it was.
func (t *tracking) tellState(state uint32, conn *connection) {
	c := &t.key.ct
	c.state, c.zone, c.mark, c.labels = state|stateTracked, t.action.zone, 0, [16]byte{}
	if conn != nil {
		c.mark, c.labels = conn.mark, conn.labels
	}
}

type updateResult int

const (
	updateInvalid updateResult = iota
	updateValid
	updateNew
	updateValidNew
)

// process: Conntrack.c, OvsProcessConntrackEntry.
func (t *tracking) process(conn *connection) *connection {
	state := uint32(0)
	if t.related {
		state = stateRelated
		if t.reply {
			state |= stateReply
		}
		t.tellState(state, conn)
		return conn
	}
	switch conn.update(t) {
	case updateValid:
		state = stateEstablished
		if t.reply {
			state |= stateReply
		}
	case updateInvalid:
		state = stateInvalid
		t.conntrack.statistics.lose(dropped(fmt.Sprintf("invalid of protocol %d: not its connection's", t.key.network.proto)))
	case updateNew:
		t.conntrack.remove(conn)
		if conn = t.create(); conn == nil {
			return nil
		}
		// The state that create has told is lost.
	case updateValidNew:
		state = stateNew
	}
	t.tellState(state, conn)
	return conn
}

// update: Conntrack.c, OvsCtUpdateEntry.
func (conn *connection) update(t *tracking) updateResult {
	switch t.key.network.proto {
	case protoTCP:
		header := t.packet.tcpSegment()
		if header == nil {
			return updateInvalid
		}
		return conn.updateTCP(header, t.reply, t.now)
	case protoICMP, protoICMPv6: // Conntrack-icmp.c
		state := &conn.peers[0].state
		if t.reply {
			*state = icmpAnswered
		}
		conn.expiration = t.now.Add(otherExpiry(*state >= icmpAnswered))
		return updateValid
	}
	return conn.updateOther(t.reply, t.now)
}

func otherExpiry(answered bool) time.Duration {
	if answered {
		return otherBoth
	}
	return otherTimeout
}

// updateOther: Conntrack-other.c, OvsConntrackUpdateOtherEntry. The second packet of a direction without an answer is
// new still.
func (conn *connection) updateOther(reply bool, now time.Time) updateResult {
	state, result := &conn.peers[0].state, updateValid
	switch {
	case reply && *state != udpAnswered:
		*state = udpAnswered
	case *state == udpFirst:
		*state, result = udpAgain, updateValidNew
	}
	conn.expiration = now.Add(otherExpiry(*state >= udpAnswered))
	return result
}

// create: Conntrack.c, OvsCtEntryCreate. Without a commit it only finds out what the packet is.
func (t *tracking) create() *connection {
	conn, valid := t.firstPacket()
	state := uint32(stateNew)
	switch {
	case !valid:
		state, conn = stateInvalid, nil
		t.conntrack.statistics.lose(dropped(fmt.Sprintf("invalid of protocol %d: begins no connection", t.key.network.proto)))
	case !t.action.commit:
		conn = nil
	default:
		conn.key, conn.rev, conn.started, conn.made = t.at, t.at.reversed(), t.now, t.key.network.proto
		conn.nat = t.action.nat
		if conn.nat.forward() && !t.conntrack.nat.allocate(conn) {
			state, conn = stateInvalid, nil
			t.conntrack.statistics.lose(dropped("no port left to translate to"))
			break
		}
		t.conntrack.add(conn)
	}
	t.tellState(state, nil)
	if conn != nil {
		t.countPacket(conn)
	}
	return conn
}

// firstPacket says whether a packet may begin a connection, and begins it.
func (t *tracking) firstPacket() (*connection, bool) {
	switch t.key.network.proto {
	case protoTCP:
		header := t.packet.tcpSegment()
		if header == nil || !header.begins() {
			return nil, false
		}
		return newTCP(header, t.now), true
	case protoICMP:
		return t.newOther(), t.key.ether == etherIPv4 && icmpBegins[t.key.network.portSrc]
	case protoICMPv6:
		kind := t.key.network.portSrc
		begins := kind == icmpv6Echo || t.conntrack.faults[ErrorBegins] && icmpv6Errors[kind]
		return t.newOther(), t.key.ether == etherIPv6 && begins
	case protoUDP:
		return t.newOther(), true
	}
	return t.newOther(), !t.conntrack.faults[Protocols]
}

func (t *tracking) newOther() *connection {
	return &connection{expiration: t.now.Add(otherTimeout)}
}

// setMark: Conntrack.c, OvsConntrackSetMark and OvsConntrackSetLabels, without a commit, too.
func (conn *connection) setMark(action ctAction, k *key) {
	if m := action.mark; m != nil {
		if mark := m[0] | conn.mark&^m[1]; mark != conn.mark {
			conn.mark, k.ct.mark = mark, mark
		}
	}
	if l := action.labels; l != nil {
		for i := range conn.labels {
			conn.labels[i] = conn.labels[i]&^l[1][i] | l[0][i]&l[1][i]
		}
	}
	k.ct.labels = conn.labels
}

// tell: Conntrack.c, OvsCtUpdateTuple and OvsCtUpdateTupleV6.
func (conn *connection) tell(k *key) {
	portSrc, portDst := conn.key.src.port, conn.key.dst.port
	if p := conn.key.proto; p == protoICMP && conn.key.ether == etherIPv4 || p == protoICMPv6 &&
		conn.key.ether == etherIPv6 {
		portSrc, portDst = uint16(conn.key.src.icmpType), uint16(conn.key.src.icmpCode)
	}
	if conn.key.ether == etherIPv4 {
		k.ct.tuple4 = tuple4{[4]byte(conn.key.src.addr[:4]), [4]byte(conn.key.dst.addr[:4]), portSrc, portDst, conn.key.proto}
		return
	}
	k.ct.tuple6 = tuple6{conn.key.src.addr, conn.key.dst.addr, portSrc, portDst, conn.key.proto}
}
