package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// host is the node's own network namespace.
type host struct {
	netlink   *netlink.Handle
	home      netns.NsHandle
	userspace bool // packets are switched in userspace
}

// addrGenModeNone is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
const addrGenModeNone = 1

// addrGenMode is set by file, not by netlink: that would be a change of the link, and each such
// change makes ovs-vswitchd look at all its ports again.
func addrGenMode(device string) string {
	return filepath.Join("/proc/sys/net/ipv6/conf", device, "addr_gen_mode")
}

// hideFromStack keeps the host's own stack away from a device that belongs to a bridge: no
// link-local address, and on the userspace datapath no frames. There OVS reads the device by a
// packet socket, so the host's stack would see, and answer, every frame too.
func (h *host) hideFromStack(link netlink.Link) error {
	err := os.WriteFile(addrGenMode(link.Attrs().Name), []byte(strconv.Itoa(addrGenModeNone)), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6 makes no such address
		return fmt.Errorf("keep IPv6 off device %s: %w", link.Attrs().Name, err)
	}
	if !h.userspace {
		return nil
	}
	if err := dropIngress(link.Attrs().Name); err != nil {
		return fmt.Errorf("hide the frames of device %s from the host's stack: %w", link.Attrs().Name, err)
	}
	return nil
}

// hidden says whether hideFromStack has been here.
func (h *host) hidden(device string) bool {
	mode, err := os.ReadFile(addrGenMode(device))
	if err != nil || strings.TrimSpace(string(mode)) != strconv.Itoa(addrGenModeNone) {
		return errors.Is(err, fs.ErrNotExist) && !h.userspace
	}
	return !h.userspace || dropsIngress(device)
}

// showToStack undoes hideFromStack.
func (h *host) showToStack(device netlink.Link, mode string) error {
	name := device.Attrs().Name
	if h.userspace {
		if err := passIngress(name); err != nil {
			return fmt.Errorf("show the frames of device %s to the host's stack: %w", name, err)
		}
	}
	if mode == "" {
		mode = "0"
	}
	err := setSysctl("ipv6", name, "addr_gen_mode", mode)
	if device.Attrs().Flags&net.FlagUp == 0 {
		err = errors.Join(err, h.netlink.LinkSetUp(device))
	}
	return err
}

// linkByName returns nil where there is no such device.
func (h *host) linkByName(name string) (netlink.Link, error) {
	link, err := h.netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up device %s: %w", name, err)
	}
	return link, nil
}

func (h *host) addresses(link netlink.Link) ([]netlink.Addr, error) {
	return retryDump(func() ([]netlink.Addr, error) { return h.netlink.AddrList(link, netlink.FAMILY_ALL) })
}

// retryDump repeats a dump that a concurrent change interrupted.
func retryDump[T any](dump func() ([]T, error)) ([]T, error) {
	for attempt := 0; ; attempt++ {
		items, err := dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) || attempt == 5 {
			return items, err
		}
	}
}

func toPrefix(n *net.IPNet) netip.Prefix {
	addr, _ := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), ones)
}

func fromPrefix(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
