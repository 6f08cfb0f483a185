package linux

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/platform"
)

// passing are the flags of an address that cannot be used yet, or not for long any more.
const passing = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED

// HostInterface reads the main routing table: what other tables say is for some packets only.
func (l *Platform) HostInterface(name string) (platform.HostInterface, error) {
	link, err := l.linkByName(name)
	if err != nil {
		return platform.HostInterface{}, err
	}
	if link == nil {
		return platform.HostInterface{}, fmt.Errorf("interface %s: %w", name, platform.ErrNoDevice)
	}
	addrs, err := l.addresses(link)
	if err != nil {
		return platform.HostInterface{}, fmt.Errorf("list the addresses of %s: %w", name, err)
	}
	found := platform.HostInterface{MAC: link.Attrs().HardwareAddr}
	// An address of a narrower scope is for neighbours; the kernel lists it first.
	slices.SortStableFunc(addrs, func(a, b netlink.Addr) int { return a.Scope - b.Scope })
	for _, a := range addrs {
		prefix := toPrefix(a.IPNet)
		if prefix.Addr().IsGlobalUnicast() && a.Flags&passing == 0 && !temporary(a) {
			found.Addresses = append(found.Addresses, prefix)
		}
	}
	// The kernel lists IPv4 addresses in the order in which they were given, and secondary ones of a
	// subnet after its primary one; IPv6 addresses the last one first.
	v4 := slices.DeleteFunc(slices.Clone(found.Addresses), func(p netip.Prefix) bool { return !p.Addr().Is4() })
	v6 := slices.DeleteFunc(slices.Clone(found.Addresses), func(p netip.Prefix) bool { return p.Addr().Is4() })
	slices.Reverse(v6)
	found.Addresses = slices.Concat(v4, v6)
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := retryDump(func() ([]netlink.Route, error) {
			return l.netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return platform.HostInterface{}, fmt.Errorf("list the host's routes: %w", err)
		}
		found.NextHops = append(found.NextHops, defaultNextHops(routes, link.Attrs().Index)...)
	}
	return found, nil
}

// temporary addresses change again and again, for privacy. The same bit means "secondary" in IPv4.
func temporary(a netlink.Addr) bool {
	return toPrefix(a.IPNet).Addr().Is6() && a.Flags&unix.IFA_F_TEMPORARY != 0
}

// defaultNextHops are those of the default routes of one family by the device whose metric is lowest.
func defaultNextHops(routes []netlink.Route, device int) []netip.Addr {
	hops, best := []netip.Addr{}, 0
	for _, r := range routes {
		if r.Dst != nil && toPrefix(r.Dst).Bits() != 0 || r.Type != unix.RTN_UNICAST || r.Tos != 0 {
			continue
		}
		for _, hop := range nexthops(r) {
			gateway := gatewayOfHop(hop)
			if hop.LinkIndex != device || !gateway.IsValid() || len(hops) > 0 && r.Priority > best {
				continue
			}
			if len(hops) == 0 || r.Priority < best {
				hops, best = hops[:0], r.Priority
			}
			if !slices.Contains(hops, gateway) {
				hops = append(hops, gateway)
			}
		}
	}
	slices.SortFunc(hops, netip.Addr.Compare)
	return hops
}

// nexthops of a route: it has one by itself, or several.
func nexthops(r netlink.Route) []*netlink.NexthopInfo {
	if len(r.MultiPath) > 0 {
		return r.MultiPath
	}
	return []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via, Flags: r.Flags}}
}

// gatewayOfHop is invalid where the route has no gateway of its own family.
func gatewayOfHop(hop *netlink.NexthopInfo) netip.Addr {
	gateway, _ := netip.AddrFromSlice(hop.Gw)
	return gateway.Unmap()
}
