//go:build linux

package hyperv

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

func TestTCPStates(t *testing.T) {
	e, h := bare(t, KnownFaults())
	look := func(frame []byte) uint32 { return send(t, e, h, frame, ct(t, 1, false)).key.ct.state &^ stateTracked }
	syn := tcp(client, server, 1000, 80, tcpSYN, 1, 0)
	if got := look(syn); got != stateNew {
		t.Errorf("SYN: %#x", got)
	}
	send(t, e, h, syn, ct(t, 1, true))
	for _, c := range []struct {
		name  string
		frame []byte
		want  uint32
	}{
		{"SYN again", syn, stateNew},
		{"SYN+ACK", tcp(server, client, 80, 1000, tcpSYN|tcpACK, 9, 2), stateEstablished | stateReply},
		{"ACK", tcp(client, server, 1000, 80, tcpACK, 2, 10), stateEstablished},
		{"SYN+ACK of nothing", tcp(server, client, 81, 1000, tcpSYN|tcpACK, 9, 2), stateInvalid},
		{"in the midst of nothing", tcp(client, server, 1001, 80, tcpACK, 2, 10), stateNew},
		{"no flags", tcp(client, server, 1000, 80, 0, 2, 10), stateInvalid},
		{"RST", tcp(server, client, 80, 1000, tcpRST|tcpACK, 10, 2), stateEstablished | stateReply},
		{"SYN after it", tcp(client, server, 1000, 80, tcpSYN, 90, 0), stateNew},
	} {
		if got := look(c.frame); got != c.want {
			t.Errorf("%s: state %#x, want %#x", c.name, got, c.want)
		}
	}
}

func TestProtocols(t *testing.T) {
	sctp := ip(client, server, protoSCTP, make([]byte, 24), -1)
	e, h := bare(t, KnownFaults())
	if o := send(t, e, h, sctp, ct(t, 1, true), act(actionOutput, 4)); o.err != errNotSupported || len(o.out) != 0 {
		t.Errorf("%+v", o)
	}
	e, h = bare(t, without(Protocols))
	if o := send(t, e, h, sctp, ct(t, 1, true), act(actionOutput, 4)); o.err != nil || len(o.out["pod4"]) != 1 {
		t.Errorf("without the fault: %+v", o)
	}
}

func TestNAT(t *testing.T) {
	backend, backend6 := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("fd00::9")
	for _, c := range []struct {
		name               string
		frame, answer      []byte
		kind               uint16
		to                 netip.Addr
		port               uint16
		translated, undone netip.Addr
	}{
		{"DNAT", tcp(client, server, 1000, 80, tcpSYN, 1, 0), tcp(backend, client, 8080, 1000, tcpSYN|tcpACK, 1, 2),
			natAttrDst, backend, 8080, backend, server},
		{"DNAT of UDP", udp(client, server, 1000, 53, "q"), udp(backend, client, 5353, 1000, "a"), natAttrDst, backend, 5353,
			backend, server},
		{"DNAT of IPv6", tcp(client6, server6, 1000, 80, tcpSYN, 1, 0), tcp(backend6, client6, 8080, 1000, tcpSYN|tcpACK, 1,
			2), natAttrDst, backend6, 8080, backend6, server6},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			o := send(t, e, h, c.frame, ct(t, 1, true, nat(c.kind, c.to, c.port)), act(actionOutput, 4))
			if o.err != nil || len(o.out["pod4"]) != 1 || o.key.ct.state&stateDstNAT == 0 {
				t.Fatalf("%+v", o)
			}
			sound(t, o.out["pod4"][0])
			if got := address(o.key.network.dst, c.to); got != c.translated || o.key.network.portDst != c.port {
				t.Errorf("to %v:%d", got, o.key.network.portDst)
			}
			o = sendFrom(t, e, h, 4, c.answer, ct(t, 1, false, nat(0, netip.Addr{}, 0)), act(actionOutput, 3))
			if o.err != nil || len(o.out["pod3"]) != 1 || o.key.ct.state&(stateSrcNAT|stateReply) != stateSrcNAT|stateReply {
				t.Fatalf("%+v", o)
			}
			sound(t, o.out["pod3"][0])
			if got := address(o.key.network.src, c.to); got != c.undone {
				t.Errorf("from %v", got)
			}
		})
	}
}

func address(b [16]byte, like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	return netip.AddrFrom16(b)
}

// Two clients of one port share a translated address by other ports.
func TestSNATPorts(t *testing.T) {
	e, h := bare(t, KnownFaults())
	gateway := netip.MustParseAddr("192.168.0.1")
	ports := map[uint16]bool{}
	for _, from := range []string{"10.0.0.1", "10.0.0.3"} {
		o := send(t, e, h, udp(netip.MustParseAddr(from), server, 1000, 53, "q"), ct(t, 1, true, nat(natAttrSrc, gateway, 0)),
			act(actionOutput, 4))
		frame := o.out["pod4"][0]
		sound(t, frame)
		ports[order.Uint16(frame[34:])] = true
	}
	if len(ports) != 2 {
		t.Errorf("both have the ports %v", ports)
	}
}

// collided checks that one connection is remembered as harmed by a fault, where the fault is on, and none where it is
// off.
func collided(t *testing.T, e *Extension, fault Fault, client, server string) {
	t.Helper()
	var want []Collision
	if e.Faults()[fault] {
		want = []Collision{{Fault: fault, Client: netip.MustParseAddrPort(client), Server: netip.MustParseAddrPort(server)}}
	}
	got := e.Collisions()
	for i := range got {
		got[i].Time = time.Time{}
	}
	if !slices.Equal(got, want) {
		t.Errorf("collisions %v, want %v", got, want)
	}
}

// A connection's port is one of its range, and when these are taken one from 1024 on.
func TestPortsOfARange(t *testing.T) {
	e, h := bare(t, KnownFaults())
	gateway := netip.MustParseAddr("192.168.0.1")
	named := func(a *netlink.AttributeEncoder) {
		a.Nested(ctAttrNAT, func(a *netlink.AttributeEncoder) error {
			a.Flag(natAttrSrc, true)
			a.Bytes(natAttrIPMin, gateway.AsSlice())
			a.Uint16(natAttrProtoMin, 500)
			a.Uint16(natAttrProtoMax, 502)
			return nil
		})
	}
	var ports []uint16
	for client := range uint16(5) {
		o := send(t, e, h, udp(netip.MustParseAddr("10.0.0.1"), server, 1000+client, 53, "q"), ct(t, 1, true, named),
			act(actionOutput, 4))
		ports = append(ports, order.Uint16(o.out["pod4"][0][34:]))
	}
	slices.Sort(ports[:3])
	if want := []uint16{500, 501, 502, 1024, 1025}; !slices.Equal(ports, want) {
		t.Errorf("the ports are %d, want %d", ports, want)
	}
}

// The second of two connections that want one port gets another, of which the key, and so the next zone, knows nothing:
// the answer is no connection's there.
func TestNATPort(t *testing.T) {
	gateway := netip.MustParseAddr("192.168.0.1")
	for _, c := range []struct {
		name   string
		faults Faults
		want   uint32
	}{{"fault", KnownFaults(), stateInvalid}, {"no fault", without(NATPort), stateEstablished | stateReply}} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, c.faults)
			var translated []byte
			for _, from := range []string{"10.0.0.1", "10.0.0.3"} {
				syn := tcp(netip.MustParseAddr(from), server, 1000, 80, tcpSYN, 1, 0)
				o := send(t, e, h, syn, ct(t, 1, true, nat(natAttrSrc, gateway, 0)), ct(t, 3, false), ct(t, 2, true),
					act(actionOutput, 4))
				translated = o.out["pod4"][0]
			}
			collided(t, e, NATPort, "10.0.0.3:1000", "10.0.0.2:80")
			answer := tcp(server, gateway, 80, order.Uint16(translated[34:]), tcpSYN|tcpACK, 1, 2)
			if got := sendFrom(t, e, h, 4, answer, ct(t, 2, false)).key.ct.state &^ stateTracked; got != c.want {
				t.Errorf("state %#x of the answer, want %#x", got, c.want)
			}
		})
	}
}

// A client that asks two addresses of one server from one port: the second connection goes to another port of the
// server's. Without the fault it is the client's port that is another, and answers come back to the one that the client
// has.
func TestDNATPort(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults Faults
		other  bool
	}{{"fault", KnownFaults(), true}, {"no fault", without(DNATPort), false}} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, c.faults)
			from := netip.MustParseAddr("10.0.0.1")
			var frame []byte
			for _, to := range []string{"10.96.0.1", "10.96.0.2"} {
				o := send(t, e, h, udp(from, netip.MustParseAddr(to), 1000, 53, "q"), ct(t, 1, true, nat(natAttrDst, server, 5353)),
					act(actionOutput, 4))
				frame = o.out["pod4"][0]
				sound(t, frame)
			}
			collided(t, e, DNATPort, "10.0.0.1:1000", "10.96.0.2:53")
			port, client := order.Uint16(frame[36:]), order.Uint16(frame[34:])
			if (port >= 1024 && port != 5353) != c.other || (client != 1000) == c.other {
				t.Fatalf("it goes from port %d to port %d", client, port)
			}
			o := sendFrom(t, e, h, 4, udp(server, from, port, client, "a"), ct(t, 1, false, nat(0, netip.Addr{}, 0)),
				act(actionOutput, 3))
			for _, frames := range o.out {
				frame = frames[0]
			}
			sound(t, frame)
			if order.Uint16(frame[34:]) != 53 || order.Uint16(frame[36:]) != 1000 {
				t.Errorf("the answer is from port %d to port %d", order.Uint16(frame[34:]), order.Uint16(frame[36:]))
			}
		})
	}
}

// The identifier of an ICMP message stays, and for one of ICMPv6 the translation remembers a port of its range all the
// same: so the answer is no connection's.
func TestNATOfICMP(t *testing.T) {
	gateway, gateway6 := netip.MustParseAddr("192.168.0.1"), netip.MustParseAddr("fd00:1::1")
	const answered = stateEstablished | stateReply | stateDstNAT
	for _, c := range []struct {
		name    string
		frame   []byte
		gateway netip.Addr
		port    uint16
		answer  []byte
		id      int // where it is
		want    uint32
	}{
		{"ICMP to a port", icmp(client, server, 8, 7), gateway, 40000, icmp(server, gateway, 0, 7), 38, answered},
		{"ICMP to an address", icmp(client, server, 8, 7), gateway, 0, icmp(server, gateway, 0, 7), 38, answered},
		{"ICMPv6 to a port", icmp(client6, server6, 128, 7), gateway6, 40000, icmp(server6, gateway6, 129, 7), 58,
			stateInvalid},
		{"ICMPv6 to an address", icmp(client6, server6, 128, 7), gateway6, 0, icmp(server6, gateway6, 129, 7), 58, answered},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			o := send(t, e, h, c.frame, ct(t, 1, true, nat(natAttrSrc, c.gateway, c.port)), act(actionOutput, 4))
			if frame := o.out["pod4"][0]; order.Uint16(frame[c.id:]) != 7 {
				t.Fatalf("identifier %d", order.Uint16(frame[c.id:]))
			}
			o = sendFrom(t, e, h, 4, c.answer, ct(t, 1, false, nat(0, netip.Addr{}, 0)))
			if got := o.key.ct.state &^ stateTracked; got != c.want {
				t.Errorf("state %#x of the answer, want %#x", got, c.want)
			}
		})
	}
}

// The flush of an absent connection forgets the translations of its zone; in zone 0 those of all.
func TestFlushNAT(t *testing.T) {
	backend := netip.MustParseAddr("10.0.0.9")
	for _, c := range []struct {
		name   string
		faults Faults
		zone   byte
		want   uint32
	}{
		{"fault", KnownFaults(), 1, stateInvalid},
		{"of another zone", KnownFaults(), 2, stateEstablished | stateReply | stateSrcNAT},
		{"of zone 0", KnownFaults(), 0, stateInvalid},
		{"no fault", without(FlushNAT), 1, stateEstablished | stateReply | stateSrcNAT},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, c.faults)
			send(t, e, h, tcp(client, server, 1000, 80, tcpSYN, 1, 0), ct(t, 1, true, nat(natAttrDst, backend, 8080)))
			absent := connKey{ether: etherIPv4, proto: protoUDP, zone: 1, src: endpoint{port: 1}, dst: endpoint{port: 2}}
			attrs, err := encode(func(a *netlink.AttributeEncoder) error {
				a.Nested(ctaTupleOrig, absent.encode)
				a.Bytes(ctaZone, []byte{0, c.zone})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.device.dispatch(message{kind: ctDelete, body: append([]byte{2, 0, 0, 0}, attrs...)}); err != nil {
				t.Fatal(err)
			}
			o := sendFrom(t, e, h, 4, tcp(backend, client, 8080, 1000, tcpSYN|tcpACK, 1, 2), ct(t, 1, false, nat(0, backend, 0)))
			if got := o.key.ct.state &^ stateTracked; got != c.want {
				t.Errorf("the answer's state is %#x, want %#x", got, c.want)
			}
		})
	}
}

func TestICMPErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults Faults
		of     []byte
		src    netip.Addr
		dst    netip.Addr
		kind   uint8
		want   uint32
	}{
		{"IPv4", KnownFaults(), udp(client, server, 1000, 53, "q"), server, client, 3, stateInvalid},
		{"IPv4 without the fault", without(ICMPErrors), udp(client, server, 1000, 53, "q"), server, client, 3,
			stateRelated | stateReply},
		{"IPv6", KnownFaults(), udp(client6, server6, 1000, 53, "q"), server6, client6, 1, stateRelated | stateReply},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, c.faults)
			send(t, e, h, c.of, ct(t, 1, true))
			o := sendFrom(t, e, h, 4, icmpError(c.src, c.dst, c.kind, c.of), ct(t, 1, false))
			if got := o.key.ct.state &^ stateTracked; got != c.want {
				t.Errorf("state %#x, want %#x", got, c.want)
			}
		})
	}
}

// The key of a solicitation has neither the target nor the address of who asks.
func TestNDTarget(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults Faults
		want   netip.Addr
		asks   [6]byte
	}{
		{"fault", KnownFaults(), netip.IPv6Unspecified(), [6]byte{}},
		{"no fault", without(NDTarget), server6, [6]byte{0x0a, 0, 0, 0, 0, 1}},
	} {
		var k key
		if err := extract(c.faults, &packet{data: solicitation(server6)}, 3, tunnelKey{}, &k); err != nil {
			t.Fatal(err)
		}
		if got := netip.AddrFrom16(k.network.target); got != c.want || k.network.sha != c.asks {
			t.Errorf("%s: the target is %v, want %v; % x asks", c.name, got, c.want, k.network.sha)
		}
	}
}

// A mark and labels are set by their masks, with a commit and without one, and a connection keeps them.
func TestMarkAndLabels(t *testing.T) {
	e, h := bare(t, KnownFaults())
	label := func(mark, mask uint32, label, labelMask byte) func(*netlink.AttributeEncoder) {
		return func(a *netlink.AttributeEncoder) {
			a.Bytes(ctAttrMark, native.AppendUint32(native.AppendUint32(nil, mark), mask))
			b := make([]byte, 32)
			b[0], b[16] = label, labelMask
			a.Bytes(ctAttrLabels, b)
		}
	}
	frame := udp(client, server, 1000, 53, "q")
	for _, c := range []struct {
		name   string
		action attribute
		mark   uint32
		label  byte
	}{
		{"with the commit", ct(t, 1, true, label(0x15, 0xff, 0x23, 0xff)), 0x15, 0x23},
		{"a lookup", ct(t, 1, false), 0x15, 0x23},
		{"without a commit, some bits", ct(t, 1, false, label(0x0a, 0x0f, 0x04, 0x0f)), 0x1a, 0x24},
		{"a lookup again", ct(t, 1, false), 0x1a, 0x24},
	} {
		got := send(t, e, h, frame, c.action).key.ct
		if got.mark != c.mark || got.labels[0] != c.label {
			t.Errorf("%s: mark %#x and label %#x, want %#x and %#x", c.name, got.mark, got.labels[0], c.mark, c.label)
		}
	}
}

// A segment whose flags make no sense is invalid, and begins no connection. One in the midst of a connection does.
func TestInvalidTCPFlags(t *testing.T) {
	for name, c := range map[string]struct {
		flags uint8
		valid bool
	}{
		"SYN": {tcpSYN, true}, "ACK": {tcpACK, true}, "FIN and ACK": {tcpFIN | tcpACK, true}, "RST": {tcpRST, true},
		"PSH, URG and ACK": {tcpPSH | tcpURG | tcpACK, true},
		"none":             {0, false}, "SYN and RST": {tcpSYN | tcpRST, false}, "SYN and FIN": {tcpSYN | tcpFIN, false},
		"FIN": {tcpFIN, false}, "PSH": {tcpPSH, false}, "URG": {tcpURG, false}, "RST and FIN": {tcpRST | tcpFIN, false},
	} {
		e, h := bare(t, KnownFaults())
		o := send(t, e, h, tcp(client, server, 1000, 80, c.flags, 1, 2), ct(t, 1, true))
		want := uint32(stateInvalid)
		if c.valid {
			want = stateNew
		}
		if got := o.key.ct.state &^ stateTracked; got != want || (e.datapath.conntrack.connections.count == 1) != c.valid {
			t.Errorf("%s: state %#x, %d connections", name, got, e.datapath.conntrack.connections.count)
		}
	}
}

// The flush of a zone forgets its connections and translations, and the flush of zone 0 those of all.
func TestFlushOfAZone(t *testing.T) {
	backend := netip.MustParseAddr("10.0.0.9")
	for zone, left := range map[byte][]uint16{1: {2, 3}, 7: {1, 2, 3}, 0: nil} {
		e, h := bare(t, KnownFaults())
		for of := range uint16(3) {
			send(t, e, h, udp(client, server, 1000, 53, "q"), ct(t, of+1, true, nat(natAttrDst, backend, 5353)))
		}
		attrs := nested(t, 0, func(a *netlink.AttributeEncoder) { a.Bytes(ctaZone, []byte{0, zone}) }).data
		if _, err := e.device.dispatch(message{kind: ctDelete, body: append([]byte{2, 0, 0, 0}, attrs...)}); err != nil {
			t.Fatal(err)
		}
		var zones, translated []uint16
		for _, conn := range e.datapath.conntrack.connections.all() {
			zones = append(zones, conn.key.zone)
		}
		for _, of := range e.datapath.conntrack.nat.byKey.all() {
			translated = append(translated, of.key.zone)
		}
		slices.Sort(zones)
		slices.Sort(translated)
		if !slices.Equal(zones, left) || !slices.Equal(translated, left) {
			t.Errorf("zone %d: of %d are connections left, of %d translations, want %d", zone, zones, translated, left)
		}
	}
}

// A dump of connections tells of each its zone, its mark and both of its directions.
func TestConnectionsAreTold(t *testing.T) {
	backend := netip.MustParseAddr("10.0.0.9")
	e, h := bare(t, KnownFaults())
	send(t, e, h, udp(client, server, 1000, 53, "q"), ct(t, 7, true, mark, nat(natAttrDst, backend, 5353)))
	bodies, err := e.device.dispatch(message{kind: ctGet, flags: unix.NLM_F_DUMP, body: []byte{2, 0, 0, 0}})
	if err != nil || len(bodies) != 1 {
		t.Fatalf("%v, %v", bodies, err)
	}
	told, err := attributesOf(bodies[0][4:])
	if err != nil {
		t.Fatal(err)
	}
	there, errThere := parseCtTuple(told[ctaTupleOrig])
	back, errBack := parseCtTuple(told[ctaTupleReply])
	if errThere != nil || errBack != nil || there.dst != server.As4() || there.portDst != 53 ||
		back.src != backend.As4() || back.portSrc != 5353 || back.proto != protoUDP {
		t.Errorf("there %+v, %v; back %+v, %v", there, errThere, back, errBack)
	}
	if order.Uint16(told[ctaZone]) != 7 || order.Uint32(told[ctaMark]) != marked {
		t.Errorf("zone % x, mark % x", told[ctaZone], told[ctaMark])
	}
}
