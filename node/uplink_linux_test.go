package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/node/linux"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
)

// uplinkHost is a host with one device to the outside, an Open vSwitch, and people who work on it by TCP.
type uplinkHost struct {
	t       *testing.T
	ovn     *nodetest.OVN
	ovs     *openvswitch.Database
	config  nodeconfig.Config
	outside string // the sandbox at the device's other end
	before  string // what the host had
}

const (
	testDevice = "ex0"
	testBridge = "br-ex"
)

func newUplinkHost(t *testing.T) *uplinkHost {
	t.Helper()
	h := &uplinkHost{t: t, ovn: nodetest.StartOVN(t), config: nodeconfig.Default()}
	h.ovn.Kill(nodetest.OVNController)
	h.config.NodeName, h.config.OVSDatabase = testNode, h.ovn.OVSDatabase()
	h.config.DatapathType, h.config.GatewayInterface = nodetest.Datapath(), testDevice
	h.config.StateDir = t.TempDir()
	h.outside = nodetest.Sandbox(t, "outside")
	t.Cleanup(h.removeDevices)
	h.device()
	var err error
	if h.ovs, err = openvswitch.Connect(t.Context(), h.config.OVSDatabase); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.ovs.Close)
	nodetest.Eventually(t, 5*time.Second, func() error { // the kernel takes a moment
		h.before = h.state(testDevice)
		for _, address := range []string{"2001:db8::10", "2001:db8::11", "2001:db8:7::1"} {
			if !strings.Contains(h.before, "local "+address+" dev") {
				return fmt.Errorf("no local route to %s", address)
			}
		}
		return nil
	})
	return h
}

// device is the uplink with all that the host has on it.
func (h *uplinkHost) device() {
	h.t.Helper()
	h.shell("ip link add " + testDevice + " mtu 1450 type veth peer name out0 netns outside")
	h.shell("ip link add other0 type veth peer name other1")
	for _, command := range []string{
		"ethtool -K out0 tx off", "sysctl -qw net.ipv6.conf.out0.accept_dad=0", "ip link set out0 mtu 1450",
		"ip link set out0 up",
		"ip addr add 192.0.2.1/24 dev out0", "ip addr add 192.0.2.2/24 dev out0", "ip addr add 2001:db8::1/64 dev out0 nodad",
	} {
		h.shell("nsenter --net=" + h.outside + " " + command)
	}
	for _, command := range []string{
		"ip link set other0 up", "ip link set other1 up", "ip addr add 10.50.0.1/24 dev other0", "ip link set ex0 up",
		"ip addr add 192.0.2.10/24 brd + dev ex0", "ip addr add 192.0.2.11/24 brd + dev ex0 label ex0:1",
		"ip addr add 198.51.100.7/32 dev ex0 scope link", "ip addr add 2001:db8::10/64 dev ex0 nodad",
		"ip addr add 2001:db8::11/64 dev ex0 preferred_lft 5000 valid_lft 9000 nodad",
		"ip addr add 2001:db8:7::1/64 dev ex0 noprefixroute nodad",
		"ip route add default via 192.0.2.1 dev ex0 proto static metric 50 mtu 1400 initcwnd 20",
		"ip route add 203.0.113.0/24 proto static nexthop via 192.0.2.1 dev ex0 weight 3 nexthop via 192.0.2.2 dev ex0 " +
			"onlink",
		"ip route add 203.0.113.128/25 nexthop via 192.0.2.1 dev ex0 nexthop via 10.50.0.2 dev other0",
		"ip route add 10.99.0.0/16 via 192.0.2.2 dev ex0 table 100 src 192.0.2.11",
		"ip route add 10.98.0.1 dev ex0 table 1000 scope link",
		"ip route add default via 10.98.0.1 dev ex0 table 1000 onlink",
		"ip -6 route add default via 2001:db8::1 dev ex0 metric 77 pref high",
		"ip -6 route add 2001:db8:f::/48 metric 5 nexthop via 2001:db8::1 dev ex0 weight 2 nexthop via 2001:db8::2 dev ex0",
		"ip -6 route add 2001:db8:e::/48 via 2001:db8::1 dev ex0 expires 3000",
		"ip neigh add 192.0.2.77 lladdr 02:00:00:00:00:77 nud permanent dev ex0",
	} {
		h.shell(command)
	}
}

// removeDevices takes what hides their frames along: the kernel would give it to others of their names.
func (h *uplinkHost) removeDevices() {
	for _, device := range []string{testDevice, "other0"} {
		h.shell("ip link del " + device)
		_ = exec.Command("nft", "delete", "chain", "netdev", "weft", device).Run() // there may be none
	}
}

func (h *uplinkHost) shell(command string) string {
	h.t.Helper()
	words := strings.Fields(command)
	output, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return string(output)
}

// state is what ip(8) shows of a device, with one name for whichever it is.
func (h *uplinkHost) state(device string) string {
	h.t.Helper()
	lines := []string{}
	fields := func(line string) []string {
		return slices.DeleteFunc(strings.Fields(line), func(word string) bool { return word == "linkdown" })
	}
	for _, command := range []string{"ip -o -4 route show table all", "ip -o -6 route show table all",
		"ip -o addr show dev " + device, "ip neigh show nud permanent dev " + device} {
		for line := range strings.Lines(h.shell(command)) {
			words := fields(strings.ReplaceAll(line, device, "DEVICE"))
			if len(words) > 1 && strings.HasSuffix(words[0], ":") { // the number of a device
				words = words[1:]
			}
			for i := range words {
				if i > 0 && (words[i-1] == "expires" || words[i-1] == "valid_lft" || words[i-1] == "preferred_lft") &&
					words[i] != "forever" {
					words[i] = "some"
				}
			}
			// What comes and goes with the device itself is the kernel's.
			byItself := strings.Contains(line, "multicast") || strings.Contains(line, "anycast") ||
				strings.Contains(line, "fe80::")
			if !slices.Contains(words, "DEVICE") || byItself {
				continue
			}
			// The kernel lists an IPv6 route's next hops in an order of its own.
			hops := strings.Split(strings.Join(words, " "), `\ nexthop`)
			for i := range hops {
				hops[i] = strings.TrimSpace(hops[i])
			}
			slices.Sort(hops[1:])
			lines = append(lines, strings.Join(hops, `\ nexthop`))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// start is what a start of the agent makes.
func (h *uplinkHost) start() *linux.Platform { return h.startWith(nil) }

// startWith calls step before each change of the host.
func (h *uplinkHost) startWith(step func(name string)) *linux.Platform {
	h.t.Helper()
	system, err := linux.New(linux.Config{
		Userspace: nodetest.Userspace(), Uplink: h.config.GatewayInterface, Bridge: testBridge,
		StateFile: h.config.UplinkFile(), Step: step,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { system.Close() })
	return system
}

// bridge is what the agent hands to the platform.
func (h *uplinkHost) bridge() openvswitch.UplinkBridge {
	return openvswitch.NewUplinkBridge(h.ovs, h.config, openvswitch.TakeUpTime)
}

// shared fails unless the bridge has all that the device had, and the device nothing.
func (h *uplinkHost) shared() {
	h.t.Helper()
	h.has(testBridge, h.before)
	if left := h.state(testDevice); left != "" {
		h.t.Fatalf("the device still has\n%s", left)
	}
	if holder := h.bridge().Holder(testDevice); holder != testBridge {
		h.t.Fatalf("the device is a port of %q", holder)
	}
	device, err := net.InterfaceByName(testDevice)
	if err != nil {
		h.t.Fatal(err)
	}
	bridge, err := net.InterfaceByName(testBridge)
	if err != nil || bridge.HardwareAddr.String() != device.HardwareAddr.String() || bridge.MTU != device.MTU {
		h.t.Fatalf("the bridge's interface is %+v, %v; the device %+v", bridge, err, device)
	}
}

// alone fails unless the device has what it had before, and there is no bridge.
func (h *uplinkHost) alone() {
	h.t.Helper()
	h.has(testDevice, h.before)
	if links := h.shell("ip -o link"); strings.Contains(links, testBridge) || h.ovs.Bridge(testBridge) != nil {
		h.t.Fatalf("the bridge is left:\n%s", links)
	}
	if rules := h.shell("nft list ruleset"); strings.Contains(rules, testDevice) {
		h.t.Fatalf("the device's frames are hidden:\n%s", rules)
	}
}

// has fails unless a device gets what it must have: the kernel takes a moment for routes to IPv6 addresses.
func (h *uplinkHost) has(device, want string) {
	h.t.Helper()
	nodetest.Eventually(h.t, 3*time.Second, func() error {
		if now := h.state(device); now != want {
			return fmt.Errorf("device %s has other things than it must have:\n%s", device, lineDiff(want, now))
		}
		return nil
	})
}

func lineDiff(before, now string) string {
	var text strings.Builder
	was, is := strings.Split(before, "\n"), strings.Split(now, "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			text.WriteString("- " + line + "\n")
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			text.WriteString("+ " + line + "\n")
		}
	}
	return text.String()
}

// session is a TCP connection on which somebody gets an echo of all that he types.
type session struct {
	name    string
	conn    net.Conn
	echoes  atomic.Int64
	longest atomic.Int64 // the longest wait for an echo
	broken  atomic.Pointer[error]
}

func (s *session) run() {
	reader := bufio.NewReader(s.conn)
	for n := 0; ; n++ {
		began := time.Now()
		_, err := fmt.Fprintf(s.conn, "line %d\n", n)
		var line string
		if err == nil {
			line, err = reader.ReadString('\n')
		}
		if err == nil && line != fmt.Sprintf("line %d\n", n) {
			err = fmt.Errorf("%q instead of line %d", line, n)
		}
		if err != nil {
			s.broken.Store(&err)
			return
		}
		s.longest.Store(max(s.longest.Load(), int64(time.Since(began))))
		s.echoes.Add(1)
	}
}

// sessions are of both directions and families, and of addresses that a mistake with sources would lose.
func (h *uplinkHost) sessions() []*session {
	h.t.Helper()
	open := []*session{}
	for _, ends := range []struct{ listener, client string }{
		{"192.0.2.10", "outside"}, {"192.0.2.11", "outside"}, {"2001:db8::10", "outside"}, {"192.0.2.1", "host"},
		{"2001:db8::1", "host"},
	} {
		open = append(open, h.session(ends.listener, ends.client))
	}
	return open
}

func (h *uplinkHost) session(address, client string) *session {
	h.t.Helper()
	listen := func() (l net.Listener, err error) { l, err = net.Listen("tcp", net.JoinHostPort(address, "0")); return }
	var listener net.Listener
	s := &session{name: client + " to " + address}
	dial := func() (err error) {
		s.conn, err = net.DialTimeout("tcp", listener.Addr().String(), nodetest.Patience)
		return
	}
	var err error
	if client == "host" {
		err = h.outsideDo(func() (err error) { listener, err = listen(); return })
	} else {
		listener, err = listen()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		reader := bufio.NewReader(conn)
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			if _, err := conn.Write([]byte(line)); err != nil {
				return
			}
		}
	}()
	if client == "host" {
		err = dial()
	} else {
		err = h.outsideDo(dial)
	}
	if err != nil {
		h.t.Fatalf("%s: %v", s.name, err)
	}
	h.t.Cleanup(func() { s.conn.Close() })
	go s.run()
	return s
}

func (h *uplinkHost) outsideDo(do func() error) error {
	return nodetest.Inside(h.outside, do)
}

// unbroken fails if a session broke, or gets no echo any more.
func (h *uplinkHost) unbroken(open []*session, when string) {
	h.t.Helper()
	for _, s := range open {
		had := s.echoes.Load()
		nodetest.Eventually(h.t, 20*time.Second, func() error {
			if err := s.broken.Load(); err != nil {
				h.t.Fatalf("%s: the session %s broke: %v", when, s.name, *err)
			}
			if s.echoes.Load() < had+3 {
				return fmt.Errorf("%s: the session %s gets no echo", when, s.name)
			}
			return nil
		})
	}
}

func (h *uplinkHost) longest(open []*session) time.Duration {
	longest := time.Duration(0)
	for _, s := range open {
		longest = max(longest, time.Duration(s.longest.Swap(0)))
	}
	return longest
}

func TestHostKeepsItsSessionsWhenItsDeviceIsShared(t *testing.T) {
	h := newUplinkHost(t)
	open := h.sessions()
	h.unbroken(open, "before")
	t.Logf("longest wait before: %v", h.longest(open))
	linux := h.start()
	began := time.Now()
	uplink, err := linux.EnsureUplink(t.Context(), h.bridge())
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	h.shared()
	h.unbroken(open, "set up")
	t.Logf("set up in %v, longest wait %v", took, h.longest(open))
	again, err := linux.EnsureUplink(t.Context(), h.bridge())
	if err != nil || again != uplink || uplink.Adapter != testDevice || uplink.Host != testBridge {
		t.Fatalf("%+v, then %+v, %v", uplink, again, err)
	}
	h.shared()
	began = time.Now()
	if err := linux.ReleaseUplink(t.Context(), h.bridge()); err != nil {
		t.Fatal(err)
	}
	took = time.Since(began)
	h.alone()
	h.unbroken(open, "given back")
	t.Logf("given back in %v, longest wait %v", took, h.longest(open))
}

// killAt has work stop before its n-th change of the host, as if the agent were killed there. It says which
// that was; "" if work ended before.
func (h *uplinkHost) killAt(n int, work func(*linux.Platform, context.Context) error) string {
	h.t.Helper()
	ctx, kill := context.WithCancel(h.t.Context())
	defer kill()
	count, killed := 0, ""
	linux := h.startWith(func(name string) {
		if count++; count == n {
			killed = name
			kill()
		}
	})
	err := work(linux, ctx)
	if killed == "" && err != nil || killed != "" && !errors.Is(err, context.Canceled) {
		h.t.Fatalf("killed at %q: %v", killed, err)
	}
	return killed
}

func (h *uplinkHost) ensureUplink(linux *linux.Platform, ctx context.Context) error {
	_, err := linux.EnsureUplink(ctx, h.bridge())
	return err
}

func (h *uplinkHost) releaseUplink(linux *linux.Platform, ctx context.Context) error {
	return linux.ReleaseUplink(ctx, h.bridge())
}

func TestAgentIsKilledAtEachStepOfSharing(t *testing.T) {
	h := newUplinkHost(t)
	open := h.sessions()
	steps := []string{}
	for n := 1; ; n++ {
		step := h.killAt(n, h.ensureUplink)
		h.unbroken(open, "killed before "+step)
		// A new start ends what was begun, or, with another configuration, takes it back.
		next, check := h.ensureUplink, h.shared
		if n%2 == 0 {
			next, check = h.releaseUplink, h.alone
		}
		if err := next(h.start(), t.Context()); err != nil {
			t.Fatalf("after the agent was killed before %q: %v", step, err)
		}
		check()
		h.unbroken(open, "repaired after "+step)
		if err := h.start().ReleaseUplink(t.Context(), h.bridge()); err != nil {
			t.Fatal(err)
		}
		h.alone()
		if steps = append(steps, step); step == "" {
			break
		}
	}
	t.Logf("%d steps, longest wait %v: %q", len(steps)-1, h.longest(open), steps)
}

func TestAgentIsKilledAtEachStepOfGivingBack(t *testing.T) {
	h := newUplinkHost(t)
	open := h.sessions()
	steps := []string{}
	for n := 1; ; n++ {
		if err := h.ensureUplink(h.start(), t.Context()); err != nil {
			t.Fatal(err)
		}
		step := h.killAt(n, h.releaseUplink)
		h.unbroken(open, "killed before "+step)
		if n%2 == 0 { // the configuration has changed its mind
			if err := h.ensureUplink(h.start(), t.Context()); err != nil {
				t.Fatalf("after the agent was killed before %q: %v", step, err)
			}
			h.shared()
			h.unbroken(open, "shared again after "+step)
		}
		if err := h.releaseUplink(h.start(), t.Context()); err != nil {
			t.Fatalf("after the agent was killed before %q: %v", step, err)
		}
		h.alone()
		h.unbroken(open, "given back after "+step)
		if steps = append(steps, step); step == "" {
			break
		}
	}
	t.Logf("%d steps, longest wait %v: %q", len(steps)-1, h.longest(open), steps)
}
