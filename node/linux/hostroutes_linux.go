package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/models/contract"
)

// hostRoute is a route of the host's by some device. Of an IPv6 route with several next hops it is one of
// them; of an IPv4 one it is the whole.
type hostRoute struct {
	Destination netip.Prefix `json:"destination"`
	// Expires is zero where it does not.
	Expires time.Time `json:"expires,omitzero"`
	// Message is RTM_NEWROUTE of rtnetlink(7).
	Message []byte `json:"message"`

	m message
}

// RTA_EXPIRES and RTA_NH_ID of linux/rtnetlink.h.
const (
	attributeExpires   = 23
	attributeNexthopID = 30
	// ticks are those of a second in what the kernel tells programs (USER_HZ).
	ticks = 100
	// settableFlags of a route or next hop are those that somebody sets. The others are the kernel's,
	// which refuses them.
	settableFlags = unix.RTNH_F_ONLINK
)

// hostRoutes are the routes by a device in all tables, in the kernel's order. It leaves out those that come
// and go with addresses (of the table "local", multicast, and of IPv6's link-local addresses), and the
// agent's own.
func hostRoutes(device int) ([]hostRoute, error) {
	found := []hostRoute{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		all, err := dump(unix.RTM_GETROUTE, family, routeHeader)
		if err != nil {
			return nil, fmt.Errorf("list the host's routes: %w", err)
		}
		for _, m := range all {
			if m.header[0] != family || binary.NativeEndian.Uint32(m.header[8:])&unix.RTM_F_CLONED != 0 {
				continue
			}
			routes, err := routesBy(device, m)
			if err != nil {
				return nil, err
			}
			found = append(found, routes...)
		}
	}
	return found, nil
}

// routesBy is what one message of the kernel's says of a device.
func routesBy(device int, m message) ([]hostRoute, error) {
	r := hostRoute{Destination: destinationOf(m)}
	own := r.Destination.Addr().IsMulticast() || r.Destination.Addr().Is6() &&
		r.Destination.Addr().IsLinkLocalUnicast() && m.header[5] == unix.RTPROT_KERNEL
	own = own || slices.Contains(contract.HostClients[:], r.Destination.Addr()) // see EnsureNeighbours
	if tableOf(m) == unix.RT_TABLE_LOCAL || m.header[7] != unix.RTN_UNICAST || own {
		return nil, nil
	}
	if info := m.get(unix.RTA_CACHEINFO); len(info) >= 12 {
		if left := int32(binary.NativeEndian.Uint32(info[8:])); left > 0 {
			r.Expires = time.Now().Add(time.Duration(left) * time.Second / ticks)
		}
	}
	m = m.without(unix.RTA_CACHEINFO, attributeNexthopID)
	binary.NativeEndian.PutUint32(m.header[8:], binary.NativeEndian.Uint32(m.header[8:])&settableFlags)
	hops, err := parseHops(m.get(unix.RTA_MULTIPATH))
	if err != nil {
		return nil, err
	}
	if len(hops) == 0 {
		if int(m.number(unix.RTA_OIF)) != device {
			return nil, nil
		}
		return []hostRoute{r.of(m)}, nil
	}
	hops = slices.DeleteFunc(hops, func(h nextHop) bool { return m.header[0] == unix.AF_INET6 && h.device() != device })
	if !slices.ContainsFunc(hops, func(h nextHop) bool { return h.device() == device }) {
		return nil, nil
	}
	if m.header[0] == unix.AF_INET {
		return []hostRoute{r.of(m.with(unix.RTA_MULTIPATH, slices.Concat(hops...)))}, nil
	}
	routes := []hostRoute{}
	for _, hop := range hops {
		routes = append(routes, r.of(m.without(unix.RTA_OIF).with(unix.RTA_MULTIPATH, hop)))
	}
	return routes, nil
}

func (r hostRoute) of(m message) hostRoute {
	r.m, r.Message = m, m.bytes()
	return r
}

func destinationOf(m message) netip.Prefix {
	addr, ok := netip.AddrFromSlice(m.get(unix.RTA_DST))
	switch {
	case ok:
	case m.header[0] == unix.AF_INET:
		addr = netip.IPv4Unspecified()
	default:
		addr = netip.IPv6Unspecified()
	}
	return netip.PrefixFrom(addr, int(m.header[1]))
}

func tableOf(m message) uint32 {
	if m.get(unix.RTA_TABLE) != nil {
		return m.number(unix.RTA_TABLE)
	}
	return uint32(m.header[4])
}

// nextHop is a struct rtnexthop with its attributes: one of several of a route. It has padding at its end.
type nextHop []byte

func parseHops(data []byte) ([]nextHop, error) {
	hops := []nextHop{}
	for len(data) >= unix.SizeofRtNexthop {
		length := int(binary.NativeEndian.Uint16(data))
		padded := (length + unix.RTNH_ALIGNTO - 1) &^ (unix.RTNH_ALIGNTO - 1)
		if length < unix.SizeofRtNexthop || length > len(data) {
			return nil, fmt.Errorf("a route's next hop of %d bytes in %d", length, len(data))
		}
		hop := make(nextHop, padded)
		copy(hop, data[:length])
		hop[2] &= settableFlags
		hops = append(hops, hop)
		data = data[min(padded, len(data)):]
	}
	return hops, nil
}

func (h nextHop) device() int { return int(binary.NativeEndian.Uint32(h[4:])) }

func (r hostRoute) hops() []nextHop {
	hops, _ := parseHops(r.m.get(unix.RTA_MULTIPATH)) // it was parsed before
	return hops
}

// by is the message of the same route by another device.
func (r hostRoute) by(old, device int) message {
	m := r.m.with(attributeExpires, nil)
	if !r.Expires.IsZero() {
		m = m.with(attributeExpires, remains(r.Expires))
	}
	if int(m.number(unix.RTA_OIF)) == old {
		m = m.with(unix.RTA_OIF, nativeNumber(uint32(device)))
	}
	if hops := r.hops(); len(hops) > 0 {
		for _, hop := range hops {
			if hop.device() == old {
				binary.NativeEndian.PutUint32(hop[4:], uint32(device))
			}
		}
		m = m.with(unix.RTA_MULTIPATH, slices.Concat(hops...))
	}
	return m
}

// gatewayless routes have to be there before others' gateways can be reached by them.
func (r hostRoute) gatewayless() bool {
	if r.m.get(unix.RTA_GATEWAY) != nil || r.m.get(unix.RTA_VIA) != nil {
		return false
	}
	return !slices.ContainsFunc(r.hops(), func(h nextHop) bool { return len(h) > unix.SizeofRtNexthop })
}

// rivals says whether two routes are of one place in the routing tables, of which the kernel takes the first.
func (r hostRoute) rivals(other hostRoute) bool {
	return r.Destination == other.Destination && r.m.header[3] == other.m.header[3] && tableOf(r.m) == tableOf(other.m) &&
		r.m.number(unix.RTA_PRIORITY) == other.m.number(unix.RTA_PRIORITY)
}

func (r hostRoute) same(other hostRoute) bool {
	return bytes.Equal(r.Message, other.Message) && r.Expires.IsZero() == other.Expires.IsZero()
}

// give makes the same route by another device. The new one is behind the old one, which works until it is
// taken away; replacing is for a route of which another version is there.
func (r hostRoute) give(old, device int, replace bool) error {
	if !r.Expires.IsZero() && time.Until(r.Expires) < time.Second {
		return nil
	}
	flags := unix.NLM_F_CREATE | unix.NLM_F_APPEND
	if replace {
		flags = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	}
	if err := send(unix.RTM_NEWROUTE, flags, r.by(old, device)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the route to %v (table %d) by the other device: %w", r.Destination, tableOf(r.m), err)
	}
	return nil
}

func (r hostRoute) remove() error {
	err := send(unix.RTM_DELROUTE, 0, r.m)
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the old route to %v (table %d): %w", r.Destination, tableOf(r.m), err)
	}
	return nil
}
