package hns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/weftnet/weft/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

const (
	hostV4    = "172.30.0.5/16"
	hostV6    = "fd30::5/64"
	gatewayV4 = "172.30.0.1"
	bridge    = "weft-uplink"

	hostNamespace = "" // that of the test itself
)

// machine is a host with the adapter Ethernet on a network whose gateway is a namespace, and an HNS.
type machine struct {
	t       *testing.T
	plane   *Linux
	service *Service
	state   string
	gateway string // path of the network namespace
	pods    int
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, gateway: nodetest.Sandbox(t, "underlay"), state: filepath.Join(t.TempDir(), "state.json")}
	// Hardware's MACs are not locally administered, and Open vSwitch takes a bridge's from such a port only.
	m.ip("link", "add", "Ethernet", "address", "00:15:5d:01:02:03", "type", "veth", "peer", "name", "eth0", "netns",
		"underlay")
	t.Cleanup(func() { m.ip("link", "del", "Ethernet") })
	m.ip("addr", "add", hostV4, "dev", "Ethernet")
	m.ip("addr", "add", hostV6, "dev", "Ethernet", "nodad")
	m.ip("link", "set", "Ethernet", "up")
	m.ip("-n", "underlay", "addr", "add", gatewayV4+"/16", "dev", "eth0")
	m.ip("-n", "underlay", "link", "set", "eth0", "up")
	m.ip("-n", "underlay", "link", "set", "lo", "up")
	m.ip("route", "add", "default", "via", gatewayV4)
	m.inNamespace(m.gateway, func() error { return checksumsInSoftware("eth0") })
	var err error
	if m.plane, err = NewLinux(slog.New(slog.NewTextHandler(testLog{t}, nil))); err != nil {
		t.Fatal(err)
	}
	m.start(Config{StateFile: m.state})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.plane.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, m.plane.Close()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// testLog shows what the data plane says, until the test ends.
type testLog struct{ t *testing.T }

func (l testLog) Write(line []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

func (m *machine) start(config Config) {
	m.t.Helper()
	config.DataPlane = m.plane
	service, err := New(config)
	if err != nil {
		m.t.Fatal(err)
	}
	m.service = service
}

func (m *machine) ip(args ...string) string {
	m.t.Helper()
	output, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// inNamespace runs f on a thread in a network namespace; sockets that it opens stay in there.
func (m *machine) inNamespace(path string, f func() error) {
	m.t.Helper()
	if err := enter(path, f); err != nil {
		m.t.Fatalf("in %s: %v", path, err)
	}
}

func enter(path string, f func() error) error {
	if path == hostNamespace {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		space, err := netns.GetFromPath(path)
		if err == nil {
			err = netns.Set(space)
			space.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// network makes the Transparent network on Ethernet, with Open vSwitch's extension enabled.
// network makes one as the agent does: its vNIC has its name before the extension is enabled.
func (m *machine) network() string {
	m.t.Helper()
	id := m.unnamedNetwork()
	m.name()
	m.enableExtension(id)
	return id
}

func (m *machine) unnamedNetwork() string {
	m.t.Helper()
	return must(m.t, m.service, "HcnCreateNetwork", "", 0, transparent("weft", "Ethernet"))
}

func (m *machine) enableExtension(network string) {
	m.t.Helper()
	v1(m.t, m.service, "POST", "/networks/"+network, `{"Extensions":[{"Id":"`+OVSExtension+`","IsEnabled":true}]}`)
}

type pod struct{ namespace, endpoint, name, netns, address string }

// pod makes an endpoint and attaches it to a namespace whose container does not run yet.
func (m *machine) pod(network string) pod {
	m.t.Helper()
	m.pods++
	n := m.pods
	p := pod{namespace: fmt.Sprintf("11111111-0000-0000-0000-%012d", n), name: fmt.Sprintf("pod%d", n),
		netns:   nodetest.Sandbox(m.t, fmt.Sprintf("pod%d", n)),
		address: fmt.Sprintf("10.244.0.%d", n+1)}
	control(m.t, m.service, "namespace", "add", p.namespace, p.netns)
	p.endpoint = must(m.t, m.service, "HcnCreateEndpoint", "", open(m.t, m.service, "Network", network), fmt.Sprintf(
		`{"Name":%q,"MacAddress":"0A-58-0A-F4-00-%02X","IpConfigurations":[{"IpAddress":%q,"PrefixLength":24},{"IpAddress":"fd01::%d","PrefixLength":64}],
		"Routes":[{"NextHop":"10.244.0.1","DestinationPrefix":"0.0.0.0/0"},{"NextHop":"fd01::1","DestinationPrefix":"::/0"}]}`, p.name, n+1, p.address, n+1))
	attach(m.t, m.service, p.namespace, p.endpoint)
	return p
}

func (m *machine) exists(device string) bool {
	_, err := netlink.LinkByName(device)
	return err == nil
}

// eth0 is the index of the pod's interface, or 0.
func (p pod) eth0(t *testing.T) int {
	t.Helper()
	space, err := netns.GetFromPath(p.netns)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	inside, err := netlink.NewHandleAt(space)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	link, err := inside.LinkByName("eth0")
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return link.Attrs().Index
}

// transfer sends a megabyte from a process in one namespace to one in another by TCP.
func transfer(from, to, address string) error {
	var l net.Listener
	err := enter(to, func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	})
	if err != nil {
		return err
	}
	defer l.Close()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(nodetest.Patience))
			_, err = conn.Write(sent)
			conn.Close()
		}
		served <- err
	}()
	return enter(from, func() error {
		conn, err := net.DialTimeout("tcp", l.Addr().String(), time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(nodetest.Patience))
		got, err := io.ReadAll(conn)
		if err == nil && !bytes.Equal(got, sent) {
			err = fmt.Errorf("%d bytes of %d arrived", len(got), len(sent))
		}
		return errors.Join(err, <-served)
	})
}

func (m *machine) eventually(try func() error) {
	m.t.Helper()
	nodetest.Eventually(m.t, 10*time.Second, try)
}

func (m *machine) has(device string, addresses ...string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	config, err := hostConfig(link)
	if err != nil {
		return err
	}
	var has []string
	for _, a := range config.Addresses {
		has = append(has, a.String())
	}
	slices.Sort(has)
	slices.Sort(addresses)
	if !slices.Equal(has, addresses) {
		return fmt.Errorf("%s has %v and not %v", device, has, addresses)
	}
	if len(addresses) == 0 {
		return nil
	}
	if !slices.ContainsFunc(config.Routes, func(r HostRoute) bool {
		return r.Destination == netip.MustParsePrefix("0.0.0.0/0") && r.NextHop == netip.MustParseAddr(gatewayV4)
	}) {
		return fmt.Errorf("%s has no default route: %v", device, config.Routes)
	}
	return nil
}

func (m *machine) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func TestHostConfigurationMovesWithTheNetwork(t *testing.T) {
	m := newMachine(t)
	adapter, err := netlink.LinkByName("Ethernet")
	m.check(err)
	id := m.network()
	m.check(m.has("Ethernet"))
	m.check(m.has(bridge, hostV4, hostV6))
	vnic, err := netlink.LinkByName(bridge)
	m.check(err)
	if !bytes.Equal(vnic.Attrs().HardwareAddr, adapter.Attrs().HardwareAddr) {
		t.Errorf("the management vNIC has MAC %s and not its adapter's %s", vnic.Attrs().HardwareAddr,
			adapter.Attrs().HardwareAddr)
	}

	// What the agent changes is what the vNIC has when something makes it anew, and what the adapter gets back.
	m.ip("addr", "add", "172.30.0.99/16", "dev", bridge)
	m.eventually(func() error {
		m.plane.mu.Lock()
		defer m.plane.mu.Unlock()
		if n := len(m.plane.switches["Ethernet"].host.Addresses); n != 3 {
			return fmt.Errorf("%d addresses were seen", n)
		}
		return nil
	})
	m.ip("link", "del", bridge)
	m.eventually(func() error { return m.has(bridge, hostV4, hostV6, "172.30.0.99/16") })

	must(t, m.service, "HcnDeleteNetwork", id, 0, "")
	m.check(m.has("Ethernet", hostV4, hostV6, "172.30.0.99/16"))
	if m.exists(bridge) {
		t.Error("the management vNIC is still there")
	}
	m.inNamespace(m.gateway, func() error { return ping("172.30.0.5") })
}

func TestAddressesDoNotComeToTheManagementVNIC(t *testing.T) {
	m := newMachine(t)
	control(t, m.service, "fault", "dhcp-fail")
	id := m.network()
	m.check(m.has("Ethernet"))
	m.check(m.has(bridge))
	must(t, m.service, "HcnDeleteNetwork", id, 0, "")
	m.check(m.has("Ethernet", hostV4, hostV6))
}

// What Open vSwitch opens by its alias alone, it takes from the host: docs/windows-hns.md.
func TestOpenVSwitchTakesAnAdapterForAnother(t *testing.T) {
	m := newMachine(t)
	ovn := nodetest.StartOVN(t)
	m.unnamedNetwork()
	m.check(m.has(unnamed, hostV4, hostV6))
	ovn.VS("add-br", unnamed, "--", "set", "bridge", unnamed, "datapath_type=netdev", "--", "add-port", unnamed,
		"Ethernet")
	m.eventually(func() error { return m.has(unnamed) })
	control(t, m.service, "fault", "lose-network")
	m.check(m.has("Ethernet", hostV4, hostV6))
}

func TestPacketsThroughOpenVSwitch(t *testing.T) {
	m := newMachine(t)
	ovn := nodetest.StartOVN(t)
	id := m.network()
	ovn.VS("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev", "--", "add-port", bridge, "Ethernet")
	host := func() error { return transfer(hostNamespace, m.gateway, gatewayV4) }
	m.eventually(host)

	first, second := m.pod(id), m.pod(id)
	for _, p := range []pod{first, second} {
		if m.exists(p.name) || p.eth0(t) != 0 {
			t.Fatalf("%s has its vNIC before its container runs", p.name)
		}
		control(t, m.service, "start", p.namespace)
		if !m.exists(p.name) || p.eth0(t) == 0 {
			t.Fatalf("%s has no vNIC though its container runs", p.name)
		}
	}
	plug := []string{"--may-exist", "add-br", "br-pods", "--", "set", "bridge", "br-pods", "datapath_type=netdev"}
	for _, p := range []pod{first, second} {
		plug = append(plug, "--", "add-port", "br-pods", p.name, "--", "set", "interface", p.name, "type=internal")
	}
	ovn.VS(plug...)
	pods := func() error {
		return errors.Join(transfer(first.netns, second.netns, second.address), transfer(second.netns, first.netns,
			"fd01::2"))
	}
	m.eventually(pods)
	before := []int{first.eth0(t), second.eth0(t)}

	for _, story := range []struct {
		name   string
		happen func()
	}{
		{"ovs-vswitchd crashes", func() { ovn.Restart(nodetest.Vswitchd) }},
		{"the ports are made anew", func() {
			ovn.VS("del-port", first.name, "--", "del-port", second.name)
			ovn.VS(plug...)
		}},
		{"the bridge of the host is made anew", func() {
			ovn.VS("del-br", bridge)
			m.eventually(func() error { return m.has(bridge, hostV4, hostV6) })
			ovn.VS("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev", "--", "add-port", bridge, "Ethernet")
		}},
		{"HNS starts anew", func() { m.start(Config{StateFile: m.state}) }},
		{"the extension is enabled again", func() {
			control(t, m.service, "fault", "disable-extension")
			if err := pods(); err == nil {
				t.Error("packets flow though the extension is disabled")
			}
			m.enableExtension(id)
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			story.happen()
			m.eventually(pods)
			m.eventually(host)
			if after := []int{first.eth0(t), second.eth0(t)}; !slices.Equal(before, after) {
				t.Errorf("the pods' eth0 had indexes %v and have %v", before, after)
			}
		})
	}

	control(t, m.service, "fault", "lose-network")
	m.check(m.has("Ethernet", hostV4, hostV6))
	if m.exists(bridge) || m.exists(first.name) || first.eth0(t) != 0 {
		t.Error("devices of the network are left")
	}
}

func TestVNICGoes(t *testing.T) {
	for name, end := range map[string]func(m *machine, p pod){
		"with its endpoint":  func(m *machine, p pod) { must(m.t, m.service, "HcnDeleteEndpoint", p.endpoint, 0, "") },
		"when it is removed": func(m *machine, p pod) { detach(m.t, m.service, p.namespace, p.endpoint) },
		"with its container": func(m *machine, p pod) { control(m.t, m.service, "stop", p.namespace) },
		"with its namespace": func(m *machine, p pod) { control(m.t, m.service, "namespace", "del", p.namespace) },
		"with the network":   func(m *machine, p pod) { control(m.t, m.service, "fault", "lose-network") },
		"at a reboot":        func(m *machine, p pod) { control(m.t, m.service, "reboot") },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			p := m.pod(m.network())
			control(t, m.service, "start", p.namespace)
			if !m.exists(p.name) || p.eth0(t) == 0 {
				t.Fatal("there is no vNIC")
			}
			end(m, p)
			if m.exists(p.name) || m.exists(endDevice(p.endpoint)) || p.eth0(t) != 0 {
				t.Error("the vNIC is still there")
			}
		})
	}
}

func TestVNICGoesWithItsCompartment(t *testing.T) {
	m := newMachine(t)
	p := m.pod(m.network())
	control(t, m.service, "start", p.namespace)
	nodetest.RemoveSandbox(t, p.name)
	m.eventually(func() error {
		if m.exists(p.name) {
			return errors.New("the tap is still there")
		}
		return nil
	})
}

func TestVNICIsLate(t *testing.T) {
	m := newMachine(t)
	control(t, m.service, "fault", "delay-vnic", "5")
	network := m.network()
	p := m.pod(network)
	began := time.Now()
	control(t, m.service, "start", p.namespace)
	if m.exists(p.name) {
		t.Fatal("the vNIC comes at once")
	}
	m.eventually(func() error {
		if !m.exists(p.name) {
			return errors.New("there is no vNIC")
		}
		return nil
	})
	if waited := time.Since(began); waited < 5*time.Second {
		t.Errorf("the vNIC came after %v", waited)
	}
	control(t, m.service, "fault", "delay-vnic", "60")
	second := must(t, m.service, "HcnCreateEndpoint", "", open(t, m.service, "Network", network),
		`{"Name":"second","IpConfigurations":[{"IpAddress":"10.244.0.99","PrefixLength":24}]}`)
	attach(t, m.service, p.namespace, second)
	if !m.exists(p.name) || m.exists("second") {
		t.Error("a second vNIC that is late takes the first one away, or comes at once")
	}
}

func TestMTUOfAVNICIsThatOfTheCompartmentsEnd(t *testing.T) {
	m := newMachine(t)
	p := m.pod(m.network())
	control(t, m.service, "start", p.namespace)
	link, err := netlink.LinkByName(p.name)
	m.check(err)
	// As Open vSwitch does, which holds the taps that it opens to the least MTU of their bridge.
	m.check(netlink.LinkSetMTU(link, 1342))
	if _, mtu := m.service.ipHelper.place(Interface{Index: link.Attrs().Index, Name: p.name, Endpoint: true,
		MTU: 1342}); mtu != ethernetMTU {
		t.Errorf("before it was set its MTU is told as %d", mtu)
	}
	reply := m.service.callHost(m.plane.Host(), call{function: "SetIpInterfaceEntry",
		body: fmt.Sprintf("%d 2 1342 25 1 0 0", link.Attrs().Index)})
	if reply.Status != 0 {
		t.Fatal(reply.Status)
	}
	text := m.ip("-n", filepath.Base(p.netns), "link", "show", "eth0")
	if !strings.Contains(text, "mtu 1342") {
		t.Errorf("the pod's interface is\n%s", text)
	}
	_, mtu := m.service.ipHelper.place(Interface{Index: link.Attrs().Index, Name: p.name, Endpoint: true, MTU: 1500})
	if mtu != 1342 {
		t.Errorf("its MTU is told as %d", mtu)
	}
}

func ping(address string) error {
	output, err := exec.Command("ping", "-c1", "-W2", address).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

// checksumsInSoftware is ethtool -K DEVICE tx off, for the stack at the other side of a packet socket.
func checksumsInSoftware(device string) error {
	output, err := exec.Command("ethtool", "-K", device, "tx", "off").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}
