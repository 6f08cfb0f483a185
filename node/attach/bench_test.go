package attach

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/attach/attachtest"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/platform/platformtest"
	"github.com/weftnet/weft/node/pods"
)

// bareNode is an attacher on the fake platform and a database in memory, with a stand-in for
// ovs-vswitchd and ovn-controller. It runs on every system.
type bareNode struct {
	*Attacher
	*attachtest.Node
	t        *testing.T
	parts    Parts
	platform *platformtest.Fake
	client   *fake.Clientset

	mu      sync.Mutex
	reports []report
}

// report is an Event on a pod.
type report struct {
	pod     cni.Pod
	reason  *reasons.Event
	message string
}

var bareSubnets = []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}

func newBareNode(t *testing.T) *bareNode { return newBareNodeWith(t, nil) }

// newBareNodeWith lets a test change what the attacher starts with.
func newBareNodeWith(t *testing.T, change func(*nodeconfig.Config, *platformtest.Fake)) *bareNode {
	t.Helper()
	config := nodeconfig.Default()
	config.NodeName, config.EncapAddress = "n1", netip.MustParseAddr("172.30.0.1")
	config.HNSNetwork, config.Gateway, config.Chassis = "", "", nodeconfig.ChassisLocal // those of any system
	config.CNITimeout, config.StateDir = nodetest.Patience, nodetest.Folder(t)
	config.CNIConfDir, config.CNICacheDir = nodetest.Folder(t), nodetest.Folder(t)
	n := &bareNode{t: t, platform: platformtest.New(), client: nodetest.FakeAPI()}
	if change != nil {
		change(&config, n.platform)
	}
	watcher, err := pods.New(n.client, nil, config.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	go watcher.Informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), watcher.Informer.HasSynced) {
		t.Fatal("informers")
	}
	state := health.New(func(health.Condition, error) {}, func(*reasons.Event, string) {})
	for condition := range state.Problems() {
		state.Set(condition, nil)
	}
	n.parts = Parts{
		Config: config, Platform: n.platform, Database: openvswitchtest.New(t), Pods: watcher,
		Health: state, Rounds: health.NewRounds(), Report: n.report,
		PodSubnets: func() []netip.Prefix { return bareSubnets }, MTU: func() int { return 1442 },
	}
	n.Attacher = New(n.parts)
	n.Node = &attachtest.Node{T: t, Platform: n.platform, Client: n.client, Database: n.ovs, Health: state,
		Attach: func(ctx context.Context, call *cni.Call) error { _, err := n.Add(ctx, call); return err }}
	if _, err := n.ovs.SetUp(t.Context(), config, func() platform.Uplink { return platform.Uplink{} }); err != nil {
		t.Fatal(err)
	}
	n.Until(func() bool { return n.ovs.Bridge(nodeconfig.IntegrationBridge) != nil })
	return n
}

func (n *bareNode) report(pod cni.Pod, reason *reasons.Event, message string) {
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
func (n *bareNode) event(reason *reasons.Event) (message string) {
	n.t.Helper()
	web := cni.Pod{Namespace: "shop", Name: "web", UID: "u1"}
	nodetest.Eventually(n.t, 10*time.Second, func() error {
		for _, r := range n.reported() {
			if r.reason == reason && r.pod == web {
				message = r.message
				return nil
			}
		}
		return errors.New("no Event " + reason.Name)
	})
	return message
}

// empty fails the test unless host and database are without pods.
func (n *bareNode) empty() {
	n.t.Helper()
	if devices, err := n.platform.Endpoints(); err != nil || len(devices) != 0 {
		n.t.Errorf("devices left: %v, %v", devices, err)
	}
	n.Until(func() bool { return len(n.ovs.Attached()) == 0 })
}

func code(err error) uint {
	var e *types.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
