package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/weftnet/weft/node/platform"
)

// sharing is a Linux node's uplink where the host and Open vSwitch share it: the device is a port of a
// bridge, and the bridge's own interface has what the host had on the device.
type sharing struct {
	*host
	device, bridge string // empty: nothing is shared
	saved          platform.SavedHost[savedUplink]

	mu   sync.Mutex        // held while somebody works on it
	step func(name string) // before each change of the host
}

// savedUplink is what has to be known after a crash, whenever it comes.
type savedUplink struct {
	Device string `json:"device"`
	Bridge string `json:"bridge"`
	Boot   string `json:"boot"` // the kernel's boot_id: after another boot the host is set up anew
	// Ready: all is on the bridge's interface.
	Ready bool `json:"ready"`
	// Index is that of the device that has, or had, what follows.
	Index     int           `json:"index"`
	Addresses []hostAddress `json:"addresses"`
	Routes    []hostRoute   `json:"routes"`
	// AddrGenMode is the setting of that name that the device had by itself.
	AddrGenMode string `json:"addrGenMode,omitempty"`
}

func (s savedUplink) uplink() platform.Uplink {
	return platform.Uplink{Switch: s.Device, Adapter: s.Device, Host: s.Bridge}
}

// without is what was written down and is not on the device.
func (s savedUplink) without(device hostNetwork) hostNetwork {
	return hostNetwork{
		index: s.Index,
		addresses: slices.DeleteFunc(slices.Clone(s.Addresses), func(a hostAddress) bool {
			return slices.ContainsFunc(device.addresses, func(b hostAddress) bool { return a.Address == b.Address })
		}),
		routes: slices.DeleteFunc(slices.Clone(s.Routes), func(r hostRoute) bool {
			return s.Index == device.index && slices.ContainsFunc(device.routes, r.same)
		}),
	}
}

// undoTime bounds giving the device back to the host after sharing it has failed.
const undoTime = 3 * time.Minute

// EnsureUplink puts the device and what the host has on it on the bridge, see [platform.Platform]. The host works
// after each step, so that it can end after any: first the bridge's interface gets the addresses too,
// then the bridge gets the device, and only then the host's routes go by the bridge. What appears on the
// device later, as a DHCP client puts it there, follows.
func (s *sharing) EnsureUplink(ctx context.Context, bridge platform.UplinkBridge) (platform.Uplink, error) {
	if s.device == "" {
		return platform.Uplink{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	saved, err := s.readUplink()
	if err != nil {
		return platform.Uplink{}, err
	}
	if made, ok := bridge.Made(); ok && saved == nil && (made.Adapter != s.device || made.Host != s.bridge) {
		saved = &savedUplink{Device: made.Adapter, Bridge: made.Host} // it was written down before a boot
	}
	if saved != nil && (saved.Device != s.device || saved.Bridge != s.bridge) {
		if err := s.release(ctx, bridge, *saved); err != nil {
			return platform.Uplink{}, fmt.Errorf("give the host device %s back, which is not gateway-interface any more: %w",
				saved.Device, err)
		}
		saved = nil
	}
	joined := bridge.Holder(s.device) == s.bridge
	device, err := s.chooseDevice(bridge, saved)
	if err != nil && !joined && saved == nil {
		return platform.Uplink{}, fmt.Errorf("%w: %w", platform.ErrNoUplink, err)
	}
	if err != nil {
		return platform.Uplink{}, err
	}
	uplink := platform.Uplink{
		Switch: s.device, Adapter: s.device, Host: s.bridge,
		MAC: device.Attrs().HardwareAddr.String(), MTU: device.Attrs().MTU,
	}
	err = s.share(ctx, bridge, device, uplink, saved)
	if err == nil {
		return uplink, nil
	}
	if joined || saved != nil && saved.Ready || ctx.Err() != nil {
		return platform.Uplink{}, err
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if _, undone := s.releaseSaved(undo, bridge); undone != nil {
		return platform.Uplink{}, errors.Join(err, undone)
	}
	return platform.Uplink{}, fmt.Errorf("%w: %w: %w", platform.ErrReleased, platform.ErrNoUplink, err)
}

// before announces a change. An agent that was told to end goes no further.
func (s *sharing) before(ctx context.Context, name string) error {
	if s.step != nil {
		s.step(name)
	}
	return ctx.Err()
}

func (s *sharing) share(
	ctx context.Context, bridge platform.UplinkBridge, device netlink.Link, uplink platform.Uplink, saved *savedUplink,
) error {
	own, err := readHost(device.Attrs().Index)
	if err != nil {
		return err
	}
	if saved == nil || !saved.Ready {
		if saved, err = s.saveUplink(ctx, own, saved); err != nil {
			return err
		}
	}
	if err := s.before(ctx, "bridge"); err != nil {
		return err
	}
	if err := bridge.Ensure(ctx, uplink); err != nil {
		return err
	}
	host, err := s.bridgeInterface(uplink)
	if err != nil {
		return err
	}
	lost, fresh := hostNetwork{}, saved.Index != host.Attrs().Index
	if fresh { // the bridge's interface is a new one
		lost = saved.without(own)
		if err := s.prepareInterface(ctx, device, host); err != nil {
			return err
		}
	}
	arrived := slices.Concat(lost.addresses, own.addresses) // the older ones first
	if len(globals(arrived))+len(own.routes)+len(lost.routes) > 0 {
		if err := s.giveAddresses(ctx, arrived, host); err != nil {
			return err
		}
	}
	if err := s.before(ctx, "join"); err != nil {
		return err
	}
	if err := bridge.Join(ctx, uplink); err != nil {
		return err
	}
	if err := s.moveRest(ctx, own, lost, device, host, fresh); err != nil {
		return err
	}
	return s.remember(*saved, host)
}

// moveRest: what is on the bridge's interface is on the device no more, and the host's routes go by the
// bridge.
func (s *sharing) moveRest(ctx context.Context, own, lost hostNetwork, device, host netlink.Link, fresh bool) error {
	now, err := readHost(host.Attrs().Index)
	if err != nil {
		return err
	}
	if err := s.giveRoutes(ctx, lost, host, false); err != nil {
		return err
	}
	if err := s.giveRoutes(ctx, own, host, !fresh); err != nil {
		return err
	}
	for _, neighbor := range own.neighbors {
		if err := giveNeighbor(neighbor, host.Attrs().Index); err != nil {
			return fmt.Errorf("set a neighbour of device %s: %w", host.Attrs().Name, err)
		}
	}
	if err := s.removeAll(ctx, own); err != nil {
		return err
	}
	if !fresh {
		if err := s.dropOldLease(ctx, own, now); err != nil {
			return err
		}
	}
	if fresh {
		if value, err := os.ReadFile(sysctlPath("ipv4", device.Attrs().Name, "rp_filter")); err == nil {
			if err := setSysctl("ipv4", host.Attrs().Name, "rp_filter", strings.TrimSpace(string(value))); err != nil {
				return err
			}
		}
	}
	if s.hidden(device.Attrs().Name) {
		return nil
	}
	if err := s.before(ctx, "hide"); err != nil {
		return err
	}
	return s.hideFromStack(device)
}

// saveUplink writes down what the host has before the first change. What an earlier attempt has written
// counts if it came so far that the bridge's interface has something.
func (s *sharing) saveUplink(ctx context.Context, own hostNetwork, before *savedUplink) (*savedUplink, error) {
	if before != nil {
		host, err := s.readHostNamed(s.bridge)
		if err != nil {
			return nil, err
		}
		if len(globals(own.addresses)) == 0 || len(globals(host.addresses)) > 0 {
			return before, nil
		}
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	saved := &savedUplink{
		Device: s.device, Bridge: s.bridge, Boot: boot, Index: own.index,
		Addresses: own.addresses, Routes: own.routes, AddrGenMode: s.addrGenModeOf(before),
	}
	if err := s.before(ctx, "save"); err != nil {
		return nil, err
	}
	return saved, s.saved.Write(*saved)
}

// addrGenModeOf is the device's setting as it was before hideFromStack.
func (s *sharing) addrGenModeOf(saved *savedUplink) string {
	if saved != nil && saved.AddrGenMode != "" {
		return saved.AddrGenMode
	}
	mode, err := os.ReadFile(addrGenMode(s.device))
	if text := strings.TrimSpace(string(mode)); err == nil && text != fmt.Sprint(addrGenModeNone) {
		return text
	}
	return "0" // IN6_ADDR_GEN_MODE_EUI64, the kernel's default
}

// readUplink returns nil where nothing is written down that is still of use. After another boot nothing is:
// the host has its addresses where it always gets them.
func (s *sharing) readUplink() (*savedUplink, error) {
	saved, err := s.saved.Read()
	if err != nil || saved == nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if saved.Boot != boot {
		return nil, s.saved.Remove()
	}
	for i := range saved.Addresses {
		if saved.Addresses[i].m, err = parseMessage(saved.Addresses[i].Message, addressHeader); err != nil {
			return nil, fmt.Errorf("read the host's saved networking from %s: %w", s.saved.Path, err)
		}
	}
	for i := range saved.Routes {
		if saved.Routes[i].m, err = parseMessage(saved.Routes[i].Message, routeHeader); err != nil {
			return nil, fmt.Errorf("read the host's saved networking from %s: %w", s.saved.Path, err)
		}
	}
	return saved, nil
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the kernel's boot_id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// bridgeInterface is the bridge's own interface, which Open vSwitch has made.
func (s *sharing) bridgeInterface(u platform.Uplink) (netlink.Link, error) {
	host, err := s.linkByName(u.Host)
	if err != nil {
		return nil, err
	}
	if host == nil {
		return nil, fmt.Errorf("interface %s of the bridge of that name: %w", u.Host, platform.ErrNoDevice)
	}
	if mac, err := net.ParseMAC(u.MAC); err != nil || !bytes.Equal(mac, host.Attrs().HardwareAddr) {
		return nil, fmt.Errorf("interface %s of the bridge of that name has the MAC %v and not yet %s, that of %s", u.Host,
			host.Attrs().HardwareAddr, u.MAC, u.Adapter)
	}
	return host, nil
}

// looseFilter is rp_filter's value that takes packets by whichever device: until all routes have moved
// they come by the one and go by the other.
const looseFilter = "2"

// prepareInterface: the bridge's interface treats packets as the device does, and is up.
func (s *sharing) prepareInterface(ctx context.Context, device, host netlink.Link) error {
	if err := s.before(ctx, "prepare"); err != nil {
		return err
	}
	if err := copySysctls(device.Attrs().Name, host.Attrs().Name); err != nil {
		slog.WarnContext(ctx, "the bridge's interface does not have all settings of the device", "bridge",
			host.Attrs().Name, "device", device.Attrs().Name, "error", err)
	}
	err := errors.Join(
		setSysctl("ipv4", host.Attrs().Name, "rp_filter", looseFilter),
		setSysctl("ipv6", host.Attrs().Name, "addr_gen_mode", s.addrGenModeOf(nil)),
	)
	if err != nil {
		return err
	}
	if err := s.netlink.LinkSetUp(host); err != nil {
		return fmt.Errorf("set interface %s up: %w", host.Attrs().Name, err)
	}
	return nil
}

// remember keeps the file at what the host has now, so that the loss of the bridge is repaired from that.
func (s *sharing) remember(saved savedUplink, host netlink.Link) error {
	now, err := readHost(host.Attrs().Index)
	if err != nil {
		return err
	}
	if len(globals(now.addresses)) == 0 {
		return nil // somebody is at work on them, or Open vSwitch has just lost them
	}
	same := saved.Ready && saved.Index == now.index &&
		slices.EqualFunc(saved.Addresses, now.addresses, hostAddress.same) &&
		slices.EqualFunc(saved.Routes, now.routes, hostRoute.same)
	if same {
		return nil
	}
	saved.Ready, saved.Index, saved.Addresses, saved.Routes = true, now.index, now.addresses, now.routes
	return s.saved.Write(saved)
}

// dropOldLease: a DHCP client has one IPv4 address a device. It has put another one there, and does not
// find the one before.
func (s *sharing) dropOldLease(ctx context.Context, own, before hostNetwork) error {
	leased := func(a hostAddress) bool { return a.Address.Addr().Is4() && !a.Valid.IsZero() }
	known := func(a hostAddress) bool {
		return slices.ContainsFunc(own.addresses, func(b hostAddress) bool { return a.Address == b.Address })
	}
	if !slices.ContainsFunc(own.addresses, leased) {
		return nil
	}
	for _, old := range before.addresses {
		if !leased(old) || known(old) {
			continue
		}
		if err := s.before(ctx, "take "+old.Address.String()); err != nil {
			return err
		}
		slog.InfoContext(ctx, "the host's lease is of another address", "before", old.Address, "bridge", s.bridge)
		if err := old.remove(); err != nil {
			return err
		}
	}
	return nil
}

// hostNetwork is what the host has on a device.
type hostNetwork struct {
	index     int
	addresses []hostAddress
	routes    []hostRoute
	neighbors []message
}

func readHost(device int) (hostNetwork, error) {
	n := hostNetwork{index: device}
	var errs [3]error
	n.addresses, errs[0] = hostAddresses(device)
	n.routes, errs[1] = hostRoutes(device)
	n.neighbors, errs[2] = hostNeighbors(device)
	return n, errors.Join(errs[:]...)
}

// readHostNamed is empty where there is no such device.
func (s *sharing) readHostNamed(name string) (hostNetwork, error) {
	link, err := s.linkByName(name)
	if err != nil || link == nil {
		return hostNetwork{}, err
	}
	return readHost(link.Attrs().Index)
}

func (s *sharing) giveAddresses(ctx context.Context, addresses []hostAddress, to netlink.Link) error {
	for _, a := range addresses {
		if err := s.before(ctx, "give "+a.Address.String()); err != nil {
			return err
		}
		if err := a.give(to); err != nil {
			return err
		}
	}
	return nil
}

// giveRoutes makes the same routes by another device. replace: a route that takes another's place.
func (s *sharing) giveRoutes(ctx context.Context, from hostNetwork, to netlink.Link, replace bool) error {
	there, err := hostRoutes(to.Attrs().Index)
	if err != nil {
		return err
	}
	routes := slices.Clone(from.routes)
	slices.SortStableFunc(routes, func(a, b hostRoute) int { // what others need first
		switch {
		case a.gatewayless() == b.gatewayless():
			return 0
		case a.gatewayless():
			return -1
		}
		return 1
	})
	for _, r := range routes {
		if err := s.before(ctx, "give route "+r.Destination.String()); err != nil {
			return err
		}
		rival := replace && !r.gatewayless() && r.Destination.Addr().Is4() && slices.ContainsFunc(there, r.rivals)
		if err := r.give(from.index, to.Attrs().Index, rival); err != nil {
			return err
		}
	}
	return nil
}

// removeAll: the device has none of it any more. Until then the host has had all of it twice.
func (s *sharing) removeAll(ctx context.Context, from hostNetwork) error {
	for _, r := range from.routes {
		if err := s.before(ctx, "take route "+r.Destination.String()); err != nil {
			return err
		}
		if err := r.remove(); err != nil {
			return err
		}
	}
	for _, a := range from.addresses {
		if err := s.before(ctx, "take "+a.Address.String()); err != nil {
			return err
		}
		if err := a.remove(); err != nil {
			return err
		}
	}
	return nil
}
