package attach

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform/platformtest"
)

// newLateNode is a node whose devices come with their sandboxes, with all of the agent that attends to
// them.
func newLateNode(t *testing.T, change func(*nodeconfig.Config)) *bareNode {
	t.Helper()
	n := newBareNodeWith(t, func(c *nodeconfig.Config, f *platformtest.Fake) {
		f.Deferred = true
		if change != nil {
			change(c)
		}
	})
	n.InstallFlows()
	n.follow()
	return n
}

// follow runs the agent's parts for late devices; stop is a kill.
func (n *bareNode) follow() (stop func()) {
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan struct{}, 2)
	go func() { _ = n.ReconcilePending(ctx); ended <- struct{}{} }()
	go func() { _ = n.platform.Watch(ctx, n.DevicesChanged); ended <- struct{}{} }()
	return func() { cancel(); <-ended; <-ended }
}

func TestDeviceThatComesAfterAdd(t *testing.T) {
	n := newLateNode(t, nil)
	call := n.Pod("web", "u1", nil)
	call.Config.DNS = types.DNS{Nameservers: []string{"10.96.0.10"}}
	n.MustAdd(call)
	n.MustAdd(call) // as kubelet repeats it
	n.Until(func() bool { return n.Port(call) != nil })
	if device := n.Port(call); device.Type != "" || device.ExternalIDs[openvswitch.AttachedKey] != "" {
		t.Errorf("the port has type %q before its device is there: %v", device.Type, device.ExternalIDs)
	}
	n.platform.StartSandbox(call.Netns)
	n.Whole(call)
	n.MustAdd(call)
	n.Whole(call)
	endpoint := n.platform.Device(call.Attachment).Endpoint
	if len(endpoint.DNS.Nameservers) != 1 {
		t.Errorf("the endpoint has lost what the runtime said: %+v", endpoint)
	}
	for range 2 {
		if err := n.Del(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	n.empty()
}

func TestDelComesBeforeTheDevice(t *testing.T) {
	n := newLateNode(t, nil)
	call := n.Pod("web", "u1", nil)
	if err := n.Del(t.Context(), call); err != nil { // before ADD
		t.Fatal(err)
	}
	n.MustAdd(call)
	if err := n.Del(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	n.platform.StartSandbox(call.Netns)
	n.empty()
	n.Until(func() bool { return n.pending.count() == 0 || n.LookAgain() })
}

func TestDeviceThatDoesNotCome(t *testing.T) {
	n := newLateNode(t, func(c *nodeconfig.Config) { c.VNICTimeout = 50 * time.Millisecond })
	call := n.Pod("web", "u1", nil)
	n.MustAdd(call)
	if text := n.event(networkNotAttached); !strings.Contains(text, "has not appeared") ||
		!strings.Contains(text, cni.HostInterface(call.Attachment)) {
		t.Errorf("the Event says %q", text)
	}
	if device := n.Port(call); device == nil || device.Type != "" {
		t.Errorf("the port is %+v", device)
	}
	n.platform.StartSandbox(call.Netns)
	n.Whole(call)
	n.event(networkAttached)
}

// late makes the agent believe that it has waited for the pod's device for long, once what it has found is so.
func (n *bareNode) late(call *cni.Call, found func(*pendingPort) bool) {
	n.t.Helper()
	nodetest.Eventually(n.t, 10*time.Second, func() error {
		n.pending.mu.Lock()
		defer n.pending.mu.Unlock()
		one := n.pending.waiting[cni.HostInterface(call.Attachment)]
		if one == nil || one.busy || !found(one) {
			return errors.New("the agent has not found it so")
		}
		one.since = one.since.Add(-n.config.VNICTimeout)
		return nil
	})
}

func TestDeviceThatCannotBeConfigured(t *testing.T) {
	n := newLateNode(t, nil)
	call := n.Pod("web", "u1", nil)
	n.MustAdd(call)
	busy := errors.New("HNS is busy")
	n.platform.Failing("ConfigureEndpoint", busy)
	n.platform.StartSandbox(call.Netns)
	n.late(call, func(p *pendingPort) bool { return errors.Is(p.problem, busy) })
	if text := n.event(networkNotAttached); !strings.Contains(text, "HNS is busy") {
		t.Errorf("the Event says %q", text)
	}
	n.platform.Failing("ConfigureEndpoint", nil)
	n.Whole(call)
}

func TestDeviceWithoutFlows(t *testing.T) {
	n := newBareNodeWith(t, func(_ *nodeconfig.Config, f *platformtest.Fake) { f.Deferred = true })
	n.follow() // and no flows
	call := n.Pod("web", "u1", nil)
	n.MustAdd(call)
	n.platform.StartSandbox(call.Netns)
	n.late(call, func(*pendingPort) bool { device := n.Port(call); return device != nil && n.arrived(device) })
	if text := n.event(networkNotAttached); !strings.Contains(text, "no flows") {
		t.Errorf("the Event says %q", text)
	}
}

// A network that is lost takes the devices along. Their ports must not keep a type that would have Open
// vSwitch make devices of its own.
func TestDeviceThatGoesAway(t *testing.T) {
	n := newLateNode(t, nil)
	call := n.Pod("web", "u1", nil)
	n.MustAdd(call)
	n.platform.StartSandbox(call.Netns)
	n.Whole(call)
	made := n.platform.Called("CreateEndpoint")
	n.platform.Failing("CreateEndpoint", errors.New("there is no network"))
	n.platform.LoseDevices()
	n.Until(func() bool {
		device := n.Port(call)
		return device.Type == "" && device.ExternalIDs[openvswitch.AttachedKey] == ""
	})
	nodetest.Eventually(t, 10*time.Second, func() error {
		if n.platform.Called("CreateEndpoint") == made {
			return errors.New("the endpoint is not made again")
		}
		return nil
	})
	n.platform.Failing("CreateEndpoint", nil)
	n.Whole(call)
}

// A pod that ends loses its device before its DEL comes. Nobody makes it anew, and nobody is told.
func TestDeviceOfAPodThatEnds(t *testing.T) {
	n := newLateNode(t, func(c *nodeconfig.Config) { c.VNICTimeout = 50 * time.Millisecond })
	call := n.Pod("web", "u1", nil)
	n.MustAdd(call)
	n.platform.StartSandbox(call.Netns)
	n.Whole(call)
	pod, err := n.client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	pod.DeletionTimestamp = &now
	if _, err := n.client.CoreV1().Pods("shop").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Until(func() bool { return n.pods.Leaving(call.Pod) || n.LookAgain() })
	// On a busy machine the device was late, and that was told.
	told := func() int { return len(n.reported()) }
	before, made := told(), n.platform.Called("CreateEndpoint")
	n.platform.LoseDevices()
	n.Until(func() bool { return n.Port(call).Type == "" })
	looks := n.platform.Called("EndpointArrived")
	n.Until(func() bool { return n.platform.Called("EndpointArrived") > looks+1 || n.LookAgain() })
	if n.platform.Called("CreateEndpoint") != made {
		t.Error("the endpoint was made again")
	}
	if err := n.Del(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	n.has()
	if now := told(); now != before {
		t.Errorf("%d Events, and %d before its device went", now, before)
	}
}

// killed replaces the attacher by a new one that knows nothing.
func (n *bareNode) killed(stop func()) {
	n.t.Helper()
	stop()
	n.Attacher = New(n.parts)
	n.follow()
}

// The agent dies at each step of an ADD and after it. Nothing stays that nobody looks after, whether the
// pod goes or lives on.
func TestAgentKilledAtEachStep(t *testing.T) {
	steps := map[string]func(n *bareNode, call *cni.Call) error{
		"record written":  func(n *bareNode, call *cni.Call) error { return n.records.write(recordOf(call)) },
		"endpoint made":   func(n *bareNode, call *cni.Call) error { n.halfDone(call); return nil },
		"port plugged in": func(n *bareNode, call *cni.Call) error { _, err := n.Add(n.t.Context(), call); return err },
		"device arrived": func(n *bareNode, call *cni.Call) error {
			_, err := n.Add(n.t.Context(), call)
			n.platform.StartSandbox(call.Netns)
			return err
		},
		"type set": func(n *bareNode, call *cni.Call) error {
			n.platform.Failing("ConfigureEndpoint", errors.New("killed"))
			_, err := n.Add(n.t.Context(), call)
			n.platform.StartSandbox(call.Netns)
			n.Until(func() bool { device := n.Port(call); return device != nil && device.Type == openvswitch.TypeInternal })
			return err
		},
	}
	for name, reach := range steps {
		t.Run(name+", pod lives on", func(t *testing.T) {
			n := newBareNodeWith(t, func(_ *nodeconfig.Config, f *platformtest.Fake) { f.Deferred = true })
			n.InstallFlows()
			stop := n.follow()
			call := n.Pod("web", "u1", nil)
			if err := reach(n, call); err != nil {
				t.Fatal(err)
			}
			n.platform.Failing("ConfigureEndpoint", nil)
			n.killed(stop)
			n.MustAdd(call) // kubelet has had no answer, or asks again
			n.platform.StartSandbox(call.Netns)
			n.Whole(call)
			n.has(call)
		})
		t.Run(name+", pod goes", func(t *testing.T) {
			n := newBareNodeWith(t, func(_ *nodeconfig.Config, f *platformtest.Fake) { f.Deferred = true })
			n.InstallFlows()
			stop := n.follow()
			call := n.Pod("web", "u1", nil)
			if err := reach(n, call); err != nil {
				t.Fatal(err)
			}
			n.platform.ForgetSandbox(call.Netns)
			n.killed(stop)
			n.Until(func() bool { // what is being worked on is left to the next sweep
				n.mustSweep()
				left, err := n.platform.Endpoints()
				return err == nil && len(left) == 0 || n.LookAgain()
			})
			n.mustSweep()
			n.has()
		})
	}
}

func TestRestartedAgentGoesOnWaiting(t *testing.T) {
	n := newBareNodeWith(t, func(_ *nodeconfig.Config, f *platformtest.Fake) { f.Deferred = true })
	n.InstallFlows()
	stop := n.follow()
	call := n.Pod("web", "u1", nil)
	n.MustAdd(call)
	n.killed(stop)
	n.platform.StartSandbox(call.Netns)
	n.Whole(call)
}

// A database that is lost while a pod waits for its device is no reason to forget it.
func TestLatePodIsPluggedInAgain(t *testing.T) {
	for _, started := range []bool{false, true} {
		n := newLateNode(t, nil)
		call := n.Pod("web", "u1", nil)
		n.MustAdd(call)
		if started {
			n.platform.StartSandbox(call.Netns)
			n.Whole(call)
		}
		n.removePort(call)
		n.mustSweep()
		n.platform.StartSandbox(call.Netns)
		n.Whole(call)
		n.has(call)
	}
}

// The agent looks at a late device all the time. A sweep that comes upon such a look waits for it: nobody else
// gives the device its port back.
func TestSweepWaitsForTheAgentsOwnLook(t *testing.T) {
	n := newBareNodeWith(t, func(_ *nodeconfig.Config, f *platformtest.Fake) { f.Deferred = true })
	n.InstallFlows()
	stop := n.follow()
	call := n.Pod("web", "u1", nil)
	n.MustAdd(call)
	stop() // the test looks itself
	n.removePort(call)
	device := cni.HostInterface(call.Attachment)
	look, _ := n.sandboxes.try(device)
	if look == nil {
		t.Fatal("somebody works on the device")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.sweep(ended); err != nil {
		t.Fatal(err)
	}
	if n.portless[device].IsZero() {
		t.Error("a device that somebody looks at is taken for one that has its port again")
	}
	swept := make(chan error, 1)
	go func() { swept <- n.sweep(t.Context()) }()
	look()
	if err := <-swept; err != nil {
		t.Fatal(err)
	}
	n.Until(func() bool { return n.Port(call) != nil })
}

func TestPodsOnTheHostsNetworkAreNotAttached(t *testing.T) {
	yes := true
	hostProcess := &corev1.WindowsSecurityContextOptions{HostProcess: &yes}
	for name, change := range map[string]func(*corev1.Pod){
		"hostNetwork": func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"hostProcess of the pod": func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: hostProcess}
		},
		"hostProcess of a container": func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{SecurityContext: &corev1.SecurityContext{WindowsOptions: hostProcess}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newLateNode(t, nil)
			call := n.Pod("web", "u1", change)
			if _, err := n.Add(t.Context(), call); code(err) != types.ErrInvalidNetworkConfig ||
				!strings.Contains(err.Error(), "host's network") {
				t.Errorf("got %v", err)
			}
			n.empty()
		})
	}
}
