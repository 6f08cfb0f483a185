package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/platform"
)

// Platform is the [platform.Platform] of a Linux node: veth pairs by netlink in the agent's own network
// namespace. On the userspace datapath it also does for each device what that needs: no partial checksums,
// no second copy of a frame in the node's own stack.
type Platform struct {
	*host
	*sharing
}

// Config is what the [platform.Platform] of a Linux node is told.
type Config struct {
	// Userspace: Open vSwitch switches packets in userspace, on the datapath "netdev".
	Userspace bool
	// Uplink is the device that host and pods share, Bridge the bridge that it joins; empty: the host
	// keeps what it has.
	Uplink, Bridge string
	// StateFile keeps what the host had on the device.
	StateFile string
	// Step is called before each change that sharing the uplink makes to the host; a test stops there as a
	// crash does.
	Step func(name string)
}

// New binds the platform to the calling thread's network namespace.
func New(config Config) (*Platform, error) {
	home, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("open the node's network namespace: %w", err)
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		home.Close()
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	h := &host{netlink: handle, home: home, userspace: config.Userspace}
	return &Platform{h, &sharing{
		host: h, device: config.Uplink, bridge: config.Bridge, step: config.Step,
		saved: platform.SavedHost[savedUplink]{Path: config.StateFile},
	}}, nil
}

// Close releases the platform's sockets. What it made stays.
func (l *Platform) Close() error {
	l.netlink.Close()
	return l.home.Close()
}

func (l *Platform) UplinkMTU(address netip.Addr) (int, error) {
	addrs, err := l.addresses(nil)
	if err != nil {
		return 0, fmt.Errorf("find the interface of %v: %w", address, err)
	}
	for _, a := range addrs {
		if toPrefix(a.IPNet).Addr() != address {
			continue
		}
		link, err := l.netlink.LinkByIndex(a.LinkIndex)
		if err != nil {
			return 0, fmt.Errorf("read the MTU of the interface of %v: %w", address, err)
		}
		return link.Attrs().MTU, nil
	}
	return 0, fmt.Errorf("no interface of this node has the address %v", address)
}

// Unanswered: the kernel answers at once.
func (l *Platform) Unanswered() error { return nil }

func (l *Platform) HostAddresses(except ...string) ([]netip.Addr, error) {
	hidden := map[int]bool{}
	for _, name := range except {
		link, err := l.linkByName(name)
		if err != nil {
			return nil, err
		}
		if link != nil {
			hidden[link.Attrs().Index] = true
		}
	}
	addrs, err := l.addresses(nil)
	if err != nil {
		return nil, fmt.Errorf("list the host's addresses: %w", err)
	}
	found := []netip.Addr{}
	for _, a := range addrs {
		addr := toPrefix(a.IPNet).Addr()
		if hidden[a.LinkIndex] || !addr.IsGlobalUnicast() || a.Flags&passing != 0 || temporary(a) {
			continue
		}
		found = append(found, addr)
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), nil
}

func (l *Platform) SandboxExists(sandbox string) (bool, error) {
	ns, err := openSandbox(sandbox)
	if errors.Is(err, platform.ErrNoSandbox) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, ns.Close()
}

func (l *Platform) Endpoints() ([]string, error) {
	links, err := retryDump(l.netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list the host's devices: %w", err)
	}
	names := []string{}
	for _, link := range links {
		if name := link.Attrs().Name; cni.IsHostInterface(name) && link.Type() == "veth" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// EndpointArrived says that CreateEndpoint makes the device itself.
func (l *Platform) EndpointArrived(_ context.Context, e platform.Endpoint) (bool, error) {
	link, err := l.linkByName(e.Device)
	return link != nil, err
}

// PortType is that of a device of the host's.
func (l *Platform) PortType() string { return "" }

func (l *Platform) EnsureGatewayDevice(name string) error {
	link, err := l.linkByName(name)
	if err != nil {
		return err
	}
	if link == nil {
		return fmt.Errorf("gateway device %s: %w", name, platform.ErrNoDevice)
	}
	addrs, err := l.addresses(link)
	if err != nil {
		return fmt.Errorf("list the addresses of gateway device %s: %w", name, err)
	}
	for _, a := range addrs {
		if addr := toPrefix(a.IPNet).Addr(); addr.IsGlobalUnicast() {
			return fmt.Errorf("gateway device %s has the host's address %v: the host would lose it as soon as the device "+
				"joins a bridge; move the address to another device", name, addr)
		}
	}
	if !l.hidden(name) { // repeated without need, it would be a change that Watch tells
		if err := l.hideFromStack(link); err != nil {
			return err
		}
	}
	if link.Attrs().Flags&net.FlagUp != 0 {
		return nil
	}
	if err := l.netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set gateway device %s up: %w", name, err)
	}
	return nil
}

func (l *Platform) Watch(ctx context.Context, changed func()) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	report := func(err error) {
		select {
		case failed <- err:
		default:
		}
		cancel()
	}
	links, addrs, routes := make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate), make(chan netlink.RouteUpdate)
	if err := errors.Join(
		netlink.LinkSubscribeWithOptions(links, watching.Done(),
			netlink.LinkSubscribeOptions{Namespace: &l.home, ErrorCallback: report}),
		netlink.AddrSubscribeWithOptions(addrs, watching.Done(),
			netlink.AddrSubscribeOptions{Namespace: &l.home, ErrorCallback: report}),
		netlink.RouteSubscribeWithOptions(routes, watching.Done(),
			netlink.RouteSubscribeOptions{Namespace: &l.home, ErrorCallback: report}),
	); err != nil {
		return fmt.Errorf("subscribe to the host's network changes: %w", err)
	}
	changed()
	var followers sync.WaitGroup
	followers.Go(func() { follow(links, changed) })
	followers.Go(func() { follow(addrs, changed) })
	followers.Go(func() { follow(routes, changed) })
	followers.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("follow the host's network changes: %w", <-failed)
}

func follow[T any](updates <-chan T, changed func()) {
	for range updates {
		changed()
	}
}

var _ platform.Platform = (*Platform)(nil)
