//go:build linux

package hyperv

import (
	"maps"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
)

// mended finds the faults with which the Makefile runs Kubernetes' own tests as on a driver that was changed.
var mended = regexp.MustCompile(`(?m)^e2e-mended-driver: export WINDOWS_FAULTS := (\S+)$`)

// The driver with the two changes that docs/conformance.md names is the one of `make e2e-mended-driver`. It tracks
// SCTP, and the flush of one connection leaves the translations of others. It has all other faults.
func TestTheTwoChangesTogether(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := mended.FindSubmatch(makefile)
	if m == nil {
		t.Fatal("the Makefile has no such target")
	}
	list := string(m[1])
	faults, err := ParseFaults(list)
	if want := without(FlushNAT, Protocols); err != nil || !maps.Equal(faults, want) {
		t.Fatalf("%s: %v, %v; want %v", list, faults, err, want)
	}
	document, err := os.ReadFile("../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(document)), " ")
	if !strings.Contains(text, "`make e2e-mended-driver`") || !strings.Contains(text, "`WINDOWS_FAULTS="+list+"`") {
		t.Errorf("docs/conformance.md has another list than %s", list)
	}

	e, h := bare(t, faults)
	backend := netip.MustParseAddr("10.0.0.9")
	send(t, e, h, tcp(client, server, 1000, 80, tcpSYN, 1, 0), ct(t, 1, true, nat(natAttrDst, backend, 8080)))
	sctp := ip(client, server, protoSCTP, make([]byte, 24), -1)
	if o := send(t, e, h, sctp, ct(t, 1, true), act(actionOutput, 4)); o.err != nil || len(o.out["pod4"]) != 1 {
		t.Errorf("SCTP: %+v", o)
	}
	gone := connKey{ether: etherIPv4, proto: protoSCTP, zone: 1}
	copy(gone.src.addr[:], client.AsSlice())
	copy(gone.dst.addr[:], server.AsSlice())
	attrs := nested(t, 0, func(a *netlink.AttributeEncoder) {
		a.Nested(ctaTupleOrig, gone.encode)
		a.Bytes(ctaZone, []byte{0, 1})
	}).data
	if _, err := e.device.dispatch(message{kind: ctDelete, body: append([]byte{2, 0, 0, 0}, attrs...)}); err != nil {
		t.Fatal(err)
	}
	if e.datapath.conntrack.connections.count != 1 {
		t.Errorf("%d connections are left", e.datapath.conntrack.connections.count)
	}
	answer := tcp(backend, client, 8080, 1000, tcpSYN|tcpACK, 1, 2)
	got := sendFrom(t, e, h, 4, answer, ct(t, 1, false, nat(0, backend, 0))).key.ct.state &^ stateTracked
	if want := uint32(stateEstablished | stateReply | stateSrcNAT); got != want {
		t.Errorf("the answer's state is %#x, want %#x", got, want)
	}
}
