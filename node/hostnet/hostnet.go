// Package hostnet is the Windows host's own networking: adapters, addresses, routes, resolvers.
package hostnet

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Host is the host's networking. What it sets is read back from Windows by [Host.Adapters] and
// [Host.Routes]. Settings are of the running system: they do not outlive a reboot.
type Host interface {
	// Adapters of all network compartments, also those that have no address.
	Adapters() ([]Adapter, error)
	// Routes by the adapter that have a next hop, sorted; those of its addresses have none.
	Routes(Adapter) ([]Route, error)
	AddAddress(Adapter, netip.Prefix) error
	DeleteAddress(Adapter, netip.Prefix) error
	AddRoute(Adapter, Route) error
	DeleteRoute(Adapter, Route) error
	// SetNeighbour has the host know a neighbour's MAC address for good.
	SetNeighbour(a Adapter, address netip.Addr, mac net.HardwareAddr) error
	// SetDNS sets the adapter's resolvers and its suffix.
	SetDNS(Adapter, DNS) error
	// SetMTU sets the MTU of IP on the adapter, in whatever compartment it is.
	SetMTU(Adapter, int) error
	// InCompartment runs do on a thread that is in the network compartment: sockets that do makes are in there.
	InCompartment(compartment uint32, do func() error) error
	// Isolate keeps the host from forwarding by the adapter, and from what other hosts advertise there.
	Isolate(Adapter) error
	// Enable sets the adapter up.
	Enable(Adapter) error
	// EnableNamed sets the adapter of that alias up; Adapters lists none that is disabled.
	EnableNamed(alias string) error
	// SetMAC gives the adapter another MAC address.
	SetMAC(Adapter, net.HardwareAddr) error
	// Rename gives the adapter another alias.
	Rename(a Adapter, alias string) error
	// VMAdapter is the name that Hyper-V has for the host's adapter of that MAC address on the virtual switch, and
	// that the switch's extensions know it by; RenameVMAdapter gives it another, and Windows may change the alias
	// with it.
	VMAdapter(ctx context.Context, virtualSwitch string, mac net.HardwareAddr) (string, error)
	RenameVMAdapter(ctx context.Context, virtualSwitch string, mac net.HardwareAddr, name string) error
	// Reclaim: no virtual switch of that name has the adapter, whatever HNS knows; with dhcp its leases are renewed.
	Reclaim(ctx context.Context, virtualSwitch, adapter string, dhcp bool) error
	// SoftwareRSC says whether the virtual switch coalesces received segments; EnableSoftwareRSC
	// makes it.
	SoftwareRSC(ctx context.Context, virtualSwitch string) (bool, error)
	EnableSoftwareRSC(ctx context.Context, virtualSwitch string) error
	// Watch calls changed whenever adapters, addresses or routes may have changed, until ctx ends; it
	// calls it once at the start, when nothing can be missed any more.
	Watch(ctx context.Context, changed func()) error
}

// Adapter is a network interface.
type Adapter struct {
	LUID        uint64
	Index       uint32
	GUID        string // with braces
	Alias       string // what people call it: "Ethernet 2"
	Description string // what its driver calls it
	Kind        Kind
	Compartment uint32 // 1 is the host's own
	Up          bool
	DHCP        bool
	MAC         net.HardwareAddr
	MTU         int
	Addresses   []Address
	DNS         DNS
}

// Address of an adapter.
type Address struct {
	Prefix netip.Prefix
	// Usable: it is not tentative, a duplicate or deprecated.
	Usable bool
	// Temporary: of those that IPv6 changes again and again for privacy.
	Temporary bool
}

// Route by an adapter.
type Route struct {
	Destination netip.Prefix
	NextHop     netip.Addr
	Metric      uint32
}

// DNS is an adapter's resolver configuration.
type DNS struct {
	Servers []netip.Addr
	Suffix  string
}

// Kind of an adapter.
type Kind string

// Kinds of adapters. A virtual switch can be put on a [Physical] one only.
const (
	Physical Kind = "physical"
	Virtual  Kind = "virtual"
	Team     Kind = "team"
	Loopback Kind = "loopback"
)

// Driver's descriptions that tell what an adapter is.
const (
	// teamDriver is that of LBFO teams, whose adapter is no virtual one for Windows.
	teamDriver = "Microsoft Network Adapter Multiplexor"
	// virtualDriver is that of a virtual switch's adapter in the host. A virtual machine's own adapter
	// is a "Microsoft Hyper-V Network Adapter", and for its Windows a piece of hardware.
	virtualDriver = "Hyper-V Virtual Ethernet"
	// VirtualPrefix begins the aliases of a virtual switch's adapters: "vEthernet (NAME)".
	VirtualPrefix = "vEthernet"
)

// kindOf tells what an adapter is from what Windows says of it. hardware is the flag
// HardwareInterface of MIB_IF_ROW2.
func kindOf(alias, description string, loopback, hardware bool) Kind {
	switch {
	case loopback:
		return Loopback
	case strings.Contains(description, teamDriver):
		return Team
	case strings.Contains(description, virtualDriver), strings.HasPrefix(alias, VirtualPrefix+" ("):
		return Virtual
	case hardware:
		return Physical
	}
	return Virtual
}

// Global are the adapter's usable addresses that other hosts may know it by.
func (a Adapter) Global() []netip.Prefix {
	found := []netip.Prefix{}
	for _, address := range a.Addresses {
		if address.Usable && !address.Temporary && address.Prefix.Addr().IsGlobalUnicast() {
			found = append(found, address.Prefix)
		}
	}
	return found
}

// Has says whether the adapter has the address and may use it.
func (a Adapter) Has(address netip.Addr) bool {
	return slices.ContainsFunc(a.Addresses, func(own Address) bool { return own.Usable && own.Prefix.Addr() == address })
}

// Host's own compartment; 0 where Windows does not say.
func (a Adapter) InHost() bool { return a.Compartment <= 1 }

// Named returns the adapter of that alias.
func Named(adapters []Adapter, alias string) (Adapter, bool) {
	return find(adapters, func(a Adapter) bool { return strings.EqualFold(a.Alias, alias) })
}

// Holding returns the host's adapter that has the address.
func Holding(adapters []Adapter, address netip.Addr) (Adapter, bool) {
	return find(adapters, func(a Adapter) bool { return a.InHost() && a.Has(address) })
}

// Management returns the host's own adapter on the virtual switch that took the adapter of that name
// and MAC. Its name alone does not tell: "vEthernet (NAME)" may be another switch's (antrea issue
// 3636). But Windows gives it the adapter's MAC.
func Management(adapters []Adapter, uplink string, mac net.HardwareAddr) (Adapter, bool) {
	same := func(a Adapter) bool {
		return a.InHost() && a.Kind != Loopback && !strings.EqualFold(a.Alias, uplink) && bytes.Equal(a.MAC, mac) &&
			len(mac) > 0
	}
	if a, ok := find(adapters, func(a Adapter) bool { return same(a) && len(a.Global()) > 0 }); ok {
		return a, true
	}
	return find(adapters, same)
}

// Endpoint returns the adapter of an HNS endpoint: "vEthernet (NAME)", and in another compartment
// once its container runs. Where Windows cuts or changes the name, the MAC tells.
func Endpoint(adapters []Adapter, name string, mac net.HardwareAddr) (Adapter, bool) {
	for _, alias := range []string{VirtualPrefix + " (" + name + ")", name} {
		if a, ok := Named(adapters, alias); ok {
			return a, true
		}
	}
	return find(adapters, func(a Adapter) bool { return len(mac) > 0 && bytes.Equal(a.MAC, mac) && a.Kind == Virtual })
}

// HostAdapter is what the host's own adapter on the uplink's virtual switch is called: by Hyper-V, as its alias, and as
// the bridge that has it. Open vSwitch finds it by Hyper-V's name when it opens a port (lib/wmi.c, and GetNICAlias of
// the driver's Vport.c), and by the alias when it sends a packet into a tunnel (OvsGetRoute of IpHelper.c).
const HostAdapter = "weft-uplink"

// InternalPorts are the ports of type internal that Open vSwitch has on Windows beside those of pods.
var InternalPorts = []string{HostAdapter, "br-int", "weft-mp0"}

// Mistakable returns an adapter that Open vSwitch may take for its own of that name. Where it does not find a port's
// adapter it makes one, and then disables and renames the first whose alias has the port's name anywhere in it
// (create_wmi_port of lib/wmi.c: LIKE '%NAME%').
func Mistakable(adapters []Adapter) (a Adapter, port string, ok bool) {
	for _, port := range InternalPorts {
		own := []string{port, VirtualPrefix + " (" + port + ")"}
		if a, ok := find(adapters, func(a Adapter) bool {
			return strings.Contains(strings.ToLower(a.Alias), port) && !(a.Kind == Virtual && slices.Contains(own, a.Alias))
		}); ok {
			return a, port, true
		}
	}
	return Adapter{}, "", false
}

// DefaultNextHops are those of an adapter's default routes, of each family those with the lowest metric,
// IPv4 first. Routes of one metric share the load.
func DefaultNextHops(routes []Route) []netip.Addr {
	hops := []netip.Addr{}
	for _, four := range []bool{true, false} {
		best := []Route{}
		for _, r := range routes {
			if r.Destination.Bits() != 0 || r.Destination.Addr().Is4() != four || len(best) > 0 && r.Metric > best[0].Metric {
				continue
			}
			if len(best) > 0 && r.Metric < best[0].Metric {
				best = best[:0]
			}
			best = append(best, r)
		}
		for _, r := range best {
			hops = append(hops, r.NextHop.WithZone(""))
		}
	}
	slices.SortFunc(hops, netip.Addr.Compare)
	return slices.Compact(hops)
}

func find(adapters []Adapter, match func(Adapter) bool) (Adapter, bool) {
	if i := slices.IndexFunc(adapters, match); i >= 0 {
		return adapters[i], true
	}
	return Adapter{}, false
}
