//go:build linux

package hyperv

import (
	"testing"

	"github.com/mdlayher/netlink"
)

// keyOf is the key of a frame that comes in by port 3.
func keyOf(t *testing.T, e *Extension, frame []byte) key {
	t.Helper()
	var k key
	if err := extract(e.datapath.faults, &packet{data: frame}, 3, tunnelKey{}, &k); err != nil {
		t.Fatal(err)
	}
	return k
}

// A flow is hit by packets of exactly its key, whichever mask it has.
func TestMasksAreNotLookedAt(t *testing.T) {
	e, h := bare(t, KnownFaults())
	frame := udp(client, server, 1, 53, "q")
	k := keyOf(t, e, frame)
	ask(t, e, familyFlow, cmdNew, func(a *netlink.AttributeEncoder) {
		a.Nested(flowAttrKey, k.encode)
		a.Nested(flowAttrMask, func(a *netlink.AttributeEncoder) error {
			a.Uint32(keyInPort, 0xffffffff) // all that comes by the port
			return nil
		})
		a.Nested(flowAttrActions, func(a *netlink.AttributeEncoder) error {
			a.Uint32(actionOutput, 4)
			return nil
		})
	})
	for name, c := range map[string]struct {
		frame []byte
		port  uint32
		out   int
	}{
		"the same": {frame, 3, 1}, "another payload": {udp(client, server, 1, 53, "other"), 3, 1},
		"another client's port": {udp(client, server, 2, 53, "q"), 3, 0}, "another port": {frame, 2, 0},
	} {
		e.datapath.ingress(e.datapath.vports.byNumber[c.port], c.frame)
		if got := len(h.sent["pod4"]); got != c.out {
			t.Errorf("%s: %d frames", name, got)
		}
		for len(h.sent["pod4"]) > 0 {
			<-h.sent["pod4"]
		}
	}
	if e.datapath.statistics.misses != 2 || e.datapath.statistics.hits != 2 {
		t.Errorf("%d hits, %d misses", e.datapath.statistics.hits, e.datapath.statistics.misses)
	}
}

// What a feature's probe has for a key decides, and its actions do not.
func TestProbeLooksAtTheKey(t *testing.T) {
	for name, c := range map[string]struct {
		kind   uint16
		data   []byte
		action uint16
		there  bool
	}{
		"a state, and an action that is none":    {keyCtState, []byte{1, 0, 0, 0}, 77, true},
		"no state":                               {keyCtState, []byte{0, 0, 0, 0}, actionOutput, false},
		"a recirculation":                        {keyRecircID, []byte{1, 0, 0, 0}, 20, true},
		"labels, of which there is none":         {keyCtLabels, make([]byte, 16), 77, true},
		"another key, and an action that is one": {keyInPort, []byte{1, 0, 0, 0}, actionOutput, false},
	} {
		e, _ := bare(t, KnownFaults())
		_, err := try(t, e, familyFlow, cmdNew, func(a *netlink.AttributeEncoder) {
			a.Nested(flowAttrKey, func(a *netlink.AttributeEncoder) error {
				a.Bytes(c.kind, c.data)
				return nil
			})
			a.Nested(flowAttrActions, func(a *netlink.AttributeEncoder) error {
				a.Uint32(c.action, 4)
				return nil
			})
			a.Flag(flowAttrProbe, true)
		})
		if there := err == nil; there != c.there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A request for a flow, and a dump, tell its key, its actions, what it has counted, and when it was used.
func TestFlowsAreTold(t *testing.T) {
	e, _ := bare(t, KnownFaults())
	frame := tcp(client, server, 1000, 80, tcpSYN, 1, 0)
	k := keyOf(t, e, frame)
	e.datapath.flows.add(&flow{key: k, raw: []byte{8, 0, actionOutput, 0, 4, 0, 0, 0},
		actions: []attribute{act(actionOutput, 4)}})
	e.datapath.ingress(e.datapath.vports.byNumber[3], frame)
	attrs := nested(t, 0, func(a *netlink.AttributeEncoder) { a.Nested(flowAttrKey, k.encode) }).data
	for name, m := range map[string]message{
		"asked for": {body: append([]byte{cmdGet, 1, 0, 0, 0, 0, 0, 0}, attrs...)},
		"dumped":    {flags: 0x300, body: []byte{cmdGet, 1, 0, 0, 0, 0, 0, 0}},
	} {
		m.kind = familyFlow
		bodies, err := e.device.dispatch(m)
		if err != nil || len(bodies) != 1 {
			t.Fatalf("%s: %v, %v", name, bodies, err)
		}
		told, err := attributesOf(bodies[0][8:])
		if err != nil {
			t.Fatal(err)
		}
		back, _, err := parseKey(told[flowAttrKey])
		if err != nil || back != k {
			t.Errorf("%s: its key is %+v, %v", name, back, err)
		}
		if native.Uint64(told[flowAttrStats]) != 1 || native.Uint64(told[flowAttrStats][8:]) != uint64(len(frame)) ||
			told[flowAttrTCPFlags][0] != tcpSYN || len(told[flowAttrUsed]) != 8 || len(told[flowAttrActions]) != 8 {
			t.Errorf("%s: %v", name, told)
		}
	}
}
