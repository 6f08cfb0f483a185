//go:build linux

package hyperv

// Recirc.h: what one packet may put off, and how deep.
const (
	DeferredQueueSize = 10
	deferredLevel     = 4
)

// deferredAction is what is done once the actions at hand are through: a recirculation, or the actions
// of a sample.
type deferredAction struct {
	packet  *packet
	key     key
	layers  layers
	actions []attribute
	recirc  bool
}

// putOff: Recirc.c, OvsAddDeferredActions. A place of the queue is free again only when the queue is
// empty, so that a packet has that many in all.
func (e *Extension) putOff(d deferredAction) bool {
	if e.head == DeferredQueueSize {
		return false
	}
	e.head++
	e.stats.putOff = max(e.stats.putOff, e.head)
	e.deferred = append(e.deferred, d)
	return true
}

// execute runs actions on a packet and then what they have put off: Actions.c, OvsActionsExecute, and
// Recirc.c, OvsProcessDeferredActions. After an error what was put off stays, and is done with the next
// packet.
func (e *Extension) execute(p *packet, from uint32, k *key, l layers, actions []attribute) error {
	err := e.run(p, from, k, l, actions)
	if err != nil {
		return err
	}
	for len(e.deferred) > 0 {
		d := e.deferred[0]
		e.deferred = e.deferred[1:]
		if d.recirc {
			err = e.recirculate(d.packet, from, &d.key, d.layers)
		} else {
			err = e.run(d.packet, from, &d.key, d.layers, d.actions)
		}
	}
	e.deferred, e.head = nil, 0
	return err
}

// recirculate: Actions.c, OvsDoRecirc. The packet goes by from, the port of the packet that the actions
// began with, although its key may have another one. That port is asked for only where no flow is found.
func (e *Extension) recirculate(p *packet, from uint32, k *key, l layers) error {
	f := e.lookup(k)
	if f == nil {
		v := e.vports[from]
		if !v.usable() {
			e.stats.misses++
			e.lose(errDisconnected)
			return nil
		}
		e.miss(v, p, k)
		return nil
	}
	if e.level > deferredLevel {
		return dropped("too many recirculations within each other")
	}
	e.hit(f, p, l)
	e.level++
	defer func() { e.level-- }()
	return e.run(p, from, k, l, f.actions)
}
