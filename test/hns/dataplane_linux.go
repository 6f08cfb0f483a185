package hns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Linux is the [DataPlane] in the network namespace of its process.
//
// A vSwitch's management vNIC is a persistent tap that Open vSwitch opens as the local port of the
// bridge of that name. An endpoint's vNIC is a tap in the host's namespace, which Open vSwitch opens
// as a port of type internal, wired to a veth pair whose other end is eth0 of the compartment: so
// eth0 stays whatever Open vSwitch does with the tap.
type Linux struct {
	// WMI: devices are the emulated driver's. A vNIC whose tap somebody removes is gone, with the configuration that it
	// had, until HNS makes another one: ovs-vswitchd of Windows deletes the vNIC of a port of type internal with the
	// port (delete_wmi_port of lib/wmi.c). And the switch forwards by itself where the extension is disabled.
	// Otherwise the tap is made again, since an Open vSwitch of Linux takes it along whenever it closes it, and it has the
	// tap open whether the extension is enabled or not.
	WMI bool

	log *slog.Logger

	mu       sync.Mutex
	links    *links
	switches map[string]*hostSwitch // by adapter
	vnics    map[string]*hostVNIC   // by the endpoint's GUID
}

type hostSwitch struct {
	Switch
	adapter int    // index of the adapter whose frames are kept from the host
	vnic    int    // index of the management vNIC
	device  string // its name
	deleted bool   // by Hyper-V's WMI provider, see [Linux.WMI]
	native  *nativeSwitch
	wasDown bool // the management vNIC has been down since its configuration was given to it
	// host is what the management vNIC was last seen with: it is made again with that.
	host HostConfig
}

type hostVNIC struct {
	VNIC
	tap, end   int // indexes of the wired devices
	connected  bool
	configured int // index of the end whose compartment is configured
	device     string
	mtu        int
	deleted    bool // by Hyper-V's WMI provider, see [Linux.WMI]
}

// NewLinux returns a data plane that has made nothing yet. It is to be closed.
func NewLinux(log *slog.Logger) (*Linux, error) {
	links, err := watchLinks()
	if err != nil {
		return nil, err
	}
	return &Linux{log: log, links: links, switches: map[string]*hostSwitch{}, vnics: map[string]*hostVNIC{}}, nil
}

const maxDeviceName = unix.IFNAMSIZ - 1

// endDevice is the host's end of the veth pair of an endpoint.
func endDevice(endpoint string) string {
	return "hns-" + strings.ToLower(strings.ReplaceAll(endpoint, "-", ""))[:11]
}

// Adapter implements [DataPlane]. Without a name it is the adapter of the default route.
func (l *Linux) Adapter(name string) (string, HostConfig, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name == "" {
		var err error
		if name, err = defaultAdapter(); err != nil {
			return "", HostConfig{}, err
		}
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return "", HostConfig{}, ErrAdapterNotFound
	}
	if !physical(link) {
		return "", HostConfig{}, ErrInvalidParameter
	}
	has, err := hostConfig(link)
	return name, has, err
}

func defaultAdapter() (string, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return "", err
	}
	for _, r := range routes {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil && physical(link) {
			return link.Attrs().Name, nil
		}
	}
	return "", ErrAdapterNotFound
}

// physical: not one of the devices that the emulator, Open vSwitch or the system has made.
func physical(link netlink.Link) bool {
	return link.Attrs().Flags&net.FlagLoopback == 0 && link.Type() != "tuntap" && link.Type() != "tun" &&
		!isEnd(link.Attrs().Name)
}

func isEnd(name string) bool { return strings.HasPrefix(name, "hns-") && len(name) == maxDeviceName }

// Apply implements [DataPlane].
func (l *Linux) Apply(switches []Switch, vnics []VNIC) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	wantedVNICs, wantedSwitches := map[string]bool{}, map[string]bool{}
	for _, v := range vnics {
		wantedVNICs[v.Endpoint] = true
		if l.vnics[v.Endpoint] == nil {
			l.vnics[v.Endpoint] = &hostVNIC{}
		}
		l.vnics[v.Endpoint].VNIC = v
	}
	for _, s := range switches {
		wantedSwitches[s.Adapter] = true
		if l.switches[s.Adapter] == nil {
			l.switches[s.Adapter] = &hostSwitch{}
			if !s.KeepAddresses {
				l.switches[s.Adapter].host = s.Host
			}
		}
		l.switches[s.Adapter].Switch = s
	}
	for id, v := range l.vnics {
		if !wantedVNICs[id] {
			errs = append(errs, v.remove())
			delete(l.vnics, id)
		}
	}
	for adapter, s := range l.switches {
		if !wantedSwitches[adapter] {
			errs = append(errs, s.remove())
			delete(l.switches, adapter)
		}
	}
	return errors.Join(append(errs, l.reconcile())...)
}

func (l *Linux) reconcile() error {
	var errs []error
	for _, adapter := range slices.Sorted(maps.Keys(l.switches)) {
		s := l.switches[adapter]
		if s.deleted = s.deleted || l.WMI && s.vnic != 0 && gone(s.device, s.vnic); s.deleted {
			s.stopNative()
			continue
		}
		err := s.ensure(l.seen, l.WMI)
		if s.deleted = errors.Is(err, errDeleted); s.deleted {
			s.stopNative()
			continue
		}
		errs = append(errs, err)
		if l.WMI {
			errs = append(errs, s.keepNative())
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.vnics)) {
		v := l.vnics[id]
		var err error
		if !v.deleted {
			err = v.ensure(l.WMI)
			v.deleted = errors.Is(err, errDeleted)
		}
		if v.deleted {
			err = v.remove()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("vNIC %s of endpoint %s: %w", l.vnics[id].Name, id, err))
		}
	}
	return errors.Join(errs...)
}

// gone says whether the device is no longer the one of that index.
func gone(name string, index int) bool {
	link, err := netlink.LinkByName(name)
	return errors.As(err, &netlink.LinkNotFoundError{}) || err == nil && link.Attrs().Index != index
}

// seen marks the management vNICs that have been down.
func (l *Linux) seen() error {
	return l.links.drain(func(index int, up bool) {
		for _, s := range l.switches {
			if !up && s.vnic == index {
				s.wasDown = true
			}
		}
	})
}

// settle is how long a burst of the kernel's notices is waited for, before one look at all of it.
const settle = 20 * time.Millisecond

// Run keeps what was applied in place until ctx ends: devices that Open vSwitch or a test removes
// are made again.
func (l *Linux) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	errs := make(chan error, 1)
	go func() {
		errs <- l.Host().Watch(ctx, func(string) {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	for {
		select {
		case <-changed:
		case err := <-errs:
			return err
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return nil
		}
		l.mu.Lock()
		if err := l.reconcile(); err != nil {
			l.log.Warn("keep the data plane", "err", err)
		}
		l.mu.Unlock()
	}
}

// Close removes what was made, so that the adapters are as before.
func (l *Linux) Close() error {
	err := l.Apply(nil, nil)
	l.links.close()
	return err
}

// Host returns the host's own IP configuration, in the same network namespace. It may be asked while the data plane
// changes.
func (l *Linux) Host() Host { return linuxHost{l} }

// endpointDevices returns the names of the vNICs of endpoints on the host.
func (l *Linux) endpointDevices() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[string]bool{}
	for _, v := range l.vnics {
		names[v.Name] = true
	}
	return names
}

// Devices implements [DataPlane].
func (l *Linux) Devices() any {
	l.mu.Lock()
	defer l.mu.Unlock()
	type device struct {
		Name, For string
		Up        bool
		Missing   bool `json:",omitempty"`
	}
	devices := []device{}
	add := func(name, what string) {
		link, err := netlink.LinkByName(name)
		devices = append(devices, device{name, what, err == nil && link.Attrs().Flags&net.FlagUp != 0, err != nil})
	}
	for _, adapter := range slices.Sorted(maps.Keys(l.switches)) {
		add(l.switches[adapter].device, "management vNIC of "+adapter)
	}
	for _, id := range slices.Sorted(maps.Keys(l.vnics)) {
		add(l.vnics[id].Name, "vNIC of endpoint "+id)
		add(endDevice(id), "wire to "+l.vnics[id].device+" in "+l.vnics[id].Netns)
	}
	return devices
}

// errDeleted: a device that there was is gone, or is another one, and is not made again.
var errDeleted = errors.New("the device was deleted")

// ensureTap makes a persistent tap of that name, or takes the one that is there: that Open vSwitch
// has one of an interface's name open is what the lab is built on. It is down when it is new. Where index is not 0, a
// tap of that index has to be there, else the error is errDeleted.
func ensureTap(name string, index int) (link netlink.Link, isNew bool, err error) {
	link, err = netlink.LinkByName(name)
	if index != 0 && (errors.As(err, &netlink.LinkNotFoundError{}) || err == nil && link.Attrs().Index != index) {
		return nil, false, errDeleted
	}
	if err == nil {
		if link.Type() != "tuntap" && link.Type() != "tun" {
			return nil, false, fmt.Errorf("%s is a %s and no tap", name, link.Type())
		}
		return link, false, nil
	}
	if !errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, false, err
	}
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TAP,
		Flags: netlink.TUNTAP_NO_PI}
	if err := netlink.LinkAdd(tap); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EEXIST) {
		return nil, false, fmt.Errorf("make tap %s: %w", name, err)
	}
	link, err = netlink.LinkByName(name)
	return link, true, err
}

// known is the index that a device has to have, if any: see [Linux.WMI].
func known(wmi bool, index int) int {
	if wmi {
		return index
	}
	return 0
}

// removeDevice removes a device that may be gone.
func removeDevice(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
