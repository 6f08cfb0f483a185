//go:build linux

package hyperv

import (
	"encoding/binary"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The kinds of a key's attributes (OVS_KEY_ATTR_*).
const (
	keyEncap       = 1
	keyInPort      = 3
	keyEthernet    = 4
	keyVLAN        = 5
	keyEtherType   = 6
	keyIPv4        = 7
	keyIPv6        = 8
	keyTCP         = 9
	keyUDP         = 10
	keyICMP        = 11
	keyICMPv6      = 12
	keyARP         = 13
	keyND          = 14
	keySKBMark     = 15
	keyTunnel      = 16
	keySCTP        = 17
	keyTCPFlags    = 18
	keyDPHash      = 19
	keyRecircID    = 20
	keyMPLS        = 21
	keyCtState     = 22
	keyCtZone      = 23
	keyCtMark      = 24
	keyCtLabels    = 25
	keyCtTupleIPv4 = 26
	keyCtTupleIPv6 = 27
	keyPriority    = 2
	keyNSH         = 28
	keyTunnelInfo  = 31

	// Of ovs-vswitchd alone.
	keyPacketType   = 29
	keyNDExtensions = 30
)

// keySizes: Flow.c, nlFlowKeyPolicy. What is not there is passed over: fields of ND's extensions, and
// the type of packet.
var keySizes = map[uint16]int{
	keyPriority: 4, keyInPort: 4, keyEthernet: 12, keyVLAN: 2, keyEtherType: 2, keyIPv4: 12, keyIPv6: 40,
	keyTCP: 4, keyUDP: 4, keyICMP: 2, keyICMPv6: 2, keyARP: 24, keyND: 28, keySKBMark: 4, keySCTP: 4,
	keyTCPFlags: 2, keyDPHash: 4, keyRecircID: 4, keyCtState: 4, keyCtZone: 2, keyCtMark: 4, keyCtLabels: 16,
	keyCtTupleIPv4: 16, keyCtTupleIPv6: windowsTuple6,
}

// windowsTuple6 is the size of the tuple of IPv6 on Windows, where an address is aligned to 2 bytes; that of
// Linux has 40. So a flow's key with one is refused, as it was when the extension's own code was run.
const windowsTuple6 = 38

const (
	etherIPv4  = 0x0800
	etherARP   = 0x0806
	etherVLAN  = 0x8100
	etherRARP  = 0x8035
	etherIPv6  = 0x86dd
	etherMPLS  = 0x8847
	etherMPLSM = 0x8848
	etherNone  = 0x05ff // frames of 802.2
)

const (
	protoICMP   = unix.IPPROTO_ICMP
	protoTCP    = unix.IPPROTO_TCP
	protoUDP    = unix.IPPROTO_UDP
	protoICMPv6 = unix.IPPROTO_ICMPV6
	protoSCTP   = unix.IPPROTO_SCTP
)

const (
	fragmentNone  = 0
	fragmentFirst = 1
	fragmentLater = 2
)

// key is a packet's or a flow's key. A flow is hit by a packet with an equal one: there are no masks.
// It is comparable.
type key struct {
	tunnel  tunnelKey
	inPort  uint32
	src     [6]byte
	dst     [6]byte
	ether   uint16 // of what follows a VLAN's tag
	vlan    uint16 // its tag with the bit CFI, or 0
	vlanTP  uint16
	network networkKey
	recirc  uint32
	hash    uint32
	ct      ctKeyFields
}

// networkKey has the fields of the network and transport layers that ether has; ports are, for ICMP,
// type and code. All others are zero.
type networkKey struct {
	src, dst   [16]byte // IPv4 and ARP: the first 4 bytes
	proto      uint8    // ARP: operation
	tos, ttl   uint8
	fragment   uint8
	label      uint32
	portSrc    uint16
	portDst    uint16
	sha, tha   [6]byte // ARP and neighbour discovery
	target     [16]byte
	mplsEntry  uint32
	longICMPv6 bool // the key has neighbour discovery's part
}

// ctKeyFields is what connection tracking leaves in the key. The tuple of IPv6 is kept and compared,
// and never told to ovs-vswitchd: MapFlowKeyToNlKey leaves it out.
type ctKeyFields struct {
	state  uint32
	zone   uint16
	mark   uint32
	labels [16]byte
	tuple4 tuple4
	tuple6 tuple6
}

type tuple4 struct {
	src, dst         [4]byte
	portSrc, portDst uint16
	proto            uint8
}

type tuple6 struct {
	src, dst         [16]byte
	portSrc, portDst uint16
	proto            uint8
}

var order = binary.BigEndian

// parseKey: Flow.c, _MapKeyAttrToFlowPut and MapTunAttrToFlowPut, with the attributes of a VLAN's
// packet mapped after those around them.
func parseKey(data []byte) (key, attributes, error) {
	var k key
	attrs, err := attributesOf(data)
	if err == nil {
		err = attrs.check(keySizes)
	}
	if err != nil {
		return k, nil, err
	}
	if data, ok := attrs[keyTunnel]; ok {
		if k.tunnel, err = parseTunnel(data, false); err != nil {
			return k, nil, err
		}
	}
	k.mapAttributes(attrs)
	if data, ok := attrs[keyEncap]; ok {
		inner, err := attributesOf(data)
		if err == nil {
			err = inner.check(keySizes)
		}
		if err != nil {
			return k, nil, err
		}
		k.mapAttributes(inner)
	}
	return k, attrs, nil
}

func (k *key) mapAttributes(attrs attributes) {
	k.mapMetadata(attrs)
	if data, ok := attrs[keyInPort]; ok {
		k.inPort = native.Uint32(data)
	}
	if data, ok := attrs[keyEthernet]; ok {
		copy(k.src[:], data)
		copy(k.dst[:], data[6:])
	}
	if data, ok := attrs[keyEtherType]; ok {
		k.ether = order.Uint16(data)
	}
	if data, ok := attrs[keyVLAN]; ok {
		if k.vlan = order.Uint16(data); k.vlan != 0 {
			k.vlanTP = k.ether
		}
	}
	n := &k.network
	switch k.ether {
	case etherIPv4:
		n.mapIPv4(attrs)
	case etherIPv6:
		n.mapIPv6(attrs)
	case etherARP, etherRARP:
		if data, ok := attrs[keyARP]; ok {
			copy(n.src[:4], data)
			copy(n.dst[:4], data[4:])
			n.proto = uint8(order.Uint16(data[8:]))
			copy(n.sha[:], data[10:])
			copy(n.tha[:], data[16:])
		}
	case etherMPLS, etherMPLSM:
		if data := attrs[keyMPLS]; len(data) >= 4 {
			n.mplsEntry = order.Uint32(data)
		}
	}
}

// mapMetadata: Flow.c, OvsGetFlowMetadata.
func (k *key) mapMetadata(attrs attributes) {
	if _, ok := attrs[keyRecircID]; ok {
		k.recirc = attrs.u32(keyRecircID)
	}
	if _, ok := attrs[keyDPHash]; ok {
		k.hash = attrs.u32(keyDPHash)
	}
	if _, ok := attrs[keyCtState]; ok {
		k.ct.state = attrs.u32(keyCtState)
	}
	if data, ok := attrs[keyCtZone]; ok {
		k.ct.zone = native.Uint16(data)
	}
	if _, ok := attrs[keyCtMark]; ok {
		k.ct.mark = attrs.u32(keyCtMark)
	}
	if data, ok := attrs[keyCtLabels]; ok {
		copy(k.ct.labels[:], data)
	}
	if data, ok := attrs[keyCtTupleIPv4]; ok {
		t := &k.ct.tuple4
		copy(t.src[:], data)
		copy(t.dst[:], data[4:])
		t.portSrc, t.portDst, t.proto = order.Uint16(data[8:]), order.Uint16(data[10:]), data[12]
	}
	if data, ok := attrs[keyCtTupleIPv6]; ok {
		t := &k.ct.tuple6
		copy(t.src[:], data)
		copy(t.dst[:], data[16:])
		t.portSrc, t.portDst, t.proto = order.Uint16(data[32:]), order.Uint16(data[34:]), data[36]
	}
}

func (n *networkKey) mapIPv4(attrs attributes) {
	data, ok := attrs[keyIPv4]
	if !ok {
		return
	}
	copy(n.src[:4], data)
	copy(n.dst[:4], data[4:])
	n.proto, n.tos, n.ttl, n.fragment = data[8], data[9], data[10], data[11]
	n.mapPorts(attrs)
	if data, ok := attrs[keyICMP]; ok {
		n.portSrc, n.portDst = uint16(data[0]), uint16(data[1])
	}
}

func (n *networkKey) mapIPv6(attrs attributes) {
	data, ok := attrs[keyIPv6]
	if !ok {
		return
	}
	copy(n.src[:], data)
	copy(n.dst[:], data[16:])
	n.label = native.Uint32(data[32:])
	n.proto, n.tos, n.ttl, n.fragment = data[36], data[37], data[38], data[39]
	n.mapPorts(attrs)
	icmp, ok := attrs[keyICMPv6]
	if !ok {
		return
	}
	n.longICMPv6 = true
	n.portSrc, n.portDst = uint16(icmp[0]), uint16(icmp[1])
	if nd, ok := attrs[keyND]; ok {
		copy(n.target[:], nd)
		copy(n.sha[:], nd[16:])
		copy(n.tha[:], nd[22:])
	}
}

func (n *networkKey) mapPorts(attrs attributes) {
	for _, kind := range []uint16{keyTCP, keyUDP, keySCTP} {
		if data, ok := attrs[kind]; ok {
			n.portSrc, n.portDst = order.Uint16(data), order.Uint16(data[2:])
		}
	}
}

// encode: Flow.c, MapFlowKeyToNlKey. Upcalls and dumps have the same bytes, by which ovs-vswitchd
// knows a flow again.
func (k *key) encode(a *netlink.AttributeEncoder) error {
	a.Uint32(keyRecircID, k.recirc)
	a.Uint32(keyCtState, k.ct.state)
	a.Uint16(keyCtZone, k.ct.zone)
	a.Uint32(keyCtMark, k.ct.mark)
	a.Bytes(keyCtLabels, k.ct.labels[:])
	a.Bytes(keyCtTupleIPv4, k.ct.tuple4.bytes())
	if k.hash != 0 {
		a.Uint32(keyDPHash, k.hash)
	}
	a.Bytes(keyEthernet, append(k.src[:len(k.src):len(k.src)], k.dst[:]...))
	a.Uint32(keyInPort, k.inPort)
	ether := k.ether
	if k.vlan != 0 {
		ether = k.vlanTP
	}
	a.Bytes(keyEtherType, order.AppendUint16(nil, ether))
	rest := func(a *netlink.AttributeEncoder) error {
		k.encodeNetwork(a)
		if k.tunnel.set() {
			a.Nested(keyTunnel, k.tunnel.encode)
		}
		return nil
	}
	if k.vlan == 0 {
		return rest(a)
	}
	a.Bytes(keyVLAN, order.AppendUint16(nil, k.vlan))
	a.Nested(keyEncap, func(a *netlink.AttributeEncoder) error {
		a.Bytes(keyEtherType, order.AppendUint16(nil, k.ether))
		return rest(a)
	})
	return nil
}

func (t tuple4) bytes() []byte {
	b := append(t.src[:len(t.src):len(t.src)], t.dst[:]...)
	b = order.AppendUint16(order.AppendUint16(b, t.portSrc), t.portDst)
	return append(b, t.proto, 0, 0, 0)
}

func (k *key) encodeNetwork(a *netlink.AttributeEncoder) {
	n := &k.network
	switch k.ether {
	case etherIPv4:
		b := append(n.src[:4:4], n.dst[:4]...)
		a.Bytes(keyIPv4, append(b, n.proto, n.tos, n.ttl, n.fragment))
		n.encodePorts(a)
		if n.proto == protoICMP {
			a.Bytes(keyICMP, []byte{byte(n.portSrc), byte(n.portDst)})
		}
	case etherIPv6:
		b := append(n.src[:16:16], n.dst[:]...)
		b = native.AppendUint32(b, n.label)
		a.Bytes(keyIPv6, append(b, n.proto, n.tos, n.ttl, n.fragment))
		n.encodePorts(a)
		if n.proto != protoICMPv6 {
			return
		}
		a.Bytes(keyICMPv6, []byte{byte(n.portSrc), byte(n.portDst)})
		if n.portSrc == ndSolicit || n.portSrc == ndAdvert {
			b := append(n.target[:16:16], n.sha[:]...)
			a.Bytes(keyND, append(b, n.tha[:]...))
		}
	case etherARP, etherRARP:
		b := append(n.src[:4:4], n.dst[:4]...)
		b = order.AppendUint16(b, uint16(n.proto))
		b = append(append(b, n.sha[:]...), n.tha[:]...)
		a.Bytes(keyARP, append(b, 0, 0))
	case etherMPLS, etherMPLSM:
		a.Bytes(keyMPLS, order.AppendUint32(nil, n.mplsEntry))
	}
}

func (n *networkKey) encodePorts(a *netlink.AttributeEncoder) {
	kind := map[uint8]uint16{protoTCP: keyTCP, protoUDP: keyUDP, protoSCTP: keySCTP}[n.proto]
	if kind != 0 {
		a.Bytes(kind, order.AppendUint16(order.AppendUint16(nil, n.portSrc), n.portDst))
	}
}
