//go:build linux

package hyperv

import (
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	meterAttrID        = 1
	meterAttrKbps      = 2
	meterAttrStats     = 3
	meterAttrBands     = 4
	meterAttrMaxMeters = 7
	meterAttrMaxBands  = 8

	bandAttrType  = 1
	bandAttrRate  = 2
	bandAttrBurst = 3
	bandAttrStats = 4

	bandDrop = 1
)

// maxBands: Meter.h. Its OVS_MAX_METERS of 32 is nowhere used: any number is told and taken.
const maxBands = 1

type meter struct {
	id             uint32
	kbps           bool
	bands          []band
	maxDelta       uint64 // ms
	used           time.Time
	packets, bytes uint64
}

type band struct {
	kind, rate, burst uint32
	bucket            uint64
	packets, bytes    uint64
}

// meters: Meter.c.
type meters struct {
	clock *clock
	byID  map[uint32]*meter
}

func (ms *meters) reset() { clear(ms.byID) }

// features: Meter.c, OvsMeterFeatureProbe.
func (ms *meters) features(r request) ([][]byte, error) {
	return one(r.answer(func(a *netlink.AttributeEncoder) error {
		a.Uint32(meterAttrMaxMeters, ^uint32(0))
		a.Uint32(meterAttrMaxBands, maxBands)
		a.Nested(meterAttrBands, func(a *netlink.AttributeEncoder) error {
			a.Nested(0, func(a *netlink.AttributeEncoder) error {
				a.Uint32(bandAttrType, bandDrop)
				return nil
			})
			return nil
		})
		return nil
	}))
}

// set: Meter.c, OvsNewMeterCmdHandler. The driver has room for one band and would write over its end
// with two; the emulator refuses them.
func (ms *meters) set(r request) ([][]byte, error) {
	if len(r.attrs[meterAttrID]) != 4 {
		return nil, unix.ENOMSG
	}
	m := &meter{id: r.attrs.u32(meterAttrID)}
	_, m.kbps = r.attrs[meterAttrKbps]
	list, err := parseAttributes(r.attrs[meterAttrBands])
	if err != nil || len(list) > maxBands {
		return nil, unix.ENOMSG
	}
	for _, a := range list {
		attrs, err := attributesOf(a.data)
		if err != nil {
			return nil, unix.ENOMSG
		}
		b := band{kind: attrs.u32(bandAttrType), rate: attrs.u32(bandAttrRate), burst: attrs.u32(bandAttrBurst)}
		if b.rate == 0 { // the driver divides by it
			return nil, unix.ENOMSG
		}
		b.bucket = b.full()
		m.maxDelta = max(m.maxDelta, b.bucket/uint64(b.rate)/10)
		m.bands = append(m.bands, b)
	}
	ms.byID[m.id] = m
	return one(r.answer(m.encode))
}

func (b band) full() uint64 { return (uint64(b.burst) + uint64(b.rate)) * 1000 }

func (ms *meters) get(r request) ([][]byte, error) {
	m := ms.byID[r.attrs.u32(meterAttrID)]
	if m == nil {
		return nil, unix.EEXIST
	}
	return one(r.answer(m.encode))
}

func (ms *meters) delete(r request) ([][]byte, error) {
	m := ms.byID[r.attrs.u32(meterAttrID)]
	if m == nil {
		return one(r.answer(func(*netlink.AttributeEncoder) error { return nil }))
	}
	delete(ms.byID, m.id)
	return one(r.answer(m.encode))
}

// encode: Meter.c, buildOvsMeterReplyMsg.
func (m *meter) encode(a *netlink.AttributeEncoder) error {
	counts := func(packets, bytes uint64) []byte {
		return native.AppendUint64(native.AppendUint64(nil, packets), bytes)
	}
	a.Uint32(meterAttrID, m.id)
	a.Bytes(meterAttrStats, counts(m.packets, m.bytes))
	a.Nested(meterAttrBands, func(a *netlink.AttributeEncoder) error {
		for _, b := range m.bands {
			a.Nested(0, func(a *netlink.AttributeEncoder) error {
				a.Bytes(bandAttrStats, counts(b.packets, b.bytes))
				return nil
			})
		}
		return nil
	})
	return nil
}

// over says whether a packet is over its meter: Meter.c, OvsMeterExecute. A meter that is not there
// lets all pass.
func (ms *meters) over(id uint32, p *packet) bool {
	m := ms.byID[id]
	return m != nil && m.over(len(p.data), ms.clock.now())
}

// over says whether a packet of so many bytes is over the meter's bands, which it uses up.
func (m *meter) over(size int, now time.Time) bool {
	delta := min(uint64(max(now.Sub(m.used).Milliseconds(), 0)), m.maxDelta)
	m.used = now
	m.packets++
	m.bytes += uint64(size)
	cost := uint64(1000)
	if m.kbps {
		cost = uint64(size) * 8
	}
	over := false
	for i := range m.bands {
		b := &m.bands[i]
		b.bucket = min(b.bucket+delta*uint64(b.rate), b.full())
		b.packets++
		b.bytes += uint64(size)
		if b.bucket >= cost {
			b.bucket -= cost
		} else if b.kind == bandDrop {
			over = true
		}
	}
	return over
}
