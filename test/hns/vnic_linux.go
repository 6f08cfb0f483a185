package hns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ensure: the vNIC's tap is on the host, its interface in the compartment, and a wire between them
// where the switch's extension runs. A compartment that is gone takes the vNIC with it. With wmi, a tap that was
// deleted is errDeleted.
func (v *hostVNIC) ensure(wmi bool) error {
	space, err := netns.GetFromPath(v.Netns)
	if errors.Is(err, os.ErrNotExist) {
		return errors.Join(fmt.Errorf("compartment %s is gone", v.Netns), v.remove())
	}
	if err != nil {
		return fmt.Errorf("open compartment %s: %w", v.Netns, err)
	}
	defer space.Close()
	inside, err := netlink.NewHandleAt(space)
	if err != nil {
		return fmt.Errorf("enter compartment %s: %w", v.Netns, err)
	}
	defer inside.Close()
	mtu := v.mtu
	end, err := v.ensureEnd(space, inside)
	if err != nil {
		return err
	}
	tap, isNew, err := ensureTap(v.Name, known(wmi, v.tap))
	if err != nil {
		return err
	}
	if isNew || tap.Attrs().Flags&net.FlagUp == 0 || v.tap != tap.Attrs().Index {
		mac, err := net.ParseMAC(v.MAC)
		if err != nil {
			return err
		}
		err = errors.Join(noIPv6(v.Name), netlink.LinkSetHardwareAddr(tap, mac), netlink.LinkSetUp(tap))
		if err != nil {
			return fmt.Errorf("set up tap %s: %w", v.Name, err)
		}
	}
	if v.MTU > 0 && (isNew || v.mtu != mtu) {
		if err := netlink.LinkSetMTU(tap, v.MTU); err != nil {
			return fmt.Errorf("set MTU %d of tap %s: %w", v.MTU, v.Name, err)
		}
	}
	if v.tap == tap.Attrs().Index && v.end == end.Attrs().Index && v.connected == v.Connected {
		return nil
	}
	toEnd, toTap := end.Attrs().Index, tap.Attrs().Index
	if !v.Connected {
		toEnd, toTap = 0, 0
	}
	if err := errors.Join(wire(v.Name, toEnd), wire(end.Attrs().Name, toTap)); err != nil {
		return err
	}
	v.tap, v.end, v.connected = tap.Attrs().Index, end.Attrs().Index, v.Connected
	return nil
}

// ensureEnd makes the veth pair, and configures the compartment's end when it is new or its MTU changes.
func (v *hostVNIC) ensureEnd(space netns.NsHandle, inside *netlink.Handle) (netlink.Link, error) {
	name := endDevice(v.Endpoint)
	end, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		if v.device, err = freeName(inside); err != nil {
			return nil, err
		}
		mac, parseErr := net.ParseMAC(v.MAC)
		if parseErr != nil {
			return nil, parseErr
		}
		err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: v.device,
			PeerHardwareAddr: mac, PeerNamespace: netlink.NsFd(int(space))})
		if err != nil {
			return nil, fmt.Errorf("make %s in compartment %s: %w", v.device, v.Netns, err)
		}
		end, err = netlink.LinkByName(name)
	}
	if err != nil {
		return nil, err
	}
	if v.configured == end.Attrs().Index && v.mtu == v.MTU {
		return end, nil
	}
	if err := errors.Join(noIPv6(name), netlink.LinkSetUp(end)); err != nil {
		return nil, fmt.Errorf("set up %s: %w", name, err)
	}
	device, err := peer(inside, end)
	if err != nil {
		return nil, err
	}
	if v.MTU > 0 {
		if err := netlink.LinkSetMTU(end, v.MTU); err != nil {
			return nil, fmt.Errorf("set MTU %d of %s: %w", v.MTU, name, err)
		}
	}
	v.device = device.Attrs().Name
	if err := v.configure(inside, device); err != nil {
		return nil, fmt.Errorf("configure %s in compartment %s: %w", v.device, v.Netns, err)
	}
	v.configured, v.mtu = end.Attrs().Index, v.MTU
	return end, nil
}

// peer finds the compartment's end of a veth pair.
func peer(inside *netlink.Handle, end netlink.Link) (netlink.Link, error) {
	links, err := inside.LinkList()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		if link.Type() == "veth" && link.Attrs().Index == end.Attrs().ParentIndex &&
			link.Attrs().ParentIndex == end.Attrs().Index {
			return link, nil
		}
	}
	return nil, fmt.Errorf("the other end of %s is not in its compartment", end.Attrs().Name)
}

// freeName is eth0 for a compartment's first vNIC.
func freeName(inside *netlink.Handle) (string, error) {
	for i := range 16 {
		name := fmt.Sprintf("eth%d", i)
		if _, err := inside.LinkByName(name); errors.As(err, &netlink.LinkNotFoundError{}) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", errors.New("the compartment has 16 vNICs already")
}

// configure does what HNS does in the compartment. Name servers are not among it: a Linux container
// has its resolver's configuration in a file, which kubelet writes.
func (v *hostVNIC) configure(inside *netlink.Handle, device netlink.Link) error {
	if lo, err := inside.LinkByName("lo"); err == nil {
		if err := inside.LinkSetUp(lo); err != nil {
			return err
		}
	}
	mac, err := net.ParseMAC(v.MAC)
	if err != nil {
		return err
	}
	if err := inside.LinkSetHardwareAddr(device, mac); err != nil {
		return err
	}
	if v.MTU > 0 {
		if err := inside.LinkSetMTU(device, v.MTU); err != nil {
			return fmt.Errorf("set MTU %d: %w", v.MTU, err)
		}
	}
	if err := inside.LinkSetUp(device); err != nil {
		return err
	}
	for _, c := range v.Addresses {
		address, err := netip.ParseAddr(c.IPAddress)
		if err != nil {
			return err
		}
		prefix := netip.PrefixFrom(address, int(c.PrefixLength))
		if err := inside.AddrReplace(device, &netlink.Addr{IPNet: fromPrefix(prefix), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("add %s: %w", prefix, err)
		}
	}
	for _, r := range v.Routes {
		destination, err := netip.ParsePrefix(r.DestinationPrefix)
		hop, hopErr := netip.ParseAddr(r.NextHop)
		if err := errors.Join(err, hopErr); err != nil {
			return err
		}
		route := fromHostRoute(device.Attrs().Index, HostRoute{Destination: destination, NextHop: hop, Metric: int(r.Metric)})
		if err := replaceRoute(inside.RouteReplace, route); err != nil {
			return fmt.Errorf("add the route to %s by %s: %w", destination, hop, err)
		}
	}
	return nil
}

// remove takes the vNIC off the host and out of its compartment.
func (v *hostVNIC) remove() error {
	end := endDevice(v.Endpoint)
	err := errors.Join(removeDevice(end), removeDevice(v.Name), unwire(v.Name), unwire(end))
	v.tap, v.end, v.configured = 0, 0, 0
	return err
}

// noIPv6: a wire's devices have no address of their own.
func noIPv6(device string) error {
	path := filepath.Join("/proc/sys/net/ipv6/conf", device, "disable_ipv6")
	err := os.WriteFile(path, []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
		return nil
	}
	return err
}
