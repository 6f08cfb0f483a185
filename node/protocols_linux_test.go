package node

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// No packet of TCP comes to a connection of another protocol, which the driver would take it for: it would write beyond
// that connection's memory. A client asks by UDP, or an error of ICMPv6 tells of a connection; then comes TCP with the
// same addresses and ports, whole and in fragments.
func TestTCPComesToNoOtherConnection(t *testing.T) {
	f := newFTPCluster(t, false)
	at := netip.AddrPortFrom
	long := strings.Repeat("x", 4000)
	for i, way := range []struct {
		from, to         string // namespaces
		source, client   netip.Addr
		server, answerer netip.AddrPort
	}{
		{f.client.sandbox, f.g.outside, f.client.address, gatewayHost, at(outsideHost, 80), at(outsideHost, 80)},
		{f.client.sandbox, f.g.outside, f.client.address6, gatewayHost6, at(outsideHost6, 80), at(outsideHost6, 80)},
		{f.client.sandbox, f.server.sandbox, f.client.address, f.client.address, at(f.server.address, 80),
			at(f.server.address, 80)},
		{f.client.sandbox, f.server.sandbox, f.client.address6, f.client.address6, at(f.server.address6, 80),
			at(f.server.address6, 80)},
		{f.client.sandbox, f.server.sandbox, f.client.address, f.client.address,
			netip.MustParseAddrPort(ftpService + ":6970"), at(f.server.address, 70)},
		{"", f.g.outside, gatewayHost6, gatewayHost6, at(outsideHost6, 80), at(outsideHost6, 80)},
	} {
		port := uint16(40000 + i) // the gateway leaves it as it is
		f.datagram(way.from, at(way.source, port), way.server, "x")
		for _, text := range []string{"hello", long} {
			f.segment(way.to, way.answerer, at(way.client, port), text)
			f.segment(way.from, at(way.source, port), way.server, text)
		}
	}
	for i, way := range []struct {
		ns       string
		from, to netip.AddrPort
	}{
		{f.client.sandbox, at(f.client.address6, 4444), at(f.server.address6, 80)},
		{f.client.sandbox, at(f.client.address6, 4445), at(outsideHost6, 80)},
		{f.g.outside, at(outsideHost6, 4446), at(gatewayHost6, 22)},
		{f.g.outside, at(outsideHost6, 4447), at(gatewayHost6, 30080)},
		{"", at(gatewayHost6, 4448), at(outsideHost6, 80)},
	} {
		for kind := range uint8(4) { // unreachable, too large, time exceeded, wrong
			from := at(way.from.Addr(), way.from.Port()+uint16(kind)*100+uint16(i))
			f.tellsOf(way.ns, kind+1, from, way.to)
			for _, text := range []string{"hello", long} {
				f.segment(way.ns, from, way.to, text)
			}
		}
	}
	f.othersPass()
	names := slices.Sorted(maps.Keys(f.extension.Executed()))
	for _, name := range names {
		if strings.HasPrefix(name, "other protocol tcp ") {
			t.Errorf("packets have come to %s", name)
		}
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "ct") }) {
		t.Errorf("nothing is shown: %v", names)
	}
	f.g.stop()
}

// tellsOf sends an error of ICMPv6 from one end of a connection of TCP to the other, about a segment of the latter.
func (f *ftpCluster) tellsOf(ns string, kind byte, from, to netip.AddrPort) {
	f.t.Helper()
	segment := binary.BigEndian.AppendUint16(nil, to.Port())
	segment = binary.BigEndian.AppendUint16(segment, from.Port())
	segment = append(segment, 0, 0, 0, 1, 0, 0, 0, 1, 5<<4, 0x10, 0xff, 0xff, 0, 0, 0, 0)
	packet := append([]byte{0x60, 0, 0, 0, 0, byte(len(segment)), unix.IPPROTO_TCP, 64}, to.Addr().AsSlice()...)
	packet = append(append(packet, from.Addr().AsSlice()...), segment...)
	f.raw(ns, unix.IPPROTO_ICMPV6, 2, from.Addr(), to.Addr(), append([]byte{kind, 0, 0, 0, 0, 0, 5, 0}, packet...))
}
