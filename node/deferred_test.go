package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform/platformtest"
)

// newDeferredNode is a node whose devices come with their sandboxes, with all of the agent that attends to
// them.
func newDeferredNode(t *testing.T, change func(*nodeconfig.Config)) *bareNode {
	t.Helper()
	n := newBareNodeWith(t, func(c *nodeconfig.Config, f *platformtest.Fake) {
		f.Deferred = true
		if change != nil {
			change(c)
		}
	})
	n.installFlows()
	n.follow()
	return n
}

// follow runs the agent's parts for late devices; stop is a kill.
func (n *bareNode) follow() (stop func()) {
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan struct{}, 2)
	go func() { _ = n.attacher.ReconcilePending(ctx); ended <- struct{}{} }()
	go func() { _ = n.watchPlatform(ctx); ended <- struct{}{} }()
	stopEvents := n.events.start(n.client)
	n.t.Cleanup(stopEvents)
	return func() { cancel(); <-ended; <-ended }
}

func (n *bareNode) port(call *cni.Call) *vswitch.Interface {
	device, _ := n.ovs.AttachedDevice(call.Attachment)
	return device
}

func (n *bareNode) mustAdd(call *cni.Call) {
	n.t.Helper()
	if _, err := n.attacher.Add(n.t.Context(), call); err != nil {
		n.t.Fatal(err)
	}
}

// whole waits until a pod has all that it is to have.
func (n *bareNode) whole(call *cni.Call) {
	n.t.Helper()
	n.until(func() bool {
		device := n.port(call)
		return device != nil && device.Type == n.platform.PortType() &&
			device.ExternalIDs[openvswitch.AttachedKey] == "true" && device.ExternalIDs[openvswitch.InstalledKey] == "true"
	})
	device := n.platform.Device(call.Attachment)
	if !device.Configured || device.Endpoint.MTU != 1442 {
		n.t.Errorf("the device is %+v", device)
	}
}

// event waits for an Event on a pod.
func (n *bareNode) event(reason string) string {
	n.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		list, err := n.client.CoreV1().Events("shop").List(n.t.Context(), metav1.ListOptions{})
		if err != nil {
			n.t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == "web" &&
				e.InvolvedObject.UID == "u1" {
				return e.Message
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	n.t.Fatalf("no Event %s", reason)
	return ""
}

func TestPodsAreToldByEvents(t *testing.T) {
	n := newDeferredNode(t, func(c *nodeconfig.Config) { c.VNICTimeout = 50 * time.Millisecond })
	call := n.pod("web", "u1", nil)
	n.mustAdd(call)
	if text := n.event("NetworkNotAttached"); !strings.Contains(text, "has not appeared") ||
		!strings.Contains(text, cni.HostInterface(call.Attachment)) {
		t.Errorf("the Event says %q", text)
	}
	if device := n.port(call); device == nil || device.Type != "" {
		t.Errorf("the port is %+v", device)
	}
	n.platform.StartSandbox(call.Netns)
	n.whole(call)
	n.event("NetworkAttached")
	recorder := httptest.NewRecorder()
	n.probes().Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"weft_arrival_seconds_count 1", "weft_late_arrivals_total 1",
		"weft_vanished_devices_total 0", "weft_pending_arrivals 0"} {
		if !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("no %s in\n%s", want, recorder.Body)
		}
	}
}
