//go:build linux

package hyperv

import (
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ingress takes a frame in that has come in by a port: PacketIO.c, OvsStartNBLIngress.
func (d *datapath) ingress(v *vport, frame []byte) {
	if !v.usable() {
		d.statistics.lose(errDisconnected)
		return
	}
	v.rxPackets++
	v.rxBytes += uint64(len(frame))
	p := &packet{data: frame, source: v}
	var k key
	if err := extract(d.faults, p, v.number, tunnelKey{}, &k); err != nil {
		d.statistics.lose(err)
		return
	}
	f := d.flows.lookup(&k)
	if f == nil {
		d.upcalls.miss(v, p, &k)
		return
	}
	d.hit(f, p)
	if err := d.execute(p, v.number, &k, f.actions); err != nil {
		d.statistics.lose(err)
	}
}

// again looks for the flow of a packet that has been put into a tunnel or taken out of one: Actions.c,
// OvsDoFlowLookupOutput. What its actions put off is done with what the packet's first actions did.
func (d *datapath) again(from *vport, p *packet, t tunnelKey) error {
	if !from.usable() {
		d.statistics.lose(errDisconnected)
		return nil
	}
	var k key
	if err := extract(d.faults, p, from.number, t, &k); err != nil {
		return dropped("headers that make no sense")
	}
	f := d.flows.lookup(&k)
	if f == nil {
		d.upcalls.miss(from, p, &k)
		return nil
	}
	d.hit(f, p)
	return d.run(p, from.number, &k, f.actions)
}

// hit counts a packet that a flow is for.
func (d *datapath) hit(f *flow, p *packet) {
	f.hit(p)
	d.statistics.hits++
}

// execute runs actions on a packet and then what they have put off: Actions.c, OvsActionsExecute, and
// Recirc.c, OvsProcessDeferredActions. After an error what was put off stays, and is done with the next
// packet.
func (d *datapath) execute(p *packet, from uint32, k *key, actions []attribute) error {
	err := d.run(p, from, k, actions)
	if err != nil {
		return err
	}
	for !d.deferred.empty() {
		next := d.deferred.next()
		if next.recirc {
			err = d.recirculate(next.packet, from, &next.key)
		} else {
			err = d.run(next.packet, from, &next.key, next.actions)
		}
	}
	d.deferred.free()
	return err
}

// recirculate: Actions.c, OvsDoRecirc. The packet goes by from, the port of the packet that the actions
// began with, although its key may have another one. That port is asked for only where no flow is found.
func (d *datapath) recirculate(p *packet, from uint32, k *key) error {
	f := d.flows.lookup(k)
	if f == nil {
		v := d.vports.byNumber[from]
		if !v.usable() {
			d.statistics.misses++
			d.statistics.lose(errDisconnected)
			return nil
		}
		d.upcalls.miss(v, p, k)
		return nil
	}
	if d.deferred.level > deferredLevel {
		return dropped("too many recirculations within each other")
	}
	d.hit(f, p)
	d.deferred.level++
	defer func() { d.deferred.level-- }()
	return d.run(p, from, k, f.actions)
}

// executePacket: User.c, OvsNlExecuteCmdHandler and OvsExecuteDpIoctl.
func (d *datapath) executePacket(r request) ([][]byte, error) {
	data, hasPacket := r.attrs[packetAttrPacket]
	rawKey, hasKey := r.attrs[packetAttrKey]
	rawActions, hasActions := r.attrs[packetAttrActions]
	if !hasPacket || !hasKey || !hasActions || len(data) == 0 {
		return nil, unix.EINVAL
	}
	attrs, err := attributesOf(rawKey)
	if err == nil {
		err = attrs.check(keySizes)
	}
	if err != nil {
		return nil, err
	}
	actions, err := parseAttributes(rawActions)
	if err != nil {
		return nil, err
	}
	p := &packet{data: append([]byte(nil), data...)}
	if mru := r.attrs[packetAttrMRU]; len(mru) == 2 {
		p.mru = int(native.Uint16(mru))
	}
	var k key
	k.mapMetadata(attrs)
	var tunnel tunnelKey
	if data, ok := attrs[keyTunnel]; ok {
		if tunnel, err = parseTunnel(data, false); err != nil {
			return nil, err
		}
	}
	inPort := attrs.u32(keyInPort)
	if err := extract(d.faults, p, inPort, tunnel, &k); err != nil {
		d.statistics.lose(err)
		return one(r.answer(func(*netlink.AttributeEncoder) error { return nil })) // nobody is told
	}
	from := uint32(noPort)
	if v := d.vports.byNumber[inPort]; v != nil {
		p.source, from = v, inPort
	}
	_, probe := r.attrs[packetAttrProbe]
	d.record.probing = probe
	err = d.execute(p, from, &k, actions)
	d.record.probing = false
	if err != nil && !probe {
		d.statistics.lose(err)
	}
	switch err {
	case nil:
		return one(r.answer(func(*netlink.AttributeEncoder) error { return nil }))
	case errNotSupported:
		return nil, unix.EOPNOTSUPP
	}
	return nil, unix.EPERM
}
