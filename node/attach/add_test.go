package attach

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/pods"
)

func TestFailedStepsAreUndone(t *testing.T) {
	for _, step := range []string{"CreateEndpoint", "ConfigureEndpoint"} {
		t.Run(step, func(t *testing.T) {
			n := newBareNode(t)
			n.InstallFlows()
			call := n.Pod("web", "u1", nil)
			n.platform.Failing(step, errors.New("no space left"))
			_, err := n.Add(t.Context(), call)
			if code(err) != types.ErrInternal || !strings.Contains(err.Error(), "no space left") ||
				!strings.Contains(err.Error(), "shop/web") {
				t.Errorf("got %v", err)
			}
			n.empty()
			n.platform.Failing(step, nil)
			if _, err := n.Add(t.Context(), call); err != nil {
				t.Errorf("the repeated ADD: %v", err)
			}
		})
	}
}

func TestFailedRepetitionKeepsTheAttachment(t *testing.T) {
	n := newBareNode(t)
	n.InstallFlows()
	call := n.Pod("web", "u1", nil)
	if _, err := n.Add(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	n.platform.Failing("ConfigureEndpoint", errors.New("interrupted"))
	if _, err := n.Add(t.Context(), call); err == nil {
		t.Error("success though the sandbox could not be configured")
	}
	if _, attached := n.ovs.AttachedDevice(call.Attachment); !attached {
		t.Error("a running pod lost its port")
	}
}

func TestAddThatNobodyWaitsForIsUndone(t *testing.T) {
	n := newBareNode(t) // no flows are installed
	call := n.Pod("web", "u1", nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := n.Add(ctx, call); done <- err }()
	n.Until(func() bool { return len(n.ovs.Attached()) == 1 })
	cancel()
	if err := <-done; code(err) != types.ErrTryAgainLater {
		t.Errorf("got %v", err)
	}
	n.empty()
}

func TestDelThatFailsIsTriedAgain(t *testing.T) {
	n := newBareNode(t)
	n.InstallFlows()
	call := n.Pod("web", "u1", nil)
	if _, err := n.Add(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	n.platform.Failing("DeleteEndpoint", errors.New("busy"))
	if err := n.Del(t.Context(), call); code(err) != types.ErrTryAgainLater || !strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v", err)
	}
	n.platform.Failing("DeleteEndpoint", nil)
	for range 2 {
		if err := n.Del(t.Context(), call); err != nil {
			t.Errorf("got %v", err)
		}
	}
	n.empty()
}

func TestSweepLeavesWhatIsBeingAdded(t *testing.T) {
	n := newBareNode(t)
	n.InstallFlows()
	call := n.Pod("web", "u1", nil)
	if _, err := n.Add(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	n.platform.RemoveSandbox(call.Netns)
	unlock, err := n.sandboxes.lock(t.Context(), cni.HostInterface(call.Attachment)) // as a call in progress does
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(n.sweep(t.Context()), n.GC(t.Context(), "weft", nil)); err != nil {
		t.Fatal(err)
	}
	if _, attached := n.ovs.AttachedDevice(call.Attachment); !attached {
		t.Error("removed under the hands of a call in progress")
	}
	unlock()
	if err := n.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.empty()
}

func TestStaticPodIsKnownByItsHash(t *testing.T) {
	n := newBareNode(t)
	n.InstallFlows()
	n.Pod("etcd", "mirror-uid", func(p *corev1.Pod) { p.Annotations["kubernetes.io/config.hash"] = "static-uid" })
	call := n.Sandbox("etcd", "static-uid")
	if _, err := n.Add(t.Context(), call); err != nil {
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
			n.InstallFlows()
			annotation := contract.PodNetwork{
				UID: uids.written, MAC: "0a:58:0a:f4:01:09", Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.9/24")},
			}
			var object *corev1.Pod
			n.Pod("web", uids.api, func(p *corev1.Pod) {
				object = p
				if uids.kubelet != uids.api {
					p.Annotations["kubernetes.io/config.hash"] = uids.kubelet
				}
				p.Annotations[contract.PodNetworkAnnotation] = contract.Format(annotation)
			})
			call := n.Sandbox("web", uids.kubelet)
			result, done := make(chan *types100.Result, 1), make(chan error, 1)
			go func() { r, err := n.Add(t.Context(), call); result <- r; done <- err }()
			n.Until(func() bool {
				_, err := n.pods.LookUp(call.Pod, n.podSubnets())
				return err != nil && strings.Contains(err.Error(), "for UID") || n.LookAgain()
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
		"no JSON":         {`{"mac"`, "weft.net/pod-network"},
		"bad MAC":         {`{"uid":"u1","mac":"x","addresses":["10.244.1.3/24"]}`, `mac "x"`},
		"no address":      {`{"uid":"u1","mac":"0a:58:0a:f4:01:03"}`, "addresses is empty"},
		"foreign address": {`{"uid":"u1","mac":"0a:58:0a:f4:01:03","addresses":["10.244.2.3/24"]}`, "10.244.2.3/24"},
		"no UID": {`{"mac":"0a:58:0a:f4:01:03","addresses":["10.244.1.3/24"],"gateways":["10.244.1.1"]}`,
			`for UID ""`},
		"another's UID": {`{"uid":"u2","mac":"0a:58:0a:f4:01:03","addresses":["10.244.1.3/24"],"gateways":["10.244.1.1"]}`,
			`for UID "u2"`},
		"useless gateways": {`{"uid":"u1","mac":"0a:58:0a:f4:01:03","addresses":["10.244.1.3/24"],"gateways":["0.0.0.0"]}`,
			"gateways"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBareNode(t)
			n.config.CNITimeout = 50 * time.Millisecond
			call := n.Pod("web", "u1", func(p *corev1.Pod) { p.Annotations[contract.PodNetworkAnnotation] = test.annotation })
			n.Until(func() bool {
				_, err := n.pods.LookUp(call.Pod, n.podSubnets())
				return !errors.Is(err, pods.ErrGone) || n.LookAgain()
			})
			_, err := n.Add(t.Context(), call)
			if code(err) != types.ErrTryAgainLater || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
			n.empty()
		})
	}
}

func TestNodeThatIsNotReady(t *testing.T) {
	n := newBareNode(t)
	n.health.Set(health.Network, errors.New("no pod subnet"))
	if _, err := n.Add(t.Context(), n.Sandbox("web", "u1")); code(err) != types.ErrTryAgainLater ||
		!strings.Contains(err.Error(), "no pod subnet") {
		t.Errorf("ADD: %v", err)
	}
	if err := n.Status(t.Context()); code(err) != cni.ErrNotAvailable {
		t.Errorf("STATUS: %v", err)
	}
	n.health.Set(health.Network, nil)
	n.health.Set(health.Database, errors.New("away"))
	if err := n.Status(t.Context()); err != nil {
		t.Errorf("STATUS of an interruption that an ADD outwaits: %v", err)
	}
	n.health.Patience = 0
	if err := n.Status(t.Context()); code(err) != cni.ErrLimitedConnectivity {
		t.Errorf("STATUS: %v", err)
	}
	n.health.Set(health.Database, nil)
	if err := n.Status(t.Context()); err != nil {
		t.Errorf("STATUS: %v", err)
	}
	fresh := health.New(func(health.Condition, error) {}, func(*reasons.Event, string) {})
	fresh.Set(health.Controller, errors.New("has never run"))
	if fresh.Lasting()[health.Controller] == nil {
		t.Error("a node that has never been ready is taken for one that is interrupted")
	}
}
