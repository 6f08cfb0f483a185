//go:build linux

package chassis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/test/freeport"
	"github.com/weftnet/weft/test/transcript"
)

// mixed is a central, a node like a Windows one (Open vSwitch, no ovn-controller, an agent that takes
// streams), and chassis hosts in processes of their own.
type mixed struct {
	tb    testing.TB
	ovn   *nodetest.OVN
	dir   string // of the node's Open vSwitch
	ca    *authority
	admin kubernetes.Interface
	kube  string // a kubeconfig

	address   string
	stopAgent func()
	ports     int
}

const windows = "win1"

func newMixed(tb testing.TB) *mixed {
	tb.Helper()
	m := &mixed{tb: tb, ovn: nodetest.StartOVN(tb), ca: newAuthority(tb), address: freeport.Address(tb)}
	m.ovn.Kill(nodetest.OVNController)
	m.dir = filepath.Dir(strings.TrimPrefix(m.ovn.OVSDatabase(), "unix:"))
	m.ovn.VS("set", "open_vswitch", ".", "external_ids:system-id="+windows, "external_ids:hostname="+windows,
		"external_ids:ovn-remote="+m.ovn.Southbound(), "external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip=192.0.2.3",
		"external_ids:ovn-bridge=br-int", "external_ids:ovn-bridge-datapath-type="+nodetest.Datapath(),
		"external_ids:ovn-monitor-all=true",
		"--", "--may-exist", "add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type="+nodetest.Datapath(),
		"fail_mode=secure", "other_config:disable-in-band=true")
	m.ovn.NB("ls-add", windows)
	m.startAgent()
	api := newAPI(tb, hostedOn(windows, m.address))
	m.admin, m.kube = api.client(newLink()), api.serveHTTP(tb)
	return m
}

// startAgent serves the node's two sockets; stopAgent breaks all streams half-way.
func (m *mixed) startAgent() { m.startAgentOf(windows, "ovs.sock") }

func (m *mixed) startAgentOf(node, database string) {
	m.tb.Helper()
	listener, err := net.Listen("tcp", m.address)
	if err != nil {
		m.tb.Fatal(err)
	}
	unix := func(name string) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(m.dir, name))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- tunnel.Serve(ctx, listener, tunnel.ServerConfig{
			Credentials: m.ca.agent(node),
			Targets: map[tunnel.Target]tunnel.Service{tunnel.OVSDB: {Peer: tunnel.HostName, Open: unix(database)},
				tunnel.OpenFlow: {Peer: tunnel.HostName, Open: unix("br-int.mgmt")}},
		})
	}()
	m.stopAgent = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			m.tb.Error(err)
		}
	})
	m.tb.Cleanup(m.stopAgent)
}

func (m *mixed) config(identity string) Config {
	c := DefaultConfig()
	c.Identity, c.Kubeconfig = identity, m.kube
	c.RunDir = newRunDir()
	c.Southbound = m.ovn.Southbound()
	c.OVNController = filepath.Join(nodetest.Programs(m.tb), "ovn-controller")
	m.ca.useHost(&c, time.Now().Add(time.Hour))
	return c
}

// port is a pod's.
type port struct{ name, sandbox, address string }

// plug makes a pod's port as the controller, the agent and the runtime do together, and returns the
// time until OVN says that it is installed.
func (m *mixed) plug() (port, time.Duration) {
	m.tb.Helper()
	m.ports++
	p := port{name: fmt.Sprintf("p%d", m.ports), address: fmt.Sprintf("10.244.1.%d", 10+m.ports)}
	p.sandbox = nodetest.Sandbox(m.tb, p.name)
	mac := fmt.Sprintf("0a:58:0a:f4:01:%02x", 10+m.ports)
	m.run("ip", "link", "add", p.name, "type", "veth", "peer", "name", "eth0", "netns", p.name)
	m.run("ip", "link", "set", p.name, "up")
	m.run("ip", "-n", p.name, "link", "set", "eth0", "address", mac, "up")
	m.run("ip", "-n", p.name, "addr", "add", p.address+"/24", "dev", "eth0")
	m.ovn.NB("lsp-add", windows, p.name, "--", "lsp-set-addresses", p.name, mac+" "+p.address)
	begun := time.Now()
	m.ovn.VS("add-port", "br-int", p.name, "--", "set", "interface", p.name, "external_ids:iface-id="+p.name)
	nodetest.Eventually(m.tb, 30*time.Second, func() error {
		if installed := m.ovn.VS("--if-exists", "get", "interface", p.name,
			"external_ids:ovn-installed"); installed != `"true"` {
			return fmt.Errorf("%s is not installed: %q", p.name, installed)
		}
		return nil
	})
	return p, time.Since(begun)
}

func (m *mixed) run(args ...string) {
	m.tb.Helper()
	if output, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		m.tb.Fatalf("%v: %v\n%s", args, err, output)
	}
}

func (m *mixed) mustReach(from, to port) {
	m.tb.Helper()
	nodetest.Eventually(m.tb, 10*time.Second, func() error {
		if output, err := exec.Command("ip", "netns", "exec", from.name, "ping", "-n", "-c1", "-W1",
			to.address).CombinedOutput(); err != nil {
			return fmt.Errorf("%v\n%s", err, output)
		}
		return nil
	})
}

// traffic pings every 20 ms until stop, which says how many packets were lost of how many.
func (m *mixed) traffic(from, to port) (stop func() (lost, sent int)) {
	m.tb.Helper()
	ping := exec.Command("ip", "netns", "exec", from.name, "ping", "-n", "-i", "0.02", to.address)
	text := &transcript.Transcript{}
	ping.Stdout = text
	if err := ping.Start(); err != nil {
		m.tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = ping.Wait() // it is told to end
		close(ended)
	}()
	once := sync.OnceFunc(func() {
		_ = ping.Process.Signal(syscall.SIGINT)
		<-ended
	})
	m.tb.Cleanup(once)
	return func() (lost, sent int) {
		// What is on its way has come by the time that a later one has.
		_, before := come(text)
		nodetest.Eventually(m.tb, 10*time.Second, func() error {
			if _, latest := come(text); latest <= before {
				return fmt.Errorf("nothing has come after packet %d", before)
			}
			return nil
		})
		once()
		packets, latest := come(text)
		return latest - packets, latest
	}
}

var answered = regexp.MustCompile(`bytes from .* icmp_seq=(\d+) `)

// come says how many packets were answered by what ping prints, and the highest number of one.
func come(ping *transcript.Transcript) (packets, latest int) {
	numbers := map[int]bool{}
	for _, match := range answered.FindAllStringSubmatch(ping.String(), -1) {
		number, _ := strconv.Atoi(match[1]) // the pattern is of digits
		numbers[number], latest = true, max(latest, number)
	}
	return len(numbers), latest
}

func (m *mixed) flows() int {
	return len(strings.Split(m.ovn.Run("ovs-ofctl", "-OOpenFlow15", "dump-flows",
		"unix:"+filepath.Join(m.dir, "br-int.mgmt")), "\n"))
}

func (m *mixed) holder() string {
	lease, err := m.admin.CoordinationV1().Leases("kube-system").Get(m.tb.Context(), nodeLease(windows),
		metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return tenure.Holder(lease)
}

// TestAHostedNode is the life of one node under traffic: nothing that happens to its ovn-controller,
// its streams or its chassis host costs a packet, and each time a new port is wired.
func TestAHostedNode(t *testing.T) {
	m := newMixed(t)
	a := startProgram(t, m.config("a"))
	a.awaitState(windows, "connected")
	one, took := m.plug()
	two, again := m.plug()
	t.Logf("a port is installed after %v and %v", took, again)
	m.mustReach(one, two)
	stop := m.traffic(one, two)
	chassis := m.ovn.Run("ovn-sbctl", "--db="+m.ovn.Southbound(), "--bare", "--columns=_uuid", "find", "chassis",
		"name="+windows)

	wired := func(what string, do func()) {
		t.Helper()
		begun := time.Now()
		do()
		fresh, _ := m.plug()
		t.Logf("%s: a new port is wired %v later", what, time.Since(begun).Round(time.Millisecond))
		m.mustReach(fresh, one)
	}
	wired("kill -9 of ovn-controller", func() {
		for _, pid := range processesIn(a.config.RunDir) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	})
	wired("streams broken half-way", func() { m.stopAgent(); m.startAgent() })
	b := startProgram(t, m.config("b"))
	nodetest.Eventually(t, 20*time.Second, func() error {
		text, err := b.get("metrics")
		if err != nil || !strings.Contains(text, "weft_chassis_hosts 2") {
			return fmt.Errorf("b does not see a: %v", err)
		}
		return nil
	})
	first, second := a, b
	nodetest.Eventually(t, 20*time.Second, func() error {
		first, second = a, b
		if m.holder() == "b" {
			first, second = b, a
		}
		text, err := first.ready()
		if err != nil || !strings.Contains(text, windows+" connected") {
			return fmt.Errorf("%s %v", text, err)
		}
		return nil
	})
	wired("kill -9 of the chassis host", func() {
		first.kill()
		nodetest.Eventually(t, time.Second, func() error {
			if left := processesIn(first.config.RunDir); len(left) > 0 {
				return fmt.Errorf("processes %v outlive their host", left)
			}
			return nil
		})
	})
	second.awaitState(windows, "connected")
	wired("restart of the chassis host that was killed, in its run directory", func() {
		first = startProgram(t, first.config)
	})
	wired("the holder ends in order", func() {
		if m.holder() == first.config.Identity {
			first, second = second, first
		}
		second.terminate()
	})
	first.awaitState(windows, "connected")
	if lost, sent := stop(); lost > 0 {
		t.Errorf("%d of %d packets lost", lost, sent)
	} else {
		t.Logf("none of %d packets lost", sent)
	}
	if now := m.ovn.Run("ovn-sbctl", "--db="+m.ovn.Southbound(), "--bare", "--columns=_uuid", "find", "chassis",
		"name="+windows); now != chassis {
		t.Errorf("the chassis was made anew: %s, before %s", now, chassis)
	}
	flows := m.flows()
	first.terminate()
	if left := m.flows(); left != flows {
		t.Errorf("%d flows are left of %d", left, flows)
	}
	for _, host := range []*hostProgram{first, second} {
		if left := processesIn(host.config.RunDir); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
		if entries, err := os.ReadDir(host.config.RunDir); err != nil || len(entries) != 1 {
			t.Errorf("the run directory has %v %v", entries, err)
		}
	}
	if leases, err := m.admin.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(leases.Items) != 1 || m.holder() != "" {
		t.Errorf("Leases are left: %v %v", leases.Items, err)
	}
}

// TestAFrozenHost wakes up when another one has taken its node: not a byte of it may reach the node.
func TestAFrozenHost(t *testing.T) {
	m := newMixed(t)
	a := startProgram(t, m.config("a"))
	a.awaitState(windows, "connected")
	one, _ := m.plug()
	two, _ := m.plug()
	b := startProgram(t, m.config("b"))
	frozen, other := a, b
	nodetest.Eventually(t, 20*time.Second, func() error {
		for _, pair := range [][2]*hostProgram{{a, b}, {b, a}} {
			text, err := pair[1].get("metrics")
			if err != nil || !strings.Contains(text, "weft_chassis_hosts 2") {
				return fmt.Errorf("they do not see each other: %v", err)
			}
			if text, _ := pair[0].ready(); m.holder() == pair[0].config.Identity &&
				strings.Contains(text, windows+" connected") {
				frozen, other = pair[0], pair[1]
				return nil
			}
		}
		return errors.New("no host has the node")
	})
	m.mustReach(one, two)
	stop := m.traffic(one, two)
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := frozen.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	signal(syscall.SIGSTOP)
	three, _ := m.plug()
	t.Logf("a new port is wired after %v", time.Since(begun).Round(time.Millisecond))
	other.awaitState(windows, "connected")
	before := processesIn(frozen.config.RunDir)
	signal(syscall.SIGCONT)
	nodetest.Eventually(t, 5*time.Second, func() error {
		for _, pid := range processesIn(frozen.config.RunDir) {
			if slices.Contains(before, pid) {
				return fmt.Errorf("its ovn-controller %d goes on", pid)
			}
		}
		return nil
	})
	four, _ := m.plug() // whichever host has it now
	m.mustReach(three, four)
	if lost, sent := stop(); lost > 0 {
		t.Errorf("%d of %d packets lost", lost, sent)
	}
}

// TestAnOVNControllerThatTakesTooMuchMemory is ended by its bound. The log and an Event of the Node say so, with the
// remedy. The other node's ovn-controller goes on.
func TestAnOVNControllerThatTakesTooMuchMemory(t *testing.T) {
	const grows, stays = "win00", "win01"
	f := newFleet(t, 2)
	config := f.config("a")
	a := startProgram(t, config)
	a.awaitConnected(2)
	bound := 0
	for _, pid := range processesIn(config.RunDir) {
		var limit unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_DATA, nil, &limit); err != nil || limit.Max != config.controllerMemory() {
			t.Errorf("process %d may have %d bytes: %v", pid, limit.Max, err)
		}
		awaitThreads(t, pid)
		bound = max(bound, data(t, pid))
	}
	a.terminate()

	config.OVNControllerMemory = int64(bound) + 8<<20
	b := startProgram(t, config)
	b.awaitConnected(2)
	ended, kept := b.controllerOf(grows), b.controllerOf(stays)
	for part := range 12 {
		set := []string{"--db=" + f.databases[grows], "set", "interface", "pod"}
		for i := range 10 {
			set = append(set, fmt.Sprintf("external_ids:%d-%d=%s", part, i, strings.Repeat("x", 100_000)))
		}
		f.ovn.Run("ovs-vsctl", set...)
	}
	want := fmt.Sprintf("(%d MiB); if the node is sound, raise the key ovn-controller-memory",
		config.OVNControllerMemory>>20)
	nodetest.Eventually(t, 30*time.Second, func() error {
		events, err := f.admin.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == grows && e.Reason == "ChassisControllerEnded" && strings.Contains(e.Message, want) {
				return nil
			}
		}
		return fmt.Errorf("Events %v", events.Items)
	})
	if unix.Kill(ended, 0) == nil {
		t.Errorf("process %d goes on", ended)
	}
	log, err := os.ReadFile(b.log)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(strings.Split(string(log), "\n"), func(line string) bool {
		return strings.Contains(line, "ovn-controller has ended") && strings.Contains(line, grows) &&
			strings.Contains(line, want)
	}) {
		t.Errorf("no line of the log says that the ovn-controller of %s needs more than %q", grows, want)
	}
	b.awaitState(stays, "connected")
	if now := b.controllerOf(stays); now != kept {
		t.Errorf("the ovn-controller of %s is process %d now, and was %d", stays, now, kept)
	}
	if text, err := b.get("metrics"); err != nil || !strings.Contains(text, `weft_chassis_restarts_total{node="`+grows) ||
		strings.Contains(text, `weft_chassis_restarts_total{node="`+stays) {
		t.Errorf("restarts, %v: %s", err, text)
	}
}

// controllerOf is the process of a node's ovn-controller.
func (p *hostProgram) controllerOf(node string) (pid int) {
	p.tb.Helper()
	socket, err := os.Readlink(filepath.Join(p.config.RunDir, node, controlSocket))
	if err != nil {
		p.tb.Fatal(err)
	}
	if _, err := fmt.Sscanf(socket, ownSocket, &pid); err != nil {
		p.tb.Fatalf("%s: %v", socket, err)
	}
	return pid
}

// awaitThreads waits until an ovn-controller has the threads that it starts in its first rounds: the stack of each is
// 8 MiB of its data.
func awaitThreads(t *testing.T, pid int) {
	t.Helper()
	nodetest.Eventually(t, 30*time.Second, func() error {
		names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
		if err != nil {
			return err
		}
		var threads []string
		for _, name := range names {
			content, _ := os.ReadFile(name) // the thread may have ended
			threads = append(threads, strings.TrimRight(string(content), "0123456789\n"))
		}
		for _, needed := range []string{"ovn_pinctrl", "ovn_statctrl", "stopwatch", "urcu"} {
			if !slices.Contains(threads, needed) {
				return fmt.Errorf("process %d has the threads %v, and none %s", pid, threads, needed)
			}
		}
		return nil
	})
}

// data is how many bytes of data a process has.
func data(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmData:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

func TestAnExpiredCertificateIsNamedAndItsRenewalHeals(t *testing.T) {
	m := newMixed(t)
	config := m.config("a")
	m.ca.useHost(&config, time.Now().Add(-time.Minute))
	a := startProgram(t, config)
	a.awaitState(windows, string(unreachable), string(tunnel.Expired), "has expired")
	nodetest.Eventually(t, 30*time.Second, func() error {
		events, err := m.admin.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(events.Items) == 0 {
			return fmt.Errorf("no Event: %v", err)
		}
		e := events.Items[0]
		if len(events.Items) != 1 || e.InvolvedObject.Name != windows || e.Reason != "ChassisHandshakeFailed" ||
			!strings.Contains(e.Message, "has expired") {
			return fmt.Errorf("Events %v", events.Items)
		}
		return nil
	})
	m.ca.useHost(&config, time.Now().Add(time.Hour))
	a.awaitState(windows, "connected")
	m.plug()
	text, err := a.get("metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`weft_chassis_refusals_total{node="win1",reason="expired"}`,
		`weft_chassis_node_state{node="win1",state="connected"} 1`,
		`weft_chassis_leases_held 1`, `weft_chassis_takeovers_total{from="new"} 1`,
		`weft_chassis_streams{node="win1",target="weft-ovsdb/1"}`,
		`weft_chassis_stream_bytes_total{direction="to-node",node="win1",target="weft-openflow/1"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s:\n%s", want, text)
		}
	}
}
