package platform

import (
	"context"
	"net"
	"net/netip"
)

// Uplink is the host's own adapter where it and Open vSwitch share it.
type Uplink struct {
	// Switch is what the switch is known by to those who made it, another one after it was lost and
	// made anew: what Open vSwitch had on it is void then.
	Switch string
	// Adapter is the name of the physical adapter's port.
	Adapter string
	// Host is the host's own interface on the same switch, with its addresses. The bridge bears its
	// name: Open vSwitch takes an interface that is named like a bridge for that bridge's own port.
	Host string
	// MAC and MTU are what Open vSwitch must give to Host; empty and 0 where it has them already.
	MAC string
	MTU int
}

// HostInterface is what the host has on one of its interfaces.
type HostInterface struct {
	MAC net.HardwareAddr
	// Addresses are the usable global ones, IPv4 first, in each family the main one first.
	Addresses []netip.Prefix
	// NextHops are of the best default routes by the interface, IPv4 first.
	NextHops []netip.Addr
}

// UplinkBridge is the bridge of an uplink, as a platform may work with it while it moves what the host has. Every
// method returns when ovs-vswitchd has done its part, and changes nothing where its post-condition holds. Package
// openvswitch implements it, and is the only one that writes the bridge.
type UplinkBridge interface {
	// Ensure: the bridge [Uplink.Host] exists, and its own interface is a device of the host's with the
	// uplink's MAC and MTU.
	Ensure(ctx context.Context, u Uplink) error
	// Join: the adapter is a port of the bridge.
	Join(ctx context.Context, u Uplink) error
	// Leave: the adapter is no port of the bridge. A bridge that weft has made is gone.
	Leave(ctx context.Context, u Uplink) error
	// Holder is the bridge of which a device is a port; empty if it is none's.
	Holder(device string) string
	// Made is the uplink that a bridge was made for, as far as Open vSwitch knows it.
	Made() (Uplink, bool)
}
