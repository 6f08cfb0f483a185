//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/test/lab/hcs"
)

// The tests of this file are bad days of a Windows node: what HNS, containerd, kubelet and operators do
// to it. They use w2; w1 is for those who want a node in peace.
const badDays = "w2"

// hnsState is what these tests read of the emulator's state.
type hnsState struct {
	Networks []struct {
		Name, Type, Adapter string
		Extensions          []struct {
			ID        string `json:"Id"`
			IsEnabled bool
		}
	}
	Endpoints []struct {
		ID, Name, MacAddress string
		HostComputeNamespace string
		Netns                string
		MTU                  int
		Dns                  struct {
			Domain     string
			Search     []string
			ServerList []string
		}
	}
}

func readHNS(t testing.TB, node string) hnsState {
	t.Helper()
	var state hnsState
	if err := json.Unmarshal([]byte(cluster.Must(t, "hns", node, "--", "state")), &state); err != nil {
		t.Fatal(err)
	}
	return state
}

// fault breaks HNS until the test ends.
func fault(t testing.TB, node string, words ...string) {
	t.Helper()
	cluster.Must(t, append([]string{"hns", node, "--", "fault"}, words...)...)
	t.Cleanup(func() { cluster.Must(t, "hns", node, "--", "fault", "clear") })
}

func (s *sandbox) device() string {
	return cni.HostInterface(cni.Attachment{ContainerID: s.container, IfName: "eth0"})
}

func (s *sandbox) guid() string { return hcs.NamespaceID(s.container) }

// start is the start of the sandbox's first container.
func (s *sandbox) start(t testing.TB) { cluster.Must(t, "hns", s.node, "--", "start", s.guid()) }

// answers waits until the sandbox's address answers a ping from a Linux node's pod.
func (s *sandbox) answers(t testing.TB, within time.Duration) {
	t.Helper()
	for _, addr := range s.addresses(t) {
		eventually(t, within, fmt.Sprintf("%s answers at %s", s.pod, addr), func() error {
			out, err := cluster.In(web("l1"), "ping", "-c", "1", "-W", "1", addr.String())
			if err != nil {
				return fmt.Errorf("%s %w", out, err)
			}
			return nil
		})
	}
}

// nothingLeft waits until neither HNS nor Open vSwitch nor OVN knows the sandbox.
func (s *sandbox) nothingLeft(t testing.TB) {
	t.Helper()
	eventually(t, 30*time.Second, "nothing is left of "+s.pod, func() error {
		for _, e := range readHNS(t, s.node).Endpoints {
			if e.Name == s.device() {
				return fmt.Errorf("HNS has endpoint %s", e.Name)
			}
		}
		if ports := cluster.Must(t, "exec", s.node, "--", "ovs-vsctl", "list-ports", "br-int"); strings.Contains(ports,
			s.device()) {
			return fmt.Errorf("br-int has port %s", s.device())
		}
		if links := cluster.Must(t, "exec", s.node, "--", "ip", "-o", "link"); strings.Contains(links, s.device()) {
			return fmt.Errorf("the host has device %s", s.device())
		}
		return nil
	})
}

// inBackground runs an ADD that is to meet something on its way.
func (s *sandbox) inBackground(verb string) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.cni(verb)
		done <- err
	}()
	return done
}

func within(t testing.TB, limit time.Duration, what string, done chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		t.Fatalf("%s takes more than %v", what, limit)
		return nil
	}
}

func TestWindowsSandboxes(t *testing.T) {
	takeOverKubelet(t, badDays)

	t.Run("an ADD is repeated, a DEL comes first and twice", repeatedCalls)
	t.Run("GC removes what the runtime does not know", garbage)
	t.Run("DNS reaches the endpoint", endpointsDNS)
	t.Run("the namespace goes between ADD and attach", namespaceGoes)
	t.Run("HNS fails half-way", halfMadeEndpoint)
	t.Run("HNS restarts", hnsRestarts)
	waits := []string{"HcnCreateEndpoint"}
	if !testing.Short() {
		t.Run("the vNIC never appears", lateVNIC)
		t.Run("the endpoint is attached elsewhere", endpointElsewhere)
		t.Run("a delete hangs", hungDelete)
		waits = append(waits, "HcnModifyNamespace", "HcnQueryNamespaceProperties")
	}
	for _, call := range waits {
		t.Run("the agent is killed while it waits for "+call, func(t *testing.T) {
			s := newSandbox(t, badDays)
			fault(t, badDays, "hang", call, "3", "1")
			done := s.inBackground("ADD")
			eventually(t, 20*time.Second, "the ADD is on its way", func() error { return hanging(t, call) })
			cluster.Must(t, "kill", badDays, "weft-node")
			if err := within(t, time.Minute, "ADD", done); err == nil {
				t.Log("the ADD was through already")
			}
			eventually(t, 60*time.Second, "ADD succeeds when the agent is back", func() error {
				_, err := s.cni("ADD")
				return err
			})
			s.start(t)
			s.answers(t, 30*time.Second)
			// HNS goes on with what the dead agent has asked for. An endpoint that it makes after DEL stays for some minutes.
			eventually(t, 20*time.Second, "HNS has done what it was asked", func() error { return noneHeld(t, call) })
			if _, err := s.cni("DEL"); err != nil {
				t.Error(err)
			}
			s.nothingLeft(t)
		})
	}
}

func repeatedCalls(t *testing.T) {
	s := newSandbox(t, badDays)
	if _, err := s.cni("DEL"); err != nil {
		t.Errorf("DEL before ADD: %v", err)
	}
	_, first := s.add(t)
	_, second := s.add(t)
	if first != second {
		t.Errorf("two ADDs differ:\n%s\n%s", first, second)
	}
	s.start(t)
	s.answers(t, 20*time.Second)
	s.add(t) // kubelet may ask again while the pod runs
	s.answers(t, 5*time.Second)
	if out, err := s.cni("CHECK", `,"prevResult":`+first); err != nil {
		t.Errorf("CHECK: %s %v", out, err)
	}
	if out, err := s.cni("STATUS"); err != nil {
		t.Errorf("STATUS: %s %v", out, err)
	}
	for range 2 {
		if _, err := s.cni("DEL"); err != nil {
			t.Errorf("DEL: %v", err)
		}
	}
	s.nothingLeft(t)
	if out, err := s.cni("CHECK", `,"prevResult":`+first); err == nil {
		t.Errorf("CHECK of a pod that was detached: %s", out)
	}
}

func garbage(t *testing.T) {
	var valid []string
	ids := cluster.Must(t, "exec", badDays, "--", "ovs-vsctl", "--bare", "--columns=external_ids", "find", "interface")
	for field := range strings.FieldsSeq(ids) {
		if id, ok := strings.CutPrefix(field, "sandbox="); ok {
			valid = append(valid, fmt.Sprintf(`{"containerID":%q,"ifname":"eth0"}`, id))
		}
	}
	if len(valid) == 0 {
		t.Fatalf("no pod is attached: %s", ids)
	}
	s := newSandbox(t, badDays)
	s.add(t)
	if out, err := s.cni("GC", `,"cni.dev/valid-attachments":[`+strings.Join(valid, ",")+"]"); err != nil {
		t.Errorf("GC: %s %v", out, err)
	}
	s.nothingLeft(t)
	webServes(t, badDays, 5*time.Second)
	if out, err := s.cni("VERSION"); err != nil || !strings.Contains(out, `"1.1.0"`) {
		t.Errorf("VERSION: %s %v", out, err)
	}
}

func endpointsDNS(t *testing.T) {
	s := newSandbox(t, badDays)
	s.add(t, `,"runtimeConfig":{"dns":{"servers":["10.96.0.10"],"searches":["default.svc.cluster.local","svc.cluster.local"],"options":["ndots:5"]}}`)
	state := readHNS(t, badDays)
	for _, e := range state.Endpoints {
		if e.Name != s.device() {
			continue
		}
		if strings.Join(e.Dns.ServerList, " ") != "10.96.0.10" || strings.Join(e.Dns.Search,
			" ") != "default.svc.cluster.local svc.cluster.local" {
			t.Errorf("endpoint's DNS is %+v", e.Dns)
		}
		return
	}
	t.Errorf("HNS has no endpoint %s: %+v", s.device(), state.Endpoints)
}

func namespaceGoes(t *testing.T) {
	s := newSandbox(t, badDays)
	fault(t, badDays, "hang", "HcnCreateEndpoint", "2", "1")
	done := s.inBackground("ADD")
	eventually(t, 20*time.Second, "the ADD is on its way", func() error { return hanging(t, "HcnCreateEndpoint") })
	cluster.Must(t, "hns", badDays, "--", "namespace", "del", s.guid())
	if err := within(t, time.Minute, "ADD", done); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("ADD says %v", err)
	}
	s.nothingLeft(t)
}

func lateVNIC(t *testing.T) {
	configure(t, badDays, "vnic-timeout: 3s\n")
	isReady(t, badDays)
	s := newSandbox(t, badDays)
	fault(t, badDays, "delay-vnic", "12") // late beyond all patience, not for ever
	s.add(t)
	s.start(t)
	eventMentions(t, "Pod", "default", s.pod, "has not appeared after 3s", "delete the pod")
	s.answers(t, 40*time.Second)
}

func halfMadeEndpoint(t *testing.T) {
	s := newSandbox(t, badDays)
	fault(t, badDays, "fail", "HcnModifyNamespace", "0x80004005", "1")
	if out, err := s.cni("ADD"); err == nil {
		t.Errorf("ADD succeeded although its attach failed: %s", out)
	}
	s.nothingLeft(t)
	s.add(t)
	s.start(t)
	s.answers(t, 20*time.Second)
}

func endpointElsewhere(t *testing.T) {
	s, other := newSandbox(t, badDays), newSandbox(t, badDays)
	s.add(t)
	// The same sandbox comes back in another namespace, as after a restart of the runtime.
	cluster.Must(t, "hns", badDays, "--", "namespace", "del", s.guid())
	s.add(t)
	s.start(t)
	s.answers(t, 20*time.Second)
	other.add(t)
	other.start(t)
	other.answers(t, 20*time.Second)
}

func hungDelete(t *testing.T) {
	stuck, other := newSandbox(t, badDays), newSandbox(t, badDays)
	stuck.add(t)
	fault(t, badDays, "hang", "HcnDeleteEndpoint", "45", "1")
	del := stuck.inBackground("DEL")
	eventually(t, 20*time.Second, "the DEL hangs", func() error { return hanging(t, "HcnDeleteEndpoint") })
	add := make(chan error, 1)
	go func() {
		_, err := other.cni("ADD")
		add <- err
	}()
	if err := within(t, 40*time.Second, "another pod's ADD", add); err != nil {
		t.Errorf("another pod's ADD: %v", err)
	}
	other.start(t)
	other.answers(t, 20*time.Second)
	if err := within(t, 90*time.Second, "DEL", del); err != nil {
		t.Logf("the hung DEL said %v", err)
	}
	eventually(t, 60*time.Second, "a later DEL succeeds", func() error { _, err := stuck.cni("DEL"); return err })
	stuck.nothingLeft(t)
	metrics := cluster.Must(t, "exec", badDays, "--", "curl", "-sS", "--max-time", "5", "http://127.0.0.1:9471/metrics")
	if !strings.Contains(metrics, `weft_hns_hung_calls_total{call="DeleteEndpoint"} 1`) {
		t.Errorf("the hang is not counted:\n%s", metrics)
	}
}

func hnsRestarts(t *testing.T) {
	running, s := newSandbox(t, badDays), newSandbox(t, badDays)
	running.add(t)
	running.start(t)
	running.answers(t, 20*time.Second)
	cluster.Must(t, "hns", badDays, "--", "fault", "restart", "3")
	eventually(t, 60*time.Second, "ADD succeeds when it is back", func() error { _, err := s.cni("ADD"); return err })
	s.start(t)
	s.answers(t, 20*time.Second)
	running.answers(t, 5*time.Second)
}

// hanging is nil once a call has met the fault that holds it.
func hanging(t testing.TB, call string) error {
	t.Helper()
	if state := cluster.Must(t, "hns", badDays, "--", "state"); strings.Contains(state, `"hang `+call+`"`) {
		return fmt.Errorf("nobody has called %s yet", call)
	}
	return nil
}

// noneHeld is nil when no call of that function hangs any more.
func noneHeld(t testing.TB, call string) error {
	t.Helper()
	if state := cluster.Must(t, "hns", badDays, "--", "state"); strings.Contains(state, `"held `+call+`"`) {
		return fmt.Errorf("%s hangs", call)
	}
	return nil
}
