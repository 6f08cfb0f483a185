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
	actions []attribute
	recirc  bool
}

// deferredQueue is what the packet at hand has put off.
type deferredQueue struct {
	actions []deferredAction
	head    int // how many of its places were given out since it was empty
	most    int // the most of any packet: see Status
	level   int // of recirculations within each other
}

// add: Recirc.c, OvsAddDeferredActions. A place of the queue is free again only when the queue is
// empty, so that a packet has that many in all.
func (q *deferredQueue) add(d deferredAction) bool {
	if q.head == DeferredQueueSize {
		return false
	}
	q.head++
	q.most = max(q.most, q.head)
	q.actions = append(q.actions, d)
	return true
}

// next takes the first one out.
func (q *deferredQueue) next() deferredAction {
	d := q.actions[0]
	q.actions = q.actions[1:]
	return d
}

func (q *deferredQueue) empty() bool { return len(q.actions) == 0 }

// free makes all places of an empty queue free.
func (q *deferredQueue) free() { q.actions, q.head = nil, 0 }

// reset forgets what was put off, and by whom.
func (q *deferredQueue) reset() {
	q.free()
	q.level = 0
}
