//go:build linux

package hyperv

import (
	"net/netip"
	"testing"
)

// undo is a lookup that translates as the connection is translated.
func undo(t *testing.T, zone uint16) attribute { return ct(t, zone, false, nat(0, netip.Addr{}, 0)) }

// A translated packet that is sent again, and committed again as OVN does: by the tuple of its zone it is of its
// connection. By its own addresses, after a lookup in another zone and over IPv6, it is of another one, whose port is
// taken.
func TestSentAgain(t *testing.T) {
	backend, backend6 := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("fd00::9")
	for _, c := range []struct {
		name   string
		frame  []byte
		to     netip.Addr
		lookup bool
		same   bool
	}{
		{"IPv4", tcp(client, server, 1000, 80, tcpSYN, 1, 0), backend, false, true},
		{"IPv4, looked up in another zone", tcp(client, server, 1000, 80, tcpSYN, 1, 0), backend, true, false},
		{"IPv6", tcp(client6, server6, 1000, 80, tcpSYN, 1, 0), backend6, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			commit := ct(t, 1, true, nat(natAttrDst, c.to, 8080))
			send(t, e, h, c.frame, undo(t, 1), commit)
			actions := []attribute{undo(t, 1)}
			if c.lookup {
				actions = append(actions, ct(t, 64009, false))
			}
			o := send(t, e, h, c.frame, append(actions, commit)...)
			if same := o.key.network.portDst == 8080; o.err != nil || same != c.same {
				t.Errorf("%v, goes to port %d", o.err, o.key.network.portDst)
			}
		})
	}
}

// A reply that is looked up twice in a zone is none the second time, unless it is looked up in another zone in between.
func TestReplyIsLookedUpTwice(t *testing.T) {
	backend := netip.MustParseAddr("10.0.0.9")
	answer := tcp(backend, client, 8080, 1000, tcpSYN|tcpACK, 1, 2)
	for name, c := range map[string]struct {
		faults Faults
		lookup bool
		reply  bool
	}{"fault": {KnownFaults(), false, false}, "fault, looked up in another zone": {KnownFaults(), true, true},
		"no fault": {without(StaleTuple), false, true}} {
		t.Run(name, func(t *testing.T) {
			e, h := bare(t, c.faults)
			send(t, e, h, tcp(client, server, 1000, 80, tcpSYN, 1, 0), ct(t, 1, true, nat(natAttrDst, backend, 8080)))
			actions := []attribute{undo(t, 1)}
			if c.lookup {
				actions = append(actions, ct(t, 64009, false))
			}
			o := sendFrom(t, e, h, 4, answer, append(actions, undo(t, 1))...)
			if reply := o.key.ct.state&stateReply != 0; o.err != nil || reply != c.reply {
				t.Errorf("%v, state %#x", o.err, o.key.ct.state)
			}
		})
	}
}
