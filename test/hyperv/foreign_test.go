//go:build linux

package hyperv

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// foreign are the packets that have found a connection of another protocol, by their names.
func foreign(e *Extension) []string {
	var found []string
	for name := range e.Executed() {
		if strings.HasPrefix(name, otherProtocol) {
			found = append(found, strings.TrimPrefix(name, otherProtocol))
		}
	}
	slices.Sort(found)
	return found
}

// segment is a frame of TCP or UDP.
func segment(proto uint8, src, dst netip.Addr, portSrc, portDst uint16, flags uint8) []byte {
	if proto == protoTCP {
		return tcp(src, dst, portSrc, portDst, flags, 1, 2)
	}
	return udp(src, dst, portSrc, portDst, "x")
}

var sides = []struct {
	name                    string
	client, server, backend netip.Addr
}{
	{"IPv4", client, server, netip.MustParseAddr("10.0.0.9")},
	{"IPv6", client6, server6, netip.MustParseAddr("fd00::9")},
}

// A packet of the endpoint to the client's port is taken for an answer, of whichever protocol the connection is. TCP is
// written beyond the memory of a UDP connection. UDP is established, translated, and has the connection's state and its
// end be those of UDP.
func TestOtherProtocol(t *testing.T) {
	const answered = stateEstablished | stateReply | stateSrcNAT
	for _, of := range sides {
		for _, c := range []struct {
			name          string
			begins, comes uint8 // the protocols
			flags         uint8
			found         []string
			lost          bool
			state, honest uint32 // of the second packet, with the fault and without
		}{
			{"a SYN to UDP", protoUDP, protoTCP, tcpSYN, []string{"tcp over udp"}, true, 0, stateNew},
			{"an ACK to UDP", protoUDP, protoTCP, tcpACK, []string{"tcp over udp"}, true, 0, stateNew},
			{"no flags to UDP", protoUDP, protoTCP, 0, nil, false, stateInvalid | stateSrcNAT, stateInvalid},
			{"UDP to TCP", protoTCP, protoUDP, 0, []string{"udp over tcp"}, false, answered, stateNew},
			{"UDP to UDP", protoUDP, protoUDP, 0, nil, false, answered, answered},
			{"TCP to TCP", protoTCP, protoTCP, tcpSYN | tcpACK, nil, false, answered, answered},
		} {
			t.Run(of.name+", "+c.name, func(t *testing.T) {
				for _, faults := range []Faults{KnownFaults(), without(OtherProtocol)} {
					e, h := bare(t, faults)
					start := time.Unix(1000, 0)
					e.datapath.clock.now = func() time.Time { return start }
					send(t, e, h, segment(c.begins, of.client, of.server, 1000, 53, tcpSYN),
						ct(t, 1, true, nat(natAttrDst, of.backend, 5353)))
					o := sendFrom(t, e, h, 4, segment(c.comes, of.backend, of.client, 5353, 1000, c.flags), undo(t, 1),
						act(actionOutput, 3))
					if !faults[OtherProtocol] {
						if got := o.key.ct.state &^ stateTracked; o.err != nil || got != c.honest || len(foreign(e)) != 0 {
							t.Errorf("without the fault: %v, state %#x, %q", o.err, got, foreign(e))
						}
						continue
					}
					if got := foreign(e); !slices.Equal(got, c.found) || (o.err != nil) != c.lost || c.lost != (len(o.out) == 0) {
						t.Errorf("%q is recorded, %v, %d are sent", got, o.err, len(o.out))
					}
					if got := o.key.ct.state &^ stateTracked; !c.lost && got != c.state {
						t.Errorf("state %#x, want %#x", got, c.state)
					}
					conn := e.datapath.conntrack.connections.all()[0]
					if c.begins == protoTCP && c.comes == protoUDP &&
						(conn.peers[0].state != udpAnswered || conn.expiration.Sub(start) != otherBoth) {
						t.Errorf("the connection's state is %d, its end in %v", conn.peers[0].state, conn.expiration.Sub(start))
					}
				}
			})
		}
	}
}

// A message of ICMP that is neither an echo's nor of its like has its type and code where others have ports. One that
// has the ports of an answer is taken for one.
func TestTypesArePorts(t *testing.T) {
	for _, of := range sides {
		for name, c := range map[string]struct {
			kind, code uint8
			state      uint32
			found      []string
		}{
			"neither": {150, 200, stateEstablished | stateReply | stateSrcNAT, []string{" over tcp"}},
			"another": {150, 201, stateInvalid, nil},
		} {
			t.Run(of.name+", "+name, func(t *testing.T) {
				e, h := bare(t, KnownFaults())
				send(t, e, h, tcp(of.client, of.server, 200, 80, tcpSYN, 1, 0), ct(t, 1, true, nat(natAttrDst, of.backend, 150)))
				proto := uint8(protoICMP)
				if of.client.Is6() {
					proto = protoICMPv6
				}
				frame := ip(of.backend, of.client, proto, []byte{c.kind, c.code, 0, 0, 0, 0, 0, 0}, 2)
				got := sendFrom(t, e, h, 4, frame, undo(t, 1)).key.ct.state &^ stateTracked
				for i := range c.found {
					c.found[i] = protocolNames[proto] + c.found[i]
				}
				if got != c.state || !slices.Equal(foreign(e), c.found) {
					t.Errorf("state %#x, want %#x; %q is recorded", got, c.state, foreign(e))
				}
			})
		}
	}
}

// A port that a connection of UDP has is taken for TCP, and the other way round: for the client's translated port and,
// at another price, for the port of a Service's endpoint.
func TestTranslationsHaveNoProtocol(t *testing.T) {
	for _, of := range sides {
		for _, protocols := range [][2]uint8{{protoUDP, protoTCP}, {protoTCP, protoUDP}, {protoTCP, protoTCP}} {
			for name, kind := range map[string]uint16{"client": natAttrSrc, "endpoint": natAttrDst} {
				t.Run(of.name+", "+protocolNames[protocols[0]]+", "+protocolNames[protocols[1]]+", "+name, func(t *testing.T) {
					for _, faults := range []Faults{KnownFaults(), without(OtherProtocol)} {
						e, h := bare(t, faults)
						port := func(proto uint8, from, to netip.Addr) uint16 {
							want := uint16(5353)
							if kind == natAttrSrc {
								want = 0
							}
							o := send(t, e, h, segment(proto, from, to, 1000, 53, tcpSYN), ct(t, 1, true, nat(kind, of.backend, want)),
								act(actionOutput, 4))
							if o.err != nil || len(o.out["pod4"]) != 1 {
								t.Fatalf("%+v", o)
							}
							frame := o.out["pod4"][0]
							sound(t, frame)
							if of.client.Is6() {
								frame = frame[20:]
							}
							if kind == natAttrSrc {
								return order.Uint16(frame[34:])
							}
							return order.Uint16(frame[36:])
						}
						// another client of the gateway's address, or the same one at another Service
						other, service := of.client, of.server
						if kind == natAttrSrc {
							other = other.Next().Next()
						} else {
							service = service.Next()
						}
						had := port(protocols[0], of.client, of.server)
						got := port(protocols[1], other, service)
						free := !faults[OtherProtocol] && protocols[0] != protocols[1]
						if (got == had) != free {
							t.Errorf("with %v: port %d after port %d", faults[OtherProtocol], got, had)
						}
					}
				})
			}
		}
	}
}

// An error of ICMPv6 that is of no connection begins one, whose key is of the packet within it and whose memory is of
// ICMP. TCP of that key is written beyond it, in both directions. Without the fault the error is invalid.
func TestErrorBegins(t *testing.T) {
	for name, c := range map[string]struct {
		proto  uint8
		answer bool
		found  []string
		lost   bool
	}{
		"TCP":       {protoTCP, false, []string{"tcp over icmpv6"}, true},
		"an answer": {protoTCP, true, []string{"tcp over icmpv6"}, true},
		"UDP":       {protoUDP, false, []string{"udp over icmpv6"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			within := segment(c.proto, server6, client6, 80, 1000, tcpACK)
			for _, faults := range []Faults{KnownFaults(), without(ErrorBegins)} {
				e, h := bare(t, faults)
				began := send(t, e, h, icmpError(client6, server6, 1, within), ct(t, 1, true)).key.ct.state &^ stateTracked
				frame := segment(c.proto, client6, server6, 1000, 80, tcpACK)
				if c.answer {
					frame = within
				}
				o := send(t, e, h, frame, ct(t, 1, false), act(actionOutput, 4))
				want, found, lost := uint32(stateNew), c.found, c.lost
				if !faults[ErrorBegins] {
					want, found, lost = stateInvalid, nil, false
				}
				if began != want || !slices.Equal(foreign(e), found) || (o.err != nil) != lost || (len(o.out) == 0) != lost {
					t.Errorf("the error's state is %#x, %q is recorded, %v, %d are sent", began, foreign(e), o.err, len(o.out))
				}
			}
		})
	}
}

// The checksum of an ICMPv6 message that is translated is of as many bytes as its header says.
func TestICMPv6Length(t *testing.T) {
	gateway := netip.MustParseAddr("fd00:1::1")
	question, answer := icmp(client6, server6, 128, 7), icmp(server6, gateway, 129, 7)
	longer := func(frame []byte) []byte {
		frame = slices.Clone(frame)
		order.PutUint16(frame[18:], 0xffff)
		return frame
	}
	for name, c := range map[string]struct {
		question, answer []byte
		lost             bool // the last one
	}{
		"as long as they say": {question, answer, false}, "a question": {longer(question), nil, true},
		"an answer": {question, longer(answer), true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, faults := range []Faults{KnownFaults(), without(ICMPv6Length)} {
				e, h := bare(t, faults)
				o := send(t, e, h, c.question, ct(t, 1, true, nat(natAttrSrc, gateway, 0)), act(actionOutput, 4))
				if c.answer != nil {
					o = sendFrom(t, e, h, 4, c.answer, undo(t, 1), act(actionOutput, 3))
				}
				lost := c.lost && faults[ICMPv6Length]
				if (o.err != nil) != lost || (e.Executed()[overlong] == 1) != lost || (len(o.out) == 0) != lost {
					t.Errorf("%v, %v, %d are sent", o.err, e.Executed(), len(o.out))
				}
			}
		})
	}
}

// A message of ICMP without a whole header stops the machine: it is lost, and recorded. Without the fault it is
// invalid.
func TestICMPHeader(t *testing.T) {
	for name, whole := range map[string][]byte{"ICMP": icmp(client, server, 8, 7), "ICMPv6": icmp(client6, server6,
		128, 7)} {
		header := len(whole) - len("ping") - icmpHeader
		for _, length := range []int{0, 1, 4, icmpHeader - 1, icmpHeader} {
			t.Run(fmt.Sprint(name, " of ", length, " bytes"), func(t *testing.T) {
				for _, faults := range []Faults{KnownFaults(), without(ICMPHeader)} {
					e, h := bare(t, faults)
					o := send(t, e, h, whole[:header+length], ct(t, 1, true), act(actionOutput, 4))
					cut := length < icmpHeader
					stops := cut && faults[ICMPHeader]
					if (o.err != nil) != stops || (e.Executed()[headless] == 1) != stops || (len(o.out) == 0) != stops {
						t.Errorf("%v, %v, %d are sent", o.err, e.Executed(), len(o.out))
					}
					if !stops && (o.key.ct.state&stateInvalid != 0) != cut {
						t.Errorf("the state is %#x", o.key.ct.state)
					}
				}
			})
		}
	}
}

// A frame that is cut off anywhere is tracked, translated and sent, or lost: none ends the driver.
func TestFramesThatAreCutOff(t *testing.T) {
	for number, frame := range frames() {
		for length := range len(frame) + 1 {
			for _, faults := range []Faults{KnownFaults(), {}} {
				e, _ := bare(t, faults)
				p := &packet{data: slices.Clone(frame[:length]), source: e.datapath.vports.byNumber[1]}
				var k key
				if extract(e.datapath.faults, p, 1, tunnelKey{}, &k) != nil {
					continue
				}
				to := client
				if k.ether == etherIPv6 {
					to = client6
				}
				actions := []attribute{ct(t, 1, true, nat(natAttrSrc, to, 0)), undo(t, 2), act(actionOutput, 4)}
				_ = e.datapath.execute(p, 1, &k, actions) // what it says is for other tests
				if len(e.datapath.deferred.actions) > DeferredQueueSize {
					t.Errorf("frame %d of %d bytes: %d put off", number, length, len(e.datapath.deferred.actions))
				}
			}
		}
	}
}
