package linux

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/platform"
)

func (l *Platform) EnsureManagement(m platform.Management) error {
	link, err := l.linkByName(m.Device)
	if err != nil {
		return err
	}
	if link == nil {
		return fmt.Errorf("management device %s: %w", m.Device, platform.ErrNoDevice)
	}
	attrs := link.Attrs()
	if !bytes.Equal(attrs.HardwareAddr, m.MAC) {
		if err := l.netlink.LinkSetHardwareAddr(link, m.MAC); err != nil {
			return fmt.Errorf("set MAC %v of management device %s: %w", m.MAC, m.Device, err)
		}
	}
	if attrs.MTU != m.MTU {
		if err := l.netlink.LinkSetMTU(link, m.MTU); err != nil {
			return fmt.Errorf("set MTU %d of management device %s: %w", m.MTU, m.Device, err)
		}
	}
	if err := ignoreAdvertisements(m.Device); err != nil {
		return err
	}
	if attrs.Flags&net.FlagUp == 0 {
		if err := l.netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set management device %s up: %w", m.Device, err)
		}
	}
	if err := l.ensureAddresses(link, m.Addresses); err != nil {
		return fmt.Errorf("management device %s: %w", m.Device, err)
	}
	if err := l.ensureRoutes(link, m); err != nil {
		return fmt.Errorf("management device %s: %w", m.Device, err)
	}
	return nil
}

// ensureAddresses gives the device the addresses it lacks and takes others, except for link-local ones.
func (l *Platform) ensureAddresses(link netlink.Link, wanted []netip.Prefix) error {
	addrs, err := l.addresses(link)
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	missing := map[netip.Prefix]bool{}
	for _, prefix := range wanted {
		missing[prefix] = true
	}
	for _, a := range addrs {
		prefix := toPrefix(a.IPNet)
		if missing[prefix] || prefix.Addr().IsLinkLocalUnicast() {
			delete(missing, prefix)
			continue
		}
		if err := l.netlink.AddrDel(link, &a); err != nil {
			return fmt.Errorf("remove address %v: %w", prefix, err)
		}
	}
	for _, prefix := range wanted {
		if !missing[prefix] {
			continue
		}
		if err := l.netlink.AddrReplace(link, toAddr(prefix)); err != nil {
			return fmt.Errorf("add address %v: %w", prefix, err)
		}
	}
	return nil
}

// ensureRoutes owns all routes by the device's gateways; those that the kernel itself made from
// addresses have none. Routes to single addresses are in a table of their own, see [vipTable].
func (l *Platform) ensureRoutes(link netlink.Link, m platform.Management) error {
	missing := map[int]map[platform.Route]bool{unix.RT_TABLE_MAIN: {}, vipTable: {}} // by table
	for _, route := range m.Routes {
		missing[tableFor(route)][route] = true
	}
	for table, missing := range missing {
		routes, err := retryDump(func() ([]netlink.Route, error) {
			return l.netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: link.Attrs().Index, Table: table},
				netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			found, ours := readRoute(r)
			if !ours {
				continue
			}
			if missing[found] {
				delete(missing, found)
				continue
			}
			if !m.Superfluous(found.Destination) {
				continue
			}
			if err := l.netlink.RouteDel(&r); err != nil {
				return fmt.Errorf("remove route %v: %w", r, err)
			}
		}
	}
	var sources []netip.Addr
	for _, route := range m.Routes {
		table := tableFor(route)
		if table == vipTable && !slices.Contains(sources, route.Source) {
			sources = append(sources, route.Source)
		}
		if !missing[table][route] {
			continue
		}
		err := l.netlink.RouteReplace(&netlink.Route{
			LinkIndex: link.Attrs().Index, Dst: fromPrefix(route.Destination), Gw: route.NextHop.AsSlice(),
			Src:      route.Source.AsSlice(),
			Protocol: unix.RTPROT_STATIC, Table: table,
		})
		if err != nil {
			return fmt.Errorf("add route %v by %v from %v: %w", route.Destination, route.NextHop, route.Source, err)
		}
	}
	return ensureVIPRules(sources)
}

func tableFor(r platform.Route) int {
	if r.Destination.IsSingleIP() {
		return vipTable
	}
	return unix.RT_TABLE_MAIN
}

func readRoute(r netlink.Route) (platform.Route, bool) {
	hop, ok := netip.AddrFromSlice(r.Gw)
	if !ok || r.Dst == nil {
		return platform.Route{}, false
	}
	source, _ := netip.AddrFromSlice(r.Src)
	return platform.Route{Destination: toPrefix(r.Dst), NextHop: hop.Unmap(), Source: source.Unmap()}, true
}
