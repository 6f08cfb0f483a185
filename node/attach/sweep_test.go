package attach

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
)

// attached is a pod with its sandbox, attached to a network.
func (n *bareNode) attached(name, uid, network string) *cni.Call {
	n.t.Helper()
	call := n.Pod(name, uid, nil)
	call.Config.Network = network
	if _, err := n.Add(n.t.Context(), call); err != nil {
		n.t.Fatal(err)
	}
	return call
}

// halfDone is what an ADD leaves that is killed before it has plugged its device in.
func (n *bareNode) halfDone(call *cni.Call) {
	n.t.Helper()
	endpoint := platform.Endpoint{Attachment: call.Attachment, Device: cni.HostInterface(call.Attachment),
		Sandbox: call.Netns}
	if err := errors.Join(n.records.write(recordOf(call)),
		n.platform.CreateEndpoint(n.t.Context(), endpoint)); err != nil {
		n.t.Fatal(err)
	}
}

func (n *bareNode) mustSweep() {
	n.t.Helper()
	if err := n.sweep(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

// has compares the host's devices, the ports and the records with those of calls.
func (n *bareNode) has(calls ...*cni.Call) {
	n.t.Helper()
	want := []string{}
	for _, call := range calls {
		want = append(want, cni.HostInterface(call.Attachment))
	}
	slices.Sort(want)
	if devices, err := n.platform.Endpoints(); err != nil || !slices.Equal(devices, want) {
		n.t.Errorf("devices %v, want %v, error %v", devices, want, err)
	}
	records, err := n.records.list()
	recorded := []string{}
	for _, one := range records {
		recorded = append(recorded, one.device())
	}
	slices.Sort(recorded)
	if err != nil || !slices.Equal(recorded, want) {
		n.t.Errorf("records %v, want %v, error %v", recorded, want, err)
	}
	n.Until(func() bool {
		ports := []string{}
		for _, device := range n.ovs.Attached() {
			ports = append(ports, device.Name)
		}
		slices.Sort(ports)
		return slices.Equal(ports, want)
	})
}

func (n *bareNode) removePort(call *cni.Call) {
	n.t.Helper()
	if err := n.ovs.Unplug(n.t.Context(), call.Attachment); err != nil {
		n.t.Fatal(err)
	}
	n.Until(func() bool { _, attached := n.ovs.AttachedDevice(call.Attachment); return !attached })
}

func TestGCLeavesOtherNetworksAlone(t *testing.T) {
	n := newBareNode(t)
	n.InstallFlows()
	kept, stale, other := n.attached("kept", "u1", "weft"), n.attached("stale", "u2", "weft"), n.attached("other", "u3",
		"storage")
	half := n.Sandbox("half", "u4")
	n.halfDone(half)
	if err := n.GC(t.Context(), "weft", map[cni.Attachment]bool{kept.Attachment: true}); err != nil {
		t.Fatal(err)
	}
	n.has(kept, other)
	if err := n.GC(t.Context(), "storage", nil); err != nil {
		t.Fatal(err)
	}
	n.has(kept)
	if _, attached := n.ovs.AttachedDevice(stale.Attachment); attached {
		t.Error("the stale attachment is left")
	}
}

// While a device waits for its vNIC the agent looks at it again and again.
func TestGCWaitsForTheAgentsOwnWork(t *testing.T) {
	n := newBareNode(t)
	n.InstallFlows()
	stale := n.attached("stale", "u1", "weft")
	unlock, _ := n.sandboxes.try(cni.HostInterface(stale.Attachment))
	done := make(chan error)
	go func() { done <- n.GC(t.Context(), "weft", nil) }()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	n.has()
}

// Without any GC nothing stays for good.
func TestSweepRemovesDevicesWithoutPort(t *testing.T) {
	n := newBareNode(t)
	n.InstallFlows()
	running := n.attached("running", "u1", "weft")
	half, unknown, busy := n.Sandbox("half", "u2"), n.Sandbox("unknown", "u3"), n.Sandbox("busy", "u4")
	gone := n.Sandbox("gone", "u5")
	for _, call := range []*cni.Call{half, unknown, busy, gone} {
		n.halfDone(call)
	}
	if err := n.records.remove(cni.HostInterface(unknown.Attachment)); err != nil {
		t.Fatal(err)
	}
	unlock, err := n.sandboxes.lock(t.Context(), cni.HostInterface(busy.Attachment))
	if err != nil {
		t.Fatal(err)
	}
	n.platform.ForgetSandbox(gone.Netns)
	devices := func() int { all, _ := n.platform.Endpoints(); return len(all) }

	n.mustSweep()
	n.mustSweep()
	if got := devices(); got != 4 {
		t.Fatalf("%d devices; only the one whose sandbox is gone must go before its time", got)
	}
	n.portlessTime = time.Nanosecond
	n.mustSweep()
	if got := devices(); got != 2 {
		t.Fatalf("%d devices; the running pod's and the one that a call works on must stay", got)
	}
	unlock()
	n.mustSweep()
	n.mustSweep()
	n.has(running)
}

func TestSweepPlugsARunningPodInAgain(t *testing.T) {
	n := newBareNode(t)
	n.InstallFlows()
	n.portlessTime = time.Nanosecond
	call := n.attached("web", "u1", "weft")
	before, _ := n.ovs.AttachedDevice(call.Attachment)
	n.removePort(call)
	n.mustSweep()
	n.has(call)
	after, _ := n.ovs.AttachedDevice(call.Attachment)
	for _, key := range []string{"iface-id", "iface-id-ver", "attached_mac", openvswitch.SandboxKey,
		openvswitch.NetnsKey, openvswitch.NetworkKey} {
		if after.ExternalIDs[key] != before.ExternalIDs[key] || after.ExternalIDs[key] == "" {
			t.Errorf("%s is %q, was %q", key, after.ExternalIDs[key], before.ExternalIDs[key])
		}
	}
}

// A record that is lost, of a static pod at that, is written anew while the database still has all.
func TestSweepKeepsRecords(t *testing.T) {
	n := newBareNode(t)
	n.InstallFlows()
	n.Pod("etcd", "mirror-uid", func(p *corev1.Pod) { p.Annotations["kubernetes.io/config.hash"] = "static-uid" })
	call := n.Sandbox("etcd", "static-uid")
	if _, err := n.Add(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if err := n.records.remove(cni.HostInterface(call.Attachment)); err != nil {
		t.Fatal(err)
	}
	n.mustSweep()
	n.removePort(call)
	n.mustSweep()
	n.has(call)
	device, _ := n.ovs.AttachedDevice(call.Attachment)
	if device.ExternalIDs["iface-id-ver"] != "mirror-uid" || device.ExternalIDs[openvswitch.NetworkKey] != "weft" {
		t.Errorf("plugged in as %v", device.ExternalIDs)
	}
}

// A device is plugged in again only for the pod that has it now.
func TestSweepPlugsNothingInThatIsNotThePods(t *testing.T) {
	for name, spoil := range map[string]func(n *bareNode, call *cni.Call) error{
		"another sandbox has the port": func(n *bareNode, call *cni.Call) error {
			newer := n.Sandbox("web", "u1")
			newer.Attachment.ContainerID, newer.Netns = "c-newer", "/sandbox/newer"
			n.platform.AddSandbox(newer.Netns)
			_, err := n.Add(n.t.Context(), newer)
			return err
		},
		"the device has other addresses": func(n *bareNode, call *cni.Call) error {
			n.platform.Change(func() {
				n.platform.Devices[cni.HostInterface(call.Attachment)].Endpoint.MAC = contract.MAC(bareSubnets[0].Addr())
			})
			return nil
		},
		"the record is spoilt": func(n *bareNode, call *cni.Call) error {
			return os.WriteFile(n.records.path(cni.HostInterface(call.Attachment)), []byte("{"), 0o600)
		},
		"the record is another's": func(n *bareNode, call *cni.Call) error {
			return os.Rename(n.records.path(cni.HostInterface(call.Attachment)),
				filepath.Join(n.records.folder, "weft00000000000.json"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBareNode(t)
			n.InstallFlows()
			call := n.attached("web", "u1", "weft")
			n.removePort(call)
			if err := spoil(n, call); err != nil {
				t.Fatal(err)
			}
			n.mustSweep()
			if _, attached := n.ovs.AttachedDevice(call.Attachment); attached {
				t.Error("plugged in")
			}
			if devices, _ := n.platform.Endpoints(); !slices.Contains(devices, cni.HostInterface(call.Attachment)) {
				t.Error("removed before its time")
			}
		})
	}
}

// What the agent itself does to a device ends soon and repeats: whoever passes it by each time never gets to it.
func TestSweepWaitsForTheAgentsOwnWork(t *testing.T) {
	for name, leave := range map[string]func(n *bareNode) *cni.Call{
		"a port without record": func(n *bareNode) *cni.Call {
			call := n.attached("web", "u1", "weft")
			if err := n.records.remove(cni.HostInterface(call.Attachment)); err != nil {
				t.Fatal(err)
			}
			return call
		},
		"a device without port": func(n *bareNode) *cni.Call {
			call := n.Sandbox("web", "u1")
			n.halfDone(call)
			if err := n.records.remove(cni.HostInterface(call.Attachment)); err != nil {
				t.Fatal(err)
			}
			n.mustSweep()
			n.portlessTime = time.Nanosecond
			return call
		},
		"a record without device": func(n *bareNode) *cni.Call {
			call := n.Sandbox("web", "u1")
			if err := n.records.write(recordOf(call)); err != nil {
				t.Fatal(err)
			}
			return call
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBareNode(t)
			n.InstallFlows()
			device := cni.HostInterface(leave(n).Attachment)
			unlock, _ := n.sandboxes.try(device)
			ended, end := context.WithCancel(t.Context())
			end()
			if err := n.sweep(ended); !errors.Is(err, context.Canceled) {
				t.Fatalf("it did not wait for the work on %s: %v", device, err)
			}
			unlock()
			n.mustSweep()
			if name == "a port without record" {
				if _, err := n.records.read(device); err != nil {
					t.Errorf("no record: %v", err)
				}
				return
			}
			n.has()
		})
	}
}

func TestSweepForgetsRecordsWithoutDevice(t *testing.T) {
	n := newBareNode(t)
	call := n.Sandbox("web", "u1")
	if err := n.records.write(recordOf(call)); err != nil {
		t.Fatal(err)
	}
	n.mustSweep()
	n.has()
}

// TestSweepLooksAgain: between the sweep's look and its turn an ADD may have plugged the device in.
func TestSweepLooksAgain(t *testing.T) {
	for name, collect := range map[string]func(n *bareNode, call *cni.Call) error{
		"a record": func(n *bareNode, call *cni.Call) error { return n.collectRecord(t.Context(), recordOf(call)) },
		"a device": func(n *bareNode, call *cni.Call) error {
			return n.collectDevice(t.Context(), cni.HostInterface(call.Attachment))
		},
	} {
		n := newBareNode(t)
		n.InstallFlows()
		call := n.attached("web", "u1", "weft")
		if err := collect(n, call); err != nil {
			t.Fatal(err)
		}
		if _, err := n.records.read(cni.HostInterface(call.Attachment)); err != nil {
			t.Errorf("%s: the pod has no record: %v", name, err)
		}
	}
}

// A node that loses its power leaves files without content; on Windows they would stay for ever.
func TestSweepRemovesWhatIsNoRecord(t *testing.T) {
	n := newBareNode(t)
	if err := os.MkdirAll(n.records.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for device, content := range map[string]string{"weft00000000000": "", "weft00000000001": `{"attachment":{}}`} {
		if err := os.WriteFile(n.records.path(device), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.mustSweep()
	n.has()
	if entries, err := os.ReadDir(n.records.folder); err != nil || len(entries) != 0 {
		t.Errorf("the folder has %v %v", entries, err)
	}
}
