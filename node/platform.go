package node

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/weftnet/weft/cni"
)

// Platform is what the agent needs of the node's operating system. Every method may be called
// again at any time with the same arguments: it then finds its post-condition true and changes
// nothing. Open vSwitch is not behind it: the agent reaches that by OVSDB on every system.
type Platform interface {
	// UplinkMTU returns the MTU in bytes of the interface that holds address.
	UplinkMTU(address netip.Addr) (int, error)
	// HostAddresses returns the host's own global addresses, sorted, without those of the
	// interfaces named in except.
	HostAddresses(except ...string) ([]netip.Addr, error)
	// EnsureGatewayDevice: the device exists, is up, and the host's own stack takes no part in
	// its traffic. A device that the host itself uses (it has addresses) is refused.
	EnsureGatewayDevice(name string) error
	// EnsureManagement: the device has exactly the addresses and routes of m, its MTU, and is up.
	// [ErrNoDevice] until Open vSwitch has made the device.
	EnsureManagement(m Management) error
	// SandboxExists says whether a sandbox of that name still is on the node.
	SandboxExists(sandbox string) (bool, error)
	// CreateEndpoint: the device [cni.HostInterface] of e exists on the host, is up, and is the
	// host's end of an interface in the sandbox with e's name, MAC and MTU.
	CreateEndpoint(ctx context.Context, e Endpoint) error
	// ConfigureEndpoint: the interface in the sandbox has e's addresses and default routes, and is up.
	ConfigureEndpoint(ctx context.Context, e Endpoint) error
	// CheckEndpoint returns what is missing of the post-conditions of CreateEndpoint and
	// ConfigureEndpoint, and changes nothing.
	CheckEndpoint(ctx context.Context, e Endpoint) error
	// DeleteEndpoint: neither the host's device of that name nor its end in a sandbox exists.
	DeleteEndpoint(ctx context.Context, device string) error
	// Endpoints returns the devices of endpoints that are on the host, sorted.
	Endpoints() ([]string, error)
	// Watch calls changed whenever the host's interfaces, addresses or routes may have changed,
	// until ctx ends; it calls it once at the start, when nothing can be missed any more.
	Watch(ctx context.Context, changed func()) error
}

// ErrNoDevice: Open vSwitch has not made the device yet; a change will be seen when it has.
var ErrNoDevice = errors.New("the device does not exist yet")

// ErrNoSandbox: the sandbox is gone, and with it all that was in it.
var ErrNoSandbox = errors.New("the sandbox does not exist")

// Endpoint is a pod's interface.
type Endpoint struct {
	Attachment cni.Attachment
	// Sandbox is the path of a network namespace (Linux) or the GUID of an HCN namespace (Windows).
	Sandbox string
	// Label is the pod's name for people who look at the host's devices.
	Label     string
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	Gateways  []netip.Addr
	MTU       int
}

// Management is the host's interface on its node's logical switch.
type Management struct {
	Device    string
	MAC       net.HardwareAddr
	MTU       int
	Addresses []netip.Prefix
	Routes    []Route
}

// Route of the host through the management device. Source is the address that the host uses.
type Route struct {
	Destination netip.Prefix
	NextHop     netip.Addr
	Source      netip.Addr
}
