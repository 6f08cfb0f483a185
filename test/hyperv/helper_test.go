//go:build linux

package hyperv

import (
	"net/netip"
	"strings"
	"testing"
)

// The driver's helpers read packets of connections alone, whatever their direction and zone, by the ports that they
// have once they are translated.
func TestFTPHelper(t *testing.T) {
	backend, backend6 := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("fd00::9")
	question, answer := tcp(client, server, 1000, 80, tcpSYN, 1, 0), tcp(server, client, 80, 1000, tcpSYN|tcpACK, 1, 2)
	commit, look := ct(t, 1, true), ct(t, 1, false)
	type step struct {
		frame   []byte
		actions []attribute
	}
	one := func(frame []byte, actions ...attribute) step { return step{frame, actions} }
	var fragments []step
	for _, part := range fragment(&packet{data: udp(client, server, 1000, 69, strings.Repeat("x", 1500)), mru: 1014,
		layers: layers{l3: 14, l4: 34, ipv4: true}}) {
		fragments = append(fragments, one(part, commit))
	}
	for _, c := range []struct {
		name  string
		steps []step // the last one reaches it, if any does
		want  string
	}{
		{"a connection to FTP", []step{one(tcp(client, server, 1000, 21, tcpSYN, 1, 0), commit)}, helperFTP},
		{"from its port", []step{one(tcp(client, server, 21, 80, tcpSYN, 1, 0), commit)}, helperFTP},
		{"of IPv6", []step{one(tcp(client6, server6, 1000, 21, tcpSYN, 1, 0), commit)}, helperFTP},
		{"to TFTP", []step{one(udp(client, server, 1000, 69, "x"), commit)}, helperTFTP},
		{"to TFTP of IPv6", []step{one(udp(client6, server6, 1000, 69, "x"), commit)}, helperTFTP},
		{"from TFTP's port, and back", []step{one(udp(client, server, 69, 80, "x"), commit),
			one(udp(server, client, 80, 69, "x"), look)}, helperTFTP},
		{"in the second zone", []step{one(tcp(client, server, 1000, 21, tcpSYN, 1, 0), ct(t, 1, false), ct(t, 2, true))},
			helperFTP},
		{"to a Service whose endpoint has the port", []step{one(question, ct(t, 1, true, nat(natAttrDst, backend, 21)))},
			helperFTP},
		{"the same of IPv6", []step{one(tcp(client6, server6, 1000, 80, tcpSYN, 1, 0),
			ct(t, 1, true, nat(natAttrDst, backend6, 21)))}, helperFTP},
		{"a client's port that is hidden, and back", []step{
			one(tcp(client, server, 21, 80, tcpSYN, 1, 0), ct(t, 1, true, nat(natAttrSrc, backend, 5000))),
			one(tcp(server, backend, 80, 5000, tcpSYN|tcpACK, 1, 2), undo(t, 1))}, helperFTP},
		{"fragments", fragments, helperTFTP},
		{"a lookup that finds nothing", []step{one(tcp(client, server, 1000, 21, tcpSYN, 1, 0), look)}, ""},
		{"to a Service with the port", []step{one(tcp(client, server, 1000, 21, tcpSYN, 1, 0),
			ct(t, 1, true, nat(natAttrDst, backend, 8021)))}, ""},
		{"other ports", []step{one(question, commit), one(answer, look), one(udp(client, server, 1000, 21, "x"), commit),
			one(tcp(client, server, 1000, 69, tcpSYN, 1, 0), commit), one(udp(client, server, 69, 53, "x"), commit)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, faults := range map[string]Faults{"fault": KnownFaults(), "no fault": without(FTPHelper)} {
				e, h := bare(t, faults)
				for i, s := range c.steps {
					reached := c.want != "" && faults[FTPHelper] && i == len(c.steps)-1
					o := send(t, e, h, s.frame, s.actions...)
					helped := e.Executed()[helperFTP] + e.Executed()[helperTFTP]
					if (helped > 0) != reached || reached && (helped != e.Executed()[c.want] || o.err == nil) || !reached &&
						o.err != nil {
						t.Errorf("%s: packet %d: %v, %v", name, i, o.err, e.Executed())
					}
				}
			}
		})
	}
}
