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

// translate writes a connection's addresses into its packet: Conntrack-nat.c, OvsNatPacket. The key has
// the new port only where the action named ports.
func (t *tracking) translate(conn *connection) error {
	flags, k, p := conn.nat.flags, t.key, t.packet
	if flags&(natSrc|natDst) == 0 {
		return nil
	}
	of := conn.rev
	if t.reply {
		of = conn.key
	}
	src := flags&natSrc != 0 && !t.reply || flags&natDst != 0 && t.reply
	n := &k.network
	address, port, to := &n.dst, &n.portDst, of.src
	k.ct.state |= map[bool]uint32{true: stateSrcNAT, false: stateDstNAT}[src]
	if src {
		address, port, to = &n.src, &n.portSrc, of.dst
	}
	if *address != to.addr {
		if err := t.readICMPv6(); err != nil {
			return err
		}
	}
	p.rewrite(k.ether, src, to)
	*address = to.addr
	if conn.shifted {
		other, client := &n.portSrc, of.dst
		if src {
			other, client = &n.portDst, of.src
		}
		p.rewrite(k.ether, !src, client)
		*other = client.port
	}
	named := flags&(natSrcPort|natDstPort) != 0
	if (named || !t.conntrack.faults[NATPort] && (p.layers.tcp || p.layers.udp)) && *port != 0 {
		*port = to.port
	}
	return nil
}

// rewrite: Actions.c, OvsUpdateAddressAndPort and OvsUpdateAddressAndPortForIpv6.
func (p *packet) rewrite(ether uint16, src bool, to endpoint) {
	l := p.layers
	transport := p.checksumPlace()
	switch {
	case ether == etherIPv4 && src:
		p.write(l.l3+12, to.addr[:4], p.data[l.l3+10:l.l3+12], transport)
	case ether == etherIPv4:
		p.write(l.l3+16, to.addr[:4], p.data[l.l3+10:l.l3+12], transport)
	case src:
		p.write(l.l3+8, to.addr[:], transport)
	default:
		p.write(l.l3+24, to.addr[:], transport)
	}
	if !l.tcp && !l.udp {
		return
	}
	at := l.l4 + 2
	if src {
		at = l.l4
	}
	p.write(at, order.AppendUint16(nil, to.port), transport)
}
