package hns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ensure: the management vNIC exists with the adapter's MAC, has the addresses and routes that the
// adapter had, and the host's stack sees no frame of the adapter's. Who has changed the vNIC's
// configuration since, has changed it: it is remembered. But Open vSwitch gives the bridge's MAC to its
// local port, and takes the device down for it, which costs routes and IPv6 addresses; nothing of the
// kind happens on Windows, so they come back. seen looks at what has happened to devices, see links. With wmi, a vNIC
// that was deleted is errDeleted.
func (s *hostSwitch) ensure(seen func() error, wmi bool) error {
	adapter, err := netlink.LinkByName(s.Adapter)
	if err != nil {
		return fmt.Errorf("adapter %s of network %s: %w", s.Adapter, s.Network, err)
	}
	if s.adapter != adapter.Attrs().Index {
		if err := wire(s.Adapter, 0); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(adapter); err != nil {
			return err
		}
		s.adapter = adapter.Attrs().Index
	}
	if err := s.rename(); err != nil {
		return err
	}
	vnic, isNew, err := ensureTap(s.device, known(wmi, s.vnic))
	if err != nil {
		return err
	}
	if s.native == nil && s.VNIC.Name != s.device && vnic.Attrs().RawFlags&unix.IFF_LOWER_UP != 0 {
		return takenForAnother(vnic)
	}
	has, err := hostConfig(adapter)
	if err != nil {
		return err
	}
	moved := false
	if len(has.Addresses) > 0 {
		// Windows unbinds TCP/IP from the adapter and binds it to the vNIC.
		if err := takeConfig(adapter, has); err != nil {
			return err
		}
		if !s.KeepAddresses {
			s.host, moved = has, true
		}
	}
	if isNew {
		if err := netlink.LinkSetHardwareAddr(vnic, adapter.Attrs().HardwareAddr); err != nil {
			return fmt.Errorf("set the MAC of %s: %w", vnic.Attrs().Name, err)
		}
		// Where the adapter has jumbo frames, Windows leaves it to the administrator that the vNIC has them, too.
		if err := netlink.LinkSetMTU(vnic, adapter.Attrs().MTU); err != nil {
			return fmt.Errorf("set the MTU of %s: %w", vnic.Attrs().Name, err)
		}
	}
	s.vnic = vnic.Attrs().Index
	now, err := hostConfig(vnic)
	if err != nil {
		return err
	}
	if err := seen(); err != nil { // all that happened before the configuration was read
		return err
	}
	if !isNew && !moved && !s.wasDown && vnic.Attrs().Flags&net.FlagUp != 0 {
		if len(now.Addresses) > 0 {
			s.host = now
		}
		return nil
	}
	if err := netlink.LinkSetUp(vnic); err != nil {
		return fmt.Errorf("set %s up: %w", vnic.Attrs().Name, err)
	}
	if err := giveConfig(vnic, s.host); err != nil {
		return err
	}
	s.wasDown = false
	return nil
}

// rename takes a management vNIC away that has another name now: it is made again, with what it had. Wine would
// not see that a device has another name.
func (s *hostSwitch) rename() error {
	before := s.device
	s.device = s.VNIC.Device
	if before == "" || before == s.device {
		return nil
	}
	s.stopNative()
	s.vnic = 0
	vnic, err := netlink.LinkByName(before)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := hostConfig(vnic)
	if err != nil {
		return err
	}
	if len(now.Addresses) > 0 {
		s.host = now
	}
	return removeDevice(before)
}

// takenForAnother is for a vNIC that Open vSwitch has opened by its alias, while Hyper-V calls it something else.
// ovs-vswitchd of Windows finds no vNIC of the port's name then and makes one; of the adapters whose alias has that
// name in it, it disables and renames the first (create_wmi_port of lib/wmi.c), and that is the host's.
func takenForAnother(vnic netlink.Link) error {
	has, err := hostConfig(vnic)
	if err != nil {
		return err
	}
	return errors.Join(takeConfig(vnic, has), netlink.LinkSetDown(vnic))
}

// remove gives the adapter back what its vNIC has, or what it had before.
func (s *hostSwitch) remove() error {
	s.stopNative()
	name := s.device
	if vnic, err := netlink.LinkByName(name); err == nil && !s.wasDown {
		if now, err := hostConfig(vnic); err == nil && len(now.Addresses) > 0 {
			s.host = now
		}
	}
	errs := []error{removeDevice(name), unwire(s.Adapter)}
	adapter, err := netlink.LinkByName(s.Adapter)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	has := s.host
	if len(has.Addresses) == 0 {
		has = s.Host
	}
	return errors.Join(append(errs, netlink.LinkSetUp(adapter), giveConfig(adapter, has))...)
}

// hostConfig reads an interface's global addresses and the routes through it that do not follow from
// its addresses.
func hostConfig(link netlink.Link) (HostConfig, error) {
	has := HostConfig{MAC: link.Attrs().HardwareAddr.String()}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return has, fmt.Errorf("addresses of %s: %w", link.Attrs().Name, err)
	}
	for _, a := range addresses {
		if p, ok := toPrefix(a.IPNet); ok && p.Addr().IsGlobalUnicast() {
			has.Addresses = append(has.Addresses, p)
		}
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: link.Attrs().Index,
		Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	if err != nil {
		return has, fmt.Errorf("routes of %s: %w", link.Attrs().Name, err)
	}
	for _, r := range routes {
		if r.Protocol == unix.RTPROT_KERNEL || r.Type != unix.RTN_UNICAST {
			continue
		}
		has.Routes = append(has.Routes, toHostRoute(r))
	}
	return has, nil
}

func takeConfig(link netlink.Link, has HostConfig) error {
	for _, a := range has.Addresses {
		err := netlink.AddrDel(link, &netlink.Addr{IPNet: fromPrefix(a)})
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("take %s off %s: %w", a, link.Attrs().Name, err)
		}
	}
	for _, r := range has.Routes { // most went with their addresses
		err := netlink.RouteDel(fromHostRoute(link.Attrs().Index, r))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("take the route to %s off %s: %w", r.Destination, link.Attrs().Name, err)
		}
	}
	return nil
}

func giveConfig(link netlink.Link, has HostConfig) error {
	var errs []error
	for _, a := range has.Addresses {
		// A tap that nobody has open has no carrier: duplicate address detection would never end.
		if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: fromPrefix(a), Flags: unix.IFA_F_NODAD}); err != nil {
			errs = append(errs, fmt.Errorf("give %s to %s: %w", a, link.Attrs().Name, err))
		}
	}
	for _, r := range has.Routes {
		if err := replaceRoute(netlink.RouteReplace, fromHostRoute(link.Attrs().Index, r)); err != nil {
			errs = append(errs, fmt.Errorf("give the route to %s to %s: %w", r.Destination, link.Attrs().Name, err))
		}
	}
	return errors.Join(errs...)
}

func toPrefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), ones), ok
}

func fromPrefix(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func toHostRoute(r netlink.Route) HostRoute {
	destination, ok := toPrefix(r.Dst)
	if !ok {
		any := netip.IPv4Unspecified()
		if r.Family == unix.AF_INET6 {
			any = netip.IPv6Unspecified()
		}
		destination = netip.PrefixFrom(any, 0)
	}
	hop, _ := netip.AddrFromSlice(r.Gw)
	source, _ := netip.AddrFromSlice(r.Src)
	return HostRoute{Destination: destination, NextHop: hop.Unmap(), Source: source.Unmap(), Metric: r.Priority}
}

func fromHostRoute(index int, r HostRoute) *netlink.Route {
	route := &netlink.Route{LinkIndex: index, Dst: fromPrefix(r.Destination), Priority: r.Metric,
		Protocol: unix.RTPROT_STATIC}
	if r.NextHop.IsValid() {
		route.Gw = r.NextHop.AsSlice()
	}
	if r.Source.IsValid() {
		route.Src = r.Source.AsSlice()
	}
	if !r.NextHop.IsValid() {
		route.Scope = netlink.SCOPE_LINK
	}
	return route
}

// replaceRoute adds a route whose next hop may be outside of the interface's own subnets, as Windows
// allows.
func replaceRoute(replace func(*netlink.Route) error, route *netlink.Route) error {
	err := replace(route)
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EINVAL) {
		route.Flags = int(netlink.FLAG_ONLINK)
		return replace(route)
	}
	return err
}
