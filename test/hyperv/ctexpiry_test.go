//go:build linux

package hyperv

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
)

// clocked is a bare extension whose time a test sets.
func clocked(t *testing.T) (e *Extension, h noHost, at func(time.Duration)) {
	t.Helper()
	e, h = bare(t, KnownFaults())
	start := time.Unix(1000, 0)
	now := start
	e.datapath.clock.now = func() time.Time { return now }
	return e, h, func(d time.Duration) { now = start.Add(d) }
}

// marked is what a connection is known by in a lookup, whichever state the packet has.
const marked = 5

func mark(a *netlink.AttributeEncoder) {
	a.Bytes(ctAttrMark, native.AppendUint32(native.AppendUint32(nil, marked), 0xffffffff))
}

// A connection of UDP or ICMP is remembered for a minute after its last packet, and for half of one
// after an answer. The second packet of UDP is new still, that of ICMP is established.
func TestOtherTimeouts(t *testing.T) {
	for _, c := range []struct {
		name          string
		frame, answer []byte
		second        uint32
	}{
		{"UDP", udp(client, server, 1000, 53, "q"), udp(server, client, 53, 1000, "a"), stateNew},
		{"ICMP", icmp(client, server, 8, 7), icmp(server, client, 0, 7), stateEstablished},
		{"ICMPv6", icmp(client6, server6, 128, 7), icmp(server6, client6, 129, 7), stateEstablished},
	} {
		for _, answered := range []bool{false, true} {
			limit := 60 * time.Second
			if answered {
				limit = 30 * time.Second
			}
			for _, silent := range []time.Duration{limit - time.Second, limit + time.Second} {
				t.Run(fmt.Sprintf("%s, answered %v, after %v", c.name, answered, silent), func(t *testing.T) {
					e, h, at := clocked(t)
					send(t, e, h, c.frame, ct(t, 1, true, mark))
					want := uint32(stateNew)
					if answered {
						state := sendFrom(t, e, h, 4, c.answer, ct(t, 1, false)).key.ct.state
						if state != stateTracked|stateEstablished|stateReply {
							t.Errorf("the answer's state is %#x", state)
						}
					}
					known := silent < limit
					switch {
					case known && answered:
						want = stateEstablished
					case known:
						want = c.second
					}
					at(silent)
					got := send(t, e, h, c.frame, ct(t, 1, false)).key.ct
					if got.state != stateTracked|want || (got.mark == marked) != known {
						t.Errorf("state %#x, mark %d", got.state, got.mark)
					}
				})
			}
		}
	}
}

// A connection that has expired keeps its translated port until the driver's next look at all of
// them, every two minutes.
func TestExpiredKeepsItsTranslation(t *testing.T) {
	gateway := netip.MustParseAddr("192.168.0.1")
	for after, same := range map[time.Duration]bool{119 * time.Second: false, 121 * time.Second: true} {
		t.Run(after.String(), func(t *testing.T) {
			e, h, at := clocked(t)
			port := func(from string) uint16 {
				frame := udp(netip.MustParseAddr(from), server, 1000, 53, "q")
				o := send(t, e, h, frame, ct(t, 1, true, nat(natAttrSrc, gateway, 0)), act(actionOutput, 4))
				return order.Uint16(o.out["pod4"][0][34:])
			}
			if got := port("10.0.0.1"); got != 1000 {
				t.Fatalf("port %d", got)
			}
			at(after)
			if got := port("10.0.0.3"); (got == 1000) != same {
				t.Errorf("another client's port is %d", got)
			}
		})
	}
}

// An expired connection keeps the answers' addresses and ports, too: until the driver's next look at all of them a
// client that asks a Service again from its former port is led to another port of the server.
func TestExpiredKeepsItsAnswers(t *testing.T) {
	service := netip.MustParseAddr("10.96.0.1")
	for after, same := range map[time.Duration]bool{29 * time.Second: true, 31 * time.Second: false,
		119 * time.Second: false, 121 * time.Second: true} {
		t.Run(after.String(), func(t *testing.T) {
			e, h, at := clocked(t)
			ask := func() uint16 {
				frame := udp(client, service, 1000, 53, "q")
				o := send(t, e, h, frame, ct(t, 1, true, nat(natAttrDst, server, 5353)), act(actionOutput, 4))
				return order.Uint16(o.out["pod4"][0][36:])
			}
			if got := ask(); got != 5353 {
				t.Fatalf("port %d", got)
			}
			sendFrom(t, e, h, 4, udp(server, client, 5353, 1000, "a"), ct(t, 1, false, nat(0, netip.Addr{}, 0)),
				act(actionOutput, 3))
			at(after)
			if got := ask(); (got == 5353) != same {
				t.Errorf("the server's port is %d", got)
			}
		})
	}
}

// A TCP connection is remembered for as long as its state says.
func TestTCPTimeouts(t *testing.T) {
	type segment struct {
		reply bool
		flags uint8
		seq   uint32
		ack   uint32
	}
	opened := []segment{{true, tcpSYN | tcpACK, 9, 2}, {false, tcpACK, 2, 10}}
	closing := append(slices.Clone(opened), segment{false, tcpFIN | tcpACK, 2, 10})
	for name, c := range map[string]struct {
		segments []segment
		limit    time.Duration
	}{
		"a SYN":            {nil, 2 * time.Minute},
		"a SYN again":      {[]segment{{false, tcpSYN, 1, 0}}, 30 * time.Second},
		"established":      {opened, 24 * time.Hour},
		"one side's end":   {closing, 15 * time.Minute},
		"both sides' ends": {append(slices.Clone(closing), segment{true, tcpFIN | tcpACK, 10, 3}), 45 * time.Second},
		"acknowledged": {append(slices.Clone(closing), segment{true, tcpFIN | tcpACK, 10, 3}, segment{false, tcpACK, 3, 11}),
			30 * time.Second},
		"reset": {append(slices.Clone(opened), segment{true, tcpRST | tcpACK, 10, 2}), 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			e, h, _ := clocked(t)
			send(t, e, h, tcp(client, server, 1000, 80, tcpSYN, 1, 0), ct(t, 1, true))
			for _, s := range c.segments {
				if s.reply {
					sendFrom(t, e, h, 4, tcp(server, client, 80, 1000, s.flags, s.seq, s.ack), ct(t, 1, false))
				} else {
					send(t, e, h, tcp(client, server, 1000, 80, s.flags, s.seq, s.ack), ct(t, 1, false))
				}
			}
			if got := e.datapath.conntrack.connections.all()[0].expiration.Sub(e.datapath.clock.now()); got != c.limit {
				t.Errorf("it is remembered for %v, want %v", got, c.limit)
			}
		})
	}
}

// The driver does not see that a first segment is a SYN, so it takes windows for the largest ones: what is far outside
// of the real window is the connection's still.
func TestWindowsAreWide(t *testing.T) {
	e, h, _ := clocked(t)
	send(t, e, h, tcp(client, server, 1000, 80, tcpSYN, 1, 0), ct(t, 1, true))
	sendFrom(t, e, h, 4, tcp(server, client, 80, 1000, tcpSYN|tcpACK, 9, 2), ct(t, 1, false))
	send(t, e, h, tcp(client, server, 1000, 80, tcpACK, 2, 10), ct(t, 1, false))
	sendFrom(t, e, h, 4, tcp(server, client, 80, 1000, tcpACK, 10, 2), ct(t, 1, false))
	for _, c := range []struct {
		name string
		seq  uint32
		want uint32
	}{{"1 MB ahead", 1 << 20, stateEstablished}, {"1 GB ahead", 1 << 30, stateInvalid}} {
		frame := ip(client, server, protoTCP, append(tcp(client, server, 1000, 80, tcpACK, c.seq, 10)[34:], 'x'), 16)
		if got := send(t, e, h, frame, ct(t, 1, false)).key.ct.state &^ stateTracked; got != c.want {
			t.Errorf("%s: state %#x, want %#x", c.name, got, c.want)
		}
	}
}

// A SYN over a connection that has ended begins it anew, and is neither new nor established: it is
// tracked.
func TestSYNOverAnEndedConnection(t *testing.T) {
	e, h, _ := clocked(t)
	send(t, e, h, tcp(client, server, 1000, 80, tcpSYN, 1, 0), ct(t, 1, true, mark))
	sendFrom(t, e, h, 4, tcp(server, client, 80, 1000, tcpSYN|tcpACK, 9, 2), ct(t, 1, false))
	sendFrom(t, e, h, 4, tcp(server, client, 80, 1000, tcpRST|tcpACK, 10, 2), ct(t, 1, false))
	got := send(t, e, h, tcp(client, server, 1000, 80, tcpSYN, 90, 0), ct(t, 1, true)).key.ct
	if got.state != stateTracked || got.mark != 0 {
		t.Errorf("state %#x, mark %d", got.state, got.mark)
	}
	got = sendFrom(t, e, h, 4, tcp(server, client, 80, 1000, tcpSYN|tcpACK, 9, 91), ct(t, 1, false)).key.ct
	if got.state != stateTracked|stateEstablished|stateReply {
		t.Errorf("state %#x of the answer", got.state)
	}
}

// Each zone has a state of its own of a connection. A reset that one zone alone sees frees the place there within 30 s
// and the time until the driver next looks at all connections. The other zone keeps its own for a day.
func TestResetInOneZone(t *testing.T) {
	e, h, at := clocked(t)
	both := []uint16{1, 2}
	for _, zone := range both {
		send(t, e, h, tcp(client, server, 1000, 80, tcpSYN, 1, 0), ct(t, zone, true))
		sendFrom(t, e, h, 4, tcp(server, client, 80, 1000, tcpSYN|tcpACK, 9, 2), ct(t, zone, false))
		send(t, e, h, tcp(client, server, 1000, 80, tcpACK, 2, 10), ct(t, zone, false))
	}
	send(t, e, h, tcp(client, server, 1000, 80, tcpRST|tcpACK, 2, 10), ct(t, 1, false))
	for _, c := range []struct {
		after time.Duration
		want  map[uint16]int
	}{
		{time.Second, map[uint16]int{1: 1, 2: 1}},
		{31*time.Second + cleanupInterval, map[uint16]int{1: 0, 2: 1}},
		{23 * time.Hour, map[uint16]int{1: 0, 2: 1}},
		{25 * time.Hour, map[uint16]int{1: 0, 2: 0}},
	} {
		at(c.after)
		send(t, e, h, udp(client, server, 1, 53, "q"), ct(t, 3, false)) // has the driver look
		for _, zone := range both {
			if got := e.datapath.conntrack.zones.counts[zone]; got != c.want[zone] {
				t.Errorf("after %v zone %d has %d connections, not %d", c.after, zone, got, c.want[zone])
			}
		}
	}
}

// A timeout policy changes nothing.
func TestTimeoutPolicy(t *testing.T) {
	policy := func(a *netlink.AttributeEncoder) { a.String(ctAttrTimeout, "short") }
	for name, more := range map[string][]func(*netlink.AttributeEncoder){"with": {mark, policy}, "without": {mark}} {
		t.Run(name, func(t *testing.T) {
			e, h, at := clocked(t)
			frame := udp(client, server, 1000, 53, "q")
			o := send(t, e, h, frame, ct(t, 1, true, more...), act(actionOutput, 4))
			if o.err != nil || len(o.out["pod4"]) != 1 {
				t.Fatalf("%+v", o)
			}
			for _, c := range []struct {
				at    time.Duration
				known bool
			}{{59 * time.Second, true}, {120 * time.Second, false}} {
				at(c.at)
				if got := send(t, e, h, frame, ct(t, 1, false)).key.ct.mark == marked; got != c.known {
					t.Errorf("after %v it is known: %v", c.at, got)
				}
			}
		})
	}
}

// A connection that begins anew in the place of one that has expired loses its translation when the driver removes the
// other one, whose own translation is left: the answers are no connection's then, and those of the other's server are
// looked up in memory that is free.
func TestExpiredTakesATranslation(t *testing.T) {
	first, second := netip.MustParseAddr("10.0.0.8"), netip.MustParseAddr("10.0.0.9")
	e, h, at := clocked(t)
	answers := func(from netip.Addr) uint32 {
		return sendFrom(t, e, h, 4, udp(from, client, 5353, 1000, "a"), undo(t, 1)).key.ct.state &^ stateTracked
	}
	const known = stateEstablished | stateReply | stateSrcNAT
	question := udp(client, server, 1000, 53, "q")
	send(t, e, h, question, ct(t, 1, true, nat(natAttrDst, first, 5353)))
	at(100 * time.Second)
	send(t, e, h, question, ct(t, 1, true, nat(natAttrDst, second, 5353)))
	if got := answers(second); got != known {
		t.Errorf("before: state %#x", got)
	}
	at(cleanupInterval + time.Second)
	if got := answers(second); got != stateNew {
		t.Errorf("after: state %#x", got)
	}
	if e.Executed()[orphan] != 0 || answers(first)&stateInvalid != 0 || e.Executed()[orphan] != 1 {
		t.Errorf("of the other's server: %v", e.Executed())
	}
}

// The flush of a connection of IPv6 is refused, and the connection stays.
func TestFlushOfIPv6(t *testing.T) {
	for name, c := range map[string]struct {
		frame    []byte
		src, dst netip.Addr
		left     int
	}{
		"IPv4": {udp(client, server, 1000, 53, "q"), client, server, 0},
		"IPv6": {udp(client6, server6, 1000, 53, "q"), client6, server6, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			send(t, e, h, c.frame, ct(t, 1, true))
			k := e.datapath.conntrack.connections.all()[0].key
			attrs := nested(t, 0, func(a *netlink.AttributeEncoder) {
				a.Nested(ctaTupleOrig, k.encode)
				a.Bytes(ctaZone, []byte{0, 1})
			}).data
			_, err := e.device.dispatch(message{kind: ctDelete, body: append([]byte{2, 0, 0, 0}, attrs...)})
			if refused := err != nil; refused != (c.left == 1) || len(e.datapath.conntrack.connections.all()) != c.left {
				t.Errorf("%v, %d connections are left", err, len(e.datapath.conntrack.connections.all()))
			}
		})
	}
}
