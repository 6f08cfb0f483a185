package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/linux"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/test/hyperv"
)

// cluster is a node with a whole OVN, an API server that is only a store, and a test in the role of
// the controller, of kubelet and of the container runtime.
type cluster struct {
	tb     testing.TB
	ovn    *nodetest.OVN
	client kubernetes.Interface
	own    dynamic.Interface // nil: domain names are not watched
	config nodeconfig.Config
	// network is what the controller decides for the node.
	network contract.NodeNetwork
	agent   *agent
	stop    func()
	// extension is the emulated one that ovs-vswitchd has for its datapath; nil: it has one of Linux'.
	extension *hyperv.Extension
}

var (
	testSubnet  = netip.MustParsePrefix("10.244.1.0/24")
	testSubnet6 = netip.MustParsePrefix("fd00:10:244:1::/64")
	testNetwork = contract.NodeNetwork{
		ID: 1, PodCIDRs: []netip.Prefix{testSubnet, testSubnet6},
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")},
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
	}
)

const testNode = "n1"

// newCluster starts everything but the agent.
func newCluster(tb testing.TB) *cluster {
	tb.Helper()
	return newClusterOver(tb, nil)
}

// newClusterOver is newCluster on an emulated extension, if there is one. Linux' agent has it for a datapath in
// userspace, since it reads devices as that does.
func newClusterOver(tb testing.TB, extension *hyperv.Extension) *cluster {
	tb.Helper()
	var driver map[string]string
	if extension != nil {
		driver = nodetest.Driver(tb, extension.Serve)
	}
	uplink := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "ul0", MTU: 1500}, PeerName: "ul1"}
	if err := netlink.LinkAdd(uplink); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := netlink.LinkDel(uplink); err != nil {
			tb.Error(err)
		}
	})
	address, err := netlink.ParseAddr("172.30.0.1/24")
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(netlink.AddrAdd(uplink, address), netlink.LinkSetUp(uplink)); err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	c := &cluster{tb: tb, ovn: nodetest.StartOVNOver(tb, driver), config: nodeconfig.Default(), network: testNetwork,
		extension: extension}
	c.config.NodeName = testNode
	c.config.OVSDatabase, c.config.OVNSouthbound = c.ovn.OVSDatabase(), c.ovn.Southbound()
	c.config.DatapathType = nodetest.Datapath()
	if extension != nil {
		c.config.DatapathType = nodeconfig.DatapathSystem
	}
	c.config.EncapAddress = netip.MustParseAddr("172.30.0.1")
	c.config.CNISocket = filepath.Join(dir, "weft", "cni.sock")
	c.config.CNIConfDir, c.config.DataDir = filepath.Join(dir, "net.d"), filepath.Join(dir, "data")
	c.config.CNICacheDir = filepath.Join(dir, "cache")
	c.config.CNITimeout = nodetest.Patience
	c.config.MetricsAddress = ""
	c.client = nodetest.FakeAPI(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: "node-uid"}})
	c.topology()
	return c
}

// topology is what the controller makes for a node.
func (c *cluster) topology() {
	c.tb.Helper()
	gateway, gateway6 := contract.GatewayAddress(testSubnet), contract.GatewayAddress(testSubnet6)
	host, host6 := contract.ManagementAddress(testSubnet), contract.ManagementAddress(testSubnet6)
	c.ovn.NB("lr-add", "cluster", "--", "ls-add", testNode,
		"--", "lrp-add", "cluster", "rtos-"+testNode, contract.MAC(gateway).String(), fmt.Sprintf("%v/24", gateway),
		fmt.Sprintf("%v/64", gateway6),
		"--", "lsp-add", testNode, "stor-"+testNode, "--", "lsp-set-type", "stor-"+testNode, "router",
		"--", "lsp-set-addresses", "stor-"+testNode, "router", "--", "lsp-set-options", "stor-"+testNode,
		"router-port=rtos-"+testNode,
		"--", "lsp-add", testNode, contract.ManagementPort(testNode),
		"--", "lsp-set-addresses", contract.ManagementPort(testNode), fmt.Sprintf("%v %v %v", contract.MAC(host, host6),
			host, host6))
}

// decide annotates the Node as the controller does once it knows the node.
func (c *cluster) decide() {
	c.tb.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{contract.NodeNetworkAnnotation: contract.Format(c.network)},
	}})
	if err != nil {
		c.tb.Fatal(err)
	}
	if _, err := c.client.CoreV1().Nodes().Patch(c.tb.Context(), testNode, apitypes.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		c.tb.Fatal(err)
	}
}

// startAgent starts `weft node`; stop ends it.
func (c *cluster) startAgent() {
	c.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ovs, err := openvswitch.Connect(ctx, c.config.OVSDatabase)
	if err != nil {
		c.tb.Fatal(err)
	}
	host := linuxConfig(c.config)
	host.Userspace = host.Userspace || c.extension != nil // whose ports are like those of the userspace datapath
	system, err := linux.New(host)
	if err != nil {
		c.tb.Fatal(err)
	}
	if c.agent, err = newAgent(c.config, system, ovs, c.client, c.own); err != nil {
		c.tb.Fatal(err)
	}
	c.agent.gateway.HyperV = c.extension != nil
	if c.own != nil {
		if err := c.agent.watchNames(c.own); err != nil {
			c.tb.Fatal(err)
		}
	}
	listener, err := cni.Listen(c.config.CNISocket)
	if err != nil {
		c.tb.Fatal(err)
	}
	tools, err := serveWeb(ctx, c.config)
	if err != nil {
		c.tb.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.agent.run(ctx, listener, tools) }()
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			c.tb.Errorf("the agent ended with %v", err)
		}
		tools.close()
		ovs.Close()
		if err := system.Close(); err != nil {
			c.tb.Error(err)
		}
	}
	c.tb.Cleanup(c.stop)
}

// newReadyCluster is a cluster whose node can attach pods.
func newReadyCluster(tb testing.TB) *cluster {
	tb.Helper()
	c := newCluster(tb)
	c.decide()
	c.startAgent()
	c.awaitReady()
	return c
}

func (c *cluster) awaitReady() {
	c.tb.Helper()
	c.eventually(func() error { return c.agent.health.Problems().All() })
}

func (c *cluster) eventually(try func() error) {
	c.tb.Helper()
	nodetest.Eventually(c.tb, 20*time.Second, try)
}

// pod is a pod of the cluster with a sandbox on the node.
type pod struct {
	cni.Pod
	container string
	sandbox   string
	address   netip.Addr
	address6  netip.Addr
}

func (c *cluster) newPod(name string, n int) *pod {
	c.tb.Helper()
	id := fmt.Sprintf("%s-%d", name, sequence())
	return &pod{
		Pod:       cni.Pod{Namespace: "shop", Name: name, UID: "uid-" + id},
		container: "c-" + id, sandbox: nodetest.Sandbox(c.tb, id),
		address: nth(testSubnet, n), address6: nth(testSubnet6, n),
	}
}

var sequence = func() func() int {
	n := 0
	return func() int { n++; return n }
}()

func nth(subnet netip.Prefix, n int) netip.Addr {
	addr := subnet.Addr()
	for range n {
		addr = addr.Next()
	}
	return addr
}

// allocate does the controller's work for a pod: the logical port and the annotation.
func (c *cluster) allocate(p *pod) {
	c.tb.Helper()
	c.logicalPort(p)
	c.annotate(p)
}

func (c *cluster) logicalPort(p *pod) {
	c.tb.Helper()
	port := contract.PodPort(p.Namespace, p.Name)
	addresses := fmt.Sprintf("%v %v %v", contract.MAC(p.address), p.address, p.address6)
	c.ovn.NB("--may-exist", "lsp-add", testNode, port, "--", "lsp-set-addresses", port, addresses, "--",
		"lsp-set-port-security", port, addresses,
		"--", "lsp-set-options", port, "requested-chassis="+testNode, "iface-id-ver="+p.UID)
}

func (c *cluster) annotate(p *pod) {
	c.tb.Helper()
	if _, err := c.client.CoreV1().Pods(p.Namespace).Create(context.Background(), annotated(p),
		metav1.CreateOptions{}); err != nil {
		c.tb.Fatal(err)
	}
}

// reannotate has the controller change its mind.
func (c *cluster) reannotate(p *pod) {
	c.tb.Helper()
	if _, err := c.client.CoreV1().Pods(p.Namespace).Update(context.Background(), annotated(p),
		metav1.UpdateOptions{}); err != nil {
		c.tb.Fatal(err)
	}
}

// annotated is a pod as the API server shows it when the controller has given it its addresses.
func annotated(p *pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: apitypes.UID(p.UID),
			Annotations: map[string]string{
				contract.PodNetworkAnnotation: contract.Format(contract.PodNetwork{
					UID:       p.UID,
					MAC:       contract.MAC(p.address).String(),
					Addresses: []netip.Prefix{netip.PrefixFrom(p.address, 24), netip.PrefixFrom(p.address6, 64)},
					Gateways:  []netip.Addr{contract.GatewayAddress(testSubnet), contract.GatewayAddress(testSubnet6)},
				}),
			}},
		Spec: corev1.PodSpec{NodeName: testNode},
	}
}

func (c *cluster) deletePod(p *pod) {
	c.tb.Helper()
	if err := c.client.CoreV1().Pods(p.Namespace).Delete(context.Background(), p.Name,
		metav1.DeleteOptions{}); err != nil {
		c.tb.Fatal(err)
	}
}

// call is a verb as the plugin sends it.
func (c *cluster) call(verb cni.Verb, p *pod, config string) ([]byte, error) {
	request := cni.Request{Config: json.RawMessage(config)}
	if p != nil {
		request.ContainerID, request.Netns, request.IfName = p.container, p.sandbox, "eth0"
		request.Args = fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_UID=%s", p.Namespace,
			p.Name, p.UID)
	}
	client := &cni.Client{Dial: dialer(c.config.CNISocket)}
	return client.Do(context.Background(), verb, request)
}

const plainConfig = `{"cniVersion":"1.1.0","name":"weft","type":"weft-cni"}`

func (c *cluster) add(p *pod) (*types100.Result, error) {
	answer, err := c.call(cni.Add, p, plainConfig)
	if err != nil {
		return nil, err
	}
	result := &types100.Result{}
	return result, json.Unmarshal(answer, result)
}

func (c *cluster) mustAdd(p *pod) *types100.Result {
	c.tb.Helper()
	result, err := c.add(p)
	if err != nil {
		c.tb.Fatalf("ADD %s: %v", p, err)
	}
	return result
}

func (c *cluster) del(p *pod) error {
	_, err := c.call(cni.Del, p, plainConfig)
	return err
}

func (c *cluster) check(p *pod, result *types100.Result) error {
	previous, err := json.Marshal(result)
	if err != nil {
		return err
	}
	_, err = c.call(cni.Check, p, strings.TrimSuffix(plainConfig, "}")+`,"prevResult":`+string(previous)+"}")
	return err
}

// reaches pings from a sandbox, or from the host where it is nil.
func (c *cluster) reaches(from *pod, to netip.Addr) error {
	command := []string{"ping", "-n", "-c1", "-W1", to.String()}
	if from != nil {
		command = append([]string{"nsenter", "--net=" + from.sandbox}, command...)
	}
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("ping %v: %w\n%s", to, err, output)
	}
	return nil
}

// mustReach allows for the first packet that waits for a neighbour.
func (c *cluster) mustReach(from *pod, to netip.Addr) {
	c.tb.Helper()
	nodetest.Eventually(c.tb, 10*time.Second, func() error { return c.reaches(from, to) })
}

// nothingLeft says what a detached pod left behind.
func (c *cluster) nothingLeft(p *pod) {
	c.tb.Helper()
	device := cni.HostInterface(cni.Attachment{ContainerID: p.container, IfName: "eth0"})
	if ports := c.ovn.VS("list-ports", nodeconfig.IntegrationBridge); strings.Contains(ports, device) {
		c.tb.Errorf("port %s is left", device)
	}
	if _, err := netlink.LinkByName(device); err == nil {
		c.tb.Errorf("device %s is left", device)
	}
	if _, err := os.Stat(p.sandbox); err == nil {
		if links, err := exec.Command("nsenter", "--net="+p.sandbox, "ip", "link").CombinedOutput(); err != nil ||
			strings.Contains(string(links), "eth0") {
			c.tb.Errorf("eth0 is left in the sandbox: %s %v", links, err)
		}
	}
}

func code(err error) uint {
	var e *types.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
