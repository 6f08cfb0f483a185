//go:build linux

package hyperv

import (
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	flowAttrKey      = 1
	flowAttrActions  = 2
	flowAttrStats    = 3
	flowAttrTCPFlags = 4
	flowAttrUsed     = 5
	flowAttrClear    = 6
	flowAttrMask     = 7
	flowAttrProbe    = 8
)

// flow is what is done with the packets of one key.
type flow struct {
	key            key
	raw            []byte // the actions as they came
	actions        []attribute
	packets, bytes uint64
	used           time.Time
	tcpFlags       uint8
}

// flowTable are the flows: Flow.c. A flow is found by its key alone.
type flowTable struct {
	faults Faults
	record *record
	table  *table[key, *flow]
}

func (fs *flowTable) reset() { fs.table.clear() }

// lookupKey is what two keys have to have in common: Flow.c, FlowEqual. The tuple of IPv6 is part of it
// although no flow of ovs-vswitchd's can have one, so that a tracked packet never hits.
func (fs *flowTable) lookupKey(k key) key {
	if !fs.faults[TrackedIPv6] {
		k.ct.tuple6 = tuple6{}
	}
	return k
}

func (fs *flowTable) lookup(k *key) *flow { return fs.table.first(fs.lookupKey(*k)) }

func (fs *flowTable) add(f *flow) { fs.table.add(fs.lookupKey(f.key), f) }

// rehash puts the flows in their places after a fault was switched.
func (fs *flowTable) rehash() {
	flows := fs.table.all()
	fs.table = newTable[key, *flow](flowLists, fs.faults)
	for _, f := range flows {
		fs.add(f)
	}
}

// put: Flow.c, OvsFlowNlCmdHandler and HandleFlowPut. A mask is not looked at, nor is a flow's
// unique identifier. A new flow over one that is there is refused.
func (fs *flowTable) put(r request) ([][]byte, error) {
	if r.command == cmdDelete && len(r.raw) == 0 {
		fs.reset()
		return one(r.answer(func(*netlink.AttributeEncoder) error { return nil }))
	}
	rawKey, ok := r.attrs[flowAttrKey]
	if !ok {
		return nil, unix.EINVAL
	}
	k, attrs, err := parseKey(rawKey)
	if err != nil {
		return nil, err
	}
	if _, ok := r.attrs[flowAttrProbe]; ok {
		if err := probeFeature(attrs); err != nil {
			return nil, err
		}
	}
	actions, err := parseAttributes(r.attrs[flowAttrActions])
	if err != nil {
		return nil, err
	}
	if _, probe := r.attrs[flowAttrProbe]; !probe && r.command != cmdDelete {
		fs.record.flow(attrs, r.attrs)
	}
	place := fs.lookupKey(k)
	old := fs.table.first(place)
	stats := flow{}
	if old != nil {
		stats = *old
	}
	switch {
	case r.command == cmdDelete && old == nil, r.command == cmdSet && old == nil:
		return nil, unix.ENOENT
	case r.command == cmdNew && old != nil:
		return nil, unix.EEXIST
	case r.command == cmdDelete:
		fs.table.remove(place, old)
	default:
		f := &flow{key: k, raw: r.attrs[flowAttrActions], actions: actions}
		if _, forget := r.attrs[flowAttrClear]; old != nil && !forget {
			f.packets, f.bytes, f.used, f.tcpFlags = old.packets, old.bytes, old.used, old.tcpFlags
		}
		fs.table.remove(place, old)
		fs.table.add(place, f)
	}
	return one(r.answer(func(a *netlink.AttributeEncoder) error {
		a.Bytes(flowAttrKey, rawKey)
		a.Bytes(flowAttrStats, stats.stats())
		return nil
	}))
}

// stats: struct ovs_flow_stats.
func (f flow) stats() []byte {
	return native.AppendUint64(native.AppendUint64(nil, f.packets), f.bytes)
}

// probeFeature: Flow.c, OvsProbeSupportedFeature. It looks at one attribute of the key alone, the first
// one in this order that is there, and never at actions: whatever a probe's actions are, it succeeds if
// its key has one of these and not 0.
func probeFeature(attrs attributes) error {
	if mpls, ok := attrs[keyMPLS]; ok {
		if kind, ok := attrs[keyEtherType]; ok {
			return probeMPLS(order.Uint16(kind), mpls)
		}
	}
	for _, kind := range []uint16{keyRecircID, keyCtState, keyCtZone, keyCtMark, keyCtLabels} {
		if data, ok := attrs[kind]; ok {
			// Of labels the driver asks where they are, not what they are.
			if kind != keyCtLabels && isZero(data) {
				return unix.EINVAL
			}
			return nil
		}
	}
	if _, ok := attrs[keyCtTupleIPv4]; ok {
		return nil
	}
	if _, ok := attrs[keyCtTupleIPv6]; ok {
		return nil
	}
	return unix.EINVAL
}

// maxMPLSLabels: Flow.h, FLOW_MAX_MPLS_LABELS.
const maxMPLSLabels = 3

func probeMPLS(kind uint16, labels []byte) error {
	switch {
	case kind != etherMPLS && kind != etherMPLSM:
		return unix.EINVAL
	case len(labels)/4 > maxMPLSLabels:
		return unix.EBADMSG
	}
	return nil
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// get: Flow.c, _FlowNlGetCmdHandler, which gives the request's attributes back, and
// _FlowNlDumpCmdHandler.
func (fs *flowTable) get(r request) ([][]byte, error) {
	if r.dump {
		bodies := make([][]byte, 0, fs.table.count)
		for _, f := range fs.table.all() {
			body, err := f.encode(r.command)
			if err != nil {
				return nil, err
			}
			bodies = append(bodies, body)
		}
		return bodies, nil
	}
	k, _, err := parseKey(r.attrs[flowAttrKey])
	if err != nil {
		return nil, err
	}
	f := fs.lookup(&k)
	if f == nil {
		return nil, unix.ENOENT
	}
	return one(r.answer(func(a *netlink.AttributeEncoder) error {
		a.Bytes(flowAttrKey, r.attrs[flowAttrKey])
		f.encodeState(a)
		return nil
	}))
}

func (f *flow) encode(command uint8) ([]byte, error) {
	return genericBody(command, datapathNumber, func(a *netlink.AttributeEncoder) error {
		a.Nested(flowAttrKey, f.key.encode)
		f.encodeState(a)
		return nil
	})
}

func (f *flow) encodeState(a *netlink.AttributeEncoder) {
	if !f.used.IsZero() {
		a.Uint64(flowAttrUsed, uint64(monotonic().Milliseconds()-time.Since(f.used).Milliseconds()))
	}
	a.Bytes(flowAttrStats, f.stats())
	a.Uint8(flowAttrTCPFlags, f.tcpFlags)
	a.Bytes(flowAttrActions, f.raw)
}

// monotonic is the clock by which ovs-vswitchd reads when a flow was used.
func monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// hit: Flow.c, OvsFlowUsed.
func (f *flow) hit(p *packet) {
	f.packets++
	f.bytes += uint64(len(p.data))
	f.used = time.Now()
	if l := p.layers; l.tcp && len(p.data) >= l.l4+14 {
		f.tcpFlags |= p.data[l.l4+13]
	}
}
