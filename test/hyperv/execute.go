//go:build linux

package hyperv

import (
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ingress takes a frame in that has come in by a port: PacketIO.c, OvsStartNBLIngress.
func (e *Extension) ingress(v *vport, frame []byte) {
	if !v.usable() {
		e.lose(errDisconnected)
		return
	}
	v.rxPackets++
	v.rxBytes += uint64(len(frame))
	p := &packet{data: frame, source: v}
	var k key
	l, err := e.faults.extract(p, v.number, tunnelKey{}, &k)
	if err != nil {
		e.lose(err)
		return
	}
	f := e.lookup(&k)
	if f == nil {
		e.miss(v, p, &k)
		return
	}
	e.hit(f, p, l)
	if err := e.execute(p, v.number, &k, l, f.actions); err != nil {
		e.lose(err)
	}
}

// lose counts a packet that goes no further though no flow has said so, by why.
func (e *Extension) lose(why error) {
	if !errors.Is(why, errPending) {
		e.stats.losses[why.Error()]++
	}
}

// executePacket: User.c, OvsNlExecuteCmdHandler and OvsExecuteDpIoctl.
func executePacket(e *Extension, r request) ([][]byte, error) {
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
	l, err := e.faults.extract(p, inPort, tunnel, &k)
	if err != nil {
		e.lose(err)
		return one(r.answer(func(*netlink.AttributeEncoder) error { return nil })) // nobody is told
	}
	from := uint32(noPort)
	if v := e.vports[inPort]; v != nil {
		p.source, from = v, inPort
	}
	_, e.probing = r.attrs[packetAttrProbe]
	err = e.execute(p, from, &k, l, actions)
	if err != nil && !e.probing {
		e.lose(err)
	}
	e.probing = false
	if err != nil {
		if err == errNotSupported {
			return nil, unix.EOPNOTSUPP
		}
		return nil, unix.EPERM
	}
	return one(r.answer(func(*netlink.AttributeEncoder) error { return nil }))
}
