//go:build linux

package hyperv

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/netlink"

	"github.com/weftnet/weft/node/nodetest"
)

// tunnelPeer is the tunnel's other end.
var tunnelPeer = netip.MustParseAddr("192.168.0.2")

// tunnelled is an extension that has a flow for what it puts into a tunnel, and the action that
// does so.
func tunnelled(t *testing.T, faults Faults) (*Extension, noHost, []attribute) {
	t.Helper()
	e, h := bare(t, faults)
	way, err := h.route(tunnelPeer)
	if err != nil {
		t.Fatal(err)
	}
	outer := geneveFrame(nil, genevePort, tunnelKey{dst: tunnelPeer, id: 7}, &way)
	var k key
	if err := extract(e.datapath.faults, &packet{data: outer}, 2, tunnelKey{}, &k); err != nil {
		t.Fatal(err)
	}
	e.datapath.flows.add(&flow{key: k, actions: []attribute{act(actionOutput, 1)}})
	into := nested(t, actionSet, func(a *netlink.AttributeEncoder) {
		a.Nested(keyTunnel, func(a *netlink.AttributeEncoder) error {
			a.Bytes(tunnelID, order.AppendUint64(nil, 7))
			a.Bytes(tunnelIPv4Dst, tunnelPeer.AsSlice())
			return nil
		})
	})
	return e, h, []attribute{into, act(actionOutput, 5)}
}

// resolved waits until the way to the tunnel's peer is known.
func resolved(t *testing.T, e *Extension) {
	t.Helper()
	nodetest.Eventually(t, 5*time.Second, func() error {
		e.datapath.mu.Lock()
		defer e.datapath.mu.Unlock()
		if p := e.datapath.peers.byEnds[peerKey{dst: tunnelPeer}]; p == nil || len(p.route.dstMAC) == 0 {
			return errPending
		}
		return nil
	})
}

// The first packet to a tunnel's peer is lost; without the fault it goes as soon as the peer is
// known.
func TestFirstPacket(t *testing.T) {
	first, second := udp(client, server, 1000, 53, "first"), udp(client, server, 1000, 53, "second")
	for name, c := range map[string]struct {
		faults Faults
		late   int // frames that go once the peer is known
	}{"fault": {KnownFaults(), 0}, "no fault": {without(FirstPacket), 1}} {
		t.Run(name, func(t *testing.T) {
			e, h, into := tunnelled(t, c.faults)
			o := send(t, e, h, first, into...)
			if o.err != nil {
				t.Fatal(o.err)
			}
			resolved(t, e)
			// send itself has seen the frame when the peer was known at once.
			if got := len(o.out["Ethernet"]) + len(h.sent["Ethernet"]); got != c.late {
				t.Errorf("%d frames go when the peer is known", got)
			}
			sent := append(o.out["Ethernet"], send(t, e, h, second, into...).out["Ethernet"]...)
			if len(sent) != c.late+1 || !bytes.HasSuffix(sent[len(sent)-1], second) {
				t.Errorf("with the second: %q", sent)
			}
		})
	}
}

// Whatever is in it, a tunnel's packet comes from one port.
func TestOuterSourcePort(t *testing.T) {
	e, h, into := tunnelled(t, without(FirstPacket))
	for i, inner := range [][]byte{
		udp(client, server, 1000, 53, "q"), udp(server, client, 53, 1000, "a"), tcp(client6, server6, 4711, 80, tcpSYN, 1, 0),
	} {
		o := send(t, e, h, inner, into...)
		if i == 0 {
			resolved(t, e)
			o = send(t, e, h, inner, into...)
		}
		for _, frame := range o.out["Ethernet"] {
			if port := order.Uint16(frame[34:]); port != 32767 {
				t.Errorf("packet %d is from port %d", i, port)
			}
		}
		if len(o.out["Ethernet"]) == 0 {
			t.Errorf("packet %d is lost", i)
		}
	}
}

// Of several tunnels that a packet is put out to without a change in between it goes into the last one.
func TestTheLastTunnelCounts(t *testing.T) {
	e, h, into := tunnelled(t, without(FirstPacket))
	const other = 7000
	ask(t, e, familyVport, cmdNew, func(a *netlink.AttributeEncoder) {
		a.Uint32(vportAttrType, vportGeneve)
		a.String(vportAttrName, "genev_sys_7000")
		a.Uint32(vportAttrUpcallPID, 0)
		a.Nested(vportAttrOptions, func(a *netlink.AttributeEncoder) error {
			a.Uint16(tunnelAttrDstPort, other)
			return nil
		})
	})
	way, err := h.route(tunnelPeer)
	if err != nil {
		t.Fatal(err)
	}
	var k key
	outer := geneveFrame(nil, other, tunnelKey{dst: tunnelPeer, id: 7}, &way)
	if err := extract(e.datapath.faults, &packet{data: outer}, 2, tunnelKey{}, &k); err != nil {
		t.Fatal(err)
	}
	e.datapath.flows.add(&flow{key: k, actions: []attribute{act(actionOutput, 1)}})
	send(t, e, h, udp(client, server, 1000, 53, "q"), into...)
	resolved(t, e)
	for len(h.sent["Ethernet"]) > 0 {
		<-h.sent["Ethernet"]
	}
	for name, c := range map[string]struct {
		outputs []attribute
		port    uint16
	}{
		"one":         {[]attribute{act(actionOutput, 5)}, genevePort},
		"two":         {[]attribute{act(actionOutput, 5), act(actionOutput, 6)}, other},
		"and the pod": {[]attribute{act(actionOutput, 6), act(actionOutput, 4), act(actionOutput, 5)}, genevePort},
	} {
		o := send(t, e, h, udp(client, server, 1000, 53, "q"), append([]attribute{into[0]}, c.outputs...)...)
		if got := o.out["Ethernet"]; len(got) != 1 || order.Uint16(got[0][36:]) != c.port {
			t.Errorf("%s: %d frames, not one to port %d", name, len(got), c.port)
		}
		if pod := len(o.out["pod4"]); (pod == 1) != (name == "and the pod") {
			t.Errorf("%s: %d frames at the pod", name, pod)
		}
	}
}

// Without an adapter, or without any internal port, a tunnel's packet is an error.
func TestATunnelWantsBothEnds(t *testing.T) {
	for name, gone := range map[string][]string{
		"both":          nil,
		"no adapter":    {"Ethernet"},
		"none internal": {"vEth-Ethernet", "pod3", "pod4"},
	} {
		e, h, into := tunnelled(t, KnownFaults())
		send(t, e, h, udp(client, server, 1, 53, "q"), into...)
		resolved(t, e)
		for _, port := range gone {
			removePort(t, e, port)
		}
		o := send(t, e, h, udp(client, server, 1, 53, "q"), into...)
		if sent := len(o.out["Ethernet"]); (o.err == nil) != (gone == nil) || (sent == 1) != (gone == nil) {
			t.Errorf("%s: %d frames, %v", name, sent, o.err)
		}
	}
}
