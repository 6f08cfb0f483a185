package node

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/attach/attachtest"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/platform/platformtest"
	"github.com/weftnet/weft/ovsdb"
)

// bareNode is an agent on the fake platform and a database in memory, with a stand-in for
// ovs-vswitchd and ovn-controller. It runs on every system.
type bareNode struct {
	*agent
	*attachtest.Node
	t        *testing.T
	platform *platformtest.Fake
	client   *fake.Clientset
	own      *dynamicfake.FakeDynamicClient
}

var bareNetwork = contract.NodeNetwork{ID: 1, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")},
	ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}

func newBareNode(t *testing.T) *bareNode { return newBareNodeWith(t, nil) }

// newBareNodeWith lets a test change what the agent starts with.
func newBareNodeWith(t *testing.T, change func(*nodeconfig.Config, *platformtest.Fake)) *bareNode {
	t.Helper()
	ovs := openvswitchtest.New(t)
	config := nodeconfig.Default()
	config.NodeName, config.OVNSouthbound, config.EncapAddress = "n1", "tcp:192.0.2.1:6642", netip.MustParseAddr(
		"172.30.0.1")
	config.CNIConfDir, config.CNICacheDir, config.CNITimeout = nodetest.Folder(t), nodetest.Folder(t), nodetest.Patience
	// those of any system
	config.HNSNetwork, config.Gateway, config.GatewayBridge, config.Chassis = "", "", "br-ex", nodeconfig.ChassisLocal
	config.ConntrackLookup = ""
	config.StateDir, config.DataDir = nodetest.Folder(t), nodetest.Folder(t)
	n := &bareNode{t: t, platform: platformtest.New()}
	if change != nil {
		change(&config, n.platform)
	}
	n.client = nodetest.FakeAPI(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		contract.NodeNetworkAnnotation: contract.Format(bareNetwork),
	}}})
	n.own = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{v1alpha1.PodNetworksResource: "PodNetworksList"})
	nodetest.WithoutGaps(n.own)
	var err error
	if n.agent, err = newAgent(config, n.platform, ovs, n.client, n.own); err != nil {
		t.Fatal(err)
	}
	n.Node = &attachtest.Node{T: t, Platform: n.platform, Client: n.client, Database: ovs, Health: n.health,
		Attach: func(ctx context.Context, call *cni.Call) error { _, err := n.attacher.Add(ctx, call); return err }}
	go n.pods.Run(t.Context())
	go n.node.informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), n.pods.Informer.HasSynced, n.node.informer.HasSynced) {
		t.Fatal("informers")
	}
	n.platform.Management = &platform.Management{}
	n.health.Set(health.Database, nil)
	n.health.Set(health.Controller, nil)
	n.health.Set(health.Flows, nil) // there is no Open vSwitch that could have any
	go openvswitchtest.InstallFlows(t.Context(), ovs, n.platform.PortType, func() []*vswitch.Interface {
		return ovsdb.List(ovs.Client, func(i *vswitch.Interface) bool { return i.Name == platform.ManagementDevice })
	})
	n.Until(func() bool {
		if config.SharesAdapter() {
			return true // a test's own story
		}
		n.reconcileOnce(t.Context())
		return n.health.Problems().All() == nil
	})
	return n
}

func TestEndpointsTellHowTheNodeIs(t *testing.T) {
	n := newBareNode(t)
	n.InstallFlows()
	if _, err := n.attacher.Add(t.Context(), n.Pod("web", "u1", nil)); err != nil {
		t.Fatal(err)
	}
	n.attacher.ObserveRequest("NONSENSE", 4, time.Second)
	get := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		n.probes().Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	if status, body := get("/readyz"); status != http.StatusOK {
		t.Errorf("readyz %d %s", status, body)
	}
	_, text := get("/metrics")
	for _, want := range []string{"weft_attached_interfaces 1", "weft_node_ready 1",
		`weft_cni_add_phase_seconds_count{phase="flows"} 1`, `weft_cni_request_seconds_count{code="4",verb="unknown"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	n.health.Set(health.Controller, errors.New("ovn-controller is not running"))
	if status, body := get("/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "ovn-controller is not running") {
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
	n.gateway.Config = n.config
	n.reconcileOnce(t.Context())
	n.Until(func() bool { // the bridge first, its device when the bridge is there
		n.reconcileOnce(t.Context())
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
	if facts.Gateway == nil || facts.Gateway.Network != "external" || facts.Gateway.MAC != "0a:58:c0:00:02:05" ||
		facts.MTU != 1442 || facts.Chassis != "n1" {
		t.Errorf("facts %+v", facts)
	}
	n.platform.Change(func() { n.platform.MTU = 1000 })
	n.reconcileOnce(t.Context())
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
		openvswitch.MutateRow(vswitch.BridgeTable, n.ovs.Bridge(nodeconfig.IntegrationBridge).UUID,
			openvswitch.AddTo("ports", ovsdb.ID(vswitch.PortTable, "Other/1", "other0"))),
		openvswitch.MutateRow(vswitch.OpenvSwitchTable, root.UUID,
			openvswitch.SetKeys("external_ids", root.ExternalIDs,
				map[string]string{"system-id": "theirs", "ovn-bridge-mappings": "storage:br-st"})...))...)
	if err != nil {
		t.Fatal(err)
	}
	n.Until(func() bool { return n.ovs.Port("other0") != nil })
	n.config.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.5/24")}
	n.config.GatewayInterface = "other0"
	n.gateway.Config = n.config
	n.reconcileOnce(t.Context())
	if err := n.attacher.GC(t.Context(), "weft", nil); err != nil {
		t.Fatal(err)
	}
	n.Until(func() bool {
		n.reconcileOnce(t.Context())
		root, err := n.ovs.Root()
		return err == nil && root.ExternalIDs["system-id"] == "theirs" &&
			root.ExternalIDs["ovn-bridge-mappings"] == "external:br-ex,storage:br-st"
	})
	n.reconcileOnce(t.Context())
	if err := n.health.Problems()[health.Bridges]; err == nil || !strings.Contains(err.Error(), "del-port br-int other0") {
		t.Errorf("took a port from another bridge: %v", err)
	}
	if holder := n.ovs.BridgeOf(n.ovs.Port("other0").UUID); holder == nil || holder.Name != nodeconfig.IntegrationBridge {
		t.Errorf("the port moved to %v", holder)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
