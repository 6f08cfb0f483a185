package hostnet

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"unsafe"

	"github.com/Microsoft/hcsshim"
	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)

// Native is the [Host] by iphlpapi. What that has no call for is done by PowerShell, see powershell.
type Native struct{}

var families = []winipcfg.AddressFamily{windows.AF_INET, windows.AF_INET6}

// Adapters needs both flags: without them Windows leaves out an adapter whose only binding is a
// virtual switch, and those of the pods.
func (Native) Adapters() ([]Adapter, error) {
	found, err := winipcfg.GetAdaptersAddresses(windows.AF_UNSPEC,
		winipcfg.GAAFlagIncludeAllInterfaces|winipcfg.GAAFlagIncludeAllCompartments)
	if err != nil {
		return nil, fmt.Errorf("GetAdaptersAddresses: %w", err)
	}
	rows, err := winipcfg.GetIfTable2Ex(winipcfg.MibIfEntryNormal)
	if err != nil {
		return nil, fmt.Errorf("GetIfTable2Ex: %w", err)
	}
	hardware := map[winipcfg.LUID]bool{}
	for _, row := range rows {
		hardware[row.InterfaceLUID] = row.InterfaceAndOperStatusFlags&winipcfg.IAOSFHardwareInterface != 0
	}
	adapters := make([]Adapter, 0, len(found))
	for _, a := range found {
		adapters = append(adapters, adapterOf(a, hardware[a.LUID]))
	}
	slices.SortFunc(adapters, func(a, b Adapter) int { return cmp.Compare(a.Index, b.Index) })
	return adapters, nil
}

func adapterOf(a *winipcfg.IPAdapterAddresses, hardware bool) Adapter {
	adapter := Adapter{
		LUID: uint64(a.LUID), Index: cmp.Or(a.IfIndex, a.IPv6IfIndex), GUID: a.AdapterName(), Alias: a.FriendlyName(),
		Description: a.Description(),
		Compartment: a.CompartmentID, Up: a.OperStatus == winipcfg.IfOperStatusUp,
		DHCP: a.Flags&winipcfg.IPAAFlagDhcpv4Enabled != 0,
		MAC:  slices.Clone(net.HardwareAddr(a.PhysicalAddress())), DNS: DNS{Suffix: a.DNSSuffix()},
	}
	adapter.Kind = kindOf(adapter.Alias, adapter.Description, a.IfType == winipcfg.IfTypeSoftwareLoopback, hardware)
	if a.MTU <= 1<<16 { // the loopback's has all bits set
		adapter.MTU = int(a.MTU)
	}
	for u := a.FirstUnicastAddress; u != nil; u = u.Next {
		address, ok := netip.AddrFromSlice(u.Address.IP())
		if !ok {
			continue
		}
		adapter.Addresses = append(adapter.Addresses, Address{
			Prefix: netip.PrefixFrom(address.Unmap(), int(u.OnLinkPrefixLength)),
			Usable: winipcfg.DadState(u.DadState) == winipcfg.DadStatePreferred,
			Temporary: address.Is6() && winipcfg.SuffixOrigin(u.SuffixOrigin) == winipcfg.SuffixOriginRandom &&
				u.PreferredLifetime != 1<<32-1,
		})
	}
	for d := a.FirstDNSServerAddress; d != nil; d = d.Next {
		if server, ok := netip.AddrFromSlice(d.Address.IP()); ok {
			adapter.DNS.Servers = append(adapter.DNS.Servers, server.Unmap())
		}
	}
	return adapter
}

func (Native) Routes(a Adapter) ([]Route, error) {
	rows, err := winipcfg.GetIPForwardTable2(windows.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("GetIpForwardTable2: %w", err)
	}
	routes := []Route{}
	for _, row := range rows {
		hop := row.NextHop.Addr()
		if row.InterfaceLUID != winipcfg.LUID(a.LUID) || row.Loopback || !hop.IsValid() || hop.IsUnspecified() {
			continue
		}
		routes = append(routes, Route{Destination: row.DestinationPrefix.Prefix(), NextHop: hop, Metric: row.Metric})
	}
	slices.SortFunc(routes, func(a, b Route) int {
		return cmp.Or(a.Destination.Compare(b.Destination), a.NextHop.Compare(b.NextHop))
	})
	return routes, nil
}

func (Native) AddAddress(a Adapter, address netip.Prefix) error {
	return ignoring(winipcfg.LUID(a.LUID).AddIPAddress(address), windows.ERROR_OBJECT_ALREADY_EXISTS)
}

func (Native) DeleteAddress(a Adapter, address netip.Prefix) error {
	return ignoring(winipcfg.LUID(a.LUID).DeleteIPAddress(address), windows.ERROR_NOT_FOUND)
}

func (Native) AddRoute(a Adapter, r Route) error {
	return ignoring(winipcfg.LUID(a.LUID).AddRoute(r.Destination, r.NextHop, r.Metric),
		windows.ERROR_OBJECT_ALREADY_EXISTS)
}

func (Native) DeleteRoute(a Adapter, r Route) error {
	return ignoring(winipcfg.LUID(a.LUID).DeleteRoute(r.Destination, r.NextHop), windows.ERROR_NOT_FOUND)
}

func ignoring(err error, expected windows.Errno) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// SetDNS is SetInterfaceDnsSettings, which Windows has since build 19041.
func (Native) SetDNS(a Adapter, dns DNS) error {
	var suffixes []string
	if dns.Suffix != "" {
		suffixes = []string{dns.Suffix}
	}
	var errs []error
	for _, family := range families {
		servers := slices.DeleteFunc(slices.Clone(dns.Servers), func(s netip.Addr) bool {
			return s.Is4() != (family == windows.AF_INET)
		})
		if len(servers) > 0 {
			errs = append(errs, winipcfg.LUID(a.LUID).SetDNS(family, servers, suffixes))
		}
	}
	return errors.Join(errs...)
}

// SetMTU has to be called in the adapter's own compartment, as antrea does (pkg/agent/util/winnet).
func (Native) SetMTU(a Adapter, mtu int) error {
	return eachInterface(a, func(row *winipcfg.MibIPInterfaceRow) bool {
		changed := row.NLMTU != uint32(mtu)
		row.NLMTU = uint32(mtu)
		return changed
	})
}

// isolatedMetric is above what Windows gives to any adapter, so that no other is passed over for it.
const isolatedMetric = 5000

func (Native) Isolate(a Adapter) error {
	return eachInterface(a, func(row *winipcfg.MibIPInterfaceRow) bool {
		before := *row
		row.ForwardingEnabled, row.AdvertisingEnabled = false, false
		row.RouterDiscoveryBehavior = winipcfg.RouterDiscoveryDisabled
		row.ManagedAddressConfigurationSupported, row.OtherStatefulConfigurationSupported = false, false
		row.DadTransmits = 0 // OVN gives an address to one port only
		row.UseAutomaticMetric, row.Metric = false, isolatedMetric
		return *row != before
	})
}

// eachInterface changes the adapter's settings of IPv4 and IPv6, of which one may be switched off.
func eachInterface(a Adapter, change func(*winipcfg.MibIPInterfaceRow) bool) error {
	return Native{}.InCompartment(a.Compartment, func() error { return changeInterface(a, change) })
}

// InCompartment enters by a thread of its own, unless the compartment is the host's.
func (Native) InCompartment(compartment uint32, do func() error) error {
	if (Adapter{Compartment: compartment}).InHost() {
		return do()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, not in another's hands
		if err := hcsshim.SetCurrentThreadCompartmentId(compartment); err != nil {
			done <- fmt.Errorf("enter network compartment %d: %w", compartment, err)
			return
		}
		done <- do()
	}()
	return <-done
}

func changeInterface(a Adapter, change func(*winipcfg.MibIPInterfaceRow) bool) error {
	found := 0
	for _, family := range families {
		row, err := winipcfg.LUID(a.LUID).IPInterface(family)
		if errors.Is(err, windows.ERROR_NOT_FOUND) {
			continue
		}
		if err != nil {
			return fmt.Errorf("GetIpInterfaceEntry: %w", err)
		}
		found++
		if !change(row) {
			continue
		}
		if err := row.Set(); err != nil {
			return fmt.Errorf("SetIpInterfaceEntry: %w", err)
		}
	}
	if found == 0 {
		return errors.New("the adapter has neither IPv4 nor IPv6")
	}
	return nil
}

var procSetIfEntry = windows.NewLazySystemDLL("iphlpapi.dll").NewProc("SetIfEntry")

// mibIfAdminStatusUp is MIB_IF_ADMIN_STATUS_UP of ipifcons.h.
const mibIfAdminStatusUp = 1

// Enable tries SetIfEntry first. Drivers may refuse it; Enable-NetAdapter is what Open vSwitch's
// manual tells people to call for the adapters that it makes.
func (Native) Enable(a Adapter) error {
	row := windows.MibIfRow{Index: a.Index, AdminStatus: mibIfAdminStatusUp}
	if procSetIfEntry.Find() == nil {
		if code, _, _ := procSetIfEntry.Call(uintptr(unsafe.Pointer(&row))); code == 0 {
			return nil
		}
	}
	return Native{}.EnableNamed(a.Alias)
}
