//go:build linux

package hyperv

import (
	"maps"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// addPort asks for a port, of that number if it is not 0, and gives the number that the port has.
func addPort(t *testing.T, e *Extension, name string, number uint32) (uint32, error) {
	t.Helper()
	answer, err := try(t, e, familyVport, cmdNew, func(a *netlink.AttributeEncoder) {
		a.Uint32(vportAttrType, vportInternal)
		a.String(vportAttrName, name)
		a.Uint32(vportAttrUpcallPID, 0)
		if number != 0 {
			a.Uint32(vportAttrNumber, number)
		}
	})
	return answer.u32(vportAttrNumber), err
}

func removePort(t *testing.T, e *Extension, name string) {
	t.Helper()
	ask(t, e, familyVport, cmdDelete, func(a *netlink.AttributeEncoder) { a.String(vportAttrName, name) })
}

// Ports are numbered from 1, and a new one has the lowest number that is free, unless it asks for another.
func TestPortNumbers(t *testing.T) {
	e, _ := bare(t, KnownFaults())
	if got := slices.Sorted(maps.Keys(e.datapath.vports.byNumber)); !slices.Equal(got, []uint32{1, 2, 3, 4, 5}) {
		t.Errorf("five ports have the numbers %v", got)
	}
	removePort(t, e, "pod3")
	for _, c := range []struct {
		name         string
		number, want uint32
		err          unix.Errno
	}{
		{"the free one", 0, 3, 0}, {"the next one", 0, 6, 0}, {"its own", 9, 9, 0}, {"a taken one", 9, 0, unix.EBUSY},
		{"its own", 0, 0, unix.EEXIST},
	} {
		if got, err := addPort(t, e, c.name, c.number); got != c.want || errnoOf(err) != c.err {
			t.Errorf("%s: number %d, %v; want %d, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// With the extension all that it has been told is gone.
func TestSwitchedOffForgetsAll(t *testing.T) {
	e, h, into := tunnelled(t, KnownFaults())
	send(t, e, h, udp(client, server, 1, 53, "q"), ct(t, 1, true, nat(natAttrSrc, server, 0)))
	parts := fragment(&packet{data: udp(client, server, 1, 53, string(make([]byte, 2000))), mru: 1014,
		layers: layers{l3: 14, l4: 34, ipv4: true}})
	send(t, e, h, parts[0], ct(t, 1, true))
	send(t, e, h, udp(client, server, 2, 53, "q"), into...)
	ask(t, e, familyMeter, meterSet, func(a *netlink.AttributeEncoder) { a.Uint32(meterAttrID, 1) })
	resolved(t, e)
	counts := func() map[string]int {
		d := e.datapath
		d.mu.Lock()
		defer d.mu.Unlock()
		return map[string]int{"ports": len(d.vports.byNumber), "flows": d.flows.table.count,
			"connections": d.conntrack.connections.count, "translations": d.conntrack.nat.byKey.count,
			"meters": len(d.meters.byID), "peers": len(d.peers.byEnds), "fragments": len(d.fragments.byKey)}
	}
	for what, n := range counts() {
		if n == 0 {
			t.Errorf("there are no %s before", what)
		}
	}
	e.SetEnabled(false)
	for what, n := range counts() {
		if n != 0 {
			t.Errorf("%d %s are left", n, what)
		}
	}
}

// A command that is none, and one for another datapath, are refused.
func TestCommands(t *testing.T) {
	e, _ := bare(t, KnownFaults())
	for name, c := range map[string]struct {
		kind uint16
		body []byte
	}{
		"no command":         {familyFlow, []byte{77, 1, 0, 0, 0, 0, 0, 0}},
		"no family":          {0x7f, []byte{cmdGet, 1, 0, 0, 0, 0, 0, 0}},
		"another datapath":   {familyVport, []byte{cmdGet, 1, 0, 0, 7, 0, 0, 0}},
		"a header cut off":   {familyVport, []byte{cmdGet, 1}},
		"attributes cut off": {familyVport, []byte{cmdGet, 1, 0, 0, 0, 0, 0, 0, 9}},
	} {
		if bodies, err := e.device.dispatch(message{kind: c.kind, body: c.body}); err == nil || errnoOf(err) == 0 {
			t.Errorf("%s: %v, %v", name, bodies, err)
		}
	}
}
