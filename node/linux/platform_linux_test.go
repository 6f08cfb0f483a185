package linux_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/linux"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/platform/platformtest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// Where packets are switched.
const (
	onKernel    = false
	onUserspace = true
)

func newLinux(t testing.TB, userspace bool) *linux.Platform {
	t.Helper()
	linux, err := linux.New(linux.Config{Userspace: userspace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := linux.Close(); err != nil {
			t.Error(err)
		}
	})
	return linux
}

func endpoint(id, sandbox string) platform.Endpoint {
	v4, v6 := netip.MustParsePrefix("10.244.1.3/24"), netip.MustParsePrefix("fd00:10:244:1::3/64")
	attachment := cni.Attachment{ContainerID: id, IfName: "eth0"}
	return platform.Endpoint{
		Attachment: attachment, Device: cni.HostInterface(attachment), Sandbox: sandbox, Label: "shop/web-0",
		MAC: contract.MAC(v4.Addr()), Addresses: []netip.Prefix{v4, v6},
		Gateways: []netip.Addr{netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("fd00:10:244:1::1")}, MTU: 1400,
	}
}

// attach is what an ADD does on the platform.
func attach(t testing.TB, p platform.Platform, e platform.Endpoint) {
	t.Helper()
	if err := errors.Join(p.CreateEndpoint(t.Context(), e), p.ConfigureEndpoint(t.Context(), e)); err != nil {
		t.Fatal(err)
	}
	device := e.Device
	t.Cleanup(func() {
		if err := p.DeleteEndpoint(context.Background(), device); err != nil {
			t.Error(err)
		}
	})
}

func inside(t testing.TB, sandbox string, command ...string) string {
	t.Helper()
	output, err := exec.Command("nsenter", append([]string{"--net=" + sandbox}, command...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, output)
	}
	return string(output)
}

func run(t testing.TB, command ...string) string {
	t.Helper()
	output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, output)
	}
	return string(output)
}

func TestLinuxKeepsThePlatformsPromises(t *testing.T) {
	for datapath, userspace := range map[string]bool{"system": onKernel, "netdev": onUserspace} {
		t.Run(datapath, func(t *testing.T) {
			linux := newLinux(t, userspace)
			platformtest.Story(t, linux, func(name string) string { return nodetest.Sandbox(t, name) },
				func(name string) { nodetest.RemoveSandbox(t, name) })
		})
	}
}

func TestEndpointIsCompleteAndRepeatable(t *testing.T) {
	for datapath, userspace := range map[string]bool{"system": onKernel, "netdev": onUserspace} {
		t.Run(datapath, func(t *testing.T) {
			linux := newLinux(t, userspace)
			sandbox := nodetest.Sandbox(t, "pod-"+datapath)
			e := endpoint("c-"+datapath, sandbox)
			attach(t, linux, e)
			device := e.Device
			before, err := netlink.LinkByName(device)
			if err != nil {
				t.Fatal(err)
			}
			attach(t, linux, e)
			after, err := netlink.LinkByName(device)
			if err != nil {
				t.Fatal(err)
			}
			if before.Attrs().Index != after.Attrs().Index {
				t.Error("a repeated attachment made a new device: the pod lost its connections")
			}
			if err := linux.CheckEndpoint(t.Context(), e); err != nil {
				t.Error(err)
			}
			show := inside(t, sandbox, "ip", "-o", "addr", "show", "dev", "eth0") + inside(t, sandbox, "ip", "route") +
				inside(t, sandbox, "ip", "-6", "route") + inside(t, sandbox, "ip", "link", "show", "dev", "eth0") + run(t, "ip",
				"link", "show", "dev", device)
			for _, want := range []string{"10.244.1.3/24", "fd00:10:244:1::3/64", "default via 10.244.1.1 dev eth0",
				"default via fd00:10:244:1::1 dev eth0", "0a:58:0a:f4:01:03", "mtu 1400", "alias shop/web-0"} {
				if !strings.Contains(show, want) {
					t.Errorf("no %q in\n%s", want, show)
				}
			}
			if !strings.Contains(show, "scope global nodad") {
				t.Errorf("the pod waits for duplicate address detection:\n%s", show)
			}
			offload := inside(t, sandbox, "ethtool", "-k", "eth0")
			if want := map[string]string{nodeconfig.DatapathSystem: "tx-checksumming: on",
				nodeconfig.DatapathNetdev: "tx-checksumming: off"}[datapath]; !strings.Contains(offload, want) {
				t.Errorf("no %q in\n%s", want, offload)
			}
		})
	}
}

func TestDeleteLeavesNothing(t *testing.T) {
	linux := newLinux(t, onUserspace)
	sandbox := nodetest.Sandbox(t, "pod")
	e := endpoint("c1", sandbox)
	device := e.Device
	attach(t, linux, e)
	if devices, err := linux.Endpoints(); err != nil || !slices.Equal(devices, []string{device}) {
		t.Fatalf("endpoints %v, %v", devices, err)
	}
	if rules := run(t, "nft", "list", "ruleset"); !strings.Contains(rules, device) {
		t.Errorf("the host's stack sees the frames of %s:\n%s", device, rules)
	}
	for range 2 {
		if err := linux.DeleteEndpoint(t.Context(), device); err != nil {
			t.Fatal(err)
		}
	}
	if devices, err := linux.Endpoints(); err != nil || len(devices) != 0 {
		t.Errorf("endpoints %v, %v", devices, err)
	}
	if rules := run(t, "nft", "list", "ruleset"); strings.Contains(rules, device) {
		t.Errorf("a chain of %s is left:\n%s", device, rules)
	}
	if links := inside(t, sandbox, "ip", "link"); strings.Contains(links, "eth0") {
		t.Errorf("eth0 is left in the sandbox:\n%s", links)
	}
}

func TestDeleteAfterTheSandboxWent(t *testing.T) {
	linux := newLinux(t, onUserspace)
	sandbox := nodetest.Sandbox(t, "pod")
	e := endpoint("c1", sandbox)
	attach(t, linux, e)
	nodetest.RemoveSandbox(t, "pod")
	if exists, err := linux.SandboxExists(sandbox); err != nil || exists {
		t.Errorf("sandbox exists: %v, %v", exists, err)
	}
	if err := linux.DeleteEndpoint(t.Context(), e.Device); err != nil {
		t.Error(err)
	}
	if err := linux.CreateEndpoint(t.Context(), e); !errors.Is(err, platform.ErrNoSandbox) {
		t.Errorf("create in a sandbox that went: %v", err)
	}
}

func TestFileInPlaceOfSandbox(t *testing.T) {
	linux := newLinux(t, onKernel)
	path := t.TempDir() + "/ns"
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if exists, err := linux.SandboxExists(path); err != nil || exists {
		t.Errorf("a plain file passes for a sandbox: %v, %v", exists, err)
	}
}

func TestCheckFindsWhatIsMissing(t *testing.T) {
	linux := newLinux(t, onKernel)
	sandbox := nodetest.Sandbox(t, "pod")
	e := endpoint("c1", sandbox)
	for _, test := range []struct {
		damage []string
		says   string
	}{
		{[]string{"nsenter", "--net=" + sandbox, "ip", "addr", "del", "10.244.1.3/24", "dev", "eth0"}, "10.244.1.3/24"},
		{[]string{"nsenter", "--net=" + sandbox, "ip", "route", "del", "default"}, "10.244.1.1"},
		{[]string{"nsenter", "--net=" + sandbox, "ip", "-6", "route", "del", "default"}, "fd00:10:244:1::1"},
		{[]string{"nsenter", "--net=" + sandbox, "ip", "link", "set", "eth0", "address", "02:00:00:00:00:01"},
			"02:00:00:00:00:01"},
		{[]string{"ip", "link", "set", e.Device, "down"}, "down"},
		{[]string{"ip", "link", "del", e.Device}, "missing"},
	} {
		attach(t, linux, e)
		run(t, test.damage...)
		if err := linux.CheckEndpoint(t.Context(), e); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("after %v: %v", test.damage, err)
		}
	}
}

func TestForeignInterfaceInTheSandboxIsKept(t *testing.T) {
	linux := newLinux(t, onKernel)
	sandbox := nodetest.Sandbox(t, "pod")
	inside(t, sandbox, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "other")
	err := linux.CreateEndpoint(t.Context(), endpoint("c1", sandbox))
	if err == nil || !strings.Contains(err.Error(), "of its own already") {
		t.Errorf("got %v", err)
	}
	if links := inside(t, sandbox, "ip", "link"); !strings.Contains(links, "eth0") {
		t.Error("the other plugin's interface went")
	}
}

func TestRemnantOfAnotherSandboxIsReplaced(t *testing.T) {
	linux := newLinux(t, onKernel)
	first, second := nodetest.Sandbox(t, "first"), nodetest.Sandbox(t, "second")
	attach(t, linux, endpoint("c1", first))
	attach(t, linux, endpoint("c1", second))
	if err := linux.CheckEndpoint(t.Context(), endpoint("c1", second)); err != nil {
		t.Error(err)
	}
}

func TestSandboxWithoutIPv6GetsIt(t *testing.T) {
	linux := newLinux(t, onKernel)
	sandbox := nodetest.Sandbox(t, "pod")
	inside(t, sandbox, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
	e := endpoint("c1", sandbox)
	attach(t, linux, e)
	if err := linux.CheckEndpoint(t.Context(), e); err != nil {
		t.Error(err)
	}
}

func TestGatewayOutsideTheSubnet(t *testing.T) {
	linux := newLinux(t, onKernel)
	e := endpoint("c1", nodetest.Sandbox(t, "pod"))
	e.Addresses = []netip.Prefix{netip.MustParsePrefix("10.244.1.3/32")}
	e.Gateways = []netip.Addr{netip.MustParseAddr("169.254.1.1")}
	attach(t, linux, e)
	if err := linux.CheckEndpoint(t.Context(), e); err != nil {
		t.Error(err)
	}
}

// Threads enter and leave network namespaces here: none may be left in the wrong one.
func TestManyAtOnce(t *testing.T) {
	linux := newLinux(t, onUserspace)
	var pods sync.WaitGroup
	for i := range 20 {
		sandbox := nodetest.Sandbox(t, fmt.Sprintf("pod-%d", i))
		e := endpoint(fmt.Sprintf("c%d", i), sandbox)
		pods.Go(func() {
			for range 3 {
				if err := errors.Join(linux.CreateEndpoint(t.Context(), e), linux.ConfigureEndpoint(t.Context(), e),
					linux.CheckEndpoint(t.Context(), e)); err != nil {
					t.Error(err)
					return
				}
				if _, err := net.InterfaceByName(e.Device); err != nil {
					t.Error(err)
				}
				if err := linux.DeleteEndpoint(t.Context(), e.Device); err != nil {
					t.Error(err)
				}
			}
		})
	}
	pods.Wait()
	if devices, err := linux.Endpoints(); err != nil || len(devices) != 0 {
		t.Errorf("left: %v, %v", devices, err)
	}
}

func TestManagementDeviceIsRepaired(t *testing.T) {
	linux := newLinux(t, onKernel)
	m := platform.Management{
		Device: "mp-test", MTU: 1400,
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.2/24"), netip.MustParsePrefix("fd00:10:244:1::2/64")},
		Routes: []platform.Route{
			{Destination: netip.MustParsePrefix("10.244.0.0/16"), NextHop: netip.MustParseAddr("10.244.1.1"),
				Source: netip.MustParseAddr("10.244.1.2")},
			{Destination: netip.MustParsePrefix("fd00:10:96::/112"), NextHop: netip.MustParseAddr("fd00:10:244:1::1"),
				Source: netip.MustParseAddr("fd00:10:244:1::2")},
		},
	}
	m.MAC = contract.MAC(contract.Addrs(m.Addresses)...)
	if err := linux.EnsureManagement(m); !errors.Is(err, platform.ErrNoDevice) {
		t.Fatalf("without device: %v", err)
	}
	run(t, "ip", "link", "add", "mp-test", "type", "veth", "peer", "name", "mp-peer")
	t.Cleanup(func() { run(t, "ip", "link", "del", "mp-test") })
	run(t, "ip", "link", "set", "mp-peer", "up")
	run(t, "ip", "addr", "add", "10.9.9.9/24", "dev", "mp-test")
	state := func() string {
		return run(t, "ip", "-o", "addr", "show", "dev", "mp-test") + run(t, "ip", "route", "show", "dev",
			"mp-test") + run(t, "ip", "-6", "route", "show", "dev", "mp-test")
	}
	for _, damage := range [][]string{
		nil,
		{"ip", "addr", "flush", "dev", "mp-test"},
		{"ip", "link", "set", "mp-test", "down"},
		{"ip", "route", "del", "10.244.0.0/16"},
		{"ip", "route", "replace", "10.244.0.0/16", "via", "10.244.1.1", "src", "127.0.0.1"},
		{"ip", "route", "add", "192.0.2.0/24", "via", "10.244.1.1"},
		{"ip", "link", "set", "mp-test", "mtu", "1300"},
	} {
		if damage != nil {
			run(t, damage...)
		}
		for range 2 {
			if err := linux.EnsureManagement(m); err != nil {
				t.Fatalf("after %v: %v", damage, err)
			}
		}
		text := state()
		for _, want := range []string{"10.244.1.2/24", "fd00:10:244:1::2/64",
			"10.244.0.0/16 via 10.244.1.1 proto static src 10.244.1.2",
			"fd00:10:96::/112 via fd00:10:244:1::1 proto static src fd00:10:244:1::2"} {
			if !strings.Contains(text, want) {
				t.Errorf("after %v: no %q in\n%s", damage, want, text)
			}
		}
		for _, stale := range []string{"10.9.9.9", "192.0.2.0"} {
			if strings.Contains(text, stale) {
				t.Errorf("after %v: %s is left in\n%s", damage, stale, text)
			}
		}
	}
}

func TestHostAddressesAndUplink(t *testing.T) {
	linux := newLinux(t, onKernel)
	run(t, "ip", "link", "add", "up0", "mtu", "1450", "type", "veth", "peer", "name", "up1")
	t.Cleanup(func() { run(t, "ip", "link", "del", "up0") })
	run(t, "ip", "addr", "add", "192.0.2.10/24", "dev", "up0")
	run(t, "ip", "addr", "add", "2001:db8::10/64", "dev", "up0", "nodad")
	run(t, "ip", "addr", "add", "10.244.1.2/24", "dev", "up1")
	mtu, err := linux.UplinkMTU(netip.MustParseAddr("192.0.2.10"))
	if err != nil || mtu != 1450 {
		t.Errorf("MTU %d, %v", mtu, err)
	}
	if _, err := linux.UplinkMTU(netip.MustParseAddr("192.0.2.99")); err == nil {
		t.Error("an address that no interface has got an MTU")
	}
	addresses, err := linux.HostAddresses("up1", "no-such-device")
	if want := []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8::10")}; err != nil ||
		!slices.Equal(addresses, want) {
		t.Errorf("addresses %v, %v", addresses, err)
	}
}

func TestGatewayDeviceWithTheHostsAddressIsRefused(t *testing.T) {
	linux := newLinux(t, onUserspace)
	run(t, "ip", "link", "add", "gw0", "type", "veth", "peer", "name", "gw1")
	t.Cleanup(func() { run(t, "ip", "link", "del", "gw0") })
	if err := linux.EnsureGatewayDevice("gw0"); err != nil {
		t.Fatal(err)
	}
	if show := run(t, "ip", "-o", "addr", "show", "dev", "gw0"); show != "" {
		t.Errorf("the host has an address on the gateway device: %s", show)
	}
	run(t, "ip", "addr", "add", "192.0.2.10/24", "dev", "gw0")
	if err := linux.EnsureGatewayDevice("gw0"); err == nil || !strings.Contains(err.Error(), "192.0.2.10") {
		t.Errorf("got %v", err)
	}
}

func TestWatchTellsChangesAndEnds(t *testing.T) {
	linux := newLinux(t, onKernel)
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 100)
	ended := make(chan error, 1)
	go func() { ended <- linux.Watch(ctx, func() { changed <- struct{}{} }) }()
	await := func() {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(nodetest.Patience):
			t.Fatal("no change was told")
		}
	}
	await()
	run(t, "ip", "link", "add", "w0", "type", "veth", "peer", "name", "w1")
	await()
	run(t, "ip", "link", "del", "w0")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
