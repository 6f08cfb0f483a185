package platform

import (
	"context"
	"errors"
	"net/netip"

	"github.com/weftnet/weft/node/extbridge"
)

// Platform is what the agent needs of the node's operating system. Every method may be called
// again at any time with the same arguments: it then finds its post-condition true and changes
// nothing. Open vSwitch is not behind it: the agent reaches that by OVSDB on every system, and hands
// a platform the one bridge that it has to work with, see [UplinkBridge].
type Platform interface {
	Host
	Uplinks
	Endpoints
}

// Host is the host's own part in the network.
type Host interface {
	// UplinkMTU returns the MTU in bytes of the interface that holds address.
	UplinkMTU(address netip.Addr) (int, error)
	// HostAddresses returns the host's own global addresses, sorted, without those of the
	// interfaces named in except.
	HostAddresses(except ...string) ([]netip.Addr, error)
	// HostInterface returns what the host has on the interface of that name. [ErrNoDevice] if there is
	// none.
	HostInterface(name string) (HostInterface, error)
	// EnsureManagement: the device has exactly the addresses and routes of m, its MTU, and is up; with
	// m.Partial it may have more routes to single addresses.
	// [ErrNoDevice] until Open vSwitch has made the device.
	EnsureManagement(m Management) error
	// Unanswered returns an error as long as the system's network service leaves a call without an answer, as HNS may.
	Unanswered() error
	// Watch calls changed whenever the host's interfaces, addresses or routes may have changed,
	// until ctx ends; it calls it once at the start, when nothing can be missed any more.
	Watch(ctx context.Context, changed func()) error
}

// Uplinks is the node's way to the outside.
type Uplinks interface {
	// EnsureUplink: the host's uplink adapter and the host's own interface are ports of one switch
	// whose packets Open vSwitch handles, and the host has the addresses that it had before. After an
	// error the host is as reachable as it was; one that is [ErrNoUplink] says that there is no such
	// switch, one that is [ErrOutdatedUplink] that it has to be released first. A zero Uplink: nothing
	// of the kind is needed here. The bridge is for a system that moves what the host has step by step, where it
	// has to be changed between two steps; elsewhere the caller makes the bridge of the Uplink.
	EnsureUplink(ctx context.Context, bridge UplinkBridge) (Uplink, error)
	// ConfirmUplink: Open vSwitch has taken the uplink up. From now on the host depends on it, also for agents to come.
	ConfirmUplink(u Uplink) error
	// UplinkConfirmed says whether ConfirmUplink was called for the uplink's switch.
	UplinkConfirmed(u Uplink) (bool, error)
	// SwitchExists says whether there is a switch: then EnsureUplink makes none, and the bridges on it are not removed.
	SwitchExists(ctx context.Context) (bool, error)
	// ReleaseUplink: the host has its adapter, with the addresses, for itself, as if EnsureUplink had
	// never been called. It is for an Open vSwitch that does not take the uplink up, and for a
	// configuration that shares none any more.
	ReleaseUplink(ctx context.Context, bridge UplinkBridge) error
	// RestoreHost: the host is reachable although Open vSwitch is silent, so that there can be no bridge. It undoes what
	// an earlier process has left half done: a switch that was never confirmed is released, and one that was stays.
	RestoreHost(ctx context.Context) error
	// EnsureGatewayDevice: the device exists, is up, and the host's own stack takes no part in
	// its traffic. A device that the host itself uses (it has addresses) is refused.
	EnsureGatewayDevice(name string) error
	// EnsureNeighbours: the host takes these for neighbours on the device, and knows them for good: it asks
	// nobody for their MAC addresses.
	EnsureNeighbours(device string, neighbours []extbridge.Neighbour) error
}

// Endpoints are the interfaces of pods.
type Endpoints interface {
	// SandboxExists says whether a sandbox of that name still is on the node.
	SandboxExists(sandbox string) (bool, error)
	// InSandbox runs do in the sandbox's network: sockets that do makes itself, by its own goroutine, are in there.
	// [ErrNoSandbox].
	InSandbox(ctx context.Context, sandbox string, do func() error) error
	// CreateEndpoint: the device of e is the host's end of an interface in the
	// sandbox with e's name and MAC. The device exists on the host and is up, or will be when the
	// sandbox starts, see EndpointArrived.
	CreateEndpoint(ctx context.Context, e Endpoint) error
	// EndpointArrived says whether the device of an endpoint is on the host. On Windows it comes with
	// the sandbox's first container, after ADD has returned.
	EndpointArrived(ctx context.Context, e Endpoint) (bool, error)
	// PortType is the type of the Open vSwitch interface of a device that has arrived.
	PortType() string
	// ConfigureEndpoint: the interface in the sandbox has e's addresses, default routes and MTU, and is
	// up. The device has arrived.
	ConfigureEndpoint(ctx context.Context, e Endpoint) error
	// CheckEndpoint returns what is missing of the post-conditions of CreateEndpoint and
	// ConfigureEndpoint, and changes nothing.
	CheckEndpoint(ctx context.Context, e Endpoint) error
	// DeleteEndpoint: neither the host's device of that name nor its end in a sandbox exists.
	DeleteEndpoint(ctx context.Context, device string) error
	// Endpoints returns the devices of endpoints that are on the host, sorted.
	Endpoints() ([]string, error)
}

// ErrNoDevice: Open vSwitch has not made the device yet; a change will be seen when it has.
var ErrNoDevice = errors.New("the device does not exist yet")

// ErrNoSandbox: the sandbox is gone, and with it all that was in it.
var ErrNoSandbox = errors.New("the sandbox does not exist")

// ErrOutdatedUplink: the uplink's switch is weft's own and no longer fits the node. It is to be released,
// once no bridge uses it, and made again.
var ErrOutdatedUplink = errors.New("the uplink's switch is outdated")

// ErrNoUplink: host and pods share no switch, and the adapter is the host's alone.
var ErrNoUplink = errors.New("there is no switch for host and pods")

// ErrReleased: the host was given its adapter back.
var ErrReleased = errors.New("the host has its adapter back")
