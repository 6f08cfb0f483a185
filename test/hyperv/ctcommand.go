//go:build linux

package hyperv

import (
	"errors"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The attributes of connections in netfilter's messages (CTA_*).
const (
	ctaTupleOrig  = 1
	ctaTupleReply = 2
	ctaStatus     = 3
	ctaProtoInfo  = 4
	ctaTimeout    = 7
	ctaMark       = 8
	ctaCountsOrig = 9
	ctaCountsRep  = 10
	ctaID         = 12
	ctaZone       = 18
	ctaLabels     = 22

	ctaTupleIP    = 1
	ctaTupleProto = 2
	ctaIPv4Src    = 1
	ctaIPv4Dst    = 2
	ctaIPv6Src    = 3
	ctaIPv6Dst    = 4
	ctaProtoNum   = 1
	ctaSrcPort    = 2
	ctaDstPort    = 3
	ctaICMPID     = 4
	ctaICMPType   = 5
	ctaICMPCode   = 6
	ctaICMPv6ID   = 7
	ctaICMPv6Type = 8
	ctaICMPv6Code = 9
)

// dump: Conntrack.c, OvsCtDumpCmdHandler.
func (c *conntrack) dump(request) ([][]byte, error) {
	var bodies [][]byte
	now := c.clock.now()
	for _, conn := range c.connections.all() {
		attrs, err := encode(func(a *netlink.AttributeEncoder) error { return conn.encode(a, now) })
		if err != nil {
			return nil, err
		}
		family := byte(unix.AF_INET)
		if conn.key.ether == etherIPv6 {
			family = unix.AF_INET6
		}
		bodies = append(bodies, append([]byte{family, 0, 0, 0}, attrs...))
	}
	return bodies, nil
}

// delete: Conntrack.c, OvsCtDeleteCmdHandler.
func (c *conntrack) delete(r request) ([][]byte, error) {
	zone := uint16(0)
	if data := r.attrs[ctaZone]; len(data) == 2 {
		zone = order.Uint16(data)
	}
	data, ok := r.attrs[ctaTupleOrig]
	if !ok {
		c.flush(zone)
		return nil, nil
	}
	t, err := parseCtTuple(data)
	if err != nil {
		return nil, err
	}
	c.flushTuple(zone, t)
	return nil, nil
}

// flush: Conntrack.c, OvsCtFlush. Zone 0 is all of them.
func (c *conntrack) flush(zone uint16) {
	for _, conn := range c.connections.all() {
		if zone == 0 || conn.key.zone == zone {
			c.remove(conn)
		}
	}
	c.nat.flush(zone)
}

// flushTuple forgets the connections of a tuple, and, by the driver's fault, all translations of the zone.
func (c *conntrack) flushTuple(zone uint16, t tuple4) {
	for _, conn := range c.connections.all() {
		k := conn.key
		same := [4]byte(k.src.addr[:4]) == t.src && [4]byte(k.dst.addr[:4]) == t.dst && k.proto == t.proto
		ports := k.src.port == t.portSrc && k.dst.port == t.portDst
		if k.proto == protoICMP {
			ports = uint16(k.src.icmpType) == t.portSrc && uint16(k.src.icmpCode) == t.portDst
		}
		if same && ports && (zone == 0 || k.zone == zone) {
			c.remove(conn)
		}
	}
	if c.faults[FlushNAT] {
		c.nat.flush(zone)
	}
}

// parseCtTuple: Conntrack.c, MapNlToCtTuple. Addresses of IPv6 have another size than it expects.
func parseCtTuple(data []byte) (tuple4, error) {
	var t tuple4
	attrs, err := attributesOf(data)
	if err != nil {
		return t, unix.EINVAL
	}
	ip, errIP := attributesOf(attrs[ctaTupleIP])
	proto, errProto := attributesOf(attrs[ctaTupleProto])
	sizes := map[uint16]int{ctaIPv4Src: 4, ctaIPv4Dst: 4, ctaIPv6Src: 4, ctaIPv6Dst: 4}
	if errors.Join(errIP, errProto, ip.check(sizes)) != nil || len(proto[ctaProtoNum]) != 1 {
		return t, unix.EINVAL
	}
	if len(ip[ctaIPv4Src]) == 4 && len(ip[ctaIPv4Dst]) == 4 {
		t.src, t.dst = [4]byte(ip[ctaIPv4Src]), [4]byte(ip[ctaIPv4Dst])
	}
	t.proto = proto[ctaProtoNum][0]
	switch {
	case len(proto[ctaSrcPort]) == 2 && len(proto[ctaDstPort]) == 2:
		t.portSrc, t.portDst = order.Uint16(proto[ctaSrcPort]), order.Uint16(proto[ctaDstPort])
	case len(proto[ctaICMPType]) == 1 && len(proto[ctaICMPCode]) == 1:
		t.portSrc, t.portDst = uint16(proto[ctaICMPType][0]), uint16(proto[ctaICMPCode][0])
	}
	return t, nil
}

// encode: Conntrack.c, OvsCreateNlMsgFromCtEntry.
func (conn *connection) encode(a *netlink.AttributeEncoder, now time.Time) error {
	big := func(kind uint16, value uint32) { a.Bytes(kind, order.AppendUint32(nil, value)) }
	a.Nested(ctaTupleOrig, conn.key.encode)
	a.Nested(ctaTupleReply, conn.rev.encode)
	big(ctaStatus, 0)
	if conn.key.proto == protoTCP {
		a.Nested(ctaProtoInfo, func(a *netlink.AttributeEncoder) error {
			a.Nested(1, func(a *netlink.AttributeEncoder) error {
				a.Uint8(1, conn.peers[0].state)
				a.Uint8(2, conn.peers[0].scale&scaleMask)
				a.Uint8(3, conn.peers[1].scale&scaleMask)
				a.Bytes(4, []byte{0, 0})
				a.Bytes(5, []byte{0, 0})
				return nil
			})
			return nil
		})
	}
	big(ctaTimeout, uint32(max(conn.expiration.Sub(now).Seconds(), 0)))
	big(ctaMark, conn.mark)
	for i, kind := range []uint16{ctaCountsOrig, ctaCountsRep} {
		a.Nested(kind, func(a *netlink.AttributeEncoder) error {
			a.Bytes(1, order.AppendUint64(nil, conn.counts[i].packets))
			a.Bytes(2, order.AppendUint64(nil, conn.counts[i].bytes))
			return nil
		})
	}
	big(ctaID, 0)
	a.Bytes(ctaZone, order.AppendUint16(nil, conn.key.zone))
	a.Bytes(ctaLabels, conn.labels[:])
	return nil
}

func (k connKey) encode(a *netlink.AttributeEncoder) error {
	a.Nested(ctaTupleIP, func(a *netlink.AttributeEncoder) error {
		if k.ether == etherIPv4 {
			a.Bytes(ctaIPv4Src, k.src.addr[:4])
			a.Bytes(ctaIPv4Dst, k.dst.addr[:4])
			return nil
		}
		a.Bytes(ctaIPv6Src, k.src.addr[:])
		a.Bytes(ctaIPv6Dst, k.dst.addr[:])
		return nil
	})
	a.Nested(ctaTupleProto, func(a *netlink.AttributeEncoder) error {
		a.Uint8(ctaProtoNum, k.proto)
		port := func(kind uint16, value uint16) { a.Bytes(kind, order.AppendUint16(nil, value)) }
		switch k.proto {
		case protoICMP:
			port(ctaICMPID, k.src.port)
			a.Uint8(ctaICMPType, k.src.icmpType)
			a.Uint8(ctaICMPCode, k.src.icmpCode)
		case protoICMPv6:
			port(ctaICMPv6ID, k.src.port)
			a.Uint8(ctaICMPv6Type, k.src.icmpType)
			a.Uint8(ctaICMPv6Code, k.src.icmpCode)
		default:
			port(ctaSrcPort, k.src.port)
			port(ctaDstPort, k.dst.port)
		}
		return nil
	})
	return nil
}
