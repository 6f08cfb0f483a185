//go:build linux

package hyperv

import (
	"slices"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
)

// recirculating is an extension in which a frame passes so many times more, and then goes to pod 4. before is what it
// meets each time.
func recirculating(t *testing.T, frame []byte, times int, before ...attribute) (*Extension, noHost) {
	t.Helper()
	e, h := bare(t, KnownFaults())
	k := keyOf(t, e, frame)
	for id := 1; id <= times; id++ {
		k.recirc = uint32(id)
		next := act(actionRecirc, uint32(id+1))
		if id == times {
			next = act(actionOutput, 4)
		}
		e.datapath.flows.add(&flow{key: k, actions: append(slices.Clone(before), next)})
	}
	return e, h
}

// A packet has ten recirculations and samples; with the eleventh it is lost, and there is no error.
func TestRecirculations(t *testing.T) {
	frame := udp(client, server, 1, 2, "x")
	sample := sampling(t, func(a *netlink.AttributeEncoder) { a.Uint32(actionOutput, 2) })
	for _, c := range []struct{ samples, times, out, sampled int }{
		{0, 10, 1, 0}, {0, 11, 0, 0}, {3, 7, 1, 3}, {3, 8, 0, 3}, {10, 0, 1, 10}, {11, 0, 1, 10},
	} {
		e, h := recirculating(t, frame, c.times)
		actions := slices.Repeat([]attribute{sample}, c.samples)
		if c.times > 0 {
			actions = append(actions, act(actionRecirc, 1))
		} else {
			actions = append(actions, act(actionOutput, 4))
		}
		o := send(t, e, h, frame, actions...)
		if o.err != nil || len(o.out["pod4"]) != c.out || len(o.out["vEth-Ethernet"]) != c.sampled {
			t.Errorf("%d samples, %d recirculations: %d and %d frames, %v", c.samples, c.times,
				len(o.out["vEth-Ethernet"]), len(o.out["pod4"]), o.err)
		}
		if got := e.Status().PutOff; got != min(c.samples+c.times, DeferredQueueSize) {
			t.Errorf("%d samples, %d recirculations: %d are counted", c.samples, c.times, got)
		}
	}
}

// All of a packet's recirculations are of the first level, since each begins when the one before has ended. Of levels
// the driver has five.
func TestLevelsOfRecirculations(t *testing.T) {
	frame := udp(client, server, 1, 2, "x")
	e, h := recirculating(t, frame, DeferredQueueSize, act(actionMeter, 1))
	ask(t, e, familyMeter, meterSet, func(a *netlink.AttributeEncoder) { a.Uint32(meterAttrID, 1) })
	deepest := 0 // when the meter asks for the time
	e.datapath.clock.now = func() time.Time {
		deepest = max(deepest, e.datapath.deferred.level)
		return time.Unix(1, 0)
	}
	o := send(t, e, h, frame, act(actionRecirc, 1))
	if o.err != nil || len(o.out["pod4"]) != 1 || deepest != 1 {
		t.Errorf("%d frames, %v; the deepest level is %d", len(o.out["pod4"]), o.err, deepest)
	}
	for level, out := range map[int]int{0: 1, 4: 1, 5: 0} {
		e, h := recirculating(t, frame, 1)
		e.datapath.deferred.level = level
		o := send(t, e, h, frame, act(actionRecirc, 1))
		if len(o.out["pod4"]) != out || (o.err == nil) != (out == 1) {
			t.Errorf("within %d others: %d frames, %v", level, len(o.out["pod4"]), o.err)
		}
	}
}

// sampling is a sample of all packets.
func sampling(t *testing.T, actions func(*netlink.AttributeEncoder)) attribute {
	t.Helper()
	return nested(t, actionSample, func(a *netlink.AttributeEncoder) {
		a.Uint32(sampleProbability, 0xffffffff)
		a.Nested(sampleActions, func(a *netlink.AttributeEncoder) error {
			actions(a)
			return nil
		})
	})
}

// Of a sample's actions a lone packet for ovs-vswitchd is done at once. Of others the first one is done when the
// packet's own actions have ended, unless it has no argument.
func TestSample(t *testing.T) {
	frame := udp(client, server, 1, 2, "x")
	upcall := func(a *netlink.AttributeEncoder) { a.Bytes(actionUserspace, nil) }
	first := func(a *netlink.AttributeEncoder) { a.Uint32(actionOutput, 4) }
	second := func(a *netlink.AttributeEncoder) { a.Uint32(actionOutput, 2) }
	for name, c := range map[string]struct {
		actions           []func(*netlink.AttributeEncoder)
		heard, pod4, host int
		putOff            int
	}{
		"nothing":                    {nil, 0, 0, 0, 0},
		"a packet for ovs-vswitchd":  {[]func(*netlink.AttributeEncoder){upcall}, 1, 0, 0, 0},
		"and an output":              {[]func(*netlink.AttributeEncoder){upcall, first}, 0, 0, 0, 1},
		"two outputs":                {[]func(*netlink.AttributeEncoder){first, second}, 0, 1, 0, 1},
		"the other way round":        {[]func(*netlink.AttributeEncoder){second, first}, 0, 0, 1, 1},
		"an output for ovs-vswitchd": {[]func(*netlink.AttributeEncoder){second, upcall}, 0, 0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			_, heard := listen(t, e, "pod3")
			o := send(t, e, h, frame, sampling(t, func(a *netlink.AttributeEncoder) {
				for _, add := range c.actions {
					add(a)
				}
			}))
			if o.err != nil || len(heard()) != c.heard || len(o.out["pod4"]) != c.pod4 ||
				len(o.out["vEth-Ethernet"]) != c.host || e.Status().PutOff != c.putOff {
				t.Errorf("%+v, %d put off", o, e.Status().PutOff)
			}
		})
	}
	for probability, want := range map[uint32]int{0: 0, 0xffffffff: 1} {
		e, h := bare(t, KnownFaults())
		o := send(t, e, h, frame, nested(t, actionSample, func(a *netlink.AttributeEncoder) {
			a.Uint32(sampleProbability, probability)
			a.Nested(sampleActions, func(a *netlink.AttributeEncoder) error {
				first(a)
				return nil
			})
		}))
		if len(o.out["pod4"]) != want {
			t.Errorf("probability %d: %d frames", probability, len(o.out["pod4"]))
		}
	}
}

// A hash is of the connection and of what it is told to begin with, and never 0.
func TestHash(t *testing.T) {
	e, h := bare(t, KnownFaults())
	hash := func(frame []byte, algorithm, basis uint32) uint32 {
		data := native.AppendUint32(native.AppendUint32(nil, algorithm), basis)
		return send(t, e, h, frame, attribute{actionHash, data}).key.hash
	}
	one, other := udp(client, server, 1, 53, "q"), udp(client, server, 2, 53, "q")
	switch got := hash(one, 0, 7); {
	case got == 0, got != hash(udp(client, server, 1, 53, "another"), 0, 7):
		t.Errorf("the packets of a connection have the hashes %d and another", got)
	case got == hash(other, 0, 7), got == hash(one, 0, 8):
		t.Errorf("another connection, or another basis, has the hash %d, too", got)
	case got != hash(one, 1, 7):
		t.Errorf("another algorithm has another hash than %d", got)
	}
}
