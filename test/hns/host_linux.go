package hns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// linuxHost is the [Host] of the network namespace of its process. The data plane knows which interfaces are vNICs of
// endpoints; everything else is the kernel's.
type linuxHost struct{ plane *Linux }

// Interfaces implements [Host]: all but the emulator's own ends of wires.
func (h linuxHost) Interfaces() ([]Interface, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	endpoints := h.plane.endpointDevices()
	var list []Interface
	for _, link := range links {
		a := link.Attrs()
		if isEnd(a.Name) {
			continue
		}
		list = append(list, Interface{Index: a.Index, Name: a.Name, Hardware: physical(link), MAC: a.HardwareAddr, MTU: a.MTU,
			Connected: a.Flags&net.FlagRunning != 0, Endpoint: endpoints[a.Name]})
	}
	return list, nil
}

// AddAddress implements [Host].
func (h linuxHost) AddAddress(index int, address netip.Prefix) error {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return Win32NotFound
	}
	// Windows refuses an address that the interface has, whatever the length of its prefix.
	has, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, a := range has {
		if p, ok := toPrefix(a.IPNet); ok && p.Addr() == address.Addr() {
			return Win32ObjectExists
		}
	}
	return code(netlink.AddrAdd(link, &netlink.Addr{IPNet: fromPrefix(address), Flags: unix.IFA_F_NODAD}))
}

// DeleteAddress implements [Host].
func (h linuxHost) DeleteAddress(index int, address netip.Addr) error {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return Win32NotFound
	}
	has, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, a := range has {
		if p, ok := toPrefix(a.IPNet); ok && p.Addr() == address.WithZone("") {
			return code(netlink.AddrDel(link, &a))
		}
	}
	return Win32NotFound
}

// Routes implements [Host]: those of the main table.
func (h linuxHost) Routes() ([]InterfaceRoute, error) {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("list the routes: %w", err)
	}
	var list []InterfaceRoute
	for _, r := range routes {
		if r.Type == unix.RTN_UNICAST && r.LinkIndex != 0 {
			list = append(list, InterfaceRoute{r.LinkIndex, toHostRoute(r)})
		}
	}
	return list, nil
}

// AddRoute implements [Host]. Windows tells routes apart by interface, destination and next hop; its
// metric 0 is the best, and Linux, where 0 is the default, has it as 0 too.
func (h linuxHost) AddRoute(r InterfaceRoute) error {
	if _, err := netlink.LinkByIndex(r.Index); err != nil {
		return Win32NotFound
	}
	if found, err := h.route(r); err != nil || found != nil {
		return errors.Join(err, errIf(found != nil, Win32ObjectExists))
	}
	return code(replaceRoute(netlink.RouteAdd, fromHostRoute(r.Index, r.HostRoute)))
}

// SetRoute implements [Host]: the metric changes.
func (h linuxHost) SetRoute(r InterfaceRoute) error {
	if err := h.DeleteRoute(r); err != nil {
		return err
	}
	return h.AddRoute(r)
}

// DeleteRoute implements [Host].
func (h linuxHost) DeleteRoute(r InterfaceRoute) error {
	found, err := h.route(r)
	if err != nil {
		return err
	}
	if found == nil {
		return Win32NotFound
	}
	route := fromHostRoute(found.Index, found.HostRoute)
	route.Protocol = 0 // of whatever origin
	return code(netlink.RouteDel(route))
}

func (h linuxHost) route(r InterfaceRoute) (*InterfaceRoute, error) {
	routes, err := h.Routes()
	if err != nil {
		return nil, err
	}
	for i := range routes {
		if routes[i].Index == r.Index && routes[i].Destination == r.Destination && routes[i].NextHop == r.NextHop {
			return &routes[i], nil
		}
	}
	return nil, nil
}

// AddNeighbour implements [Host]. Linux keeps entries of neighbours that did not answer.
func (h linuxHost) AddNeighbour(n InterfaceNeighbour) error {
	known, err := neighbour(n)
	if err != nil || known {
		return errors.Join(err, errIf(known, Win32ObjectExists))
	}
	return setNeighbour(n)
}

// SetNeighbour implements [Host].
func (h linuxHost) SetNeighbour(n InterfaceNeighbour) error {
	known, err := neighbour(n)
	if err != nil || !known {
		return errors.Join(err, errIf(!known, Win32NotFound))
	}
	return setNeighbour(n)
}

// neighbour says whether the interface has one with a MAC address.
func neighbour(n InterfaceNeighbour) (bool, error) {
	if _, err := netlink.LinkByIndex(n.Index); err != nil {
		return false, Win32NotFound
	}
	list, err := netlink.NeighList(n.Index, netlink.FAMILY_ALL)
	for _, has := range list {
		if addr, ok := netip.AddrFromSlice(has.IP); ok && addr.Unmap() == n.Address && len(has.HardwareAddr) > 0 {
			return true, nil
		}
	}
	return false, err
}

func setNeighbour(n InterfaceNeighbour) error {
	return code(netlink.NeighSet(&netlink.Neigh{LinkIndex: n.Index, State: netlink.NUD_PERMANENT, IP: n.Address.AsSlice(),
		HardwareAddr: n.MAC}))
}

// SetMTU implements [Host].
func (h linuxHost) SetMTU(index, mtu int) error {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return Win32FileNotFound
	}
	return code(netlink.LinkSetMTU(link, mtu))
}

// SetUp implements [Host].
func (h linuxHost) SetUp(index int) error {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return Win32FileNotFound
	}
	return code(netlink.LinkSetUp(link))
}

func errIf(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// code is the Win32 error of Linux's.
func code(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EEXIST):
		return Win32ObjectExists
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.ENODEV):
		return Win32NotFound
	}
	return errors.Join(err, Win32InvalidParameter)
}

// Watch implements [Host]: a line a change of an interface, address or route, "interface INDEX",
// "unicast INDEX ADDRESS/LENGTH" or "route INDEX DESTINATION NEXT-HOP METRIC", each after "add" or
// "delete". It begins with "ready" when no change can be missed any more.
func (h linuxHost) Watch(ctx context.Context, event func(line string)) error {
	links, addresses, routes := make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate),
		make(chan netlink.RouteUpdate)
	failed := make(chan error, 3)
	report := func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
	done := ctx.Done()
	err := errors.Join(
		netlink.LinkSubscribeWithOptions(links, done, netlink.LinkSubscribeOptions{ErrorCallback: report}),
		netlink.AddrSubscribeWithOptions(addresses, done, netlink.AddrSubscribeOptions{ErrorCallback: report}),
		netlink.RouteSubscribeWithOptions(routes, done, netlink.RouteSubscribeOptions{ErrorCallback: report}))
	if err != nil {
		return fmt.Errorf("watch the interfaces: %w", err)
	}
	event("ready")
	for {
		select {
		case u, open := <-links:
			if open {
				event(line("interface", u.Header.Type != unix.RTM_DELLINK, int(u.Index)))
			}
			links = open1(links, open)
		case u, open := <-addresses:
			if p, ok := toPrefix(&u.LinkAddress); open && ok {
				event(line("unicast", u.NewAddr, u.LinkIndex, p.String()))
			}
			addresses = open1(addresses, open)
		case u, open := <-routes:
			if open && u.Table == unix.RT_TABLE_MAIN && u.LinkIndex != 0 {
				r := toHostRoute(u.Route)
				hop := "-"
				if r.NextHop.IsValid() {
					hop = r.NextHop.String()
				}
				event(line("route", u.Type == unix.RTM_NEWROUTE, u.LinkIndex, r.Destination.String(), hop, fmt.Sprint(r.Metric)))
			}
			routes = open1(routes, open)
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch the interfaces: %w", err)
		case <-done:
			drain(links, addresses, routes)
			return nil
		}
	}
}

// open1 forgets a channel that is closed, so that a select does not spin on it.
func open1[T any](c chan T, open bool) chan T {
	if open {
		return c
	}
	return nil
}

// drain lets the subscriptions' readers, which may be sending, see that they are done.
func drain(links chan netlink.LinkUpdate, addresses chan netlink.AddrUpdate, routes chan netlink.RouteUpdate) {
	go func() {
		for range links {
		}
	}()
	go func() {
		for range addresses {
		}
	}()
	go func() {
		for range routes {
		}
	}()
}

func line(kind string, added bool, index int, rest ...string) string {
	verb := "delete"
	if added {
		verb = "add"
	}
	return strings.Join(append([]string{verb, kind, fmt.Sprint(index)}, rest...), " ")
}
