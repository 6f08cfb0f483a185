package node

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/test/hyperv"
)

// gatewayCluster is a cluster whose node shares its device ex0 with a gateway router that has the host's
// addresses, and a host outside.
type gatewayCluster struct {
	*cluster
	outside string // its namespace
}

var (
	gatewayHost, gatewayHost6 = netip.MustParseAddr("172.31.0.2"), netip.MustParseAddr("fd00:172:31::2")
	outsideHost, outsideHost6 = netip.MustParseAddr("172.31.0.254"), netip.MustParseAddr("fd00:172:31::254")
)

func newGatewayCluster(tb testing.TB) *gatewayCluster {
	tb.Helper()
	return newGatewayClusterOver(tb, nil)
}

// newGatewayClusterOver is newGatewayCluster on an emulated extension, if there is one.
func newGatewayClusterOver(tb testing.TB, extension *hyperv.Extension) *gatewayCluster {
	tb.Helper()
	g := &gatewayCluster{cluster: newClusterOver(tb, extension)}
	g.outside = nodetest.Sandbox(tb, fmt.Sprintf("outside-%d", sequence()))
	for _, command := range []string{
		"ip link add ex0 type veth peer name eth0 netns " + filepath.Base(g.outside),
		"ip link set ex0 up", "ip addr add 172.31.0.2/24 dev ex0", "ip addr add fd00:172:31::2/64 dev ex0 nodad",
		"ip route add default via 172.31.0.254 dev ex0", "ip -6 route add default via fd00:172:31::254 dev ex0",
		g.there("ip link set eth0 up"), g.there("ip link set lo up"), g.there("ethtool -K eth0 tx off"),
		g.there("ip addr add 172.31.0.254/24 dev eth0"), g.there("ip addr add fd00:172:31::254/64 dev eth0 nodad"),
	} {
		g.shell(command)
	}
	// the host's stack sees its frames again
	tb.Cleanup(func() { g.shell("ip link del ex0; nft delete chain netdev weft ex0 || true") })
	g.config.GatewayInterface = "ex0"
	g.config.OVSOfctl = filepath.Join(nodetest.Programs(tb), "ovs-ofctl")
	return g
}

func (g *gatewayCluster) there(command string) string {
	return "nsenter --net=" + g.outside + " " + command
}

func (g *gatewayCluster) shell(command string) string {
	g.tb.Helper()
	output, err := exec.Command("sh", "-c", command).CombinedOutput()
	if err != nil {
		g.tb.Fatalf("%s: %v\n%s", command, err, output)
	}
	return string(output)
}

// facts are what the agent has told the controller.
func (g *gatewayCluster) facts() (contract.NodeFacts, error) {
	var facts contract.NodeFacts
	node, err := g.client.CoreV1().Nodes().Get(g.tb.Context(), testNode, metav1.GetOptions{})
	if err != nil {
		return facts, err
	}
	text, ok := node.Annotations[contract.NodeFactsAnnotation]
	if !ok {
		return facts, errors.New("the node has no facts")
	}
	return facts, json.Unmarshal([]byte(text), &facts)
}

// gateway makes the router that the controller makes of the facts, with a node port for a pod.
func (g *gatewayCluster) gateway(facts contract.NodeFacts, backend *pod) {
	g.tb.Helper()
	router, outside := "gw-"+testNode, "ext-"+testNode
	commands := [][]string{
		{"ls-add", "join"},
		{"lrp-add", "cluster", "rtoj", "0a:58:64:40:00:01", "100.64.0.1/16", "fd98::1/64"},
		{"lsp-add", "join", "jtor"}, {"lsp-set-type", "jtor", "router"}, {"lsp-set-addresses", "jtor", "router"},
		{"lsp-set-options", "jtor", "router-port=rtoj"},
		{"lr-add", router}, {"set", "logical_router", router, "options:chassis=" + facts.Chassis,
			"options:lb_force_snat_ip=router_ip"},
		{"lrp-add", router, "rtoj-gw", "0a:58:64:40:00:02", "100.64.0.2/16", "fd98::2/64"},
		{"lsp-add", "join", "jtor-gw"}, {"lsp-set-type", "jtor-gw", "router"}, {"lsp-set-addresses", "jtor-gw", "router"},
		{"lsp-set-options", "jtor-gw", "router-port=rtoj-gw"},
		{"lrp-add", router, "rtoe", facts.Gateway.MAC, facts.Gateway.Addresses[0].String(),
			facts.Gateway.Addresses[1].String()},
		{"ls-add", outside},
		{"lsp-add", outside, "etor"}, {"lsp-set-type", "etor", "router"}, {"lsp-set-addresses", "etor", "router"},
		{"lsp-set-options", "etor", "router-port=rtoe"},
		{"lsp-add", outside, "localnet-" + testNode}, {"lsp-set-type", "localnet-" + testNode, "localnet"},
		{"lsp-set-addresses", "localnet-" + testNode, "unknown"},
		{"lsp-set-options", "localnet-" + testNode, "network_name=" + facts.Gateway.Network},
		{"lr-route-add", router, "10.244.0.0/16", "100.64.0.1"}, {"lr-route-add", router, "fd00:10:244::/48", "fd98::1"},
		{"--policy=src-ip", "lr-route-add", "cluster", testSubnet.String(), "100.64.0.2"},
		{"--policy=src-ip", "lr-route-add", "cluster", testSubnet6.String(), "fd98::2"},
		{"lb-add", "np", netip.AddrPortFrom(gatewayHost, 30080).String(), netip.AddrPortFrom(backend.address, 80).String()},
		{"lb-add", "np", netip.AddrPortFrom(gatewayHost6, 30080).String(), netip.AddrPortFrom(backend.address6, 80).String()},
		{"lr-lb-add", router, "np"},
		// Endpoints on the host itself. Of several one is chosen by a hash, which costs a pass.
		{"lb-add", "own", netip.AddrPortFrom(gatewayHost, 30081).String(), onAlias(contract.HostAliases[0], 22, 23)},
		{"lb-add", "own", netip.AddrPortFrom(gatewayHost6, 30081).String(), onAlias(contract.HostAliases[1], 22, 23)},
		{"lr-lb-add", router, "own"},
	}
	for i, alias := range contract.HostAliases {
		host := facts.Gateway.Addresses[i].Addr().String()
		single := netip.PrefixFrom(alias, alias.BitLen()).String()
		commands = append(commands, []string{"lr-route-add", router, single, alias.String(), "rtoe"},
			[]string{"static-mac-binding-add", "rtoe", alias.String(), contract.HostAliasMAC().String()},
			[]string{"lr-nat-add", router, "dnat", host, alias.String()}, []string{"lr-nat-add", router, "snat", host, single})
	}
	for _, hop := range facts.Gateway.NextHops {
		commands = append(commands, []string{"lr-route-add", router,
			map[bool]string{true: "0.0.0.0/0", false: "::/0"}[hop.Is4()], hop.String()})
	}
	var all []string
	for _, command := range commands {
		all = append(append(all, "--"), command...)
	}
	g.ovn.NB(all[1:]...)
}

// onAlias are endpoints on the gateway's own host.
func onAlias(alias netip.Addr, ports ...uint16) string {
	var list []string
	for _, port := range ports {
		list = append(list, netip.AddrPortFrom(alias, port).String())
	}
	return strings.Join(list, ",")
}

// passes is how often the datapath looks at a packet again that comes by a port: the userspace datapath drops
// what wants more than eight passes, and OVN may come to need another.
func (g *gatewayCluster) passes(device string) int {
	g.tb.Helper()
	control := "--target=" + filepath.Join(filepath.Dir(strings.TrimPrefix(g.config.OVSDatabase, "unix:")),
		nodetest.Vswitchd+".ctl")
	next := map[string][]string{}
	dump := g.ovn.Run("ovs-appctl", control, "dpctl/dump-flows", "--names")
	for line := range strings.Lines(dump) {
		from := recircID.FindStringSubmatch(line)
		if from == nil || !strings.Contains(line, "in_port("+device+")") {
			continue
		}
		for _, to := range recircTo.FindAllStringSubmatch(line, -1) {
			next[from[1]] = append(next[from[1]], to[1])
		}
	}
	var deepest func(string, int) int
	deepest = func(id string, depth int) int {
		most := depth
		for _, to := range next[id] {
			if depth < 20 {
				most = max(most, deepest(to, depth+1))
			}
		}
		return most
	}
	if len(next) == 0 {
		g.tb.Fatalf("nothing came by %s:\n%s", device, dump)
	}
	return deepest("0", 0)
}

var (
	recircID = regexp.MustCompile(`recirc_id\((0x[0-9a-f]+|0)\)`)
	recircTo = regexp.MustCompile(`recirc\((0x[0-9a-f]+)\)`)
)

// nodePort is a Service with that port.
func (g *gatewayCluster) nodePort() {
	g.tb.Helper()
	_, err := g.client.CoreV1().Services("shop").Create(g.tb.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "service-uid"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.10",
			ClusterIPs: []string{"10.96.0.10", "fd00:10:96::10"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Name: "pod", Port: 80, TargetPort: intstr.FromInt(80),
				NodePort: 30080},
				{Name: "host", Protocol: corev1.ProtocolTCP, Port: 81, TargetPort: intstr.FromInt(22), NodePort: 30081}}},
	}, metav1.CreateOptions{})
	if err != nil {
		g.tb.Fatal(err)
	}
}

// inside does something in a network namespace.
func inside[T any](ns string, do func() (T, error)) (value T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if ns != "" {
			runtime.LockOSThread() // the thread ends with the goroutine
			var handle netns.NsHandle
			if handle, err = netns.GetFromPath(ns); err != nil {
				return
			}
			defer handle.Close()
			if err = netns.Set(handle); err != nil {
				return
			}
		}
		value, err = do()
	}()
	<-done
	return value, err
}

// echo serves lines, each answered by the client's address. It says nothing unasked.
func (g *gatewayCluster) echo(ns string, port int) {
	g.tb.Helper()
	server := net.ListenConfig{KeepAlive: -1}
	listener, err := inside(ns, func() (net.Listener, error) {
		return server.Listen(g.tb.Context(), "tcp", fmt.Sprintf(":%d", port))
	})
	if err != nil {
		g.tb.Fatal(err)
	}
	g.tb.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if _, err := fmt.Fprintln(conn, conn.RemoteAddr().(*net.TCPAddr).IP); err != nil {
						return
					}
				}
			}()
		}
	}()
}

// open connects within moments or not at all, and ask wants an answer.
func open(ns string, to netip.Addr, port uint16) (net.Conn, error) {
	return dial(ns, to, port, 2*time.Second)
}

func dial(ns string, to netip.Addr, port uint16, limit time.Duration) (net.Conn, error) {
	return inside(ns, func() (net.Conn, error) {
		return net.DialTimeout("tcp", netip.AddrPortFrom(to, port).String(), limit)
	})
}

func ask(conn net.Conn, limit time.Duration) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

// visits wants a server there to see a client with that address.
func (g *gatewayCluster) visits(ns string, to netip.Addr, port uint16, as netip.Addr) {
	g.tb.Helper()
	g.eventually(func() error {
		conn, err := open(ns, to, port)
		if err != nil {
			return err
		}
		defer conn.Close()
		seen, err := ask(conn, 2*time.Second)
		if err == nil && seen != as.String() {
			err = fmt.Errorf("%v port %d sees %s, not %v", to, port, seen, as)
		}
		return err
	})
}

// A gateway router of real OVN with the host's addresses, with the agent's flows before it: pods, node ports and
// the host share the address, and ovs-vswitchd and ovn-controller may restart.
func TestGatewayWithTheHostsAddresses(t *testing.T) {
	g := newGatewayCluster(t)
	g.echo("", 22)
	g.echo(g.outside, 80)
	g.visits(g.outside, gatewayHost, 22, outsideHost)
	g.nodePort()
	g.decide()
	g.startAgent()
	g.awaitReady()
	var facts contract.NodeFacts
	g.eventually(func() (err error) {
		if facts, err = g.facts(); err == nil &&
			(facts.Gateway == nil || !facts.Gateway.HostAddresses || len(facts.Gateway.Addresses) != 2) {
			err = fmt.Errorf("got %+v", facts.Gateway)
		}
		return err
	})
	if flows := g.ovn.Run("ovs-ofctl", "dump-flows", g.config.BridgeTarget("br-ex")); !strings.Contains(flows, "ct_mark") {
		t.Errorf("the controller was told of the gateway before its flows were there:\n%s", flows)
	}
	web := g.newPod("web", 3)
	g.allocate(web)
	g.mustAdd(web)
	g.echo(web.sandbox, 80)
	g.gateway(facts, web)
	check := func() {
		t.Helper()
		g.visits(web.sandbox, outsideHost, 80, gatewayHost)
		g.visits(web.sandbox, outsideHost6, 80, gatewayHost6)
		g.visits(g.outside, gatewayHost, 30080, netip.MustParseAddr("100.64.0.2"))
		g.visits(g.outside, gatewayHost6, 30080, netip.MustParseAddr("fd98::2"))
		g.visits(g.outside, gatewayHost, 22, outsideHost)
		g.visits(g.outside, gatewayHost6, 22, outsideHost6)
		g.visits("", outsideHost, 80, gatewayHost)
		g.visits(web.sandbox, gatewayHost, 22, contract.HostClients[0])
		g.visits(web.sandbox, gatewayHost6, 22, contract.HostClients[1])
	}
	check()
	g.echo("", 23)
	for i, host := range []netip.Addr{gatewayHost, gatewayHost6} {
		g.visits(g.outside, host, 30081, contract.HostClients[i])
		for range 8 { // each at once: a lost first packet would come again
			conn, err := dial(g.outside, host, 30081, nodetest.Patience)
			if err != nil {
				t.Fatal(err)
			}
			if seen, err := ask(conn, nodetest.Patience); err != nil || seen != contract.HostClients[i].String() {
				t.Errorf("%v port 30081 sees %s, %v", host, seen, err)
			}
			conn.Close()
		}
	}
	if n := g.passes("ex0"); n > 6 {
		t.Errorf("what comes from outside passes the datapath %d times more", n)
	} else {
		t.Logf("what comes from outside passes the datapath %d times more", n)
	}

	// The patch port is made anew, with another number.
	before := g.ovn.VS("get", "interface", openvswitch.PatchName(testNode), "ofport")
	g.ovn.Kill(nodetest.OVNController)
	g.ovn.VS("del-port", "br-ex", openvswitch.PatchName(testNode))
	g.ovn.Start(nodetest.OVNController)
	g.eventually(func() error {
		device := g.agent.ovs.Device(openvswitch.PatchName(testNode))
		if device == nil || device.Ofport == nil || fmt.Sprint(*device.Ofport) == before {
			return fmt.Errorf("the patch port is %+v, and was %s", device, before)
		}
		return nil
	})
	check()

	// Flows that somebody deletes come with the next look.
	g.ovn.Run("ovs-ofctl", "del-flows", g.config.BridgeTarget("br-ex"), "table=10")
	g.agent.gateway.FlowsLost()
	check()
	g.awaitReady()
	g.stop()
}

// ovs-vswitchd ends and starts: its flows, and on the userspace datapath the host's own interface, are gone. The
// host's connections outlive it, and the flows are there again as soon as ovs-vswitchd is.
func TestFlowsOutliveVswitchd(t *testing.T) {
	g := newGatewayCluster(t)
	g.echo("", 22)
	g.echo(g.outside, 80)
	g.decide()
	g.startAgent()
	g.awaitReady()
	talks := map[string]net.Conn{}
	for name, to := range map[string]netip.Addr{"IPv4": gatewayHost, "IPv6": gatewayHost6} {
		g.visits(g.outside, to, 22, map[string]netip.Addr{"IPv4": outsideHost, "IPv6": outsideHost6}[name])
		conn, err := dial(g.outside, to, 22, nodetest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		talks[name] = conn
	}
	want := g.ovn.Run("ovs-ofctl", "--no-stats", "dump-flows", g.config.BridgeTarget("br-ex"))
	g.ovn.Kill(nodetest.Vswitchd)
	g.ovn.Start(nodetest.Vswitchd)
	began := time.Now()
	var plain time.Time // since when there is a bridge, which has no flows yet
	g.eventually(func() error {
		output, err := exec.Command(g.config.OVSOfctl, "--no-stats", "dump-flows",
			g.config.BridgeTarget("br-ex")).CombinedOutput()
		if err == nil && plain.IsZero() {
			plain = time.Now()
		}
		if now := strings.TrimSpace(string(output)); err != nil || now != want {
			return fmt.Errorf("flows are missing: %v\n%s", err, lineDiff(want, now))
		}
		return nil
	})
	t.Logf("flows are back %v after ovs-vswitchd, and %v after its bridge", time.Since(began).Round(time.Millisecond),
		time.Since(plain).Round(time.Millisecond))
	for name, conn := range talks {
		if _, err := ask(conn, nodetest.Patience); err != nil {
			t.Errorf("%s: the host's connection broke: %v", name, err)
		}
		t.Logf("%s: the host's connection goes on %v after ovs-vswitchd's start", name,
			time.Since(began).Round(time.Millisecond))
	}
	g.awaitReady()
}
