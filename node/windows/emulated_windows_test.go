package windows

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
)

// The tests here run under Wine over the emulated HNS, see node/hns/winetest.

// What HNS may take to answer, on a busy machine, too. Tests wait for it in full.
const (
	callTime    = 10 * time.Second
	networkTime = 15 * time.Second
)

// emulated is the machine from outside.
type emulated struct {
	*testing.T
	windows *Platform
	host    hostnet.Native
}

func newEmulated(t *testing.T) *emulated {
	if os.Getenv("WEFT_TEST_CONTROL") == "" {
		t.Skip("needs an emulated HNS: run the tests of node/hns/winetest on Linux")
	}
	e := &emulated{T: t}
	e.control("fault clear")
	e.restart()
	t.Cleanup(func() {
		e.control("fault clear")
		if err := e.windows.ReleaseUplink(context.Background(), nil); err != nil {
			t.Error(err)
		}
		e.reachable("Ethernet")
	})
	return e
}

func (e *emulated) restart() {
	e.Helper()
	folder, err := os.Getwd()
	if err != nil {
		e.Fatal(err)
	}
	e.windows, err = New(Config{
		Network: "weft", EncapAddress: netip.MustParseAddr("172.30.0.3"), StateFile: filepath.Join(folder, "host.json"),
		PodSubnets: func() []netip.Prefix {
			return []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")}
		},
		HNS: hns.Config{Deadline: callTime, NetworkDeadline: networkTime}, AddressTime: 10 * time.Second,
		RetryTime: 100 * time.Millisecond,
	})
	if err != nil {
		e.Fatal(err)
	}
}

func (e *emulated) control(words string) {
	e.Helper()
	conn, err := net.Dial("tcp", os.Getenv("WEFT_TEST_CONTROL"))
	if err != nil {
		e.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, words)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "ok" {
		e.Fatalf("%s: %s %v", words, answer, err)
	}
}

// ensureUplink tries again for as long as an agent would.
func (e *emulated) ensureUplink() platform.Uplink {
	e.Helper()
	uplink := platform.Uplink{}
	e.eventually("an uplink", func() (err error) { uplink, err = e.windows.EnsureUplink(e.Context(), nil); return err })
	e.reachable(uplink.Host)
	return uplink
}

func (e *emulated) eventually(what string, try func() error) {
	e.Helper()
	end := time.Now().Add(nodetest.Patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			e.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// reachable: the adapter has the host's addresses and its default route.
func (e *emulated) reachable(alias string) {
	e.Helper()
	e.eventually("reach the host by "+alias, func() error {
		adapters, err := e.host.Adapters()
		if err != nil {
			return err
		}
		a, ok := hostnet.Named(adapters, alias)
		want := []netip.Prefix{netip.MustParsePrefix("172.30.0.3/24"), netip.MustParsePrefix("fd30::3/64")}
		have := a.Global()
		slices.SortFunc(have, netip.Prefix.Compare)
		routes, err := e.host.Routes(a)
		if err != nil || !ok || !slices.Equal(have, want) || !slices.ContainsFunc(routes, func(r hostnet.Route) bool {
			return r.Destination.Bits() == 0 && r.NextHop == netip.MustParseAddr("172.30.0.254")
		}) {
			return fmt.Errorf("there %v, addresses %v, routes %v, error %v", ok, have, routes, err)
		}
		return nil
	})
}

func TestEmulatedUplink(t *testing.T) {
	e := newEmulated(t)
	uplink := e.ensureUplink()
	if uplink.Adapter != "Ethernet" || uplink.Host == "" || uplink.Host == "Ethernet" {
		t.Errorf("uplink %+v", uplink)
	}
	e.restart()
	if again := e.ensureUplink(); again != uplink {
		t.Errorf("uplink %+v, after a restart %+v", uplink, again)
	}
	if mtu, err := e.windows.UplinkMTU(netip.MustParseAddr("172.30.0.3")); mtu != 1500 || err != nil {
		t.Errorf("MTU %d, error %v", mtu, err)
	}
	if err := e.windows.ReleaseUplink(t.Context(), nil); err != nil {
		t.Error(err)
	}
	e.reachable("Ethernet")
}

func TestEmulatedBadDays(t *testing.T) {
	for name, test := range map[string]struct {
		fault, want string
	}{
		"extension missing":  {"fault no-driver", "not installed"},
		"extension refused":  {"fault fail HNSCall 0x803b0015", "HNS"},
		"network refused":    {"fault fail HcnCreateNetwork 0x80070057", "create HNS network weft on adapter Ethernet"},
		"HNS has stopped":    {"fault restart 600", "list the HNS networks"},
		"Hyper-V is missing": {"fault no-vmms", "cannot be named weft-uplink"},
		"a network hangs":    {"fault hang HcnCreateNetwork 20 1", "was not answered within 15s"},
		"a virtual adapter":  {"", `adapter: "weft-mp0" is virtual`},
		"no such adapter":    {"", `adapter: this node has no adapter "Ethernet 9"`},
		"dhcp does not help": {"fault dhcp-fail", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEmulated(t)
			switch name {
			case "a virtual adapter":
				e.windows.config.Adapter = "weft-mp0"
			case "no such adapter":
				e.windows.config.Adapter = "Ethernet 9"
			default:
				e.control(test.fault)
			}
			uplink, err := e.windows.EnsureUplink(t.Context(), nil)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				e.reachable(uplink.Host)
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v", err)
			}
			if name != "a network hangs" { // then it comes late, and is taken up
				e.control("fault clear")
				e.reachable("Ethernet")
			} else { // a network that comes still later would be the next test's
				e.eventually("an answer of the call that hung", func() error {
					if n := e.windows.hns.Worker().Hung(); n > 0 {
						return fmt.Errorf("%d calls are not answered", n)
					}
					return nil
				})
			}
			e.windows.config.Adapter = ""
			e.control("fault clear")
			e.ensureUplink()
		})
	}
}

func TestEmulatedLosses(t *testing.T) {
	e := newEmulated(t)
	before := e.ensureUplink()
	e.control("fault disable-extension")
	if e.windows.uplinkHolds(t.Context()) {
		t.Error("an extension that is disabled was not seen")
	}
	if after := e.ensureUplink(); after != before {
		t.Errorf("uplink %+v, then %+v", before, after)
	}
	e.control("fault lose-network")
	if e.windows.uplinkHolds(t.Context()) {
		t.Error("a network that is lost was not seen")
	}
	if after := e.ensureUplink(); after.Switch == before.Switch {
		t.Errorf("the switch is still %+v", after)
	}
}

const (
	firstSandbox  = "0B5D8A44-7C5A-4F4C-8D1A-3F0A0D4B0001"
	secondSandbox = "0B5D8A44-7C5A-4F4C-8D1A-3F0A0D4B0002"
)

// The emulator conforms as the model does that other tests use.
func TestEmulatedHNSConforms(t *testing.T) {
	e := newEmulated(t)
	service, err := hns.NewHCSShim()
	if err != nil {
		t.Fatal(err)
	}
	namespaces := [2]string{"22222222-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"}
	for i, namespace := range namespaces {
		e.control("namespace add " + namespace + " " + strings.Split(os.Getenv("WEFT_TEST_NETNS"), ",")[i])
		t.Cleanup(func() { e.control("namespace del " + namespace) })
	}
	hnstest.Conformance(t, hnstest.Subject{Service: service, Adapter: "Ethernet", Namespaces: namespaces})
}

func (e *emulated) pod(id, sandbox string, host byte) platform.Endpoint {
	e.Helper()
	path := strings.Split(os.Getenv("WEFT_TEST_NETNS"), ",")[int(host)%4]
	e.control("namespace add " + sandbox + " " + path)
	e.Cleanup(func() { e.control("namespace del " + sandbox) })
	address := netip.AddrFrom4([4]byte{10, 244, 1, host})
	attachment := cni.Attachment{ContainerID: id, IfName: "eth0"}
	return platform.Endpoint{
		Attachment: attachment, Device: cni.HostInterface(attachment), Sandbox: sandbox, Label: "shop/" + id,
		MAC: contract.MAC(address), MTU: 1400,
		Addresses: []netip.Prefix{netip.PrefixFrom(address, 24)}, Gateways: []netip.Addr{netip.MustParseAddr("10.244.1.1")},
		DNS: types.DNS{Nameservers: []string{"10.96.0.10"}, Search: []string{"shop.svc.cluster.local"},
			Options: []string{"ndots:5"}},
	}
}

func TestEmulatedEndpoint(t *testing.T) {
	e := newEmulated(t)
	e.ensureUplink()
	pod := e.pod("one", firstSandbox, 5)
	for range 2 {
		if err := e.windows.CreateEndpoint(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	if arrived, err := e.windows.EndpointArrived(t.Context(), pod); arrived || err != nil {
		t.Errorf("arrived before the container started: %v, %v", arrived, err)
	}
	e.control("start " + firstSandbox)
	e.eventually("the device", func() error {
		arrived, err := e.windows.EndpointArrived(t.Context(), pod)
		if !arrived && err == nil {
			err = errors.New("has not arrived")
		}
		return err
	})
	for range 2 {
		if err := errors.Join(e.windows.ConfigureEndpoint(t.Context(), pod),
			e.windows.CheckEndpoint(t.Context(), pod)); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := e.windows.Endpoints(); err != nil || !slices.Equal(names, []string{pod.Device}) {
		t.Errorf("endpoints %v, %v", names, err)
	}
	for range 2 {
		if err := e.windows.DeleteEndpoint(t.Context(), pod.Device); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := e.windows.Endpoints(); err != nil || len(names) != 0 {
		t.Errorf("endpoints %v, %v", names, err)
	}
	e.control("namespace del " + firstSandbox)
	if err := e.windows.CreateEndpoint(t.Context(), pod); !errors.Is(err, platform.ErrNoSandbox) {
		t.Errorf("in a sandbox that is gone: %v", err)
	}
	if exists, err := e.windows.SandboxExists(firstSandbox); exists || err != nil {
		t.Errorf("the sandbox exists: %v, %v", exists, err)
	}
}

func TestEmulatedHang(t *testing.T) {
	e := newEmulated(t)
	e.ensureUplink()
	one, two := e.pod("one", firstSandbox, 5), e.pod("two", secondSandbox, 6)
	if err := e.windows.CreateEndpoint(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	const hang = 3 * callTime
	e.control(fmt.Sprintf("fault hang HcnDeleteEndpoint %d 1", int(hang.Seconds())))
	deleted := make(chan error, 1)
	go func() { deleted <- e.windows.DeleteEndpoint(t.Context(), cni.HostInterface(one.Attachment)) }()
	if err := e.windows.CreateEndpoint(t.Context(), two); err != nil {
		t.Errorf("another pod: %v", err)
	}
	var hung *hns.HungError
	if err := <-deleted; !errors.As(err, &hung) {
		t.Errorf("the deletion that hangs: %v", err)
	}
	e.eventually("the DEL that is repeated", func() error {
		return e.windows.DeleteEndpoint(t.Context(), cni.HostInterface(one.Attachment))
	})
	if err := e.windows.DeleteEndpoint(t.Context(), cni.HostInterface(two.Attachment)); err != nil {
		t.Error(err)
	}
}

func TestEmulatedManagement(t *testing.T) {
	e := newEmulated(t)
	address := netip.MustParsePrefix("10.244.1.2/24")
	m := platform.Management{
		Device: platform.ManagementDevice, MAC: contract.MAC(address.Addr()), MTU: 1400,
		Addresses: []netip.Prefix{address, netip.MustParsePrefix("fd00:1::2/64")},
		Routes: []platform.Route{{Destination: netip.MustParsePrefix("10.96.0.0/12"),
			NextHop: netip.MustParseAddr("10.244.1.1"), Source: address.Addr()}},
	}
	for range 2 {
		e.eventually("the management adapter", func() error { return e.windows.EnsureManagement(m) })
	}
	adapters, err := e.host.Adapters()
	if err != nil {
		t.Fatal(err)
	}
	a, _ := hostnet.Named(adapters, platform.ManagementDevice)
	routes, err := e.host.Routes(a)
	if err != nil || a.MTU != 1400 || !slices.Contains(a.Global(), address) || len(routes) != 1 ||
		routes[0].Destination != m.Routes[0].Destination {
		t.Errorf("adapter %+v, routes %v, error %v", a, routes, err)
	}
	if err := e.windows.EnsureManagement(platform.Management{Device: "weft-mp9"}); !errors.Is(err, platform.ErrNoDevice) {
		t.Errorf("a device that is not there: %v", err)
	}
}

// HNS does not delete the network: Hyper-V's switch is removed all the same.
func TestEmulatedReleaseWithoutHNS(t *testing.T) {
	e := newEmulated(t)
	e.ensureUplink()
	e.control("fault fail HcnDeleteNetwork 0x8007001f")
	if err := e.windows.ReleaseUplink(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "not functioning") {
		t.Errorf("error %v", err)
	}
	e.reachable("Ethernet")
	e.control("fault clear")
	e.ensureUplink()
}
