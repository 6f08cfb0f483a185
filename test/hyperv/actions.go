//go:build linux

package hyperv

import (
	"errors"
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// The kinds of actions (OVS_ACTION_ATTR_*) that the driver has.
const (
	actionOutput    = 1
	actionUserspace = 2
	actionSet       = 3
	actionPushVLAN  = 4
	actionPopVLAN   = 5
	actionSample    = 6
	actionRecirc    = 7
	actionHash      = 8
	actionPushMPLS  = 9
	actionPopMPLS   = 10
	actionCT        = 12
	actionMeter     = 19
)

// What a packet's actions end with, when they fail.
var (
	errNotSupported = errors.New("not supported")
	errPending      = errors.New("a fragment waits for the others")
)

// dropped is why a packet has gone no further.
type dropped string

func (d dropped) Error() string { return "dropped: " + string(d) }

// forwarding is a packet in the midst of its actions: Actions.h, OvsForwardingContext. Outputs are
// collected, and done when the packet is about to change or at the end.
type forwarding struct {
	datapath *datapath
	packet   *packet
	from     uint32
	outputs  []*vport
	tunnelTx *vport
	tunnelRx *vport
	tunnel   tunnelKey // for an output to a tunnel
}

// run: Actions.c, OvsDoExecuteActions. Which error it ends with is as there: that of the last action
// which has said how it went, and of an unknown one only if no such action comes after it.
func (d *datapath) run(p *packet, from uint32, k *key, actions []attribute) error {
	f := &forwarding{datapath: d, packet: p, from: from}
	var status error
	for i, a := range actions {
		last := i == len(actions)-1
		d.record.action(a, f.packet)
		if changes(a.kind) {
			pending := f.pending()
			if err := f.flush(); err != nil {
				return err
			}
			if pending {
				status = nil
			}
		}
		done, said, err := f.do(a, last, k)
		if said {
			status = err
		}
		if done || said && err != nil && err != errNotSupported {
			return err
		}
	}
	if f.pending() {
		return f.output()
	}
	return status
}

func (f *forwarding) pending() bool {
	return len(f.outputs) > 0 || f.tunnelTx != nil || f.tunnelRx != nil
}

// changes: actions before which the packet goes to the outputs so far.
func changes(kind uint16) bool {
	switch kind {
	case actionPushVLAN, actionPopVLAN, actionPushMPLS, actionPopMPLS, actionHash, actionCT, actionRecirc, actionSet,
		actionSample:
		return true
	}
	return false
}

// do carries out one action. done: nothing is left to do. said: err is how it went, which may be well.
func (f *forwarding) do(a attribute, last bool, k *key) (done, said bool, err error) {
	switch a.kind {
	case actionOutput:
		return false, true, f.addOutput(a, k)
	case actionPushVLAN:
		f.pushVLAN(a)
		return false, false, nil
	case actionPopVLAN:
		inside := f.packet.tag == 0
		return false, inside, f.popVLAN(k)
	case actionPushMPLS, actionPopMPLS:
		return false, true, dropped("MPLS") // OVN has no labels of its own
	case actionHash:
		if len(a.data) >= 8 {
			k.hash = hashAction(k, native.Uint32(a.data[4:]))
		}
		return false, false, nil
	case actionCT:
		err := f.track(a, k)
		if err == errPending { // the fragment is kept
			return true, true, nil
		}
		return err != nil, true, err
	case actionRecirc:
		f.recirc(a, last, k)
		return last, true, nil
	case actionUserspace:
		return false, true, f.userspace(a, k)
	case actionSet:
		return false, true, f.set(a, k)
	case actionMeter:
		if len(a.data) == 4 && f.datapath.meters.over(native.Uint32(a.data), f.packet) {
			return true, true, nil
		}
		return false, false, nil
	case actionSample:
		return false, true, f.sample(a, k)
	}
	return false, true, errNotSupported
}

// track carries out a ct action: Conntrack.c, OvsDetectCtPacket. With the last fragment of a packet it goes on with the
// whole packet and a new key: without its recirculation and its connection, and, since the action list has begun anew,
// without its tunnel.
func (f *forwarding) track(a attribute, k *key) error {
	d := f.datapath
	switch {
	case k.ether != etherIPv4 && k.ether != etherIPv6:
		return errNotSupported
	case k.network.fragment != fragmentNone:
		whole, err := d.fragments.reassemble(f.packet, k)
		if err != nil {
			return err
		}
		f.packet, *k = whole, key{}
		if err := extract(d.faults, whole, f.from, f.tunnel, k); err != nil {
			return err
		}
	case d.faults[Protocols] && !trackable(k):
		return errNotSupported
	}
	return d.conntrack.execute(f.packet, k, a.data)
}

// addOutput: Actions.c, OvsAddPorts and OvsDetectTunnelPkt. A port that is gone or not connected is passed over.
func (f *forwarding) addOutput(a attribute, k *key) error {
	if len(a.data) != 4 {
		return dropped("an output without a port")
	}
	v := f.datapath.vports.byNumber[native.Uint32(a.data)]
	if !v.usable() {
		f.datapath.statistics.lose(errDisconnected)
		return nil
	}
	v.txPackets++
	v.txBytes += uint64(len(f.packet.data))
	switch {
	case v.kind == vportInternal && f.fromOutside():
		if tunnel := f.datapath.vports.arriving(k); tunnel != nil {
			f.tunnelRx = tunnel
			return nil
		}
	case v.kind == vportGeneve:
		if f.tunnel.set() {
			f.tunnelTx = v
		}
		return nil
	}
	f.outputs = append(f.outputs, v)
	return nil
}

// fromOutside: the packet came by the adapter or has no port of the switch.
func (f *forwarding) fromOutside() bool { return f.packet.source == nil || f.packet.source.external }

// flush sends the packet to the outputs so far and goes on with a copy: Actions.c,
// OvsOutputBeforeSetAction.
func (f *forwarding) flush() error {
	if !f.pending() {
		return nil
	}
	rest := f.packet.clone()
	if err := f.output(); err != nil {
		return err
	}
	f.packet = rest
	return nil
}

// output: Actions.c, OvsOutputForwardingCtx. Of tunnels there is one: the last one that was put out to.
func (f *forwarding) output() error {
	p, outputs, tx, rx := f.packet, f.outputs, f.tunnelTx, f.tunnelRx
	f.packet, f.outputs, f.tunnelTx, f.tunnelRx = nil, nil, nil, nil
	if len(outputs) > 0 {
		frames := [][]byte{p.frame()}
		if p.mru != 0 {
			frames = fragment(p)
		}
		for _, v := range outputs {
			for _, frame := range frames {
				if err := v.send(frame); err != nil {
					f.datapath.statistics.lose(err)
				}
			}
		}
	}
	if tx == nil && rx == nil {
		return nil
	}
	tunnel := f.tunnel
	f.tunnel = tunnelKey{}
	if tx != nil {
		return f.datapath.encapsulate(tx, p, tunnel)
	}
	return f.datapath.decapsulate(rx, p)
}

// pushVLAN: a packet has one tag beside it, and a second one is not added.
func (f *forwarding) pushVLAN(a attribute) {
	if len(a.data) == 4 && f.packet.tag == 0 {
		f.packet.tag = order.Uint16(a.data[2:]) | vlanCFI
	}
}

// popVLAN takes the tag beside the packet, or else the one in it.
func (f *forwarding) popVLAN(k *key) error {
	p := f.packet
	if p.tag != 0 {
		p.tag = 0
	} else {
		if len(p.data) < 18 || order.Uint16(p.data[12:]) != etherVLAN {
			return dropped("no tag to take off")
		}
		p.data = append(p.data[:12:12], p.data[16:]...)
		p.layers.l3 -= 4
		p.layers.l4 -= 4
		p.layers.l7 -= 4
	}
	k.vlan, k.vlanTP = 0, 0
	return nil
}

// recirc: Actions.c, OvsExecuteRecirc. With the queue full the packet is lost without an error.
func (f *forwarding) recirc(a attribute, last bool, k *key) {
	p := f.packet
	if !last {
		p = p.clone()
	}
	d := deferredAction{packet: p, key: *k, recirc: true}
	if len(a.data) == 4 {
		d.key.recirc = native.Uint32(a.data)
	}
	if !f.datapath.deferred.add(d) {
		f.datapath.record.add(recircLost)
	}
}

const (
	userspaceUserdata   = 2
	userspaceEgressPort = 3
)

// userspace: Actions.c, OvsOutputUserspaceAction.
func (f *forwarding) userspace(a attribute, k *key) error {
	attrs, err := attributesOf(a.data)
	if err != nil {
		return dropped("a malformed userspace action")
	}
	var egress *tunnelKey
	if _, ok := attrs[userspaceEgressPort]; ok {
		t := f.tunnel
		egress = &t
	}
	d, userdata := f.datapath, attrs[userspaceUserdata]
	if !d.upcalls.queue(packetAction, d.vports.byNumber[f.from], f.packet, k, userdata, egress) {
		d.record.add(userspaceLost)
		return dropped("an upcall that fails")
	}
	return nil
}

const (
	sampleProbability = 1
	sampleActions     = 2
)

// sample: Actions.c, OvsExecuteSampleAction. Of several actions the first one is done: Recirc.c,
// OvsProcessDeferredActions, takes the size of what is in it for that of all.
func (f *forwarding) sample(a attribute, k *key) error {
	attrs, err := attributesOf(a.data)
	if err != nil {
		return dropped("a malformed sample")
	}
	if data, ok := attrs[sampleProbability]; ok && len(data) == 4 {
		if probability := native.Uint32(data); probability == 0 || rand.Uint32() > probability {
			return nil
		}
	}
	actions, err := parseAttributes(attrs[sampleActions])
	if err != nil {
		return dropped("a malformed sample")
	}
	switch {
	case len(actions) == 0:
	case len(actions) == 1 && actions[0].kind == actionUserspace:
		return f.userspace(actions[0], k)
	default:
		first := actions[:1]
		if len(first[0].data) < unix.SizeofNlAttr {
			first = nil
		}
		f.datapath.deferred.add(deferredAction{packet: f.packet.clone(), key: *k, actions: first})
	}
	return nil
}
