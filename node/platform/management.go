package platform

import (
	"net"
	"net/netip"
)

// ManagementDevice is the host's interface on its node's logical switch: its own port on br-int.
const ManagementDevice = "weft-mp0"

// Management is the host's interface on its node's logical switch.
type Management struct {
	Device    string
	MAC       net.HardwareAddr
	MTU       int
	Addresses []netip.Prefix
	Routes    []Route
	// Partial: there may be more routes than are known yet. Those to single addresses stay.
	Partial bool
}

// Superfluous says whether a route of the device that is none of m's has to go.
func (m Management) Superfluous(destination netip.Prefix) bool {
	return !m.Partial || !destination.IsSingleIP()
}

// Route of the host through the management device. Source is the address that the host uses.
type Route struct {
	Destination netip.Prefix
	NextHop     netip.Addr
	Source      netip.Addr
}
