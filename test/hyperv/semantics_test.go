//go:build linux

package hyperv

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/nodetest"
)

// act codes an action with 4 bytes.
func act(kind uint16, value uint32) attribute {
	return attribute{kind, native.AppendUint32(nil, value)}
}

func nested(t *testing.T, kind uint16, add func(*netlink.AttributeEncoder)) attribute {
	t.Helper()
	data, err := encode(func(a *netlink.AttributeEncoder) error {
		add(a)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return attribute{kind, data}
}

// ct is a ct action of a zone.
func ct(t *testing.T, zone uint16, commit bool, more ...func(*netlink.AttributeEncoder)) attribute {
	return nested(t, actionCT, func(a *netlink.AttributeEncoder) {
		a.Uint16(ctAttrZone, zone)
		if commit {
			a.Flag(ctAttrCommit, true)
		}
		for _, add := range more {
			add(a)
		}
	})
}

func nat(kind uint16, address netip.Addr, port uint16) func(*netlink.AttributeEncoder) {
	return func(a *netlink.AttributeEncoder) {
		a.Nested(ctAttrNAT, func(a *netlink.AttributeEncoder) error {
			if kind == 0 {
				return nil
			}
			a.Flag(kind, true)
			a.Bytes(natAttrIPMin, address.AsSlice())
			if port != 0 {
				a.Uint16(natAttrProtoMin, port)
			}
			return nil
		})
	}
}

// outcome is what came of a packet's actions.
type outcome struct {
	key key
	err error
	out map[string][][]byte // frames by port
}

// send runs actions on a frame that comes in by port 3.
func send(t *testing.T, e *Extension, h noHost, frame []byte, actions ...attribute) outcome {
	t.Helper()
	return sendFrom(t, e, h, 3, frame, actions...)
}

func sendFrom(t *testing.T, e *Extension, h noHost, port uint32, frame []byte, actions ...attribute) outcome {
	t.Helper()
	p := &packet{data: slices.Clone(frame), source: e.datapath.vports.byNumber[port]}
	o := outcome{out: map[string][][]byte{}}
	if err := extract(e.datapath.faults, p, port, tunnelKey{}, &o.key); err != nil {
		t.Fatal(err)
	}
	e.datapath.mu.Lock()
	o.err = e.datapath.execute(p, port, &o.key, actions)
	e.datapath.mu.Unlock()
	for name, sent := range h.sent {
		for len(sent) > 0 {
			o.out[name] = append(o.out[name], <-sent)
		}
	}
	return o
}

// sound says whether a frame's checksums are right.
func sound(t *testing.T, frame []byte) {
	t.Helper()
	var k key
	p := &packet{data: frame}
	if err := extract(Faults{}, p, 0, tunnelKey{}, &k); err != nil {
		t.Fatal(err)
	}
	l := p.layers
	addresses, segment := k.network.src[:16], frame[l.l4:]
	sum := pseudo(addresses, k.network.dst[:], k.network.proto, len(segment))
	if l.ipv4 {
		if fold(checksum(0, frame[l.l3:l.l4])) != 0 {
			t.Errorf("the header's checksum of % x is wrong", frame)
		}
		if k.network.proto == protoICMP {
			sum = 0
		}
	}
	if fold(checksum(sum, segment)) != 0 {
		t.Errorf("the segment's checksum of % x is wrong", frame)
	}
}

func TestUnknownActions(t *testing.T) {
	e, h := bare(t, KnownFaults())
	frame := udp(client, server, 1, 2, "x")
	clone, trunc, out := attribute{kind: 20}, act(13, 20), act(actionOutput, 4)
	if o := send(t, e, h, frame, clone, trunc, out); o.err != nil || len(o.out["pod4"]) != 1 ||
		len(o.out["pod4"][0]) != len(frame) {
		t.Errorf("before an output: %+v", o)
	}
	if o := send(t, e, h, frame, clone); o.err != errNotSupported {
		t.Errorf("as the last: %v", o.err)
	}
	if o := send(t, e, h, frame, out, clone); o.err != nil || len(o.out["pod4"]) != 1 {
		t.Errorf("after an output: %+v", o)
	}
}

// The key has the flow label of IPv6 in the order of the host.
func TestFlowLabel(t *testing.T) {
	frame := udp(client6, server6, 1000, 53, "q")
	order.PutUint32(frame[14:], 0x60012345)
	var k key
	if err := extract(KnownFaults(), &packet{data: frame}, 3, tunnelKey{}, &k); err != nil {
		t.Fatal(err)
	}
	attrs, err := attributesOf(nested(t, 0, func(a *netlink.AttributeEncoder) { k.encodeNetwork(a) }).data)
	if err != nil || native.Uint32(attrs[keyIPv6][32:]) != 0x12345 {
		t.Errorf("% x, %v", attrs[keyIPv6], err)
	}
}

// What is put out before a change is what the packet was then.
func TestOutputBeforeSet(t *testing.T) {
	e, h := bare(t, KnownFaults())
	frame := udp(client, server, 1, 2, "x")
	o := send(t, e, h, frame, act(actionOutput, 4), setting(t, keyEthernet, make([]byte, 12)), act(actionOutput, 2))
	if len(o.out["pod4"]) != 1 || !slices.Equal(o.out["pod4"][0], frame) || len(o.out["vEth-Ethernet"]) != 1 ||
		o.out["vEth-Ethernet"][0][0] != 0 {
		t.Errorf("%+v", o.out)
	}
}

func TestVLAN(t *testing.T) {
	e, h := bare(t, KnownFaults())
	frame := udp(client, server, 1, 2, "x")
	push := attribute{actionPushVLAN, []byte{0x81, 0, 0x10, 5}}
	tagged := send(t, e, h, frame, push, push, act(actionOutput, 4)).out["pod4"][0]
	if len(tagged) != len(frame)+4 || order.Uint16(tagged[12:]) != etherVLAN || order.Uint16(tagged[14:]) != 5 {
		t.Fatalf("% x", tagged)
	}
	o := send(t, e, h, tagged, attribute{kind: actionPopVLAN}, act(actionOutput, 4))
	if o.err != nil || !slices.Equal(o.out["pod4"][0], frame) {
		t.Errorf("%+v", o)
	}
}

// There is any number of meters, of one band each. One that is not there lets all pass.
func TestMeter(t *testing.T) {
	e, h := bare(t, KnownFaults())
	now := time.Unix(1000, 0)
	e.datapath.clock.now = func() time.Time { return now }
	dropping := func(id uint32, bands int) func(*netlink.AttributeEncoder) {
		return func(a *netlink.AttributeEncoder) {
			a.Uint32(meterAttrID, id)
			a.Nested(meterAttrBands, func(a *netlink.AttributeEncoder) error {
				for range bands {
					a.Nested(0, func(a *netlink.AttributeEncoder) error {
						a.Uint32(bandAttrType, bandDrop)
						a.Uint32(bandAttrRate, 2)
						return nil
					})
				}
				return nil
			})
		}
	}
	for id := range uint32(40) { // more than the driver's own number
		ask(t, e, familyMeter, meterSet, dropping(id, 1))
	}
	if _, err := try(t, e, familyMeter, meterSet, dropping(40, 2)); errnoOf(err) != unix.ENOMSG {
		t.Errorf("two bands: %v", err)
	}
	for id, want := range map[uint32]int{39: 2, 40: 10} {
		passed := 0
		for range 10 {
			o := send(t, e, h, udp(client, server, 1, 2, "x"), act(actionMeter, id), act(actionOutput, 4))
			passed += len(o.out["pod4"])
		}
		if passed != want {
			t.Errorf("meter %d: %d of 10 packets passed", id, passed)
		}
	}
	told := ask(t, e, familyMeter, meterGet, func(a *netlink.AttributeEncoder) { a.Uint32(meterAttrID, 39) })
	if packets := native.Uint64(told[meterAttrStats]); packets != 10 || told.u32(meterAttrID) != 39 {
		t.Errorf("meter 39 has counted %d packets", packets)
	}
	features := ask(t, e, familyMeter, meterFeatures, func(*netlink.AttributeEncoder) {})
	if features.u32(meterAttrMaxMeters) != ^uint32(0) || features.u32(meterAttrMaxBands) != 1 {
		t.Errorf("features: %v", features)
	}
}

// Fragments are tracked as the packet that they are of, and go out in their sizes again.
func TestFragments(t *testing.T) {
	e, h := bare(t, KnownFaults())
	whole := udp(client, server, 1000, 53, string(make([]byte, 2000)))
	parts := fragment(&packet{data: whole, mru: 1014, layers: layers{l3: 14, l4: 34, ipv4: true}})
	if len(parts) != 3 {
		t.Fatalf("%d fragments", len(parts))
	}
	for i, part := range []int{1, 0, 2} { // not in their order
		o := send(t, e, h, parts[part], ct(t, 1, true), act(actionOutput, 4))
		if o.err != nil || i < 2 && len(o.out) != 0 {
			t.Fatalf("fragment %d: %+v", part, o)
		}
		if i == 2 && (!slices.EqualFunc(o.out["pod4"], parts, slices.Equal) || o.key.network.portDst != 53) {
			t.Errorf("%d fragments go out", len(o.out["pod4"]))
		}
	}
}

// A packet that was put together has the key of no tunnel, although its fragments came by one.
func TestFragmentsLoseTheirTunnel(t *testing.T) {
	e, h := bare(t, KnownFaults())
	whole := udp(client, server, 1000, 53, string(make([]byte, 2000)))
	tunnel := tunnelKey{src: tunnelPeer, dst: tunnelPeer, id: 7}
	for _, part := range fragment(&packet{data: whole, mru: 1014, layers: layers{l3: 14, l4: 34, ipv4: true}}) {
		var k key
		p := &packet{data: part}
		err := extract(e.datapath.faults, p, 5, tunnel, &k)
		if err != nil || k.tunnel != tunnel {
			t.Fatalf("%+v, %v", k, err)
		}
		if err := e.datapath.execute(p, 5, &k, []attribute{ct(t, 1, false), act(actionOutput, 4)}); err != nil {
			t.Fatal(err)
		}
		if whole := k.network.fragment == fragmentNone; whole != (k.tunnel == tunnelKey{}) {
			t.Errorf("put together: %t; %+v", whole, k)
		}
	}
	if len(h.sent["pod4"]) != 3 {
		t.Errorf("%d fragments go out", len(h.sent["pod4"]))
	}
}

// A packet goes into the tunnel with OVN's option and out of it again. The first one is lost.
func TestTunnel(t *testing.T) {
	option := []byte{0x01, 0x02, 0x80, 1, 0, 3, 0, 4}
	into := nested(t, actionSet, func(a *netlink.AttributeEncoder) {
		a.Nested(keyTunnel, func(a *netlink.AttributeEncoder) error {
			a.Bytes(tunnelID, order.AppendUint64(nil, 7))
			a.Bytes(tunnelIPv4Dst, []byte{192, 168, 0, 2})
			a.Flag(tunnelChecksum, true)
			a.Bytes(tunnelGeneveOpts, option)
			return nil
		})
	})
	e, h := bare(t, KnownFaults())
	inner := udp(client, server, 1000, 53, "question")
	first := send(t, e, h, inner, into, act(actionOutput, 5))
	if first.err != nil || len(first.out) != 0 {
		t.Fatalf("the first: %+v", first)
	}
	way := peerKey{dst: netip.MustParseAddr("192.168.0.2")}
	nodetest.Eventually(t, 5*time.Second, func() error {
		e.datapath.mu.Lock()
		defer e.datapath.mu.Unlock()
		if len(e.datapath.peers.byEnds[way].route.dstMAC) == 0 {
			return errPending
		}
		return nil
	})
	outer := geneveFrame(inner, genevePort, tunnelKey{dst: way.dst, id: 7, flags: flagChecksum | flagCritical,
		options: string(option)}, &e.datapath.peers.byEnds[way].route)
	var k key
	if err := extract(e.datapath.faults, &packet{data: outer}, 2, tunnelKey{}, &k); err != nil {
		t.Fatal(err)
	}
	e.datapath.flows.add(&flow{key: k, actions: []attribute{act(actionOutput, 1)}})
	o := send(t, e, h, inner, into, act(actionOutput, 5))
	if o.err != nil || len(o.out["Ethernet"]) != 1 {
		t.Fatalf("the second: %+v", o)
	}
	sound(t, o.out["Ethernet"][0])

	var back key
	tunnel := tunnelKey{src: netip.MustParseAddr("192.168.0.1"), dst: way.dst, id: 7, ttl: 64,
		flags: flagKey | flagCritical | flagGeneveOptions, options: string(option)}
	if err := extract(e.datapath.faults, &packet{data: inner}, 5, tunnel, &back); err != nil {
		t.Fatal(err)
	}
	e.datapath.flows.add(&flow{key: back, actions: []attribute{act(actionOutput, 4)}})
	arrived := sendFrom(t, e, h, 1, o.out["Ethernet"][0], act(actionOutput, 2))
	if arrived.err != nil || len(arrived.out["pod4"]) != 1 || !slices.Equal(arrived.out["pod4"][0], inner) ||
		len(arrived.out["vEth-Ethernet"]) != 0 {
		t.Errorf("%+v", arrived)
	}
}
