package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/platform/platformtest"
	"github.com/weftnet/weft/node/pods"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// bareNode is an agent on the fake platform and a database in memory, with a stand-in for
// ovs-vswitchd and ovn-controller. It runs on every system.
type bareNode struct {
	*agent
	t        *testing.T
	platform *platformtest.Fake
	client   *fake.Clientset
}

var bareNetwork = contract.NodeNetwork{ID: 1, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}

func newBareNode(t *testing.T) *bareNode { return newBareNodeWith(t, nil) }

// newBareNodeWith lets a test change what the agent starts with.
func newBareNodeWith(t *testing.T, change func(*nodeconfig.Config, *platformtest.Fake)) *bareNode {
	t.Helper()
	database := ovsdbtest.OpenVSwitch(t)
	ovs := &openvswitch.Database{Client: ovsdbtest.Connect(t, database, ovsdbtest.Memory(t, database), openvswitch.Tables...)}
	if _, err := ovs.Transact(t.Context(), openvswitch.InsertRow(vswitch.OpenvSwitchTable, "", libovsdb.Row{})); err != nil {
		t.Fatal(err)
	}
	config := nodeconfig.Default()
	config.NodeName, config.OVNSouthbound, config.EncapAddress = "n1", "tcp:192.0.2.1:6642", netip.MustParseAddr("172.30.0.1")
	config.CNIConfDir, config.CNITimeout = nodetest.Folder(t), 5*time.Second
	config.HNSNetwork, config.Gateway, config.GatewayBridge, config.Chassis = "", "", "br-ex", nodeconfig.ChassisLocal // those of any system
	config.ConntrackLookup = ""
	config.StateDir, config.DataDir = nodetest.Folder(t), nodetest.Folder(t)
	n := &bareNode{t: t, platform: platformtest.New()}
	if change != nil {
		change(&config, n.platform)
	}
	n.client = fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		contract.NodeNetworkAnnotation: contract.Format(bareNetwork),
	}}})
	var err error
	if n.agent, err = newAgent(config, n.platform, ovs, n.client); err != nil {
		t.Fatal(err)
	}
	go n.pods.Informer.RunWithContext(t.Context())
	go n.node.informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), n.pods.Informer.HasSynced, n.node.informer.HasSynced) {
		t.Fatal("informers")
	}
	n.platform.Management = &platform.Management{}
	n.until(func() bool { return len(ovsdb.List[vswitch.OpenvSwitch](ovs.Client, nil)) == 1 })
	n.health.Set(health.Database, nil)
	n.health.Set(health.Controller, nil)
	n.health.Set(health.Flows, nil) // there is no Open vSwitch that could have any
	go n.install(ovs, func() []*vswitch.Interface {
		return ovsdb.List(ovs.Client, func(i *vswitch.Interface) bool { return i.Name == platform.ManagementDevice })
	})
	n.until(func() bool {
		if config.SharesAdapter() {
			return true // a test's own story
		}
		n.keepOnce(t.Context())
		return n.health.Problems().All() == nil
	})
	return n
}

// until waits for what events in the replica bring about.
func (n *bareNode) until(condition func() bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Second)
	defer cancel()
	if err := n.ovs.WaitFor(ctx, condition); err != nil {
		n.t.Fatalf("%v; problems: %v", err, n.health.Problems().All())
	}
}

// installFlows does what ovs-vswitchd and ovn-controller do for each new device.
func (n *bareNode) installFlows() {
	go n.install(n.ovs, n.ovs.Attached) // a test may replace the agent
}

func (n *bareNode) install(ovs *openvswitch.Database, devices func() []*vswitch.Interface) {
	for n.t.Context().Err() == nil {
		changed := ovs.Changed()
		for _, device := range devices() {
			want := "true"
			if _, pod := openvswitch.AttachmentOf(device); pod && device.Type != n.platform.PortType() {
				want = "" // Open vSwitch has not opened the device
			}
			if device.ExternalIDs[openvswitch.InstalledKey] != want {
				_, _ = ovs.Transact(n.t.Context(), openvswitch.MutateRow(vswitch.InterfaceTable, device.UUID, openvswitch.SetKeys("external_ids", device.ExternalIDs, map[string]string{openvswitch.InstalledKey: want})...))
			}
		}
		select {
		case <-changed:
		case <-n.t.Context().Done():
		}
	}
}

func (n *bareNode) pod(name, uid string, change func(*corev1.Pod)) *cni.Call {
	n.t.Helper()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: apitypes.UID(uid), Annotations: map[string]string{
		contract.PodNetworkAnnotation: `{"uid":"` + uid + `","mac":"0a:58:0a:f4:01:03","addresses":["10.244.1.3/24"],"gateways":["10.244.1.1"]}`,
	}}}
	if change != nil {
		change(object)
	}
	if _, err := n.client.CoreV1().Pods("shop").Create(n.t.Context(), object, metav1.CreateOptions{}); err != nil {
		n.t.Fatal(err)
	}
	return n.sandbox(name, uid)
}

func (n *bareNode) sandbox(name, uid string) *cni.Call {
	path := "/sandbox/" + uid
	n.platform.AddSandbox(path)
	return &cni.Call{Attachment: cni.Attachment{ContainerID: "c-" + uid, IfName: "eth0"}, Netns: path, Pod: cni.Pod{Namespace: "shop", Name: name, UID: uid}, Config: cni.NetworkConfig{Network: "weft"}}
}

// empty fails the test unless host and database are without pods.
func (n *bareNode) empty() {
	n.t.Helper()
	if devices, err := n.platform.Endpoints(); err != nil || len(devices) != 0 {
		n.t.Errorf("devices left: %v, %v", devices, err)
	}
	n.until(func() bool { return len(n.ovs.Attached()) == 0 })
}

func TestFailedStepsAreUndone(t *testing.T) {
	for _, step := range []string{"CreateEndpoint", "ConfigureEndpoint"} {
		t.Run(step, func(t *testing.T) {
			n := newBareNode(t)
			n.installFlows()
			call := n.pod("web", "u1", nil)
			n.platform.Failing(step, errors.New("no space left"))
			_, err := n.attacher.Add(t.Context(), call)
			if code(err) != types.ErrInternal || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "shop/web") {
				t.Errorf("got %v", err)
			}
			n.empty()
			n.platform.Failing(step, nil)
			if _, err := n.attacher.Add(t.Context(), call); err != nil {
				t.Errorf("the repeated ADD: %v", err)
			}
		})
	}
}

func code(err error) uint {
	var e *types.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func TestFailedRepetitionKeepsTheAttachment(t *testing.T) {
	n := newBareNode(t)
	n.installFlows()
	call := n.pod("web", "u1", nil)
	if _, err := n.attacher.Add(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	n.platform.Failing("ConfigureEndpoint", errors.New("interrupted"))
	if _, err := n.attacher.Add(t.Context(), call); err == nil {
		t.Error("success though the sandbox could not be configured")
	}
	if _, attached := n.ovs.AttachedDevice(call.Attachment); !attached {
		t.Error("a running pod lost its port")
	}
}

func TestAddThatNobodyWaitsForIsUndone(t *testing.T) {
	n := newBareNode(t) // no flows are installed
	call := n.pod("web", "u1", nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := n.attacher.Add(ctx, call); done <- err }()
	n.until(func() bool { return len(n.ovs.Attached()) == 1 })
	cancel()
	if err := <-done; code(err) != types.ErrTryAgainLater {
		t.Errorf("got %v", err)
	}
	n.empty()
}

func TestDelThatFailsIsTriedAgain(t *testing.T) {
	n := newBareNode(t)
	n.installFlows()
	call := n.pod("web", "u1", nil)
	if _, err := n.attacher.Add(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	n.platform.Failing("DeleteEndpoint", errors.New("busy"))
	if err := n.attacher.Del(t.Context(), call); code(err) != types.ErrTryAgainLater || !strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v", err)
	}
	n.platform.Failing("DeleteEndpoint", nil)
	for range 2 {
		if err := n.attacher.Del(t.Context(), call); err != nil {
			t.Errorf("got %v", err)
		}
	}
	n.empty()
}

func TestSweepLeavesWhatIsBeingAdded(t *testing.T) {
	n := newBareNode(t)
	n.installFlows()
	call := n.pod("web", "u1", nil)
	if _, err := n.attacher.Add(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	n.platform.RemoveSandbox(call.Netns)
	unlock, err := n.attacher.sandboxes.lock(t.Context(), cni.HostInterface(call.Attachment)) // as a call in progress does
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(n.attacher.sweep(t.Context()), n.attacher.GC(t.Context(), "weft", nil)); err != nil {
		t.Fatal(err)
	}
	if _, attached := n.ovs.AttachedDevice(call.Attachment); !attached {
		t.Error("removed under the hands of a call in progress")
	}
	unlock()
	if err := n.attacher.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.empty()
}

func TestStaticPodIsKnownByItsHash(t *testing.T) {
	n := newBareNode(t)
	n.installFlows()
	n.pod("etcd", "mirror-uid", func(p *corev1.Pod) { p.Annotations["kubernetes.io/config.hash"] = "static-uid" })
	call := n.sandbox("etcd", "static-uid")
	if _, err := n.attacher.Add(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	device, _ := n.ovs.AttachedDevice(call.Attachment)
	if got := device.ExternalIDs["iface-id-ver"]; got != "mirror-uid" {
		t.Errorf("iface-id-ver %q is not the UID that the controller knows", got)
	}
}

// The annotation that came with a pod is not believed; the controller's, which replaces it, is.
func TestAddOutwaitsAnAnnotationThatCameWithThePod(t *testing.T) {
	for name, uids := range map[string]struct{ api, kubelet, written string }{
		"without UID":                {"u1", "u1", ""},
		"static pod, kubelet's UID":  {"mirror-uid", "static-uid", "static-uid"},
		"static pod, an earlier UID": {"mirror-uid", "static-uid", "earlier-uid"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBareNode(t)
			n.installFlows()
			annotation := contract.PodNetwork{
				UID: uids.written, MAC: "0a:58:0a:f4:01:09", Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.9/24")},
			}
			var object *corev1.Pod
			n.pod("web", uids.api, func(p *corev1.Pod) {
				object = p
				if uids.kubelet != uids.api {
					p.Annotations["kubernetes.io/config.hash"] = uids.kubelet
				}
				p.Annotations[contract.PodNetworkAnnotation] = contract.Format(annotation)
			})
			call := n.sandbox("web", uids.kubelet)
			result, done := make(chan *types100.Result, 1), make(chan error, 1)
			go func() { r, err := n.attacher.Add(t.Context(), call); result <- r; done <- err }()
			n.until(func() bool {
				_, err := n.agent.pods.LookUp(call.Pod, n.podSubnets())
				return err != nil && strings.Contains(err.Error(), "for UID") || n.lookAgain()
			})
			if devices, err := n.platform.Endpoints(); err != nil || len(devices) != 0 {
				t.Fatalf("the pod got a device: %v, %v", devices, err)
			}
			annotation.UID, annotation.MAC = uids.api, "0a:58:0a:f4:01:03"
			annotation.Addresses = []netip.Prefix{netip.MustParsePrefix("10.244.1.3/24")}
			object.Annotations[contract.PodNetworkAnnotation] = contract.Format(annotation)
			if _, err := n.client.CoreV1().Pods("shop").Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			r, err := <-result, <-done
			if err != nil || len(r.IPs) != 1 || r.IPs[0].Address.String() != "10.244.1.3/24" {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func TestAnnotationThatSomebodyEdited(t *testing.T) {
	for name, test := range map[string]struct{ annotation, says string }{
		"no JSON":          {`{"mac"`, "weft.net/pod-network"},
		"bad MAC":          {`{"uid":"u1","mac":"x","addresses":["10.244.1.3/24"]}`, `mac "x"`},
		"no address":       {`{"uid":"u1","mac":"0a:58:0a:f4:01:03"}`, "addresses is empty"},
		"foreign address":  {`{"uid":"u1","mac":"0a:58:0a:f4:01:03","addresses":["10.244.2.3/24"]}`, "10.244.2.3/24"},
		"no UID":           {`{"mac":"0a:58:0a:f4:01:03","addresses":["10.244.1.3/24"],"gateways":["10.244.1.1"]}`, `for UID ""`},
		"another's UID":    {`{"uid":"u2","mac":"0a:58:0a:f4:01:03","addresses":["10.244.1.3/24"],"gateways":["10.244.1.1"]}`, `for UID "u2"`},
		"useless gateways": {`{"uid":"u1","mac":"0a:58:0a:f4:01:03","addresses":["10.244.1.3/24"],"gateways":["0.0.0.0"]}`, "gateways"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBareNode(t)
			n.attacher.config.CNITimeout = 50 * time.Millisecond
			call := n.pod("web", "u1", func(p *corev1.Pod) { p.Annotations[contract.PodNetworkAnnotation] = test.annotation })
			n.until(func() bool {
				_, err := n.agent.pods.LookUp(call.Pod, n.podSubnets())
				return !errors.Is(err, pods.ErrGone) || n.lookAgain()
			})
			_, err := n.attacher.Add(t.Context(), call)
			if code(err) != types.ErrTryAgainLater || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
			n.empty()
		})
	}
}

// lookAgain touches the database so that until asks its condition again.
func (n *bareNode) lookAgain() bool {
	root, err := n.ovs.Root()
	if err != nil {
		n.t.Fatal(err)
	}
	_, err = n.ovs.Transact(n.t.Context(), openvswitch.MutateRow(vswitch.OpenvSwitchTable, root.UUID,
		openvswitch.SetKeys("external_ids", root.ExternalIDs, map[string]string{"test": fmt.Sprint(time.Now().UnixNano())})...))
	if err != nil {
		n.t.Fatal(err)
	}
	return false
}

func TestNodeThatIsNotReady(t *testing.T) {
	n := newBareNode(t)
	n.health.Set(health.Network, errors.New("no pod subnet"))
	if _, err := n.attacher.Add(t.Context(), n.sandbox("web", "u1")); code(err) != types.ErrTryAgainLater || !strings.Contains(err.Error(), "no pod subnet") {
		t.Errorf("ADD: %v", err)
	}
	if err := n.attacher.Status(t.Context()); code(err) != cni.ErrNotAvailable {
		t.Errorf("STATUS: %v", err)
	}
	n.health.Set(health.Network, nil)
	n.health.Set(health.Database, errors.New("away"))
	if err := n.attacher.Status(t.Context()); err != nil {
		t.Errorf("STATUS of an interruption that an ADD outwaits: %v", err)
	}
	n.health.Patience = 0
	if err := n.attacher.Status(t.Context()); code(err) != cni.ErrLimitedConnectivity {
		t.Errorf("STATUS: %v", err)
	}
	n.health.Set(health.Database, nil)
	if err := n.attacher.Status(t.Context()); err != nil {
		t.Errorf("STATUS: %v", err)
	}
	fresh := health.New(func(health.Condition, error) {}, func(string, string) {})
	fresh.Set(health.Controller, errors.New("has never run"))
	if fresh.Lasting()[health.Controller] == nil {
		t.Error("a node that has never been ready is taken for one that is interrupted")
	}
}

func TestEndpointsTellHowTheNodeIs(t *testing.T) {
	n := newBareNode(t)
	n.installFlows()
	if _, err := n.attacher.Add(t.Context(), n.pod("web", "u1", nil)); err != nil {
		t.Fatal(err)
	}
	n.attacher.observeRequest("NONSENSE", 4, time.Second)
	get := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		n.endpoints().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	if status, body := get("/readyz"); status != http.StatusOK {
		t.Errorf("readyz %d %s", status, body)
	}
	_, text := get("/metrics")
	for _, want := range []string{"weft_attached_interfaces 1", "weft_node_ready 1", `weft_cni_add_phase_seconds_count{phase="flows"} 1`, `weft_cni_request_seconds_count{code="4",verb="unknown"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	n.health.Set(health.Controller, errors.New("ovn-controller is not running"))
	if status, body := get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "ovn-controller is not running") {
		t.Errorf("readyz %d %s", status, body)
	}
	if status, _ := get("/healthz"); status != http.StatusOK {
		t.Errorf("healthz %d", status)
	}
}

func TestFactsFollowTheConfiguration(t *testing.T) {
	n := newBareNode(t)
	n.config.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.5/24")}
	n.config.GatewayNextHops = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	n.config.GatewayInterface = "ex0"
	n.gateway.config = n.config
	n.keepOnce(t.Context())
	n.until(func() bool { // the bridge first, its device when the bridge is there
		n.keepOnce(t.Context())
		bridge, port := n.ovs.Bridge("br-ex"), n.ovs.Port("ex0")
		return bridge != nil && port != nil && n.ovs.BridgeOf(port.UUID) != nil && n.ovs.BridgeOf(port.UUID).Name == "br-ex"
	})
	root, err := n.ovs.Root()
	if err != nil || root.ExternalIDs["ovn-bridge-mappings"] != "external:br-ex" {
		t.Errorf("settings %v, %v", root, err)
	}
	node, err := n.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var facts contract.NodeFacts
	if err := json.Unmarshal([]byte(node.Annotations[contract.NodeFactsAnnotation]), &facts); err != nil {
		t.Fatal(err)
	}
	if facts.Gateway == nil || facts.Gateway.Network != "external" || facts.Gateway.MAC != "0a:58:c0:00:02:05" || facts.MTU != 1442 || facts.Chassis != "n1" {
		t.Errorf("facts %+v", facts)
	}
	n.platform.Change(func() { n.platform.MTU = 1000 })
	n.keepOnce(t.Context())
	if err := n.health.Problems()[health.Facts]; err == nil || !strings.Contains(err.Error(), "uplink-mtu") {
		t.Errorf("an uplink too small for IPv6: %v", err)
	}
}

func TestForeignRowsAreLeftAlone(t *testing.T) {
	n := newBareNode(t)
	root, err := n.ovs.Root()
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.ovs.Transact(t.Context(), append(openvswitch.InsertPort("Other/1", "other0", openvswitch.DeviceSettings{}),
		openvswitch.MutateRow(vswitch.BridgeTable, n.ovs.Bridge(nodeconfig.IntegrationBridge).UUID, openvswitch.AddTo("ports", ovsdb.ID(vswitch.PortTable, "Other/1", "other0"))),
		openvswitch.MutateRow(vswitch.OpenvSwitchTable, root.UUID, openvswitch.SetKeys("external_ids", root.ExternalIDs, map[string]string{"system-id": "theirs", "ovn-bridge-mappings": "storage:br-st"})...))...)
	if err != nil {
		t.Fatal(err)
	}
	n.until(func() bool { return n.ovs.Port("other0") != nil })
	n.config.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.5/24")}
	n.config.GatewayInterface = "other0"
	n.gateway.config = n.config
	n.keepOnce(t.Context())
	if err := n.attacher.GC(t.Context(), "weft", nil); err != nil {
		t.Fatal(err)
	}
	n.until(func() bool {
		n.keepOnce(t.Context())
		root, err := n.ovs.Root()
		return err == nil && root.ExternalIDs["system-id"] == "theirs" && root.ExternalIDs["ovn-bridge-mappings"] == "external:br-ex,storage:br-st"
	})
	n.keepOnce(t.Context())
	if err := n.health.Problems()[health.Bridges]; err == nil || !strings.Contains(err.Error(), "del-port br-int other0") {
		t.Errorf("took a port from another bridge: %v", err)
	}
	if holder := n.ovs.BridgeOf(n.ovs.Port("other0").UUID); holder == nil || holder.Name != nodeconfig.IntegrationBridge {
		t.Errorf("the port moved to %v", holder)
	}
}
