//go:build linux

package hyperv

import (
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// There is one datapath, which is there from the beginning, and stays.
func TestOneDatapath(t *testing.T) {
	named := func(name string) func(*netlink.AttributeEncoder) {
		return func(a *netlink.AttributeEncoder) { a.String(datapathAttrName, name) }
	}
	for _, c := range []struct {
		name    string
		command uint8
		add     func(*netlink.AttributeEncoder)
		want    unix.Errno
	}{
		{"it is found", cmdGet, named(datapathName), 0},
		{"by its number", cmdGet, func(*netlink.AttributeEncoder) {}, 0},
		{"and made only once", cmdNew, named(datapathName), unix.EEXIST},
		{"no other is found", cmdGet, named("other"), unix.ENODEV},
		{"or made", cmdNew, named("other"), unix.ENODEV},
		{"or changed", cmdSet, named("other"), unix.EOPNOTSUPP},
		{"it is not deleted", cmdDelete, named(datapathName), unix.EINVAL},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _ := bare(t, KnownFaults())
			answer, err := try(t, e, familyDatapath, c.command, c.add)
			if errnoOf(err) != c.want || err == nil && answer.text(datapathAttrName) != datapathName {
				t.Errorf("%v, %v", answer, err)
			}
		})
	}
}

// What ovs-vswitchd asks for is neither refused nor told back: it knows by that that there is no
// negotiation.
func TestNoNegotiation(t *testing.T) {
	const userFeatures, perCPU = 5, 1 << 2
	e, _ := bare(t, KnownFaults())
	answer := ask(t, e, familyDatapath, cmdSet, func(a *netlink.AttributeEncoder) {
		a.String(datapathAttrName, datapathName)
		a.Uint32(userFeatures, perCPU)
	})
	if _, ok := answer[userFeatures]; ok {
		t.Error("features are told back")
	}
}

// A new flow over one that is there is refused, as is a change of one that is not there. A change keeps what the flow
// has counted, unless it is asked to begin anew.
func TestFlowOverFlow(t *testing.T) {
	frame := udp(client, server, 1, 2, "x")
	for _, c := range []struct {
		name  string
		clear bool
		want  uint64
	}{{"changed", false, 3}, {"cleared", true, 0}} {
		t.Run(c.name, func(t *testing.T) {
			e, h := bare(t, KnownFaults())
			var k key
			if err := extract(e.datapath.faults, &packet{data: frame}, 3, tunnelKey{}, &k); err != nil {
				t.Fatal(err)
			}
			put := func(command uint8, port uint32, clear bool) (attributes, error) {
				return try(t, e, familyFlow, command, func(a *netlink.AttributeEncoder) {
					a.Nested(flowAttrKey, k.encode)
					a.Nested(flowAttrActions, func(a *netlink.AttributeEncoder) error {
						a.Uint32(actionOutput, port)
						return nil
					})
					a.Flag(flowAttrClear, clear)
				})
			}
			if _, err := put(cmdSet, 4, false); errnoOf(err) != unix.ENOENT {
				t.Errorf("a flow that is not there is changed: %v", err)
			}
			if _, err := put(cmdNew, 2, false); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				e.datapath.ingress(e.datapath.vports.byNumber[3], frame)
			}
			if _, err := put(cmdNew, 4, c.clear); errnoOf(err) != unix.EEXIST {
				t.Errorf("a flow that is there is made again: %v", err)
			}
			if _, err := put(cmdSet, 4, c.clear); err != nil {
				t.Fatal(err)
			}
			if f := e.datapath.flows.lookup(&k); e.datapath.flows.table.count != 1 || f.packets != c.want {
				t.Fatalf("%d flows, the one has seen %d packets", e.datapath.flows.table.count, f.packets)
			}
			e.datapath.ingress(e.datapath.vports.byNumber[3], frame)
			if len(h.sent["pod4"]) != 1 || len(h.sent["vEth-Ethernet"]) != 3 {
				t.Errorf("%d frames by the new flow, %d by the old one", len(h.sent["pod4"]), len(h.sent["vEth-Ethernet"]))
			}
			answer, err := put(cmdDelete, 0, false)
			if err != nil || native.Uint64(answer[flowAttrStats]) != c.want+1 || e.datapath.flows.table.count != 0 {
				t.Errorf("deleted: %v, %v", answer, err)
			}
		})
	}
}

// What actions put off before they fail is done with the next packet.
func TestPutOffBeforeAnError(t *testing.T) {
	e, h := bare(t, KnownFaults())
	lost := ip(client, server, protoSCTP, make([]byte, 24), -1)
	var k key
	if err := extract(e.datapath.faults, &packet{data: lost}, 3, tunnelKey{}, &k); err != nil {
		t.Fatal(err)
	}
	k.recirc = 1
	e.datapath.flows.add(&flow{key: k, actions: []attribute{act(actionOutput, 4)}})
	o := send(t, e, h, lost, act(actionRecirc, 1), ct(t, 1, false))
	if o.err == nil || len(o.out) != 0 {
		t.Fatalf("%+v", o)
	}
	next := udp(client, server, 1, 2, "x")
	o = send(t, e, h, next, act(actionOutput, 2))
	late := o.out["pod4"]
	if o.err != nil || len(o.out["vEth-Ethernet"]) != 1 || len(late) != 1 || string(late[0]) != string(lost) {
		t.Errorf("with the next packet: %+v", o)
	}
	if o = send(t, e, h, next, act(actionOutput, 2)); len(o.out["pod4"]) != 0 {
		t.Errorf("and once more: %+v", o)
	}
}
