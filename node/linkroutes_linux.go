package node

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// EnsureLinkRoutes looks before it writes: a route that is replaced by itself is news for all who watch.
func (l *Linux) EnsureLinkRoutes(device string, addresses []netip.Addr) error {
	link, err := l.linkByName(device)
	if err != nil {
		return err
	}
	if link == nil {
		return fmt.Errorf("device %s: %w", device, ErrNoDevice)
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
	for _, addr := range addresses {
		prefix := netip.PrefixFrom(addr, addr.BitLen())
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
