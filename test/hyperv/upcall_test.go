//go:build linux

package hyperv

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/nodetest"
)

// told is what ovs-vswitchd gets of a packet.
type told struct {
	command uint8
	key     key
	frame   []byte
}

// listen gives a port a socket. The result reads what has come there since it was last asked.
func listen(t *testing.T, e *Extension, port string) (id uint32, heard func() []told) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) })
	s := &socket{raw: func(use func(uintptr) bool) error { use(uintptr(pair[0])); return nil }}
	e.device.sockets.add(s)
	ask(t, e, familyVport, cmdSet, func(a *netlink.AttributeEncoder) {
		a.String(vportAttrName, port)
		// One socket for each processor, of which the driver takes the first.
		a.Bytes(vportAttrUpcallPID, native.AppendUint32(native.AppendUint32(nil, s.port), s.port+100))
	})
	return s.port, func() (all []told) {
		buffer := make([]byte, maxDatagram)
		for {
			n, _, err := unix.Recvfrom(pair[1], buffer, unix.MSG_DONTWAIT)
			if err != nil {
				return all
			}
			all = append(all, upcallOf(t, buffer[:n]))
		}
	}
}

func upcallOf(t *testing.T, datagram []byte) told {
	t.Helper()
	messages, err := parseMessages(datagram)
	if err != nil || len(messages) != 1 || messages[0].kind != familyPacket {
		t.Fatalf("%+v, %v", messages, err)
	}
	attrs, err := attributesOf(messages[0].body[8:])
	if err != nil {
		t.Fatal(err)
	}
	k, _, err := parseKey(attrs[packetAttrKey])
	if err != nil {
		t.Fatal(err)
	}
	return told{messages[0].body[0], k, slices.Clone(attrs[packetAttrPacket])}
}

// try sends a command to the driver, and ask one that succeeds. It is the answer's attributes that
// come back.
func try(
	t *testing.T, e *Extension, family uint16, command uint8, add func(*netlink.AttributeEncoder),
) (attributes, error) {
	t.Helper()
	attrs := nested(t, 0, add).data
	bodies, err := e.device.dispatch(message{kind: family, body: append([]byte{command, 1, 0, 0, 0, 0, 0, 0}, attrs...)})
	if err != nil || len(bodies) != 1 {
		return nil, err
	}
	return attributesOf(bodies[0][8:])
}

func ask(t *testing.T, e *Extension, family uint16, command uint8, add func(*netlink.AttributeEncoder)) attributes {
	t.Helper()
	answer, err := try(t, e, family, command, add)
	if err != nil {
		t.Fatalf("command %d of family %#x: %v", command, family, err)
	}
	return answer
}

// userspace is an action that names a socket.
func userspace(t *testing.T, socket uint32) attribute {
	return nested(t, actionUserspace, func(a *netlink.AttributeEncoder) { a.Uint32(1, socket) })
}

// What goes to ovs-vswitchd goes to the socket of the port that the packet has come by, whichever
// one an action names.
func TestUpcallsGoByPort(t *testing.T) {
	frame := udp(client, server, 1, 2, "x")
	for _, c := range []struct {
		name         string
		send         func(e *Extension, h noHost, other uint32) error
		third, other int
		fails        bool
	}{
		{"a packet without a flow", func(e *Extension, _ noHost, _ uint32) error {
			e.datapath.mu.Lock()
			defer e.datapath.mu.Unlock()
			e.datapath.ingress(e.datapath.vports.byNumber[3], frame)
			return nil
		}, 1, 0, false},
		{"an action that names another socket", func(e *Extension, h noHost, other uint32) error {
			return send(t, e, h, frame, userspace(t, other)).err
		}, 1, 0, false},
		{"of another port", func(e *Extension, h noHost, other uint32) error {
			return sendFrom(t, e, h, 4, frame, userspace(t, other)).err
		}, 0, 1, false},
		{"of no port", func(e *Extension, h noHost, other uint32) error {
			o := sendFrom(t, e, h, noPort, frame, userspace(t, other), act(actionOutput, 4))
			if len(o.out) != 0 {
				return errors.New("the packet goes on")
			}
			return o.err
		}, 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			_, third := listen(t, e, "pod3")
			id, other := listen(t, e, "pod4")
			err := c.send(e, h, id)
			var drop dropped
			if fails := errors.As(err, &drop); fails != c.fails || err != nil && !fails {
				t.Errorf("error %v", err)
			}
			got, others := third(), other()
			whole := len(got) == 0 || slices.Equal(got[0].frame, frame)
			if len(got) != c.third || len(others) != c.other || !whole {
				t.Errorf("port 3 has heard %v, port 4 %v", got, others)
			}
		})
	}
}

// What a packet that ovs-vswitchd sends cannot tell of itself is what the key with it says.
func TestMetadataOfASentPacket(t *testing.T) {
	e, _ := bare(t, KnownFaults())
	_, heard := listen(t, e, "pod3")
	ask(t, e, familyPacket, packetExecute, func(a *netlink.AttributeEncoder) {
		a.Bytes(packetAttrPacket, udp(client, server, 1, 2, "x"))
		a.Nested(packetAttrKey, func(a *netlink.AttributeEncoder) error {
			a.Uint32(keyInPort, 3)
			a.Uint32(keyRecircID, 5)
			a.Uint32(keyDPHash, 6)
			a.Uint32(keyCtState, stateTracked|stateNew)
			a.Uint16(keyCtZone, 7)
			a.Uint32(keyCtMark, 8)
			return nil
		})
		a.Nested(packetAttrActions, func(a *netlink.AttributeEncoder) error {
			u := userspace(t, 0)
			a.Bytes(u.kind, u.data)
			return nil
		})
	})
	got := heard()
	if len(got) != 1 {
		t.Fatalf("port 3 has heard %+v", got)
	}
	k := got[0].key
	fromKey := k.recirc == 5 && k.hash == 6 && k.ct.state == stateTracked|stateNew && k.ct.zone == 7 && k.ct.mark == 8
	if !fromKey || k.network.portDst != 2 {
		t.Errorf("%+v", k)
	}
}

// After a tunnel a recirculated packet without a flow goes up at the port of the outer packet,
// while its key has the tunnel's.
func TestMissAfterTunnel(t *testing.T) {
	e, h := bare(t, KnownFaults())
	_, adapter := listen(t, e, "Ethernet")
	_, tunnel := listen(t, e, "genev_sys_6081")
	inner := udp(client, server, 1000, 53, "question")
	way, err := h.route(tunnelPeer)
	if err != nil {
		t.Fatal(err)
	}
	outer := geneveFrame(inner, genevePort, tunnelKey{dst: tunnelPeer, id: 7}, &way)
	o := sendFrom(t, e, h, 1, outer, act(actionOutput, 2))
	first := tunnel()
	if o.err != nil || len(first) != 1 || first[0].command != packetMiss || len(adapter()) != 0 {
		t.Fatalf("%v; the tunnel's port has heard %+v", o.err, first)
	}
	k := first[0].key
	e.datapath.flows.add(&flow{key: k, actions: []attribute{act(actionRecirc, 9)}})
	o = sendFrom(t, e, h, 1, outer, act(actionOutput, 2))
	heard := adapter()
	if o.err != nil || len(tunnel()) != 0 || len(heard) != 1 || heard[0].key.recirc != 9 || heard[0].key.inPort != 5 {
		t.Errorf("%v; the adapter's port has heard %+v", o.err, heard)
	}
}

// A port whose vNIC is no longer connected sends nothing and gets nothing. A packet that has come by it goes on
// after a recirculation where there is a flow for it, and is lost where there is none.
func TestDisconnectedPort(t *testing.T) {
	frame := udp(client, server, 1, 2, "x")
	for _, c := range []struct {
		name         string
		flow         bool // for the recirculated packet
		disconnected string
		heard, out   int
		lost         uint64
	}{
		{"all are connected", false, "", 1, 0, 0},
		{"the packet's, and no flow", false, "pod3", 0, 0, 1},
		{"the packet's, and a flow", true, "pod3", 0, 1, 0},
		{"the packet's is gone, and no flow", false, "-pod3", 0, 0, 1},
		{"the packet's is gone, and a flow", true, "-pod3", 0, 1, 0},
		{"the one that it goes to", true, "pod4", 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			_, heard := listen(t, e, "pod3")
			if c.flow {
				var k key
				if err := extract(e.datapath.faults, &packet{data: frame}, 3, tunnelKey{}, &k); err != nil {
					t.Fatal(err)
				}
				k.recirc = 1
				e.datapath.flows.add(&flow{key: k, actions: []attribute{act(actionOutput, 4)}})
			}
			if gone, ok := strings.CutPrefix(c.disconnected, "-"); ok {
				removePort(t, e, gone)
			} else if c.disconnected != "" {
				if _, err := e.Control([]string{"disconnect", c.disconnected}); err != nil {
					t.Fatal(err)
				}
			}
			o := send(t, e, h, frame, act(actionRecirc, 1))
			if o.err != nil || len(o.out["pod4"]) != c.out || len(heard()) != c.heard ||
				e.datapath.statistics.losses[errDisconnected.Error()] != c.lost {
				t.Errorf("%+v, losses %v", o, e.datapath.statistics.losses)
			}
		})
	}
	t.Run("and a tunnel over it", func(t *testing.T) {
		e, h, into := tunnelled(t, KnownFaults())
		send(t, e, h, frame, into...)
		resolved(t, e)
		for _, c := range []struct {
			verb string
			out  int
		}{{"disconnect", 0}, {"connect", 1}} {
			if _, err := e.Control([]string{c.verb, "vEth-Ethernet"}); err != nil {
				t.Fatal(err)
			}
			if o := send(t, e, h, frame, into...); o.err != nil || len(o.out["Ethernet"]) != c.out {
				t.Errorf("%s: %+v", c.verb, o)
			}
		}
	})
	t.Run("its device goes", func(t *testing.T) {
		e, _ := bare(t, KnownFaults())
		_, heard := listen(t, e, "pod3")
		e.datapath.vports.byNumber[3].close()
		nodetest.Eventually(t, 5*time.Second, func() error {
			e.datapath.mu.Lock()
			defer e.datapath.mu.Unlock()
			if e.datapath.vports.byNumber[3].usable() {
				return errors.New("it is connected still")
			}
			return nil
		})
		e.datapath.ingress(e.datapath.vports.byNumber[3], frame)
		if len(heard()) != 0 || e.datapath.statistics.losses[errDisconnected.Error()] != 1 {
			t.Errorf("losses %v", e.datapath.statistics.losses)
		}
	})
}
