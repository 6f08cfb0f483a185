package hyperv

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/netdev"
)

// host is what the extension wants of the machine that it is in.
type host interface {
	// openVNIC opens the vNIC of that name, and makes it if there is none.
	openVNIC(name string) (netdev.Device, error)
	removeVNIC(name string) error
	// openDevice opens a network device that must be there.
	openDevice(name string) (netdev.Device, error)
	// route finds by which device, from which address and MAC, and to which MAC a packet to dst is sent.
	// The peer's MAC is empty until it is known; asking makes it known.
	route(dst netip.Addr) (route, error)
}

type route struct {
	device string
	src    netip.Addr
	srcMAC [6]byte
	dstMAC net.HardwareAddr
}

// linuxHost is the network namespace of the process.
type linuxHost struct{}

func (linuxHost) openVNIC(name string) (netdev.Device, error)   { return netdev.OpenTap(name) }
func (linuxHost) openDevice(name string) (netdev.Device, error) { return netdev.Open(name) }

// removeVNIC: one that was here before the port, as those of HNS, goes too.
func (linuxHost) removeVNIC(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

func (linuxHost) route(dst netip.Addr) (route, error) {
	routes, err := netlink.RouteGet(dst.AsSlice())
	if err != nil || len(routes) == 0 {
		return route{}, fmt.Errorf("find the route to %s: %w", dst, err)
	}
	hop, _ := netip.AddrFromSlice(routes[0].Gw)
	if !hop.IsValid() {
		hop = dst
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return route{}, fmt.Errorf("find the device of the route to %s: %w", dst, err)
	}
	src, _ := netip.AddrFromSlice(routes[0].Src)
	r := route{device: link.Attrs().Name, src: src.Unmap()}
	copy(r.srcMAC[:], link.Attrs().HardwareAddr)
	family := netlink.FAMILY_V4
	if dst.Is6() {
		family = netlink.FAMILY_V6
	}
	neighbours, err := netlink.NeighList(link.Attrs().Index, family)
	if err != nil {
		return route{}, fmt.Errorf("list the neighbours of %s: %w", r.device, err)
	}
	const known = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE |
		unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE
	for _, n := range neighbours {
		if address, _ := netip.AddrFromSlice(n.IP); address.Unmap() == hop && n.State&known != 0 {
			r.dstMAC = n.HardwareAddr
			return r, nil
		}
	}
	ask := &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: family, IP: hop.AsSlice(), State: unix.NUD_NONE,
		Flags: unix.NTF_USE}
	if err := netlink.NeighSet(ask); err != nil {
		return r, fmt.Errorf("ask for the neighbour %s: %w", hop, err)
	}
	return r, nil
}
