package ovn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/writeback"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/freeport"
)

// deployment is controllers between client-go's fake API server and a real Northbound.
type deployment struct {
	t          *testing.T
	api        *fake.Clientset
	own        *dynamicfake.FakeDynamicClient
	northbound *ovsdbtest.Process
	view       *ovsdb.Client // the test's own
}

func deploy(t *testing.T, given ...runtime.Object) *deployment {
	t.Helper()
	d := ovsdbtest.Northbound(t)
	p := ovsdbtest.Server(t, d)
	lists := map[schema.GroupVersionResource]string{}
	for _, k := range newCluster(ovntest.Settings(t, nil)).kinds() {
		lists[k.Resource()] = k.String() + "List"
	}
	own := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	nodetest.WithoutGaps(own)
	return &deployment{t, nodetest.FakeAPI(given...), own, p, ovsdbtest.Connect(t, d, p.Endpoint, northbound.Tables...)}
}

// instance is one running controller.
type instance struct {
	*controller
	stop func()
}

func (d *deployment) start(identity string, edit func(*settings.Config)) *instance {
	d.t.Helper()
	return d.startThrough((*controller).dial, identity, edit)
}

// startThrough is start with another way to the Northbound.
func (d *deployment) startThrough(dial func(*controller, context.Context) (database, func(), error), identity string,
	edit func(*settings.Config)) *instance {
	d.t.Helper()
	config := ovntest.Config()
	config.Northbound = []string{d.northbound.Endpoint}
	config.Identity, config.LeaseDuration = identity, 12*time.Second // a busy machine renews it late
	if edit != nil {
		edit(&config)
	}
	c, err := newController(config, d.api, d.own, annotateThroughFake(d.api, d.own))
	if err != nil {
		d.t.Fatal(err)
	}
	c.log = ovsdbtest.Logger(d.t).With("controller", identity)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- c.run(ctx, func(ctx context.Context) (database, func(), error) { return dial(c, ctx) })
	}()
	stopped := false
	i := &instance{c, func() {
		d.t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			d.t.Errorf("controller %s: %v", identity, err)
		}
	}}
	d.t.Cleanup(i.stop)
	return i
}

// annotateThroughFake is writeback.Through for clients without a REST client underneath.
func annotateThroughFake(client kubernetes.Interface, own dynamic.Interface) writeback.Write {
	return func(ctx context.Context, p part.Patch) (err error) {
		if networks, ok := p.Body.(part.Networks); ok {
			return networksThroughFake(ctx, own, p, networks)
		}
		text, options, subresources := p.JSON(time.Now()), metav1.PatchOptions{}, []string{}
		if p.Subresource != "" {
			subresources = append(subresources, p.Subresource)
		}
		switch p.Kind {
		case objects.NodeKind:
			_, err = client.CoreV1().Nodes().Patch(ctx, p.Name, types.MergePatchType, text, options, subresources...)
		case objects.PodKind:
			_, err = client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, text, options, subresources...)
		case objects.ServiceKind:
			_, err = client.CoreV1().Services(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, text, options,
				subresources...)
		default:
			_, err = own.Resource(p.Kind.Resource()).Patch(ctx, p.Name, types.MergePatchType, text, options, subresources...)
		}
		return writeback.Gone(err)
	}
}

// networksThroughFake writes PodNetworks. The fake API server needs no rights.
func networksThroughFake(ctx context.Context, own dynamic.Interface, p part.Patch, networks part.Networks) error {
	resource := own.Resource(p.Kind.Resource()).Namespace(p.Namespace)
	switch {
	case networks.Gone:
		return writeback.Gone(resource.Delete(ctx, p.Name, metav1.DeleteOptions{}))
	case p.UID != "":
		_, err := resource.Patch(ctx, p.Name, types.MergePatchType, p.JSON(time.Now()), metav1.PatchOptions{})
		return writeback.Gone(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(p.JSON(time.Now())); err != nil {
		return err
	}
	object.SetUID("networks-of-" + types.UID(p.Name))
	_, err := resource.Create(ctx, object, metav1.CreateOptions{})
	return err
}

// eventually waits until condition holds.
func (d *deployment) eventually(what string, condition func() bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nodetest.Patience)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			d.t.Fatalf("waited %s until %s; the Northbound:\n%s", nodetest.Patience, what, ovsdb.Dump(d.view))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (d *deployment) port(name string) *nb.LogicalSwitchPort {
	for _, p := range ovsdb.List[nb.LogicalSwitchPort](d.view, func(p *nb.LogicalSwitchPort) bool {
		return p.Name == name
	}) {
		return p
	}
	return nil
}

func (d *deployment) create(o runtime.Object) {
	d.t.Helper()
	if err := d.api.Tracker().Add(o); err != nil {
		d.t.Fatal(err)
	}
}

func kubePod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: node}}
}

func kubeNode(name string, cidrs ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
}

// TestControllerStory follows pods and a Service from the API server to the Northbound and back.
func TestControllerStory(t *testing.T) {
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("one", "l1"), web(), webSlice("a", at("10.244.0.3", "l1")))
	c := d.start("only", func(c *settings.Config) { c.MetricsAddress = freeport.Address(t) })
	d.eventually("the first pod has a port", func() bool { return d.port("default_one") != nil })
	d.eventually("the Service has a load balancer", func() bool {
		return len(ovsdb.List[nb.LoadBalancer](d.view, func(b *nb.LoadBalancer) bool {
			return b.Vips["10.96.0.10:80"] == "10.244.0.3:8080"
		})) == 1
	})
	d.eventually("the pod is annotated", func() bool {
		p, err := d.api.CoreV1().Pods("default").Get(context.Background(), "one", metav1.GetOptions{})
		return err == nil && strings.Contains(p.Annotations[contract.PodNetworkAnnotation], "10.244.0.3/24")
	})
	d.eventually("the node is annotated", func() bool {
		n, err := d.api.CoreV1().Nodes().Get(context.Background(), "l1", metav1.GetOptions{})
		return err == nil && strings.Contains(n.Annotations[contract.NodeNetworkAnnotation], `"id":1`)
	})
	d.eventually("it is ready", func() bool { return c.page("/readyz") == "ok\n" })
	d.create(kubePod("two", "l1"))
	d.eventually("the second pod has a port", func() bool { return d.port("default_two") != nil })
	for _, line := range []string{"weft_controller_leader 1", "weft_controller_queue_depth 0",
		"weft_controller_pod_row_seconds_count", `weft_controller_object_seconds_count{kind="Pod"}`, "weft_build_info{",
		`weft_controller_subnet_used_addresses{node="l1",subnet="10.244.0.0/24"} 2`,
		`weft_controller_subnet_free_addresses{node="l1",subnet="10.244.0.0/24"} 250`,
		`weft_controller_errors_total{kind="northbound"} 0`,
		`weft_ovsdb_rows_written_total{database="OVN_Northbound",operation="insert",table="Logical_Switch_Port"}`} {
		d.eventually("the metrics show "+line, func() bool { return strings.Contains(c.page("/metrics"), "\n"+line) })
	}
	if err := d.api.CoreV1().Pods("default").Delete(context.Background(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.eventually("the deleted pod's port is gone", func() bool { return d.port("default_one") == nil })
	if page := c.page("/debug/pprof/"); !strings.Contains(page, "404") {
		t.Errorf("profiling is served unasked: %s", page)
	}
}

// TestProblemsBecomeEvents on the objects that they are about.
func TestProblemsBecomeEvents(t *testing.T) {
	lone := kubeNode("lone", "10.9.0.0/24")
	d := deploy(t, kubeNode("l1", "10.244.0.0/29"), lone, web(), webSlice("a", at("10.244.0.400", "l1")))
	for i := range 5 {
		d.create(kubePod(fmt.Sprint("p", i), "l1"))
	}
	d.start("only", nil)
	for kind, reason := range map[string]string{"Node/lone": "NoPodSubnet", "Pod/p4": "NoFreeAddress",
		"Service/web": "BadEndpointAddress"} {
		d.eventually(kind+" has an Event "+reason, func() bool {
			events, err := d.api.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events.Items {
				if e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name == kind && e.Reason == reason &&
					e.Type == corev1.EventTypeWarning {
					return true
				}
			}
			return false
		})
	}
}

// mixedCluster has a Windows node that shares the gateway of a Linux node, and Services that are not for it.
func mixedCluster() []runtime.Object {
	linux, windows := kubeNode("l1", "10.244.0.0/24"), kubeNode("w1", "10.244.1.0/24")
	linux.Labels = map[string]string{objects.GatewayLabel: ""}
	linux.Annotations = map[string]string{contract.NodeFactsAnnotation: ovntest.Facts(1, false)}
	windows.Labels = map[string]string{corev1.LabelOSStable: contract.Windows}
	windows.Annotations = map[string]string{contract.NodeFactsAnnotation: sharing(2, contract.Windows)}
	service := web(local, func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "sigtran", Port: 2905, Protocol: corev1.ProtocolSCTP})
	})
	dns := edit(web(func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }), func(s *corev1.Service) {
		s.Name, s.UID, s.Spec.ClusterIPs = "dns", "dns", []string{"10.96.0.11"}
	})
	return []runtime.Object{linux, windows, kubePod("one", "l1"), kubePod("two", "w1"), service, dns,
		webSlice("a", at("10.244.0.3", "l1"), at("10.244.1.3", "w1"))}
}

// TestRestartWritesNothing, neither rows nor annotations, and says again only what somebody can mend. It makes its
// claim, one transaction.
func TestRestartWritesNothing(t *testing.T) {
	d := deploy(t, mixedCluster()...)
	first := d.start("first", withShared)
	d.eventually("all is annotated", func() bool { return d.patches() == 4 })
	d.eventually("all is written", func() bool { return d.port("default_two") != nil })
	lasting := map[string]string{"w1": "WindowsDatapath", "web": "NoSCTPOnWindows"}
	for name, reason := range lasting {
		d.eventually("the Event on "+name, func() bool { return d.events(name, reason) == 1 })
	}
	first.stop()
	before := d.northbound.Transactions()
	second := d.start("second", func(c *settings.Config) { withShared(c); c.MetricsAddress = freeport.Address(t) })
	d.eventually("the second is in step", func() bool {
		return strings.Contains(second.page("/metrics"), "\nweft_controller_reconcile_seconds_count 1")
	})
	if after := d.northbound.Transactions(); after != before+1 {
		t.Errorf("%d transactions for a restart, want the claim alone", after-before)
	}
	written := regexp.MustCompile(`(?m)^weft_ovsdb_rows_written_total.*$`).FindAllString(second.page("/metrics"), -1)
	if want := `weft_ovsdb_rows_written_total{database="OVN_Northbound",operation="claim",table="NB_Global"} 1`; len(
		written) != 1 || written[0] != want {
		t.Errorf("a restart has written %s", written)
	}
	// Events are written in their order: when a new one is there, the old ones would be.
	d.create(kubeNode("lone", "10.9.0.0/24"))
	d.eventually("the Event on another node", func() bool { return d.events("lone", "NoPodSubnet") == 1 })
	for name, reason := range lasting {
		if n := d.events(name, reason); n != 1 {
			t.Errorf("%d Events %s on %s", n, reason, name)
		}
	}
	second.stop()
	if n := d.patches(); n != 4 {
		t.Errorf("%d patches, 4 before the restart", n)
	}
}

// events counts an object's by reason, each as often as it was seen.
func (d *deployment) events(name, reason string) (n int) {
	d.t.Helper()
	events, err := d.api.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Name == name && e.Reason == reason {
			n += int(e.Count)
		}
	}
	return n
}

// TestTakeoverKeepsAddresses: the next leader believes the Northbound and not what a pod's status says,
// and gives the pods that it knows from there their addresses without a status or an annotation.
func TestTakeoverKeepsAddresses(t *testing.T) {
	thief := kubePod("a", "l1")
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("victim", "l1"))
	first := d.start("first", nil)
	d.eventually("the victim has a port", func() bool { return d.port("default_victim") != nil })
	d.create(thief)
	d.eventually("the thief has a port", func() bool { return d.port("default_a") != nil })
	first.stop()
	for name, ip := range map[string]string{"a": "10.244.0.3", "victim": ""} {
		p, err := d.api.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Annotations = nil
		if ip != "" {
			p.Status.PodIPs = []corev1.PodIP{{IP: ip}}
		}
		if err := d.api.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), p, "default"); err != nil {
			t.Fatal(err)
		}
	}
	before := d.northbound.Transactions()
	d.start("second", nil)
	for name, address := range map[string]string{"victim": "10.244.0.3/24", "a": "10.244.0.4/24"} {
		d.eventually("the second has annotated "+name, func() bool {
			p, err := d.api.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			text := p.Annotations[contract.PodNetworkAnnotation]
			if text != "" && !strings.Contains(text, address) {
				t.Fatalf("%s: %s", name, text)
			}
			return text != ""
		})
	}
	if after := d.northbound.Transactions(); after != before+1 {
		t.Errorf("%d transactions beside the claim; the victim's port has %s", after-before-1,
			d.port("default_victim").Addresses)
	}
}

func (d *deployment) patches() (n int) {
	for _, a := range d.api.Actions() {
		if a.GetVerb() == "patch" {
			n++
		}
	}
	return n
}

// TestStandbyTakesOver when the leader leaves, and not before.
func TestStandbyTakesOver(t *testing.T) {
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("one", "l1"))
	first := d.start("first", nil)
	d.eventually("the first leads", func() bool { return d.port("default_one") != nil })
	second := d.start("second", func(c *settings.Config) { c.MetricsAddress = freeport.Address(t) })
	d.eventually("the standby is ready", func() bool { return second.page("/readyz") == "ok\n" })
	if page := second.page("/metrics"); !strings.Contains(page, "\nweft_controller_leader 0") {
		t.Error("two lead")
	}
	d.create(kubePod("two", "l1"))
	d.eventually("the leader serves", func() bool { return d.port("default_two") != nil })
	if page := second.page("/metrics"); strings.Contains(page, `result="committed"`) {
		t.Error("the standby has written")
	}
	first.stop()
	d.create(kubePod("three", "l1"))
	d.eventually("the standby leads", func() bool { return d.port("default_three") != nil })
}

// TestLostLeaseStopsWriting: while the Lease cannot be renewed nothing is written; when it can, all that
// happened meanwhile is.
func TestLostLeaseStopsWriting(t *testing.T) {
	t.Parallel()
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("one", "l1"))
	var stolen atomic.Bool
	d.api.PrependReactor("update", "leases", func(kubetesting.Action) (bool, runtime.Object, error) {
		return stolen.Load(), nil, errors.New("somebody else has updated the Lease")
	})
	c := d.start("only", nil)
	d.eventually("it leads", func() bool { return d.port("default_one") != nil })
	stolen.Store(true)
	d.eventually("it stops", func() bool { return c.leader.Load() == nil })
	before := d.northbound.Transactions()
	d.create(kubePod("two", "l1"))
	d.eventually("the pod is known", func() bool {
		return c.informers.Get(objects.Key{Kind: objects.PodKind, Name: "default/two"}) != nil
	})
	if c.queue.Len() > 0 {
		t.Error("a standby collects")
	}
	if d.northbound.Transactions() != before || d.port("default_two") != nil {
		t.Error("it writes without the Lease")
	}
	stolen.Store(false)
	d.eventually("it leads again", func() bool { return d.port("default_two") != nil })
}

// late is a connection whose writes wait while its line is locked, as those of a suspended process do.
type late struct {
	net.Conn
	line *sync.Mutex
	sent chan struct{}
}

func (l late) Write(b []byte) (int, error) {
	select {
	case l.sent <- struct{}{}:
	default:
	}
	l.line.Lock()
	defer l.line.Unlock()
	return l.Conn.Write(b)
}

// TestSuspendedLeaderIsFencedOff: what it has sent comes to the Northbound after another controller leads, and is not
// written.
func TestSuspendedLeaderIsFencedOff(t *testing.T) {
	t.Parallel()
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("one", "l1"))
	var line sync.Mutex
	sent := make(chan struct{})
	var suspended atomic.Bool
	d.api.PrependReactor("update", "leases", func(a kubetesting.Action) (bool, runtime.Object, error) {
		holder := a.(kubetesting.UpdateAction).GetObject().(*coordinationv1.Lease).Spec.HolderIdentity
		return suspended.Load() && (holder == nil || *holder != "second"), nil, errors.New("it is suspended")
	})
	first := d.startThrough(func(c *controller, ctx context.Context) (database, func(), error) {
		config := ovsdb.Config{Endpoints: d.northbound.Endpoint, Model: ovsdbtest.Northbound(t).Model,
			Tables: northbound.Tables, Logger: c.log, Probe: time.Minute}
		config.Dial = func(ctx context.Context, e ovsdb.Endpoint) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", e.Address)
			return late{conn, &line, sent}, err
		}
		client, err := ovsdb.Connect(ctx, config)
		if err != nil {
			return nil, nil, err
		}
		return engine{ovsdb.NewEngine(client), c.config.Identity}, client.Close, nil
	}, "first", nil)
	d.eventually("the first leads", func() bool { return d.port("default_one") != nil && d.patches() == 2 })
	line.Lock()
	d.create(kubePod("gone", "l1"))
	<-sent
	suspended.Store(true)
	d.eventually("the first's time is over", func() bool { return first.leader.Load() == nil })
	if err := d.api.CoreV1().Pods("default").Delete(context.Background(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.start("second", nil)
	d.create(kubePod("two", "l1"))
	d.eventually("the second leads", func() bool { return d.port("default_two") != nil })
	before := d.northbound.Transactions()
	line.Unlock()
	// The server answers a connection's requests in their order.
	if _, err := first.database.(engine).Client().Transact(t.Context(), libovsdb.Operation{Op: libovsdb.OperationSelect,
		Table: nb.NBGlobalTable}); err != nil {
		t.Fatal(err)
	}
	if after := d.northbound.Transactions(); after != before {
		t.Errorf("%d transactions of a suspended leader; the Northbound:\n%s", after-before, ovsdb.Dump(d.view))
	}
}

// TestForeignHandInTheNorthbound: an operator's slip is put right.
func TestForeignHandInTheNorthbound(t *testing.T) {
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("one", "l1"), web(), webSlice("a", at("10.244.0.3", "l1")))
	d.start("only", nil)
	d.eventually("the pod has a port", func() bool { return d.port("default_one") != nil })
	ovsdbtest.Run(t, "ovn-nbctl", "--db="+d.northbound.Endpoint, "lsp-set-addresses", "default_one", "unknown")
	d.eventually("the port's addresses are back", func() bool {
		p := d.port("default_one")
		return p != nil && len(p.Addresses) == 1 && strings.HasSuffix(p.Addresses[0], "10.244.0.3")
	})
	ovsdbtest.Run(t, "ovn-nbctl", "--db="+d.northbound.Endpoint, "ls-del", "l1")
	d.eventually("the switch is back with its ports", func() bool {
		for _, s := range ovsdb.List[nb.LogicalSwitch](d.view, func(s *nb.LogicalSwitch) bool { return s.Name == "l1" }) {
			return len(s.Ports) == 3
		}
		return false
	})
}

// TestNorthboundAwayAtStart is waited for, and said.
func TestNorthboundAwayAtStart(t *testing.T) {
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("one", "l1"))
	d.northbound.Kill()
	c := d.start("only", func(c *settings.Config) { c.MetricsAddress = freeport.Address(t) })
	d.eventually("it says that it waits", func() bool {
		return strings.Contains(c.page("/readyz"), d.northbound.Endpoint)
	})
	if page := c.page("/healthz"); page != "ok\n" {
		t.Errorf("a restart would not help, but /healthz says %q", page)
	}
	d.northbound.Start()
	d.eventually("the pod has a port", func() bool { return d.port("default_one") != nil })

	d.northbound.Kill()
	d.eventually("it says that the connection is lost", func() bool {
		return strings.Contains(c.page("/readyz"), "is lost")
	})
	d.create(kubePod("two", "l1"))
	d.northbound.Start()
	d.eventually("nothing is lost", func() bool { return d.port("default_one") != nil && d.port("default_two") != nil })
}

func TestRunNamesWhatIsWrong(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	d := deploy(t)
	config := ovntest.Config()
	config.MetricsAddress = taken.Addr().String()
	c, err := newController(config, d.api, d.own, annotateThroughFake(d.api, d.own))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(context.Background(), c.dial); err == nil || !strings.Contains(err.Error(), "metrics-address") {
		t.Errorf("a port in use: %v", err)
	}
	config.MetricsAddress = ""
	c, err = newController(config, d.api, d.own, annotateThroughFake(d.api, d.own))
	if err != nil {
		t.Fatal(err)
	}
	old := errors.New("ovn-northbound: table Logical_Switch lacks a column")
	if err := c.run(context.Background(), func(context.Context) (database, func(), error) {
		return nil, nil, old
	}); !errors.Is(err, old) {
		t.Errorf("a schema that is too old: %v", err)
	}
	if err := Run(context.Background(), settings.Config{Kubeconfig: "/nonexistent"}); err == nil ||
		!strings.Contains(err.Error(), "kubeconfig") {
		t.Errorf("no kubeconfig: %v", err)
	}
}

// page is what the controller serves, with the status where that is not 200.
func (i *instance) page(path string) string {
	response, err := http.Get("http://" + i.config.MetricsAddress + path)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
