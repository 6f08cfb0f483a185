package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/platform"
)

func (l *Platform) CreateEndpoint(_ context.Context, e platform.Endpoint) error {
	sandbox, err := openSandbox(e.Sandbox)
	if err != nil {
		return err
	}
	defer sandbox.Close()
	host, err := l.createPair(sandbox, e)
	if err != nil {
		return err
	}
	if err := l.hideFromStack(host); err != nil {
		return err
	}
	if err := l.netlink.LinkSetAlias(host, e.Label); err != nil {
		return fmt.Errorf("label device %s: %w", e.Device, err)
	}
	if err := l.netlink.LinkSetUp(host); err != nil {
		return fmt.Errorf("set device %s up: %w", e.Device, err)
	}
	return nil
}

// createPair makes the veth pair with its far end in the sandbox from the first moment, or finds
// the pair of an earlier call. A device of that name which is not the pair is a remnant and goes.
func (l *Platform) createPair(sandbox netns.NsHandle, e platform.Endpoint) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = e.Device, e.MTU
	pair := netlink.NewVeth(attrs)
	pair.PeerName, pair.PeerHardwareAddr, pair.PeerMTU = e.Attachment.IfName, e.MAC, uint32(e.MTU)
	pair.PeerNamespace = netlink.NsFd(sandbox)
	for range 2 {
		err := l.netlink.LinkAdd(pair)
		if err == nil {
			return pair, nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("create device %s with %s in %s: %w", e.Device, e.Attachment.IfName, e.Sandbox, err)
		}
		old, err := l.linkByName(e.Device)
		if err != nil {
			return nil, err
		}
		if old == nil {
			return nil, fmt.Errorf("sandbox %s has an interface %s of its own already", e.Sandbox, e.Attachment.IfName)
		}
		if l.isPair(old, sandbox, e) {
			return old, nil
		}
		if err := l.netlink.LinkDel(old); err != nil {
			return nil, fmt.Errorf("remove a remnant %s: %w", e.Device, err)
		}
	}
	return nil, fmt.Errorf("sandbox %s has an interface %s of its own already", e.Sandbox, e.Attachment.IfName)
}

// isPair says whether the interface in the sandbox is the other end of host.
func (l *Platform) isPair(host netlink.Link, sandbox netns.NsHandle, e platform.Endpoint) bool {
	if host.Type() != "veth" {
		return false
	}
	err := inSandbox(l.home, sandbox, func(h *netlink.Handle) error {
		link, err := h.LinkByName(e.Attachment.IfName)
		if err != nil {
			return err
		}
		if link.Type() != "veth" || link.Attrs().ParentIndex != host.Attrs().Index ||
			host.Attrs().ParentIndex != link.Attrs().Index {
			return errors.New("another device")
		}
		return nil
	})
	return err == nil
}

func (l *Platform) ConfigureEndpoint(_ context.Context, e platform.Endpoint) error {
	sandbox, err := openSandbox(e.Sandbox)
	if err != nil {
		return err
	}
	defer sandbox.Close()
	err = inSandbox(l.home, sandbox, func(h *netlink.Handle) error { return l.configure(h, e) })
	if err != nil {
		return fmt.Errorf("configure %s in %s: %w", e.Attachment.IfName, e.Sandbox, err)
	}
	return nil
}

// configure runs on a thread inside the sandbox.
func (l *Platform) configure(h *netlink.Handle, e platform.Endpoint) error {
	link, err := h.LinkByName(e.Attachment.IfName)
	if err != nil {
		return err
	}
	if l.userspace {
		if err := checksumInSoftware(e.Attachment.IfName); err != nil {
			return err
		}
	}
	if !bytes.Equal(link.Attrs().HardwareAddr, e.MAC) {
		if err := h.LinkSetHardwareAddr(link, e.MAC); err != nil {
			return fmt.Errorf("set MAC %v: %w", e.MAC, err)
		}
	}
	if err := ignoreAdvertisements(e.Attachment.IfName); err != nil {
		return err
	}
	for _, address := range e.Addresses {
		if address.Addr().Is6() {
			if err := enableIPv6(e.Attachment.IfName); err != nil {
				return err
			}
		}
		if err := h.AddrReplace(link, toAddr(address)); err != nil {
			return fmt.Errorf("add address %v: %w", address, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	for _, gateway := range e.Gateways {
		if err := h.RouteReplace(defaultRoute(link, gateway, e.Addresses)); err != nil {
			return fmt.Errorf("add the default route by %v: %w", gateway, err)
		}
	}
	return nil
}

// toAddr leaves out IPv6's search for duplicates: OVN gives an address to one port only, and the
// search would keep the pod off the network for a second.
func toAddr(address netip.Prefix) *netlink.Addr {
	addr := &netlink.Addr{IPNet: fromPrefix(address)}
	if address.Addr().Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	return addr
}

func defaultRoute(link netlink.Link, gateway netip.Addr, addresses []netip.Prefix) *netlink.Route {
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice(),
		Dst: fromPrefix(netip.PrefixFrom(unspecified(gateway), 0))}
	for _, address := range addresses {
		if address.Contains(gateway) {
			return route
		}
	}
	route.SetFlag(netlink.FLAG_ONLINK)
	return route
}

func unspecified(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// enableIPv6 undoes what some runtimes set in new namespaces. The thread's own /proc/sys/net is
// its namespace's.
func enableIPv6(device string) error {
	path := filepath.Join("/proc/sys/net/ipv6/conf", device, "disable_ipv6")
	value, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the kernel has no IPv6, but the pod has an IPv6 address: make the cluster IPv4 only or boot " +
			"without ipv6.disable=1")
	}
	if err == nil && len(value) > 0 && value[0] != '0' {
		err = os.WriteFile(path, []byte("0"), 0)
	}
	if err != nil {
		return fmt.Errorf("enable IPv6: %w", err)
	}
	return nil
}

func (l *Platform) CheckEndpoint(_ context.Context, e platform.Endpoint) error {
	host, err := l.linkByName(e.Device)
	if err != nil {
		return err
	}
	if host == nil || host.Attrs().Flags&net.FlagUp == 0 {
		return fmt.Errorf("device %s of pod %s is missing or down", e.Device, e.Label)
	}
	sandbox, err := openSandbox(e.Sandbox)
	if err != nil {
		return err
	}
	defer sandbox.Close()
	if !l.isPair(host, sandbox, e) {
		return fmt.Errorf("interface %s in %s is missing or not the other end of device %s", e.Attachment.IfName, e.Sandbox,
			e.Device)
	}
	err = inSandbox(l.home, sandbox, func(h *netlink.Handle) error { return check(h, e) })
	if err != nil {
		return fmt.Errorf("interface %s in %s: %w", e.Attachment.IfName, e.Sandbox, err)
	}
	return nil
}

func check(h *netlink.Handle, e platform.Endpoint) error {
	link, err := h.LinkByName(e.Attachment.IfName)
	if err != nil {
		return err
	}
	attrs := link.Attrs()
	if attrs.Flags&net.FlagUp == 0 {
		return errors.New("is down")
	}
	if !bytes.Equal(attrs.HardwareAddr, e.MAC) {
		return fmt.Errorf("has MAC %v instead of %v", attrs.HardwareAddr, e.MAC)
	}
	addrs, err := retryDump(func() ([]netlink.Addr, error) { return h.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return err
	}
	has := map[netip.Prefix]bool{}
	for _, a := range addrs {
		has[toPrefix(a.IPNet)] = true
	}
	for _, address := range e.Addresses {
		if !has[address] {
			return fmt.Errorf("address %v is missing", address)
		}
	}
	routes, err := retryDump(func() ([]netlink.Route, error) { return h.RouteList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return err
	}
	hops := map[netip.Addr]bool{}
	for _, r := range routes {
		if hop, ok := netip.AddrFromSlice(r.Gw); ok && (r.Dst == nil || toPrefix(r.Dst).Bits() == 0) {
			hops[hop.Unmap()] = true
		}
	}
	for _, gateway := range e.Gateways {
		if !hops[gateway] {
			return fmt.Errorf("the default route by %v is missing", gateway)
		}
	}
	return nil
}

func (l *Platform) DeleteEndpoint(_ context.Context, device string) error {
	link, err := l.linkByName(device)
	if err != nil {
		return err
	}
	if link != nil {
		if err := l.netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove device %s: %w", device, err)
		}
	}
	if !l.userspace {
		return nil
	}
	if err := passIngress(device); err != nil {
		return fmt.Errorf("remove the ingress chain of device %s: %w", device, err)
	}
	return nil
}
