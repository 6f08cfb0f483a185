// Package attachtest is for tests that attach pods on a node which is bare: a fake platform, a database in memory and a
// fake API server. It runs on every system.
package attachtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
	"github.com/weftnet/weft/node/platform/platformtest"
)

// Node is a node, and what a test does on it.
type Node struct {
	T        *testing.T
	Platform *platformtest.Fake
	Client   kubernetes.Interface
	Database *openvswitch.Database
	Health   *health.Tracker
	// Attach is the CNI plugin's ADD.
	Attach func(context.Context, *cni.Call) error
}

// Until waits for what events in the replica bring about.
func (n *Node) Until(condition func() bool) {
	n.T.Helper()
	ctx, cancel := context.WithTimeout(n.T.Context(), nodetest.Patience)
	defer cancel()
	if err := n.Database.WaitFor(ctx, condition); err != nil {
		n.T.Fatalf("%v; problems: %v", err, n.Health.Problems().All())
	}
}

// LookAgain touches the database so that Until asks its condition again. It returns false.
func (n *Node) LookAgain() bool {
	root, err := n.Database.Root()
	if err != nil {
		n.T.Fatal(err)
	}
	now := map[string]string{"test": fmt.Sprint(time.Now().UnixNano())}
	if _, err := n.Database.Transact(n.T.Context(), openvswitch.MutateRow(vswitch.OpenvSwitchTable, root.UUID,
		openvswitch.SetKeys("external_ids", root.ExternalIDs, now)...)); err != nil {
		n.T.Fatal(err)
	}
	return false
}

// InstallFlows does what ovs-vswitchd and ovn-controller do for each new device.
func (n *Node) InstallFlows() {
	go openvswitchtest.InstallFlows(n.T.Context(), n.Database, n.Platform.PortType, n.Database.Attached)
}

// Pod makes a pod of namespace "shop" with its addresses, and its sandbox.
func (n *Node) Pod(name, uid string, change func(*corev1.Pod)) *cni.Call {
	n.T.Helper()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid),
		Annotations: map[string]string{
			contract.PodNetworkAnnotation: `{"uid":"` + uid +
				`","mac":"0a:58:0a:f4:01:03","addresses":["10.244.1.3/24"],"gateways":["10.244.1.1"]}`,
		}}}
	if change != nil {
		change(object)
	}
	if _, err := n.Client.CoreV1().Pods("shop").Create(n.T.Context(), object, metav1.CreateOptions{}); err != nil {
		n.T.Fatal(err)
	}
	return n.Sandbox(name, uid)
}

// Sandbox makes a pod's sandbox. It returns the call that attaches it.
func (n *Node) Sandbox(name, uid string) *cni.Call {
	path := "/sandbox/" + uid
	n.Platform.AddSandbox(path)
	return &cni.Call{
		Attachment: cni.Attachment{ContainerID: "c-" + uid, IfName: "eth0"}, Netns: path,
		Pod: cni.Pod{Namespace: "shop", Name: name, UID: uid}, Config: cni.NetworkConfig{Network: "weft"},
	}
}

// MustAdd attaches a pod.
func (n *Node) MustAdd(call *cni.Call) {
	n.T.Helper()
	if err := n.Attach(n.T.Context(), call); err != nil {
		n.T.Fatal(err)
	}
}

// Port is a pod's interface, nil if it has none.
func (n *Node) Port(call *cni.Call) *vswitch.Interface {
	device, _ := n.Database.AttachedDevice(call.Attachment)
	return device
}

// Whole waits until a pod has all that it is to have.
func (n *Node) Whole(call *cni.Call) {
	n.T.Helper()
	n.Until(func() bool {
		device := n.Port(call)
		return device != nil && device.Type == n.Platform.PortType() &&
			device.ExternalIDs[openvswitch.AttachedKey] == "true" && device.ExternalIDs[openvswitch.InstalledKey] == "true"
	})
	if device := n.Platform.Device(call.Attachment); !device.Configured || device.Endpoint.MTU != 1442 {
		n.T.Errorf("the device is %+v", device)
	}
}
