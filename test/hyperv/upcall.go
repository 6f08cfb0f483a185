//go:build linux

package hyperv

import (
	"log/slog"
	"sync/atomic"

	"github.com/mdlayher/netlink"

	"github.com/weftnet/weft/test/netdev"
)

const (
	packetAttrPacket       = 1
	packetAttrKey          = 2
	packetAttrActions      = 3
	packetAttrUserdata     = 4
	packetAttrEgressTunnel = 5
	packetAttrProbe        = 8
	packetAttrMRU          = 9
)

// upcalls are what goes up to ovs-vswitchd without a request: User.c.
type upcalls struct {
	log        *slog.Logger
	statistics *statistics
	sockets    *sockets
	loseAll    atomic.Bool
}

// queue gives a packet to ovs-vswitchd, at the socket of its port, whichever one an action names: User.c,
// OvsCreateQueueNlPacket and OvsGetPid. Without a port, as that of a packet that ovs-vswitchd injects,
// there is nobody to give it to, and it says false.
func (u *upcalls) queue(kind uint8, port *vport, p *packet, k *key, userdata []byte, egress *tunnelKey) bool {
	if port == nil || port.upcall == 0 {
		return false
	}
	frame := p.frame()
	if len(frame) > netdev.MaxFrame-8 {
		return false
	}
	body, err := genericBody(kind, datapathNumber, func(a *netlink.AttributeEncoder) error {
		a.Nested(packetAttrKey, k.encode)
		if p.mru != 0 {
			a.Uint16(packetAttrMRU, uint16(p.mru))
		}
		if egress != nil {
			a.Nested(packetAttrEgressTunnel, egress.encode)
		}
		if userdata != nil {
			a.Bytes(packetAttrUserdata, userdata)
		}
		a.Bytes(packetAttrPacket, frame)
		return nil
	})
	if err != nil {
		u.log.Warn("a packet cannot be told to ovs-vswitchd", "err", err)
		return false
	}
	s := u.sockets.get(port.upcall)
	m := message{kind: familyPacket, port: port.upcall, body: body}
	if s == nil || u.loseAll.Load() || !s.offer(m.appendTo(nil)) {
		u.statistics.lost++ // the driver has queued it: to the packet's sender it is gone all the same
	}
	return true
}

// miss gives a packet that no flow is for to ovs-vswitchd, as one of port.
func (u *upcalls) miss(port *vport, p *packet, k *key) {
	u.statistics.misses++
	u.queue(packetMiss, port, p, k, nil, nil)
}
