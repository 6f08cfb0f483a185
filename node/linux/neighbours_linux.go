package linux

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/platform"
)

// EnsureNeighbours looks before it writes: a route that is replaced by itself is news for all who watch.
func (l *Platform) EnsureNeighbours(device string, neighbours []extbridge.Neighbour) error {
	link, err := l.linkByName(device)
	if err != nil {
		return err
	}
	if link == nil {
		return fmt.Errorf("device %s: %w", device, platform.ErrNoDevice)
	}
	routes, err := retryDump(func() ([]netlink.Route, error) { return l.netlink.RouteList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list the routes by %s: %w", device, err)
	}
	there := map[netip.Prefix]bool{}
	for _, r := range routes {
		if r.Dst != nil && len(r.Gw) == 0 && len(r.MultiPath) == 0 {
			there[toPrefix(r.Dst)] = true
		}
	}
	for _, n := range neighbours {
		if err := l.ensureNeighbour(link, n); err != nil {
			return fmt.Errorf("set neighbour %v of %s to %v: %w", n.Addr, device, n.MAC, err)
		}
		prefix := netip.PrefixFrom(n.Addr, n.Addr.BitLen())
		if there[prefix] {
			continue
		}
		err := l.netlink.RouteReplace(&netlink.Route{
			LinkIndex: link.Attrs().Index, Dst: fromPrefix(prefix), Scope: netlink.SCOPE_LINK, Protocol: unix.RTPROT_STATIC,
		})
		if err != nil {
			return fmt.Errorf("add route %v by %s: %w", prefix, device, err)
		}
	}
	return nil
}

func (l *Platform) ensureNeighbour(link netlink.Link, n extbridge.Neighbour) error {
	index := link.Attrs().Index
	known, err := retryDump(func() ([]netlink.Neigh, error) { return l.netlink.NeighList(index, netlink.FAMILY_ALL) })
	if err != nil {
		return err
	}
	for _, has := range known {
		if addr, ok := netip.AddrFromSlice(has.IP); ok && addr.Unmap() == n.Addr && has.State == netlink.NUD_PERMANENT &&
			bytes.Equal(has.HardwareAddr, n.MAC) {
			return nil
		}
	}
	return l.netlink.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: n.Addr.AsSlice(),
		HardwareAddr: n.MAC})
}
