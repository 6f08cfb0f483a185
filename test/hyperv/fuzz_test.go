//go:build linux

package hyperv

import (
	"context"
	"log/slog"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/netdev"
)

// noHost has no devices: frames that are sent are kept.
type noHost struct{ sent map[string]chan []byte }

type noDevice struct {
	sent   chan []byte
	closed context.Context
	cancel context.CancelFunc
}

func (d noDevice) Read([]byte) (int, error) { <-d.closed.Done(); return 0, unix.ENODEV }
func (d noDevice) Close() error             { d.cancel(); return nil }
func (d noDevice) Write(frame []byte) (int, error) {
	select {
	case d.sent <- append([]byte(nil), frame...):
	default:
	}
	return len(frame), nil
}

func (h noHost) openVNIC(name string) (netdev.Device, error) {
	if h.sent[name] == nil {
		h.sent[name] = make(chan []byte, 64)
	}
	closed, cancel := context.WithCancel(context.Background())
	return noDevice{h.sent[name], closed, cancel}, nil
}
func (h noHost) openDevice(name string) (netdev.Device, error) { return h.openVNIC(name) }
func (noHost) removeVNIC(string) error                         { return nil }
func (noHost) route(netip.Addr) (route, error) {
	return route{device: "vEth-Ethernet", src: netip.MustParseAddr("192.168.0.1"), dstMAC: []byte{2, 0, 0, 0, 0, 2}}, nil
}

// bare is an extension with the ports adapter 1, the host 2, pods 3 and 4, and a tunnel 5.
func bare(tb testing.TB, faults Faults) (*Extension, noHost) {
	tb.Helper()
	h := noHost{map[string]chan []byte{}}
	e := newExtension(Config{Adapter: "Ethernet", Faults: faults, Log: slog.New(slog.DiscardHandler)}, h)
	for i, v := range []vport{{name: "Ethernet", kind: vportNetdev}, {name: "vEth-Ethernet", kind: vportInternal},
		{name: "pod3", kind: vportInternal}, {name: "pod4", kind: vportInternal},
		{name: "genev_sys_6081", kind: vportGeneve}} {
		attrs, err := encode(func(a *netlink.AttributeEncoder) error {
			a.Uint32(vportAttrType, v.kind)
			a.String(vportAttrName, v.name)
			a.Uint32(vportAttrUpcallPID, 0)
			return nil
		})
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := e.device.dispatch(message{kind: familyVport, body: append([]byte{cmdNew, 1, 0, 0, 0, 0, 0, 0},
			attrs...)}); err != nil {
			tb.Fatalf("port %d: %v", i+1, err)
		}
	}
	tb.Cleanup(e.Close)
	return e, h
}

// Whatever ovs-vswitchd sends, each request has an answer.
func FuzzRequest(f *testing.F) {
	e, _ := bare(f, KnownFaults())
	for c := range e.device.commands {
		f.Add(message{kind: c.kind, flags: unix.NLM_F_REQUEST, body: []byte{c.command, 1, 0, 0, 0, 0, 0, 0}}.appendTo(nil))
	}
	f.Add(message{kind: unix.GENL_ID_CTRL, body: append([]byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0},
		"\x0e\x00\x02\x00ovs_vport\x00\x00\x00"...)}.appendTo(nil))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		e, _ := bare(t, KnownFaults())
		messages, _ := parseMessages(datagram)
		for _, m := range messages {
			if m.kind == unix.GENL_ID_CTRL {
				lookupFamily(m)
				continue
			}
			bodies, err := e.device.dispatch(m)
			for _, body := range bodies {
				if _, parsed := parseMessages(message{kind: m.kind, body: body}.appendTo(nil)); parsed != nil {
					t.Error(parsed)
				}
			}
			if err != nil && errnoOf(err) == 0 {
				t.Errorf("the error %v has no number", err)
			}
		}
	})
}

// A packet's key is the same after it has gone to ovs-vswitchd and come back in a flow.
func FuzzKey(f *testing.F) {
	for _, frame := range frames() {
		f.Add(frame, uint16(0))
		f.Add(frame, uint16(0x1005))
	}
	f.Fuzz(func(t *testing.T, frame []byte, tag uint16) {
		var k key
		p := &packet{data: frame}
		if tag != 0 {
			p.tag = tag | vlanCFI
		}
		if err := extract(Faults{}, p, 3, tunnelKey{}, &k); err != nil || len(frame) < 14 {
			return
		}
		encoded, err := encode(k.encode)
		if err != nil {
			t.Fatal(err)
		}
		back, _, err := parseKey(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if k.network.proto == protoICMPv6 { // the key of a cut off message is not told
			back.network.longICMPv6 = k.network.longICMPv6
		}
		if !reflect.DeepEqual(k, back) && !outside(k) {
			t.Errorf("went as %+v\nand came as %+v", k, back)
		}
	})
}

// outside: what the driver itself cannot tell.
func outside(k key) bool {
	n := k.network
	nd := n.proto == protoICMPv6 && n.portSrc != ndSolicit && n.portSrc != ndAdvert
	return n.proto == protoICMP || n.proto == protoICMPv6 && !nd || k.ether == etherVLAN || n.fragment == fragmentLater ||
		k.ether < 0x600
}

// Any actions on any packet end.
func FuzzActions(f *testing.F) {
	for _, frame := range frames() {
		f.Add(frame, []byte{8, 0, actionOutput, 0, 3, 0, 0, 0})
		f.Add(frame, []byte{8, 0, actionRecirc, 0, 1, 0, 0, 0})
		f.Add(frame, []byte{16, 0, actionCT, 0, 4, 0, 1, 0, 8, 0, 2, 0, 7, 0, 0, 0, 8, 0, actionOutput, 0, 4, 0, 0, 0})
		f.Add(frame, []byte{4, 0, actionPopVLAN, 0, 8, 0, actionPushVLAN, 0, 0x81, 0, 0, 5, 8, 0, actionOutput, 0, 2, 0, 0,
			0})
	}
	f.Fuzz(func(t *testing.T, frame, raw []byte) {
		actions, err := parseAttributes(raw)
		if err != nil {
			return
		}
		for _, faults := range []Faults{KnownFaults(), {}} {
			e, _ := bare(t, faults)
			e.datapath.clock.now = func() time.Time { return time.Unix(1, 0) }
			p := &packet{data: append([]byte(nil), frame...), source: e.datapath.vports.byNumber[1]}
			var k key
			if extract(e.datapath.faults, p, 1, tunnelKey{}, &k) != nil {
				return
			}
			e.datapath.flows.add(&flow{key: k, actions: actions})
			_ = e.datapath.execute(p, 1, &k, actions)
			if len(e.datapath.deferred.actions) > DeferredQueueSize || e.datapath.deferred.level != 0 {
				t.Errorf("%d put off, level %d", len(e.datapath.deferred.actions), e.datapath.deferred.level)
			}
		}
	})
}
