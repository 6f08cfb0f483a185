//go:build linux

package hyperv

import (
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
)

// limits are an attribute with zones and their limits.
func limits(of ...[2]int32) func(*netlink.AttributeEncoder) {
	var data []byte
	for _, l := range of {
		data = native.AppendUint32(native.AppendUint32(data, uint32(l[0])), uint32(l[1]))
		data = native.AppendUint32(data, 0)
	}
	return func(a *netlink.AttributeEncoder) { a.Bytes(ctLimitAttrZones, data) }
}

// A zone at its limit takes no new connection. Those that it has go on, lookups go on, and so do other zones. A
// connection that has expired counts until the driver's next look at all of them.
func TestZoneLimit(t *testing.T) {
	e, h, at := clocked(t)
	ask(t, e, familyCtLimit, ctLimitSet, limits([2]int32{1, 2}))
	from := func(port uint16, zone uint16, commit bool) error {
		return send(t, e, h, udp(client, server, port, 53, "q"), ct(t, zone, commit)).err
	}
	for port, refused := range map[uint16]bool{1: false, 2: false} {
		if err := from(port, 1, true); (err != nil) != refused {
			t.Fatalf("port %d: %v", port, err)
		}
	}
	if err := from(3, 1, true); err != dropped("too many connections") {
		t.Errorf("one more: %v", err)
	}
	if err := from(2, 1, true); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if err := from(3, 1, false); err != nil {
		t.Errorf("a lookup: %v", err)
	}
	if err := from(3, 2, true); err != nil {
		t.Errorf("another zone: %v", err)
	}
	at(119 * time.Second) // UDP has expired after 60 s
	if err := from(4, 1, true); err == nil {
		t.Error("what has expired does not count")
	}
	at(121 * time.Second)
	if err := from(4, 1, true); err != nil {
		t.Errorf("after a look at all of them: %v", err)
	}
	answer := ask(t, e, familyCtLimit, ctLimitGet, limits([2]int32{1, 0}))
	if got := answer[ctLimitAttrZones]; native.Uint32(got[4:]) != 2 || native.Uint32(got[8:]) != 1 {
		t.Errorf("limit and count are %v", got)
	}
}

// What a translation has no port for is no connection, and does not count.
func TestZoneCountsNoFailures(t *testing.T) {
	e, h := bare(t, KnownFaults())
	lost := icmp(client, server, 0, 7) // an answer begins nothing
	for range 3 {
		send(t, e, h, lost, ct(t, 1, true, nat(natAttrSrc, netip.MustParseAddr("192.168.0.1"), 0)))
	}
	if c := e.datapath.conntrack; c.zones.counts[1] != 0 || c.connections.count != 0 {
		t.Errorf("%d connections, %d in the zone", c.connections.count, c.zones.counts[1])
	}
}

// A limit of 0 is none at all. That of all zones takes the place of each one's own, and a limit that is deleted is the
// whole table, not that of all zones.
func TestZoneLimitsSemantics(t *testing.T) {
	for name, c := range map[string]struct {
		requests []func(t *testing.T, e *Extension)
		want     uint32
	}{
		"as it comes": {nil, maxConnections},
		"0":           {[]func(*testing.T, *Extension){setLimit(1, 0)}, 0},
		"all zones after one": {
			[]func(*testing.T, *Extension){setLimit(1, 5), setLimit(allZones, 7)}, 7},
		"one after all zones": {
			[]func(*testing.T, *Extension){setLimit(allZones, 7), setLimit(1, 5)}, 5},
		"deleted": {
			[]func(*testing.T, *Extension){setLimit(allZones, 7), setLimit(1, 5), deleteLimit(1)}, maxConnections},
		"of all zones deleted": {
			[]func(*testing.T, *Extension){setLimit(1, 5), deleteLimit(allZones)}, maxConnections},
	} {
		t.Run(name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			for _, request := range c.requests {
				request(t, e)
			}
			if got := e.datapath.conntrack.zones.limitOf(1); got != c.want {
				t.Errorf("the limit is %d, not %d", got, c.want)
			}
			if err := send(t, e, h, udp(client, server, 1, 53, "q"), ct(t, 1, true)).err; (err == nil) != (c.want > 0) {
				t.Errorf("limit %d: %v", c.want, err)
			}
		})
	}
}

func setLimit(zone, limit int32) func(*testing.T, *Extension) {
	return func(t *testing.T, e *Extension) {
		ask(t, e, familyCtLimit, ctLimitSet, limits([2]int32{zone, limit}))
	}
}

func deleteLimit(zone int32) func(*testing.T, *Extension) {
	return func(t *testing.T, e *Extension) {
		ask(t, e, familyCtLimit, ctLimitDelete, limits([2]int32{zone, 0}))
	}
}
