package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/attach"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
)

func dialer(socket string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return cni.Dial(ctx, socket) }
}

// The whole of a node's life, from an empty Open vSwitch to pods that talk.
func TestNodeComesUpAndPodsTalk(t *testing.T) {
	c := newCluster(t)
	c.startAgent()
	conflist := filepath.Join(c.config.CNIConfDir, c.config.CNIConfName)
	c.eventually(func() error {
		node, err := c.client.CoreV1().Nodes().Get(t.Context(), testNode, metav1.GetOptions{})
		if err != nil {
			return err
		}
		facts, present, err := contract.Parse[contract.NodeFacts](node.Annotations, contract.NodeFactsAnnotation)
		if err != nil || !present {
			return fmt.Errorf("no facts: %v", err)
		}
		if facts.Chassis != testNode || facts.MTU != 1442 {
			return fmt.Errorf("facts %+v", facts)
		}
		return nil
	})
	if _, err := os.Stat(conflist); err == nil {
		t.Error("the container runtime was told of a network that has no subnet yet")
	}
	c.eventually(func() error { // the facts are published a moment before the agent looks for its subnet
		_, err := c.call(cni.Status, nil, plainConfig)
		if code(err) != cni.ErrNotAvailable {
			t.Fatalf("STATUS without a subnet: %v", err)
		}
		if !strings.Contains(err.Error(), contract.NodeNetworkAnnotation) {
			return err
		}
		return nil
	})
	c.decide()
	c.awaitReady()
	if _, err := c.call(cni.Status, nil, plainConfig); err != nil {
		t.Errorf("STATUS of a ready node: %v", err)
	}
	c.eventually(func() error { _, err := os.Stat(conflist); return err })

	a, b := c.newPod("a", 3), c.newPod("b", 4)
	c.allocate(a)
	c.allocate(b)
	result := c.mustAdd(a)
	c.mustAdd(b)
	if len(result.IPs) != 2 || result.IPs[0].Address.String() != "10.244.1.3/24" ||
		result.IPs[0].Gateway.String() != "10.244.1.1" ||
		result.Interfaces[*result.IPs[0].Interface].Name != "eth0" ||
		result.Interfaces[*result.IPs[0].Interface].Sandbox != a.sandbox {
		t.Errorf("result %+v", result)
	}
	c.mustReach(a, b.address)
	c.mustReach(a, b.address6)
	c.mustReach(a, contract.GatewayAddress(testSubnet))
	c.mustReach(nil, a.address)
	c.mustReach(a, contract.ManagementAddress(testSubnet))
	c.tcp(a, b)
	if err := c.check(a, result); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	for range 2 {
		if err := c.del(a); err != nil {
			t.Fatal(err)
		}
	}
	c.nothingLeft(a)
	if err := c.check(a, result); err == nil {
		t.Error("CHECK finds nothing wrong with a pod that was detached")
	}
	c.mustReach(nil, b.address)
}

// tcp moves a stream, which a datapath with wrong checksums drops though it passes pings.
func (c *cluster) tcp(from, to *pod) {
	c.tb.Helper()
	connected := make(chan error, 1)
	var listener net.Listener
	if err := nodetest.Inside(to.sandbox, func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(to.address.String(), "8080"))
		return err
	}); err != nil {
		c.tb.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = conn.Write([]byte(strings.Repeat("weft", 10_000)))
			err = errors.Join(err, conn.Close())
		}
		connected <- err
	}()
	total := 0
	if err := nodetest.Inside(from.sandbox, func() error {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := conn.Read(buffer)
			total += n
			if err != nil {
				return nil
			}
		}
	}); err != nil {
		c.tb.Fatal(err)
	}
	if err := <-connected; err != nil || total != 40_000 {
		c.tb.Errorf("%d bytes of 40000 came through, %v", total, err)
	}
}

func TestAddIsIdempotentAndParallel(t *testing.T) {
	c := newReadyCluster(t)
	var pods []*pod
	for i := range 8 {
		p := c.newPod(fmt.Sprintf("p%d", i), 3+i)
		c.allocate(p)
		pods = append(pods, p)
	}
	var calls sync.WaitGroup
	for _, p := range pods {
		for range 2 { // kubelet repeats a call whose answer it missed
			calls.Go(func() {
				if _, err := c.add(p); err != nil {
					t.Errorf("ADD %s: %v", p, err)
				}
			})
		}
	}
	calls.Wait()
	if attached := len(c.agent.ovs.Attached()); attached != len(pods) {
		t.Errorf("%d ports of %d pods", attached, len(pods))
	}
	for _, p := range pods[1:] {
		c.mustReach(pods[0], p.address)
		calls.Go(func() {
			if err := c.del(p); err != nil {
				t.Errorf("DEL %s: %v", p, err)
			}
		})
	}
	calls.Wait()
	for _, p := range pods[1:] {
		c.nothingLeft(p)
	}
}

func TestAddWaitsForTheController(t *testing.T) {
	c := newReadyCluster(t)
	p := c.newPod("late", 3)
	done := make(chan error, 1)
	go func() { _, err := c.add(p); done <- err }()
	c.annotate(p) // the pod is known, its port not yet in the Northbound
	c.eventually(func() error {
		if len(c.agent.ovs.Attached()) == 0 {
			return errors.New("not plugged")
		}
		return nil
	})
	select {
	case err := <-done:
		t.Fatalf("ADD ended before OVN knew the port: %v", err)
	default:
	}
	c.logicalPort(p)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAddComparesAgain: the addresses that ADD began with are a dead controller's word, and the next controller's are
// others. ADD does not answer with them.
func TestAddComparesAgain(t *testing.T) {
	c := newReadyCluster(t)
	p := c.newPod("moved", 3)
	done := make(chan error, 1)
	c.annotate(p)
	go func() { _, err := c.add(p); done <- err }()
	c.eventually(func() error {
		if len(c.agent.ovs.Attached()) == 0 {
			return errors.New("not plugged")
		}
		return nil
	})
	p.address, p.address6 = nth(testSubnet, 7), nth(testSubnet6, 7)
	c.reannotate(p)
	c.eventually(func() error {
		now, err := c.agent.pods.LookUp(p.Pod, c.agent.podSubnets())
		if err == nil && now.Addresses[0].Addr() != p.address {
			err = fmt.Errorf("the agent sees %v", now.Addresses)
		}
		return err
	})
	c.logicalPort(p)
	if err := <-done; code(err) != types.ErrTryAgainLater || !strings.Contains(err.Error(), "another address") ||
		!strings.Contains(err.Error(), p.address.String()) {
		t.Errorf("ADD with addresses that the pod has no more: %v", err)
	}
	c.nothingLeft(p)
	if result := c.mustAdd(p); result.IPs[0].Address.IP.String() != p.address.String() {
		t.Errorf("the next ADD gives %v", result.IPs[0].Address)
	}
}

func TestAddThatFailsLeavesNothing(t *testing.T) {
	c := newCluster(t)
	c.config.CNITimeout = 10 * time.Second // a busy machine takes seconds for what comes before the end
	c.decide()
	c.startAgent()
	c.awaitReady()
	unknown, portless, gone := c.newPod("unknown", 3), c.newPod("portless", 4), c.newPod("gone", 5)
	if _, err := c.add(unknown); code(err) != types.ErrTryAgainLater ||
		!strings.Contains(err.Error(), "has not shown it") {
		t.Errorf("pod that the API server does not know: %v", err)
	}
	c.annotate(portless)
	if _, err := c.add(portless); code(err) != types.ErrTryAgainLater || !strings.Contains(err.Error(), "shop_portless") {
		t.Errorf("pod without a logical port: %v", err)
	}
	c.nothingLeft(portless)
	c.allocate(gone)
	nodetest.RemoveSandbox(t, filepath.Base(gone.sandbox))
	if _, err := c.add(gone); code(err) != types.ErrInvalidNetNS {
		t.Errorf("sandbox that is gone: %v", err)
	}
	c.nothingLeft(gone)
}

// An ADD that ran out of time says where br-int stands, and says so, too, when it cannot look.
func TestAddThatRunsOutOfTimeLooksIntoTheBridge(t *testing.T) {
	c := newCluster(t)
	c.config.CNITimeout = 10 * time.Second // a busy machine takes seconds for what comes before the end
	c.decide()
	c.startAgent()
	c.awaitReady()
	attached, portless := c.newPod("attached", 3), c.newPod("portless", 4)
	c.allocate(attached)
	c.mustAdd(attached)
	c.annotate(portless)
	ofctl := filepath.Join(nodetest.Programs(t), "ovs-ofctl")
	for _, test := range []struct{ ofctl, says string }{
		{ofctl, "not claimed the logical port"},
		{filepath.Join(t.TempDir(), "ovs-ofctl"), "set ovs-ofctl to its path"},
	} {
		c.stop() // a fresh agent looks at once
		c.config.OVSOfctl = test.ofctl
		c.startAgent()
		c.awaitReady()
		_, err := c.add(portless)
		if code(err) != types.ErrTryAgainLater || !strings.Contains(err.Error(), test.says) {
			t.Errorf("got %v, want %q in it", err, test.says)
		}
	}
	c.config.OVSOfctl = ofctl
	device, _ := c.agent.ovs.AttachedDevice(cni.Attachment{ContainerID: attached.container, IfName: "eth0"})
	if seen := attach.NewInspector(c.config).Look(t.Context(), *device.Ofport); !strings.Contains(seen,
		fmt.Sprintf("flows for OpenFlow port %d: the port is claimed", *device.Ofport)) {
		t.Errorf("of an attached pod: %q", seen)
	}
	c.nothingLeft(portless)
}

// A StatefulSet's pod comes back under its name while the old sandbox still stands.
func TestSuccessorOfTheSameNameGetsThePort(t *testing.T) {
	c := newReadyCluster(t)
	old, successor, peer := c.newPod("web-0", 3), c.newPod("web-0", 4), c.newPod("peer", 9)
	for _, p := range []*pod{old, peer} {
		c.allocate(p)
		c.mustAdd(p)
	}
	c.mustReach(peer, old.address)
	c.deletePod(old)
	c.allocate(successor)
	c.mustAdd(successor)
	c.mustReach(peer, successor.address)
	if _, err := c.add(old); code(err) != types.ErrTryAgainLater {
		t.Errorf("a late ADD of the pod that is gone: %v", err)
	}
	if err := c.del(old); err != nil {
		t.Error(err)
	}
	c.nothingLeft(old)
	c.mustReach(peer, successor.address)
}

// A port that somebody else left on br-int with the pod's name, but of an earlier UID.
func TestForeignPortWithThePodsNameIsNotThePods(t *testing.T) {
	c := newReadyCluster(t)
	old, p := c.newPod("web-0", 3), c.newPod("web-0", 4)
	run := func(args ...string) { c.ovn.VS(args...) }
	run("add-port", nodeconfig.IntegrationBridge, "left0", "--", "set", "Interface", "left0", "type=internal",
		"external_ids:iface-id="+contract.PodPort(old.Namespace, old.Name), "external_ids:iface-id-ver="+old.UID)
	c.allocate(p)
	c.eventually(func() error { // the foreign one comes first
		if port := c.ovn.VS("get", "Interface", "left0", "ofport"); port == "[]" {
			return errors.New("not taken up yet")
		}
		return nil
	})
	if _, err := c.add(p); err != nil {
		t.Fatal(err)
	}
	c.mustReach(nil, p.address)
	if installed := c.ovn.VS("--if-exists", "get", "Interface", "left0", "external_ids:ovn-installed"); installed != "" {
		t.Errorf("the port of the earlier UID was bound: ovn-installed %s", installed)
	}
}

// record writes what an ADD writes before it makes anything.
func (c *cluster) record(attachment cni.Attachment, p *pod) error {
	text, err := json.Marshal(map[string]any{
		"attachment": attachment, "pod": p.Pod, "sandbox": p.sandbox, "network": "weft",
	})
	if err != nil {
		return err
	}
	path := filepath.Join(c.config.StateFolder(), "attachments", cni.HostInterface(attachment)+".json")
	return os.WriteFile(path, text, 0o600)
}

func TestGCAndSweep(t *testing.T) {
	c := newReadyCluster(t)
	kept, stale, rebooted := c.newPod("kept", 3), c.newPod("stale", 4), c.newPod("rebooted", 5)
	for _, p := range []*pod{kept, stale, rebooted} {
		c.allocate(p)
		c.mustAdd(p)
	}
	half := c.newPod("half", 6) // its ADD was killed before it had a port
	attachment := cni.Attachment{ContainerID: half.container, IfName: "eth0"}
	if err := errors.Join(
		c.record(attachment, half),
		c.agent.platform.CreateEndpoint(t.Context(),
			platform.Endpoint{Attachment: attachment, Device: cni.HostInterface(attachment), Sandbox: half.sandbox,
				MAC: contract.MAC(half.address), MTU: 1400}),
	); err != nil {
		t.Fatal(err)
	}
	nodetest.RemoveSandbox(t, filepath.Base(rebooted.sandbox))
	c.agent.attacher.SweepSoon()
	c.eventually(func() error {
		if _, attached := c.agent.ovs.AttachedDevice(cni.Attachment{ContainerID: rebooted.container,
			IfName: "eth0"}); attached {
			return errors.New("a sandbox that is gone is still attached")
		}
		return nil
	})
	c.nothingLeft(rebooted)
	_, err := c.call(cni.GC, nil, strings.TrimSuffix(plainConfig, "}")+`,"cni.dev/valid-attachments":[{"containerID":"`+
		kept.container+`","ifname":"eth0"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	c.nothingLeft(stale)
	c.nothingLeft(half)
	c.mustReach(nil, kept.address)
}

// Whatever is killed, pods keep talking, and new ones come up when it is back.
func TestRestarts(t *testing.T) {
	c := newReadyCluster(t)
	a, b := c.newPod("a", 3), c.newPod("b", 4)
	for _, p := range []*pod{a, b} {
		c.allocate(p)
		c.mustAdd(p)
	}
	next := 10
	for _, test := range []struct {
		name    string
		restart func()
	}{
		{"agent", func() { c.stop(); c.mustReach(a, b.address); c.startAgent() }},
		{"ovn-controller", func() { c.ovn.Restart(nodetest.OVNController) }},
		{"ovsdb-server", func() { c.ovn.Restart(nodetest.OVSServer) }},
		{"ovs-vswitchd", func() { c.ovn.Restart(nodetest.Vswitchd) }},
		{"northd", func() { c.ovn.Restart(nodetest.Northd) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.restart()
			c.awaitReady()
			c.mustReach(a, b.address)
			c.mustReach(nil, a.address)
			p := c.newPod(fmt.Sprintf("after-%d", next), next)
			next++
			c.allocate(p)
			c.mustAdd(p)
			c.mustReach(p, a.address)
			if err := c.del(p); err != nil {
				t.Error(err)
			}
		})
	}
}

// ADD outwaits a database that is away, and never succeeds without a port.
func TestAddWhileTheDatabaseIsAway(t *testing.T) {
	c := newReadyCluster(t)
	p := c.newPod("p", 3)
	c.allocate(p)
	c.ovn.Kill(nodetest.OVSServer)
	c.eventually(func() error {
		if c.agent.ovs.Connected() {
			return errors.New("still connected")
		}
		return nil
	})
	c.agent.reconcileOnce(t.Context()) // as the agent does a moment later
	if _, err := c.call(cni.Status, nil, plainConfig); err != nil {
		t.Errorf("STATUS of an interruption that ADD outwaits: %v", err)
	}
	done := make(chan error, 1)
	go func() { _, err := c.add(p); done <- err }()
	c.ovn.Start(nodetest.OVSServer)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	c.mustReach(nil, p.address)
}
