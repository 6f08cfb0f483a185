package attach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
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
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/platform/platformtest"
	"github.com/weftnet/weft/node/pods"
)

// bareNode is an attacher on the fake platform and a database in memory, with a stand-in for
// ovs-vswitchd and ovn-controller. It runs on every system.
type bareNode struct {
	*Attacher
	t        *testing.T
	parts    Parts
	platform *platformtest.Fake
	client   *fake.Clientset

	mu      sync.Mutex
	reports []report
}

// report is an Event on a pod.
type report struct {
	pod             cni.Pod
	reason, message string
}

var bareSubnets = []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}

func newBareNode(t *testing.T) *bareNode { return newBareNodeWith(t, nil) }

// newBareNodeWith lets a test change what the attacher starts with.
func newBareNodeWith(t *testing.T, change func(*nodeconfig.Config, *platformtest.Fake)) *bareNode {
	t.Helper()
	config := nodeconfig.Default()
	config.NodeName, config.EncapAddress = "n1", netip.MustParseAddr("172.30.0.1")
	config.HNSNetwork, config.Gateway, config.Chassis = "", "", nodeconfig.ChassisLocal // those of any system
	config.CNITimeout, config.StateDir = 5*time.Second, nodetest.Folder(t)
	n := &bareNode{t: t, platform: platformtest.New(), client: fake.NewClientset()}
	if change != nil {
		change(&config, n.platform)
	}
	watcher, err := pods.New(n.client, config.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	go watcher.Informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), watcher.Informer.HasSynced) {
		t.Fatal("informers")
	}
	state := health.New(func(health.Condition, error) {}, func(reason, message string) {})
	for condition := range state.Problems() {
		state.Set(condition, nil)
	}
	n.parts = Parts{
		Config: config, Platform: n.platform, Database: openvswitchtest.New(t), Pods: watcher,
		Health: state, Rounds: health.NewRounds(), Report: n.report,
		PodSubnets: func() []netip.Prefix { return bareSubnets }, MTU: func() int { return 1442 },
	}
	n.Attacher = New(n.parts)
	if _, err := n.ovs.SetUp(t.Context(), config, func() platform.Uplink { return platform.Uplink{} }); err != nil {
		t.Fatal(err)
	}
	n.until(func() bool { return n.ovs.Bridge(nodeconfig.IntegrationBridge) != nil })
	return n
}

func (n *bareNode) report(pod cni.Pod, _, reason, message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reports = append(n.reports, report{pod, reason, message})
}

func (n *bareNode) reported() []report {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.reports)
}

// event waits for an Event on the pod "web".
func (n *bareNode) event(reason string) (message string) {
	n.t.Helper()
	web := cni.Pod{Namespace: "shop", Name: "web", UID: "u1"}
	nodetest.Eventually(n.t, 10*time.Second, func() error {
		for _, r := range n.reported() {
			if r.reason == reason && r.pod == web {
				message = r.message
				return nil
			}
		}
		return errors.New("no Event " + reason)
	})
	return message
}

// until waits for what events in the replica bring about.
func (n *bareNode) until(condition func() bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Second)
	defer cancel()
	if err := n.ovs.WaitFor(ctx, condition); err != nil {
		n.t.Fatal(err)
	}
}

// lookAgain touches the database so that until asks its condition again.
func (n *bareNode) lookAgain() bool {
	root, err := n.ovs.Root()
	if err != nil {
		n.t.Fatal(err)
	}
	now := map[string]string{"test": fmt.Sprint(time.Now().UnixNano())}
	if _, err := n.ovs.Transact(n.t.Context(), openvswitch.MutateRow(vswitch.OpenvSwitchTable, root.UUID,
		openvswitch.SetKeys("external_ids", root.ExternalIDs, now)...)); err != nil {
		n.t.Fatal(err)
	}
	return false
}

// installFlows does what ovs-vswitchd and ovn-controller do for each new device.
func (n *bareNode) installFlows() {
	go openvswitchtest.InstallFlows(n.t.Context(), n.ovs, n.platform.PortType, n.ovs.Attached)
}

func (n *bareNode) pod(name, uid string, change func(*corev1.Pod)) *cni.Call {
	n.t.Helper()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: apitypes.UID(uid),
		Annotations: map[string]string{
			contract.PodNetworkAnnotation: `{"uid":"` + uid +
				`","mac":"0a:58:0a:f4:01:03","addresses":["10.244.1.3/24"],"gateways":["10.244.1.1"]}`,
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
	return &cni.Call{
		Attachment: cni.Attachment{ContainerID: "c-" + uid, IfName: "eth0"}, Netns: path,
		Pod: cni.Pod{Namespace: "shop", Name: name, UID: uid}, Config: cni.NetworkConfig{Network: "weft"},
	}
}

// empty fails the test unless host and database are without pods.
func (n *bareNode) empty() {
	n.t.Helper()
	if devices, err := n.platform.Endpoints(); err != nil || len(devices) != 0 {
		n.t.Errorf("devices left: %v, %v", devices, err)
	}
	n.until(func() bool { return len(n.ovs.Attached()) == 0 })
}

func code(err error) uint {
	var e *types.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
