//go:build linux

package chassis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/tunnel"
)

// world is an API server, nodes whose agents take streams to nowhere, and chassis hosts whose
// ovn-controllers are stand-ins.
type world struct {
	tb     testing.TB
	api    *api
	admin  kubernetes.Interface
	ca     *authority
	shared string
	listen map[string]net.Listener
}

// testLease is so long that a busy machine hardly ever keeps a host from renewing it in time.
const testLease = 12 * time.Second

func newWorld(tb testing.TB, nodes ...string) *world {
	tb.Helper()
	w := &world{tb: tb, ca: newAuthority(tb), shared: tb.TempDir(), listen: map[string]net.Listener{}}
	tb.Setenv(standInMark, w.shared)
	var objects []runtime.Object
	for _, name := range nodes {
		objects = append(objects, w.node(name))
	}
	w.api = newAPI(tb, objects...)
	w.admin = w.api.client(newLink())
	tb.Cleanup(w.check)
	return w
}

// node starts a node's agent.
func (w *world) node(name string) *corev1.Node {
	w.tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.tb.Fatal(err)
	}
	w.listen[name] = listener
	w.serve(listener, name)
	return hostedOn(name, listener.Addr().String())
}

func hostedOn(name, address string) *corev1.Node {
	facts := contract.Format(contract.NodeFacts{Chassis: name, OS: contract.Windows,
		Hosted: &contract.Hosted{Address: address}})
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{contract.NodeFactsAnnotation: facts}}}
}

func (w *world) serve(listener net.Listener, name string) {
	nowhere := func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			_, _ = far.Read(make([]byte, 1)) // until the stream ends
			far.Close()
		}()
		return near, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tunnel.Serve(ctx, listener, tunnel.ServerConfig{ // a test may close the listener
			Credentials: w.ca.agent(name),
			Targets: map[tunnel.Target]tunnel.Service{tunnel.OVSDB: {Peer: tunnel.HostName, Open: nowhere},
				tunnel.OpenFlow: {Peer: tunnel.HostName, Open: nowhere}},
		})
	}()
	w.tb.Cleanup(func() { cancel(); <-ended })
}

// check says whether a node has ever had two ovn-controllers.
func (w *world) check() {
	text, err := os.ReadFile(filepath.Join(w.shared, "violations"))
	if !errors.Is(err, fs.ErrNotExist) {
		w.tb.Errorf("nodes had two ovn-controllers: %s %v", text, err)
	}
}

// chassisHost is one that runs.
type chassisHost struct {
	*host
	link *link
	stop func()
}

func (w *world) config(identity string) Config {
	c := DefaultConfig()
	c.Identity, c.RunDir, c.MetricsAddress, c.LeaseDuration = identity, newRunDir(), "", testLease
	program, err := os.Executable()
	if err != nil {
		w.tb.Fatal(err)
	}
	c.OVNController = program
	w.ca.useHost(&c, time.Now().Add(time.Hour))
	return c
}

var runDirs atomic.Int32

// newRunDir is short, as sockets need it, and goes with the tests' namespaces.
func newRunDir() string { return fmt.Sprintf("/run/weft-%d", runDirs.Add(1)) }

func (w *world) start(identity string) *chassisHost {
	w.tb.Helper()
	return w.startWith(w.config(identity))
}

func (w *world) startWith(config Config) *chassisHost {
	w.tb.Helper()
	c := &chassisHost{link: newLink()}
	began := make(chan *host, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, config, w.api.client(c.link), w.api.client(c.link), func(h *host) { began <- h })
	}()
	select {
	case c.host = <-began:
	case err := <-ended:
		w.tb.Fatalf("host %s: %v", config.Identity, err)
	}
	c.stop = sync.OnceFunc(func() {
		c.link.thaw()
		cancel()
		if err := <-ended; err != nil {
			w.tb.Errorf("host %s ended with %v", config.Identity, err)
		}
		entries, err := os.ReadDir(config.RunDir)
		if err != nil || len(entries) != 1 {
			w.tb.Errorf("host %s left %v %v", config.Identity, entries, err)
		}
	})
	w.tb.Cleanup(c.stop)
	return c
}

// connectedNodes are those that a host holds and that are in order.
func (c *chassisHost) connectedNodes() []string {
	var names []string
	for name, m := range c.held() {
		if now, _ := m.status.state(); now == connected {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// together waits until the hosts hold exactly these nodes, each of them once.
func (w *world) together(nodes []string, hosts ...*chassisHost) {
	w.tb.Helper()
	nodetest.Eventually(w.tb, 30*time.Second, func() error {
		var all []string
		for _, h := range hosts {
			all = append(all, h.connectedNodes()...)
		}
		slices.Sort(all)
		if !slices.Equal(all, nodes) {
			return fmt.Errorf("the hosts hold %v, not %v", all, nodes)
		}
		return nil
	})
}

func (w *world) lease(name string) *coordinationv1.Lease {
	w.tb.Helper()
	lease, err := w.admin.CoordinationV1().Leases("kube-system").Get(w.tb.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.tb.Fatal(err)
	}
	return lease
}

func names(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("win%02d", i))
	}
	return all
}

func TestHostsShareTheNodes(t *testing.T) {
	nodes := names(12)
	w := newWorld(t, nodes...)
	a := w.start("a")
	w.together(nodes, a)
	b := w.start("b")
	nodetest.Eventually(t, 30*time.Second, func() error {
		if has := len(b.connectedNodes()); has < 4 || has > 8 {
			return fmt.Errorf("b holds %d of 12", has)
		}
		return nil
	})
	w.together(nodes, a, b)
	for _, name := range b.connectedNodes() {
		if by := tenure.Holder(w.lease(nodeLease(name))); by != "b" {
			t.Errorf("the Lease of %s is held by %q", name, by)
		}
	}
	begun := time.Now()
	b.stop()
	w.together(nodes, a)
	t.Logf("all nodes of a host that leaves are held %v after its stop has begun", time.Since(begun))
	a.stop()
	leases, err := w.admin.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases.Items {
		if tenure.Holder(&lease) != "" {
			t.Errorf("Lease %s is still held by %s", lease.Name, tenure.Holder(&lease))
		}
	}
}

// TestAHostWithoutAPIServerLosesItsNodes: every kind of call hangs, and no deadline of ours ends one.
func TestAHostWithoutAPIServerLosesItsNodes(t *testing.T) {
	nodes := names(6)
	w := newWorld(t, nodes...)
	a, b := w.start("a"), w.start("b")
	w.together(nodes, a, b)
	a.link.freeze(true, true)
	w.together(nodes, b)
	if held := a.connectedNodes(); len(held) != 0 {
		t.Errorf("the host that cannot renew still holds %v", held)
	}
	a.link.thaw()
	nodetest.Eventually(t, 30*time.Second, func() error {
		if len(a.connectedNodes()) == 0 {
			return errors.New("it gets none back")
		}
		return nil
	})
	w.together(nodes, a, b)
}

func TestALateWatchTakesNothing(t *testing.T) {
	nodes := names(4)
	w := newWorld(t, nodes...)
	a, b := w.start("a"), w.start("b")
	w.together(nodes, a, b)
	before := a.connectedNodes()
	number := map[string]int32{}
	for _, name := range nodes {
		number[name] = transitions(w.lease(nodeLease(name)))
	}
	b.link.freeze(false, true)
	// b sees no renewal of a, and asks for it each time before it would take a node.
	for range 3 {
		begun := time.Now()
		nodetest.Eventually(t, 10*time.Second, func() error {
			if since := b.sightings.of(hostLease("a")).since; since.Before(begun) {
				return errors.New("b has not asked")
			}
			return nil
		})
	}
	if !slices.Equal(a.connectedNodes(), before) {
		t.Errorf("a holds %v, before %v", a.connectedNodes(), before)
	}
	for _, name := range nodes {
		if now := transitions(w.lease(nodeLease(name))); now != number[name] {
			t.Errorf("%s has changed hands %d times", name, now-number[name])
		}
	}
}

func TestNodesComeAndGo(t *testing.T) {
	w := newWorld(t, "win00", "win01", "win02")
	a := w.start("a")
	w.together(names(3), a)
	ofNodes := w.admin.CoreV1().Nodes()
	if err := ofNodes.Delete(t.Context(), "win00", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	local := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01",
		Annotations: map[string]string{contract.NodeFactsAnnotation: contract.Format(contract.NodeFacts{Chassis: "win01",
			OS: contract.Windows})}}}
	if _, err := ofNodes.Update(t.Context(), local, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// What cannot be read changes nothing for a node that is held.
	unread := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win02",
		Annotations: map[string]string{contract.NodeFactsAnnotation: "{"}}}
	if _, err := ofNodes.Update(t.Context(), unread, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ofNodes.Create(t.Context(), w.node("win03"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.together([]string{"win02", "win03"}, a)
	nodetest.Eventually(t, 10*time.Second, func() error {
		leases, err := w.admin.CoordinationV1().Leases("kube-system").List(t.Context(),
			metav1.ListOptions{LabelSelector: contract.ChassisLeaseLabel + "=" + contract.LeaseOfNode})
		if err != nil || len(leases.Items) != 2 {
			return fmt.Errorf("Leases %d %v", len(leases.Items), err)
		}
		return nil
	})
}

func TestALeaseRemovedByHandIsTakenAgain(t *testing.T) {
	w := newWorld(t, "win00")
	a := w.start("a")
	w.together(names(1), a)
	leases := w.admin.CoordinationV1().Leases("kube-system")
	for _, name := range []string{nodeLease("win00"), hostLease("a")} {
		uid := w.lease(name).UID
		if err := leases.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		nodetest.Eventually(t, 20*time.Second, func() error {
			now, err := leases.Get(t.Context(), name, metav1.GetOptions{})
			if err == nil && now.UID == uid {
				err = errors.New("it is still there")
			}
			return err
		})
		w.together(names(1), a)
	}
}

func TestTwoProcessesOfOneIdentity(t *testing.T) {
	w := newWorld(t, names(3)...)
	first := w.start("a")
	w.together(names(3), first)
	second := w.start("a")
	nodetest.Eventually(t, 20*time.Second, func() error {
		if second.sightings.of(hostLease("a")).lease == nil {
			return errors.New("the second has not looked yet")
		}
		return nil
	})
	looked := time.Now()
	nodetest.Eventually(t, 20*time.Second, func() error { // long enough for the second to take it if it would
		if renewed := w.lease(hostLease("a")).Spec.RenewTime.Time; renewed.Before(looked.Add(2 * testLease)) {
			return fmt.Errorf("renewed at %v", renewed)
		}
		return nil
	})
	if held := second.held(); len(held) != 0 || len(first.connectedNodes()) != 3 {
		t.Errorf("the second holds %v, the first %v", held, first.connectedNodes())
	}
	first.stop()
	w.together(names(3), second)
}

// TestANodeIsTakenOnce: a look that was overtaken by the work on a node does not take it again.
func TestANodeIsTakenOnce(t *testing.T) {
	w := newWorld(t, names(1)...)
	h := w.start("a")
	w.together(names(1), h)
	name := names(1)[0]
	before := h.member(name)
	h.acquire(h.terms.Current(), h.hosted()[name])
	if h.member(name) != before {
		t.Error("the node has another ovn-controller beside the first")
	}
}

// TestASuccessorInTheSameRunDirDoesNotWait: the lock tells that the former process is dead with all
// its children.
func TestASuccessorInTheSameRunDirDoesNotWait(t *testing.T) {
	w := newWorld(t, names(2)...)
	config := w.config("a")
	config.LeaseDuration = 10 * time.Minute
	if err := os.MkdirAll(config.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	dead := newInstance("a")
	if err := os.WriteFile(lockFile.In(config.RunDir), []byte(dead), 0o600); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(config.RunDir, "win77")
	other := filepath.Join(config.RunDir, "somebody-else's")
	for _, folder := range []string{stale, other} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(ownerFile.In(stale), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	seconds, now := int32(600), metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: hostLease("a"),
		Labels: map[string]string{contract.ChassisLeaseLabel: contract.LeaseOfHost}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &dead, LeaseDurationSeconds: &seconds, RenewTime: &now}}
	if _, err := w.admin.CoordinationV1().Leases("kube-system").Create(t.Context(), lease,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a := w.startWith(config)
	w.together(names(2), a)
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dead process's folder: %v", err)
	}
	if err := os.Remove(other); err != nil {
		t.Errorf("a folder that is not ours: %v", err)
	}
	if _, _, err := openRunDir(expiredContext(), config.RunDir, "x"); err == nil || !strings.Contains(err.Error(),
		"its own run-dir") {
		t.Errorf("a second process in the run directory: %v", err)
	}
}

func expiredContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestAHostThatCannotReachANodeLeavesItToAnother: the agent's end lets only b through.
func TestAHostThatCannotReachANodeLeavesItToAnother(t *testing.T) {
	w := newWorld(t, names(4)...)
	misled := w.config("a")
	foreign, _ := w.ca.issue("foreign", "somebody.else", time.Now().Add(time.Hour))
	misled.Certificate, misled.PrivateKey = foreign, filepath.Join(w.ca.dir, "foreign.key")
	a := w.startWith(misled)
	a.patience.Store(int64(200 * time.Millisecond))
	nodetest.Eventually(t, 20*time.Second, func() error {
		for name, m := range a.held() {
			if now, detail := m.status.state(); now == unreachable && strings.Contains(detail, string(tunnel.WrongName)) {
				return nil
			} else {
				return fmt.Errorf("%s is %s %s", name, now, detail)
			}
		}
		return errors.New("it holds none")
	})
	b := w.start("b")
	w.together(names(4), b)
	if text := w.lease(hostLease("a")).Annotations[contract.ChassisUnreachableAnnotation]; text == "" {
		t.Error("the host that cannot reach it does not say so")
	}
	// Once it can, it has its share, and is not as impatient any more.
	a.patience.Store(int64(reachPatience))
	w.ca.issue("foreign", tunnel.HostName, time.Now().Add(time.Hour))
	a.mu.Lock()
	for name := range a.unreachable {
		a.unreachable[name] = time.Now()
	}
	a.mu.Unlock()
	nodetest.Eventually(t, 30*time.Second, func() error {
		if len(a.connectedNodes()) == 0 {
			return errors.New("it holds none")
		}
		return nil
	})
	w.together(names(4), a, b)
}

func TestAnOVNControllerThatDiesIsStartedAgain(t *testing.T) {
	w := newWorld(t, "win00")
	a := w.start("a")
	for round := range 2 {
		w.together(names(1), a)
		pid := standInOf(t, a, "win00")
		process, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		nodetest.Eventually(t, 10*time.Second, func() error {
			if n := a.metricValue(t, "weft_chassis_restarts_total"); n != float64(round+1) {
				return fmt.Errorf("%v restarts", n)
			}
			return nil
		})
	}
	w.together(names(1), a)
}

// standInOf is the process whose working directory is the node's folder.
func standInOf(tb testing.TB, h *chassisHost, node string) int {
	tb.Helper()
	found := 0
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		tb.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == h.runDir.folder(node) {
			if _, err := fmt.Sscanf(link, "/proc/%d/cwd", &found); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if found == 0 {
		tb.Fatalf("%s has no ovn-controller", node)
	}
	return found
}

func (c *chassisHost) metricValue(tb testing.TB, name string) float64 {
	tb.Helper()
	families, err := c.metrics.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}
