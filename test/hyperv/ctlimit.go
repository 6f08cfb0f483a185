//go:build linux

package hyperv

import (
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The limits of zones: an array of zone, limit and count.
const (
	ctLimitAttrZones = 1
	ctLimitSize      = 12
)

const allZones = -1

// ctLimits reads the zones that a request names.
func ctLimits(r request, each func(zone int32, limit uint32)) error {
	data := r.attrs[ctLimitAttrZones]
	if len(data)%ctLimitSize != 0 {
		return unix.EINVAL
	}
	for ; len(data) > 0; data = data[ctLimitSize:] {
		zone := int32(native.Uint32(data))
		if zone < allZones || zone > 0xffff {
			return unix.EINVAL
		}
		each(zone, native.Uint32(data[4:]))
	}
	return nil
}

// zones count the connections of each zone, and bound them: Conntrack.c.
type zones struct {
	counts map[uint16]int
	limits map[uint16]uint32
	limit  uint32 // of those that have none of their own
}

func (z *zones) reset() {
	*z = zones{counts: map[uint16]int{}, limits: map[uint16]uint32{}, limit: maxConnections}
}

func (z *zones) limitOf(zone uint16) uint32 {
	if limit, ok := z.limits[zone]; ok {
		return limit
	}
	return z.limit
}

func (z *zones) full(zone uint16) bool { return z.counts[zone] >= int(z.limitOf(zone)) }

// set: Datapath.c, nlCtLimitFamilyOps; Conntrack.c, OvsCtSetZoneLimit. The limit of all zones takes the place of
// those of each.
func (z *zones) set(r request) ([][]byte, error) {
	return z.change(r, func(limit uint32) uint32 { return limit })
}

// delete: Conntrack.c, OvsCtLimitHandler. It gives zones the most that there is, and not the limit of all zones.
func (z *zones) delete(r request) ([][]byte, error) {
	return z.change(r, func(uint32) uint32 { return maxConnections })
}

func (z *zones) change(r request, to func(uint32) uint32) ([][]byte, error) {
	err := ctLimits(r, func(zone int32, limit uint32) {
		if zone == allZones {
			z.limit = to(limit)
			clear(z.limits)
			return
		}
		z.limits[uint16(zone)] = to(limit)
	})
	if err != nil {
		return nil, err
	}
	return one(r.answer(func(*netlink.AttributeEncoder) error { return nil }))
}

// get: Conntrack.c, OvsCreateNlMsgFromCtLimit.
func (z *zones) get(r request) ([][]byte, error) {
	var told []byte
	add := func(zone int32, limit uint32, count int) {
		told = native.AppendUint32(native.AppendUint32(told, uint32(zone)), limit)
		told = native.AppendUint32(told, uint32(count))
	}
	err := ctLimits(r, func(zone int32, _ uint32) {
		if zone == allZones {
			add(zone, z.limit, 0)
			return
		}
		add(zone, z.limitOf(uint16(zone)), z.counts[uint16(zone)])
	})
	if err != nil {
		return nil, err
	}
	return one(r.answer(func(a *netlink.AttributeEncoder) error {
		a.Bytes(ctLimitAttrZones, told)
		return nil
	}))
}
