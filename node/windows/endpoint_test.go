package windows_test

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/platform/platformtest"
	"github.com/weftnet/weft/node/windows"
	"github.com/weftnet/weft/node/windows/windowstest"
)

// deferredWindows starts the container of a sandbox as soon as an endpoint is made in it, for the story that
// all platforms tell.
type deferredWindows struct {
	*windows.Platform
	machine *hnstest.Machine
	started map[string]bool
}

func (d *deferredWindows) ConfigureEndpoint(ctx context.Context, e platform.Endpoint) error {
	if !d.started[e.Sandbox] {
		if err := d.Platform.ConfigureEndpoint(ctx, e); err == nil {
			return errors.New("an endpoint was configured before its device arrived")
		}
		if arrived, err := d.EndpointArrived(ctx, e); arrived || err != nil {
			return errors.New("the device arrived before the container started")
		}
		if _, err := d.EndpointNamed(ctx, e.Device); err != nil {
			return err
		}
		d.machine.StartContainer(e.Sandbox)
		d.started[e.Sandbox] = true
	}
	return d.Platform.ConfigureEndpoint(ctx, e)
}

func TestWindowsKeepsThePlatformsPromises(t *testing.T) {
	b := windowstest.New(t)
	b.EnsureUplink()
	sandboxes := map[string]string{}
	platformtest.Story(t, &deferredWindows{b.Windows, b.Machine, map[string]bool{}},
		func(name string) string { sandboxes[name] = b.AddNamespace(); return sandboxes[name] },
		func(name string) { b.RemoveNamespace(sandboxes[name]) })
}

// winPod is an endpoint of both address families in a new sandbox.
func winPod(b *windowstest.Bench) platform.Endpoint { return winContainer(b, "c1") }

func winContainer(b *windowstest.Bench, id string) platform.Endpoint {
	attachment := cni.Attachment{ContainerID: id, IfName: "eth0"}
	address := netip.MustParseAddr("10.244.1.3")
	return platform.Endpoint{
		Attachment: attachment, Device: cni.HostInterface(attachment), Sandbox: b.AddNamespace(), Label: "shop/web",
		MAC: contract.MAC(address), MTU: 1400,
		Addresses: []netip.Prefix{netip.PrefixFrom(address, 24), netip.MustParsePrefix("fd00:1::3/64")},
		Gateways:  []netip.Addr{netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("fd00:1::1")},
		DNS: types.DNS{Nameservers: []string{"10.96.0.10"},
			Search: []string{"shop.svc.cluster.local", "svc.cluster.local"}, Options: []string{"ndots:5"}},
	}
}

func TestEndpointHasWhatThePodAsksFor(t *testing.T) {
	b := windowstest.New(t)
	b.EnsureUplink()
	e := winPod(b)
	if err := b.Windows.CreateEndpoint(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	made, err := b.Windows.EndpointNamed(t.Context(), e.Device)
	if err != nil {
		t.Fatal(err)
	}
	wantDNS := hns.DNS{Servers: e.DNS.Nameservers, Search: e.DNS.Search, Options: e.DNS.Options}
	if !slices.Equal(made.Addresses, e.Addresses) || !slices.Equal(made.Gateways, e.Gateways) ||
		!reflect.DeepEqual(made.DNS, wantDNS) {
		t.Errorf("made %+v", made)
	}
	b.StartContainer(e.Sandbox)
	if arrived, err := b.Windows.EndpointArrived(t.Context(), e); !arrived || err != nil {
		t.Fatalf("arrived %v, %v", arrived, err)
	}
	if err := b.Windows.CheckEndpoint(t.Context(), e); err == nil ||
		!strings.Contains(err.Error(), "MTU 1500 instead of 1400") {
		t.Errorf("before it is configured: %v", err)
	}
	if err := errors.Join(b.Windows.ConfigureEndpoint(t.Context(), e),
		b.Windows.CheckEndpoint(t.Context(), e)); err != nil {
		t.Error(err)
	}
}

func TestEndpointErrorsSayWhatToDo(t *testing.T) {
	b := windowstest.New(t)
	e := winPod(b)
	if err := b.Windows.CreateEndpoint(t.Context(), e); err == nil ||
		!strings.Contains(err.Error(), "HNS network weft does not exist yet") {
		t.Errorf("before the uplink: %v", err)
	}
	b.EnsureUplink()
	b.LoseNetworks()
	if err := b.Windows.CreateEndpoint(t.Context(), e); err == nil || errors.Is(err, platform.ErrNoSandbox) {
		t.Errorf("a network that is lost: %v", err)
	}
	b.EnsureUplink()
	if err := b.Windows.CreateEndpoint(t.Context(), e); err != nil {
		t.Errorf("after the repair: %v", err)
	}
	e.Sandbox = "00000099-0000-4000-8000-000000000000"
	if err := b.Windows.CreateEndpoint(t.Context(), e); !errors.Is(err, platform.ErrNoSandbox) ||
		len(must(b.Windows.Endpoints())) != 0 {
		t.Errorf("a sandbox that is gone: %v\n%s", err, b.Dump())
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestEndpointOfADeadPodGivesItsAddressBack(t *testing.T) {
	b := windowstest.New(t)
	b.EnsureUplink()
	dead := winPod(b)
	if err := b.Windows.CreateEndpoint(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	e := winContainer(b, "c2")
	if err := b.Windows.CreateEndpoint(t.Context(), e); err == nil || !strings.Contains(err.Error(), dead.Device) {
		t.Errorf("the address of a pod that lives: %v", err)
	}
	b.RemoveNamespace(dead.Sandbox)
	if err := b.Windows.CreateEndpoint(t.Context(), e); err != nil || len(must(b.Windows.Endpoints())) != 1 {
		t.Errorf("error %v\n%s", err, b.Dump())
	}
}

func TestManagementAdapter(t *testing.T) {
	b := windowstest.New(t)
	b.EnsureUplink()
	address := netip.MustParsePrefix("10.244.1.2/24")
	m := platform.Management{
		Device: platform.ManagementDevice, MAC: contract.MAC(address.Addr()), MTU: 1400, Addresses: []netip.Prefix{address},
		Routes: []platform.Route{{Destination: netip.MustParsePrefix("10.96.0.0/12"),
			NextHop: netip.MustParseAddr("10.244.1.1"), Source: address.Addr()}},
	}
	if err := b.Windows.EnsureManagement(m); !errors.Is(err, platform.ErrNoDevice) {
		t.Fatalf("before Open vSwitch has made it: %v", err)
	}
	b.AddAdapter(hostnet.Adapter{Alias: platform.ManagementDevice, Kind: hostnet.Virtual,
		MAC: hnstest.MAC("02:00:00:00:00:88"), MTU: 1500,
		Addresses: []hostnet.Address{hnstest.LocalAddress("10.244.9.2/24"), hnstest.LocalAddress("169.254.7.7/16")}},
		hostnet.Route{Destination: netip.MustParsePrefix("10.97.0.0/16"), NextHop: netip.MustParseAddr("10.244.9.1")})
	if err := b.Windows.EnsureManagement(m); err != nil {
		t.Fatal(err)
	}
	adapter, _ := hostnet.Named(must(b.Adapters()), platform.ManagementDevice)
	routes := must(b.Routes(adapter))
	want := []hostnet.Route{{Destination: m.Routes[0].Destination, NextHop: m.Routes[0].NextHop}}
	if adapter.MAC.String() != m.MAC.String() || adapter.MTU != 1400 || !adapter.Up ||
		!slices.Equal(adapter.Global(), m.Addresses) || !slices.Equal(routes, want) ||
		!b.Isolated(platform.ManagementDevice) {
		t.Errorf("adapter %+v, routes %v", adapter, routes)
	}
	b.Calls()
	if err := b.Windows.EnsureManagement(m); err != nil {
		t.Fatal(err)
	}
	if calls := b.Calls(); !slices.Equal(calls, []string{"Isolate"}) { // which compares by itself
		t.Errorf("an adapter in order was changed: %v", calls)
	}
	if hosts := must(b.Windows.HostAddresses(platform.ManagementDevice)); !slices.Equal(hosts,
		[]netip.Addr{hnstest.NodeAddress, netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("fd30::3")}) {
		t.Errorf("the host's addresses are %v", hosts)
	}
	if mtu := must(b.Windows.UplinkMTU(hnstest.NodeAddress)); mtu != 1500 {
		t.Errorf("the uplink's MTU is %d", mtu)
	}
	if err := b.Windows.EnsureGatewayDevice("Ethernet 2"); err == nil ||
		!strings.Contains(err.Error(), "gateway-interface") {
		t.Errorf("a gateway device: %v", err)
	}
}

// Open vSwitch's vNIC is disabled when it comes, and no list has it. It is enabled, gets its MAC address, and is up.
func TestManagementAdapterIsBornDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := windowstest.New(t)
		b.EnsureUplink()
		m := platform.Management{Device: platform.ManagementDevice, MAC: hnstest.MAC("0a:58:0a:f4:01:02"), MTU: 1400,
			Addresses: nodetest.Prefixes("10.244.1.2/24")}
		if err := b.Windows.EnsureManagement(m); !errors.Is(err, platform.ErrNoDevice) {
			t.Errorf("before Open vSwitch has made it: %v", err)
		}
		if err := b.CreateWMIPort(m.Device); err != nil {
			t.Fatal(err)
		}
		b.Calls()
		if err := b.Windows.EnsureManagement(m); !errors.Is(err, platform.ErrNoDevice) || len(b.Calls()) != 0 {
			t.Errorf("a command for each look: %v", err)
		}
		time.Sleep(windows.EnablePeriod)
		if err := b.Windows.EnsureManagement(m); err != nil {
			t.Fatal(err)
		}
		if calls := b.Calls(); slices.Index(calls, "EnableNamed") != 0 || slices.Index(calls, "SetMAC") != 1 {
			t.Errorf("the calls are %v", calls)
		}
		adapters, _ := b.Adapters()
		if a, ok := hostnet.Named(adapters, m.Device); !ok || !a.Up || a.MAC.String() != m.MAC.String() {
			t.Errorf("the adapter is %+v", a)
		}
		b.Fail("Enable", func() error { return errors.New("access is denied") })
		b.SetUp(m.Device, false)
		if err := b.Windows.EnsureManagement(m); err == nil {
			t.Error("nobody is told that it is down")
		}
	})
}
