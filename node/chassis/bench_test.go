//go:build linux

package chassis

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/freeport"
)

// fleet is a central and many nodes, each an ovsdb-server and an ovs-vswitchd with the dummy datapath,
// an agent, and a logical switch with one pod on a router that all share.
type fleet struct {
	*world
	ovn       *nodetest.OVN
	kube      string
	databases map[string]string // of the nodes' Open vSwitches
}

func newFleet(tb testing.TB, n int) *fleet {
	tb.Helper()
	f := &fleet{ovn: nodetest.StartOVN(tb), databases: map[string]string{}}
	f.ovn.Kill(nodetest.OVNController)
	f.world = &world{tb: tb, ca: newAuthority(tb), api: newAPI(tb)}
	f.admin, f.kube = f.api.client(newLink()), f.api.serveHTTP(tb)
	f.ovn.NB("lr-add", "cluster")
	for i, name := range names(n) {
		f.ovn.NB("ls-add", name, "--", "lrp-add", "cluster", "rtos-"+name, fmt.Sprintf("0a:58:0a:f4:%02x:01", i),
			fmt.Sprintf("10.244.%d.1/24", i),
			"--", "lsp-add", name, "stor-"+name, "--", "lsp-set-type", "stor-"+name, "router", "--", "lsp-set-addresses",
			"stor-"+name, "router",
			"--", "lsp-set-options", "stor-"+name, "router-port=rtos-"+name,
			"--", "lsp-add", name, name+"_pod", "--", "lsp-set-addresses", name+"_pod",
			fmt.Sprintf("0a:58:0a:f4:%02x:0a 10.244.%d.10", i, i))
		f.startSwitch(name, i)
	}
	return f
}

// startSwitch starts a node's Open vSwitch and agent.
func (f *fleet) startSwitch(name string, i int) {
	f.tb.Helper()
	dir := newRunDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.tb.Fatal(err)
	}
	bin := nodetest.Programs(f.tb)
	db := "unix:" + filepath.Join(dir, "db.sock")
	f.databases[name] = db
	f.ovn.Run("ovsdb-tool", "create", filepath.Join(dir, "db"), filepath.Join(filepath.Dir(bin), "share",
		"openvswitch/vswitch.ovsschema"))
	f.daemon(dir, "ovsdb-server", filepath.Join(dir, "db"), "--remote=p"+db, "--unixctl="+filepath.Join(dir, "db.ctl"))
	nodetest.Eventually(f.tb, 10*time.Second, func() error {
		_, err := os.Stat(filepath.Join(dir, "db.sock"))
		return err
	})
	f.ovn.Run("ovs-vsctl", "--db="+db, "--no-wait", "init", "--", "set", "open_vswitch", ".", "external_ids:system-id="+
		name, "external_ids:hostname="+name,
		"external_ids:ovn-remote="+f.ovn.Southbound(), "external_ids:ovn-encap-type=geneve",
		fmt.Sprintf("external_ids:ovn-encap-ip=192.0.2.%d", i+1),
		"external_ids:ovn-bridge=br-int", "external_ids:ovn-bridge-datapath-type=dummy",
		"external_ids:ovn-monitor-all="+cmp.Or(os.Getenv(monitorVariable), "true"),
		"--", "add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=dummy", "fail_mode=secure",
		"--", "add-port", "br-int", "pod", "--", "set", "interface", "pod", "type=dummy", "external_ids:iface-id="+name+
			"_pod")
	f.daemon(dir, "ovs-vswitchd", db, "--enable-dummy", "--disable-system", "--unixctl="+filepath.Join(dir,
		"vswitchd.ctl"))
	nodetest.Eventually(f.tb, 20*time.Second, func() error {
		_, err := os.Stat(filepath.Join(dir, "br-int.mgmt"))
		return err
	})
	m := &mixed{tb: f.tb, dir: dir, ca: f.ca, address: freeport.Address(f.tb)}
	m.startAgentOf(name, "db.sock")
	if _, err := f.admin.CoreV1().Nodes().Create(f.tb.Context(), hostedOn(name, m.address),
		metav1.CreateOptions{}); err != nil {
		f.tb.Fatal(err)
	}
}

func (f *fleet) daemon(dir, program string, args ...string) {
	f.tb.Helper()
	command := exec.Command(filepath.Join(nodetest.Programs(f.tb), program), append(args, "--no-chdir", "-vconsole:off",
		"-vsyslog:off")...)
	command.Env = append(os.Environ(), "OVS_RUNDIR="+dir, "OVS_LOGDIR="+dir, "OVS_DBDIR="+dir, "OVS_SYSCONFDIR="+dir)
	if err := command.Start(); err != nil {
		f.tb.Fatal(err)
	}
	f.tb.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it was killed
	})
}

func (f *fleet) host(identity string) *hostProgram {
	f.tb.Helper()
	return startProgram(f.tb, f.config(identity))
}

func (f *fleet) config(identity string) Config {
	f.tb.Helper()
	c := DefaultConfig()
	c.Identity, c.Kubeconfig, c.RunDir = identity, f.kube, newRunDir()
	c.Southbound = f.ovn.Southbound()
	c.OVNController = filepath.Join(nodetest.Programs(f.tb), "ovn-controller")
	f.ca.useHost(&c, time.Now().Add(time.Hour))
	return c
}

// connectedCount are the nodes that a host has in order; held, those it holds.
func (p *hostProgram) connectedCount() (held, inOrder int) {
	text, err := p.ready()
	if err != nil {
		return 0, 0
	}
	return strings.Count(text, "\n") - 1, strings.Count(text, " connected\n")
}

func (p *hostProgram) awaitConnected(n int) {
	p.tb.Helper()
	nodetest.Eventually(p.tb, 3*time.Minute+time.Duration(n)*2*time.Second, func() error {
		if held, ok := p.connectedCount(); ok != n {
			return fmt.Errorf("%d held, %d connected of %d", held, ok, n)
		}
		return nil
	})
}

// usage is of processes: proportional and own memory in MiB, processor time.
type usage struct {
	pss, rss float64
	cpu      time.Duration
}

func usageOf(tb testing.TB, pids ...int) (u usage) {
	tb.Helper()
	for _, pid := range pids {
		u.pss += memory(tb, pid, "Pss:")
		u.rss += memory(tb, pid, "Rss:")
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			tb.Fatal(err)
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, field := range fields[11:13] { // utime and stime, proc(5)
			ticks, err := strconv.Atoi(field)
			if err != nil {
				tb.Fatal(err)
			}
			u.cpu += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return u
}

func memory(tb testing.TB, pid int, key string) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == key {
			kilobytes, err := strconv.Atoi(fields[1])
			if err != nil {
				tb.Fatal(err)
			}
			return float64(kilobytes) / 1024
		}
	}
	tb.Fatalf("no %s of process %d", key, pid)
	return 0
}

// The environment chooses what to measure. Since all switches are on one router, each node's ovn-controller and
// ovs-vswitchd have the flows of all nodes, with each value of ovn-monitor-all.
const (
	hostedVariable  = "WEFT_BENCH_HOSTED"      // numbers of hosted nodes; 1,10,50
	monitorVariable = "WEFT_BENCH_MONITOR_ALL" // their ovn-monitor-all; true
)

// mostHosted is how many addresses startSwitch has.
const mostHosted = 254

// hostedNumbers are of nodes.
func hostedNumbers(b *testing.B) []int {
	b.Helper()
	var all []int
	for text := range strings.SplitSeq(cmp.Or(os.Getenv(hostedVariable), "1,10,50"), ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostHosted {
			b.Fatalf("%s: %q is not a number of nodes from 1 to %d", hostedVariable, text, mostHosted)
		}
		all = append(all, n)
	}
	return all
}

// BenchmarkHostedNodes is what a chassis host costs at rest.
func BenchmarkHostedNodes(b *testing.B) {
	for _, n := range hostedNumbers(b) {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := newFleet(b, n)
			for range b.N {
				begun := time.Now()
				host := f.host("a")
				host.awaitConnected(n)
				b.ReportMetric(time.Since(begun).Seconds(), "s-to-connected")
				children := processesIn(host.config.RunDir)
				if len(children) != n {
					b.Fatalf("%d ovn-controllers for %d nodes", len(children), n)
				}
				b.ReportMetric(settle(b, children).Seconds(), "s-to-rest")
				const window = 20 * time.Second
				writes := f.writes()
				own, theirs := usageOf(b, host.Process.Pid), usageOf(b, children...)
				idle(b, window)
				ownAfter, theirsAfter := usageOf(b, host.Process.Pid), usageOf(b, children...)
				b.ReportMetric(ownAfter.rss, "host-RSS-MiB")
				b.ReportMetric(theirsAfter.rss/float64(n), "ovn-controller-RSS-MiB/node")
				b.ReportMetric((ownAfter.pss + theirsAfter.pss), "all-PSS-MiB")
				b.ReportMetric(100*(ownAfter.cpu-own.cpu).Seconds()/window.Seconds(), "host-CPU-%")
				b.ReportMetric(100*(theirsAfter.cpu-theirs.cpu).Seconds()/window.Seconds(), "ovn-controllers-CPU-%")
				b.ReportMetric(float64(f.writes()-writes)/window.Seconds(), "Lease-writes/s")
				host.terminate()
			}
		})
	}
}

// settle returns once the processes have nothing more to do, with the time that this took, or after a
// minute and a second for each.
func settle(b *testing.B, pids []int) time.Duration {
	b.Helper()
	patience := time.Minute + time.Duration(len(pids))*time.Second
	for begun, before := time.Now(), usageOf(b, pids...).cpu; ; {
		idle(b, 2*time.Second)
		now := usageOf(b, pids...).cpu
		if took := time.Since(begun); now-before < time.Duration(2+len(pids)/2)*10*time.Millisecond || took > patience {
			return took
		}
		before = now
	}
}

// idle lets time pass: what is measured is a time in which nothing happens.
func idle(b *testing.B, d time.Duration) {
	b.Helper()
	signal.Sleep(b.Context(), d)
}

func (f *fleet) writes() int {
	f.api.mu.Lock()
	defer f.api.mu.Unlock()
	return f.api.version
}

// BenchmarkTakeover kills one of two hosts that have twenty nodes, and measures until the other has all
// of them connected.
func BenchmarkTakeover(b *testing.B) {
	const n = 20
	f := newFleet(b, n)
	for range b.N {
		hosts := []*hostProgram{f.host("a"), f.host("b")}
		nodetest.Eventually(b, time.Minute, func() error {
			_, first := hosts[0].connectedCount()
			_, second := hosts[1].connectedCount()
			if first+second != n || first < 7 || second < 7 {
				return fmt.Errorf("%d and %d connected of %d", first, second, n)
			}
			return nil
		})
		_, lost := hosts[0].connectedCount()
		begun := time.Now()
		hosts[0].kill()
		nodetest.Eventually(b, time.Minute, func() error {
			if held, _ := hosts[1].connectedCount(); held != n {
				return fmt.Errorf("%d are held", held)
			}
			return nil
		})
		b.ReportMetric(time.Since(begun).Seconds(), "s-to-taken")
		hosts[1].awaitConnected(n)
		b.ReportMetric(time.Since(begun).Seconds(), "s-to-connected")
		b.ReportMetric(float64(lost), "nodes")
		hosts[1].terminate()
	}
}
