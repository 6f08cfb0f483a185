package tour

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"

	"github.com/weftnet/weft/node/hostnet"
)

const allAdapters = winipcfg.GAAFlagIncludeAllInterfaces | winipcfg.GAAFlagIncludeAllCompartments

func adapterNamed(t *testing.T, alias string) *winipcfg.IPAdapterAddresses {
	t.Helper()
	list, err := winipcfg.GetAdaptersAddresses(windows.AF_UNSPEC, allAdapters)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.FriendlyName() == alias {
			return a
		}
	}
	return nil
}

func ifRow(t *testing.T, luid winipcfg.LUID) *winipcfg.MibIfRow2 {
	t.Helper()
	row, err := luid.Interface()
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func addresses(t *testing.T, alias string) []netip.Prefix {
	t.Helper()
	a := adapterNamed(t, alias)
	if a == nil {
		t.Fatalf("there is no adapter %s", alias)
	}
	var list []netip.Prefix
	for u := a.FirstUnicastAddress; u != nil; u = u.Next {
		address, ok := netip.AddrFromSlice(u.Address.IP())
		if ok && address.Unmap().IsGlobalUnicast() {
			list = append(list, netip.PrefixFrom(address.Unmap(), int(u.OnLinkPrefixLength)))
		}
	}
	return list
}

func TestAdapters(t *testing.T) {
	physical := adapterNamed(t, adapter)
	if physical == nil {
		t.Fatalf("there is no adapter %s", adapter)
	}
	row := ifRow(t, physical.LUID)
	if row.Alias() != adapter || row.InterfaceAndOperStatusFlags&winipcfg.IAOSFHardwareInterface == 0 ||
		physical.CompartmentID != 1 {
		t.Errorf("the adapter is %q, flags %x, compartment %d", row.Alias(), row.InterfaceAndOperStatusFlags,
			physical.CompartmentID)
	}
	list, err := net.Interfaces()
	if err != nil || !slices.ContainsFunc(list, func(i net.Interface) bool { return i.Name == adapter }) {
		t.Errorf("package net sees %v, %v", list, err)
	}
	before := addresses(t, adapter)
	if len(before) != 2 {
		t.Fatalf("the adapter has %v", before)
	}

	network(t)
	host := adapterNamed(t, "vEth-"+adapter)
	if host == nil {
		t.Fatal("the network has made no vNIC for the host")
	}
	if after := addresses(t, "vEth-"+adapter); !slices.Equal(before, after) {
		t.Errorf("the adapter had %v, its vNIC has %v", before, after)
	}
	if left := addresses(t, adapter); len(left) != 0 {
		t.Errorf("the adapter still has %v", left)
	}
	row = ifRow(t, host.LUID)
	if row.Description() != "Hyper-V Virtual Ethernet Adapter" ||
		row.InterfaceAndOperStatusFlags&winipcfg.IAOSFHardwareInterface != 0 {
		t.Errorf("the vNIC is %q, flags %x", row.Description(), row.InterfaceAndOperStatusFlags)
	}
}

func TestNetworkGivesTheAddressesBack(t *testing.T) {
	before := addresses(t, adapter)
	n := network(t)
	if err := n.Delete(); err != nil {
		t.Fatal(err)
	}
	if after := addresses(t, adapter); !slices.Equal(before, after) {
		t.Errorf("the adapter had %v and has %v", before, after)
	}
	if adapterNamed(t, "vEth-"+adapter) != nil {
		t.Error("a vNIC that is gone is listed")
	}
}

func TestAddresses(t *testing.T) {
	luid := adapterNamed(t, adapter).LUID
	for _, prefix := range []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24"), netip.MustParsePrefix("2001:db8::7/64")} {
		if err := luid.AddIPAddress(prefix); err != nil {
			t.Fatalf("add %s: %v", prefix, err)
		}
		if err := luid.AddIPAddress(prefix); !errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
			t.Errorf("add %s again: %v", prefix, err)
		}
		if has := addresses(t, adapter); !slices.Contains(has, prefix) {
			t.Errorf("%s is not among %v", prefix, has)
		}
		row, err := luid.IPAddress(prefix.Addr())
		if err != nil || row.OnLinkPrefixLength != uint8(prefix.Bits()) || row.DadState != winipcfg.DadStatePreferred {
			t.Errorf("the entry of %s: %+v, %v", prefix, row, err)
		}
		if err := luid.DeleteIPAddress(prefix); err != nil {
			t.Errorf("delete %s: %v", prefix, err)
		}
		if err := luid.DeleteIPAddress(prefix); !errors.Is(err, windows.ERROR_NOT_FOUND) {
			t.Errorf("delete %s again: %v", prefix, err)
		}
	}
	if err := winipcfg.LUID(0x6000fff000000).AddIPAddress(netip.MustParsePrefix("192.0.2.7/24")); !errors.Is(err,
		windows.ERROR_NOT_FOUND) {
		t.Errorf("add to nobody: %v", err)
	}
}

func TestRoutes(t *testing.T) {
	luid := adapterNamed(t, adapter).LUID
	for destination, hop := range map[string]string{"198.51.100.0/24": "172.30.0.9", "2001:db8:1::/48": "fd30::9",
		"203.0.113.0/24": "0.0.0.0"} {
		prefix, next := netip.MustParsePrefix(destination), netip.MustParseAddr(hop)
		if err := luid.AddRoute(prefix, next, 7); err != nil {
			t.Fatalf("add %s: %v", prefix, err)
		}
		if err := luid.AddRoute(prefix, next, 7); !errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
			t.Errorf("add %s again: %v", prefix, err)
		}
		row, err := luid.Route(prefix, next)
		if err != nil || row.Metric != 7 {
			t.Fatalf("the entry of %s: %+v, %v", prefix, row, err)
		}
		row.Metric = 9
		if err := row.Set(); err != nil {
			t.Errorf("set %s: %v", prefix, err)
		}
		if row, err := luid.Route(prefix, next); err != nil || row.Metric != 9 {
			t.Errorf("the entry of %s: %+v, %v", prefix, row, err)
		}
		if err := luid.DeleteRoute(prefix, next); err != nil {
			t.Errorf("delete %s: %v", prefix, err)
		}
		if err := luid.DeleteRoute(prefix, next); !errors.Is(err, windows.ERROR_NOT_FOUND) {
			t.Errorf("delete %s again: %v", prefix, err)
		}
	}
}

// TestNeighbours: one that is set for good, and set again.
func TestNeighbours(t *testing.T) {
	a := hostnet.Adapter{LUID: uint64(adapterNamed(t, adapter).LUID)}
	for _, text := range []string{"172.30.0.77", "fd30::77"} {
		for _, mac := range []net.HardwareAddr{{2, 0, 0, 0, 0, 7}, {2, 0, 0, 0, 0, 7}, {2, 0, 0, 0, 0, 8}} {
			if err := (hostnet.Native{}).SetNeighbour(a, netip.MustParseAddr(text), mac); err != nil {
				t.Fatalf("%s at %v: %v", text, mac, err)
			}
		}
	}
	nobody := hostnet.Adapter{LUID: 0x6000fff000000}
	if err := (hostnet.Native{}).SetNeighbour(nobody, netip.MustParseAddr("172.30.0.77"), net.HardwareAddr{2, 0, 0, 0, 0,
		7}); !errors.Is(err, windows.ERROR_NOT_FOUND) {
		t.Errorf("on nobody's: %v", err)
	}
}

func TestIPInterface(t *testing.T) {
	a := adapterNamed(t, adapter)
	for _, family := range []winipcfg.AddressFamily{windows.AF_INET, windows.AF_INET6} {
		row, err := a.LUID.IPInterface(family)
		if err != nil {
			t.Fatal(err)
		}
		if row.NLMTU != 1500 || !row.Connected || !row.UseAutomaticMetric {
			t.Errorf("the entry is %+v", row)
		}
		row.NLMTU, row.UseAutomaticMetric, row.Metric, row.DisableDefaultRoutes = 1442, false, 11, true
		if err := row.Set(); err != nil {
			t.Fatal(err)
		}
		row, err = a.LUID.IPInterface(family)
		if err != nil || row.NLMTU != 1442 || row.UseAutomaticMetric || row.Metric != 11 || !row.DisableDefaultRoutes {
			t.Errorf("the entry is %+v, %v", row, err)
		}
		row.NLMTU = 1500
		if err := row.Set(); err != nil {
			t.Fatal(err)
		}
	}
	if mtu := adapterNamed(t, adapter).MTU; mtu != 1500 {
		t.Errorf("the adapter's MTU is %d", mtu)
	}
	if table, err := winipcfg.GetIPInterfaceTable(windows.AF_INET); err != nil || len(table) < 2 {
		t.Errorf("the table has %d entries, %v", len(table), err)
	}
}

func TestDNS(t *testing.T) {
	luid := adapterNamed(t, adapter).LUID
	if err := luid.SetDNS(windows.AF_INET, []netip.Addr{netip.MustParseAddr("192.0.2.53")},
		[]string{"example.net"}); err != nil {
		t.Error(err)
	}
}

var kinds = map[winipcfg.MibNotificationType]string{winipcfg.MibAddInstance: "add",
	winipcfg.MibDeleteInstance: "delete"}

func TestNotices(t *testing.T) {
	luid := adapterNamed(t, adapter).LUID
	seen := make(chan string, 64)
	unicast, err := winipcfg.RegisterUnicastAddressChangeCallback(func(kind winipcfg.MibNotificationType,
		row *winipcfg.MibUnicastIPAddressRow) {
		seen <- kinds[kind] + " " + row.Address.Addr().String()
	})
	if err != nil {
		t.Fatal(err)
	}
	route, err := winipcfg.RegisterRouteChangeCallback(func(kind winipcfg.MibNotificationType,
		row *winipcfg.MibIPforwardRow2) {
		seen <- kinds[kind] + " " + row.DestinationPrefix.Prefix().String()
	})
	if err != nil {
		t.Fatal(err)
	}
	interfaces, err := winipcfg.RegisterInterfaceChangeCallback(func(kind winipcfg.MibNotificationType,
		row *winipcfg.MibIPInterfaceRow) {
		if row.InterfaceLUID == luid {
			seen <- "interface"
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	prefix := netip.MustParsePrefix("192.0.2.7/24")
	if err := luid.AddIPAddress(prefix); err != nil {
		t.Fatal(err)
	}
	if err := luid.DeleteIPAddress(prefix); err != nil {
		t.Fatal(err)
	}
	row, err := luid.IPInterface(windows.AF_INET)
	if err != nil {
		t.Fatal(err)
	}
	for _, mtu := range []uint32{1400, 1500} {
		row.NLMTU = mtu
		if err := row.Set(); err != nil {
			t.Fatal(err)
		}
	}
	missing := map[string]bool{"add 192.0.2.7": true, "delete 192.0.2.7": true, "add 192.0.2.0/24": true,
		"interface": true}
	for late := time.After(2 * time.Minute); len(missing) > 0; {
		select {
		case what := <-seen:
			delete(missing, what)
		case <-late:
			t.Fatalf("these notices did not come: %v", missing)
		}
	}
	if err := errors.Join(unicast.Unregister(), route.Unregister(), interfaces.Unregister()); err != nil {
		t.Error(err)
	}
}

// The namespace is one that the emulator knows a network namespace of, and whose container runs.
func TestVNICInACompartment(t *testing.T) {
	namespace := os.Getenv("HNS_TOUR_NAMESPACE")
	n := network(t)
	made, err := n.CreateEndpoint(pod("web", 5))
	if err != nil {
		t.Fatal(err)
	}
	if err := made.NamespaceAttach(namespace); err != nil {
		t.Fatal(err)
	}
	vnic := adapterNamed(t, "web")
	if vnic == nil || vnic.CompartmentID < 2 || vnic.Description() != "Hyper-V Virtual Ethernet Container Adapter" {
		t.Fatalf("the vNIC is %+v", vnic)
	}
	visible, err := winipcfg.GetAdaptersAddresses(windows.AF_UNSPEC, winipcfg.GAAFlagIncludeAllInterfaces)
	if err != nil || slices.ContainsFunc(visible, func(a *winipcfg.IPAdapterAddresses) bool {
		return a.FriendlyName() == "web"
	}) {
		t.Errorf("the host's compartment has the pod's vNIC, %v", err)
	}
	if _, err := vnic.LUID.IPInterface(windows.AF_INET); !errors.Is(err, windows.ERROR_NOT_FOUND) {
		t.Errorf("its settings are seen from the host's compartment: %v", err)
	}
	inCompartment(t, vnic.CompartmentID, func() {
		row, err := vnic.LUID.IPInterface(windows.AF_INET)
		if err != nil {
			t.Error(err)
			return
		}
		row.NLMTU = 1342
		if err := row.Set(); err != nil {
			t.Error(err)
		}
	})
	if mtu := adapterNamed(t, "web").MTU; mtu != 1342 {
		t.Errorf("the vNIC's MTU is %d", mtu)
	}
	if err := made.Delete(); err != nil {
		t.Error(err)
	}
	if adapterNamed(t, "web") != nil {
		t.Error("the vNIC of a deleted endpoint is listed")
	}
}
