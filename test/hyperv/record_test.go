//go:build linux

package hyperv

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"

	"github.com/weftnet/weft/ovn/capability"
)

// What the table of capabilities forbids has the names that the record has.
func TestForbiddenNames(t *testing.T) {
	names := slices.AppendSeq(slices.Collect(maps.Values(actionNames)), maps.Values(ctNames))
	for _, field := range keyNames {
		names = append(names, "set "+field)
	}
	names = append(names, "action ", "ct part ", "set field ", "key ") // and a number
	for _, limit := range capability.Limits {
		for _, name := range limit.Forbids {
			if !slices.Contains(names, name) {
				t.Errorf("%s forbids %q, which the record never has", limit.Feature, name)
			}
		}
	}
}

// What a packet meets is written down once, with the parts of ct and with keys that the driver passes over.
func TestRecord(t *testing.T) {
	e, h := bare(t, KnownFaults())
	var record bytes.Buffer
	e.config.Record = &record
	for range 2 {
		send(t, e, h, udp(client, server, 1, 2, "x"), act(77, 0), act(actionOutput, 4))
	}
	e.recordKeys(attributes{keyIPv4: nil, keyTunnel: nil, 32: nil})
	timeout := func(a *netlink.AttributeEncoder) {
		a.String(ctAttrTimeout, "short")
		a.Uint32(77, 0)
	}
	send(t, e, h, udp(client, server, 1, 2, "x"), ct(t, 1, true, timeout, nat(0, client, 0)))
	want := []string{"action 77", "output", "key 32", "ct", "ct zone", "ct commit", "ct timeout", "ct part 77", "ct nat"}
	if got := strings.Split(strings.TrimSpace(record.String()), "\n"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if e.Executed()["output"] != 2 {
		t.Error(e.Executed())
	}
}
