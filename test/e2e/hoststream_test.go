//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/companion"
)

// hostsOwnPort is where the hosts serve for themselves.
const hostsOwnPort = 7010

// hostStreams are connections that have nothing to do with the cluster but that they go to a node: from
// outside to a server of the host's, and from the API server to the kubelet.
type hostStreams struct {
	own     *companion.Program
	kubelet *companion.Program
	control *companion.Program // from another node's host to its own pod
}

func openHostStreams(t testing.TB, node string) hostStreams {
	t.Helper()
	return openStreamsTo(t, node, nodeAddresses(t, node))
}

// openStreamsTo are those to a node at some of its addresses.
func openStreamsTo(t testing.TB, node string, addresses []netip.Addr) hostStreams {
	t.Helper()
	var targets []string
	for _, a := range addresses {
		targets = append(targets, fmt.Sprintf("%s/%s=%s", node, a, netip.AddrPortFrom(a, hostsOwnPort)))
	}
	// Input and output of this one are the connection between the API server and the kubelet.
	exec := companion.Start(t, "connected", cluster.Command("kubectl", "--", "exec", "-i", web(node), "-c", "lines", "--",
		"/bin/steady", "dial", "exec/"+node+"=127.0.0.1:7000"))
	other := fmt.Sprintf("%sl1=%s", control, netip.AddrPortFrom(podAddresses(t, web("l1"))[0], 7000))
	return hostStreams{outsideHost.hold(t, targets...), exec, host("l1").hold(t, other)}
}

// survive ends the streams, none of which may have ended before; the host's own may have stopped for so long on an idle
// machine.
func (s hostStreams) survive(t testing.TB, stall time.Duration) {
	t.Helper()
	limit := onThisMachine(stall, controlGap(t, companion.Stop[report](t, s.control)))
	for _, r := range companion.Stop[report](t, s.own) {
		t.Logf("%s: %d answers, longest gap %d ms", r.Name, r.Answers, r.LongestGapMs)
		if r.Error != "" || r.Answers == 0 || r.LongestGapMs > limit {
			t.Errorf("connection %+v; it may stop for %d ms", r, limit)
		}
	}
	if reports := companion.Stop[report](t, s.kubelet); len(reports) != 1 || reports[0].Error != "" {
		t.Errorf("what runs by way of the kubelet: %+v", reports)
	}
}

// TestHostsOwnTrafficSurvives what happens to those who share the host's address with it.
func TestHostsOwnTrafficSurvives(t *testing.T) {
	long(t)
	for _, node := range []string{"l2", badDays} {
		host(node).serve(t, steady(), "serve", fmt.Sprintf(":%d", hostsOwnPort))
	}
	for _, c := range []struct {
		name  string
		stall time.Duration
		do    func(t *testing.T, node string)
		long  bool
	}{
		{name: "the agent is killed", stall: longestStop, do: kills("weft-node")},
		{name: "the agent is restarted", stall: longestStop, do: restarts("weft-node"), long: true},
		{name: "ovs-vswitchd is killed", stall: 20 * time.Second, do: kills("ovs-vswitchd")},
		{name: "ovs-vswitchd is restarted", stall: 20 * time.Second, do: restarts("ovs-vswitchd"), long: true},
		// A datapath in userspace forwards nothing while ovs-vswitchd has no database (bridge_run in vswitchd/bridge.c),
		// and ovs-vswitchd waits for a second before it connects again.
		{name: "ovsdb-server is killed", stall: longestStop + 2*time.Second, do: kills("ovsdb-server"), long: true},
		{name: "ovn-controller is killed", stall: longestStop, do: killsController, long: true},
		{name: "gateway none", stall: longestStop, do: inMode("none", nobodyLeaves)},
		{name: "gateway routed", stall: longestStop, do: inMode("routed", leavesWithItsOwn)},
		{name: "gateway shared", stall: longestStop, do: inMode("shared", nobodyLeaves), long: true},
	} {
		if c.long && !*thorough {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for _, node := range []string{"l2", badDays} {
				t.Run(node, func(t *testing.T) {
					t.Parallel()
					streams := openHostStreams(t, node)
					c.do(t, node)
					pod := inWeb(t, node)
					eventually(t, 60*time.Second, "the pod leaves with its node's address", func() error {
						return leavesAs(t, pod, nodeAddresses(t, node))
					})
					streams.survive(t, c.stall)
				})
			}
		})
	}
}

func kills(component string) func(*testing.T, string) {
	return func(t *testing.T, node string) {
		cluster.Must(t, "kill", node, component)
		isReadyAgain(t, node)
	}
}

func restarts(component string) func(*testing.T, string) {
	return func(t *testing.T, node string) {
		cluster.Must(t, "restart", node, component)
		isReadyAgain(t, node)
	}
}

// killsController kills a node's own ovn-controller, or the chassis host that runs it.
func killsController(t *testing.T, node string) {
	if isWindows(node) {
		killHost(t, node)
	} else {
		cluster.Must(t, "kill", node, "ovn-controller")
	}
	isReadyAgain(t, node)
}

// isReadyAgain waits until an agent that may not have noticed yet that something is wrong, is ready.
func isReadyAgain(t testing.TB, node string) {
	t.Helper()
	eventually(t, 60*time.Second, "the gateway of "+node+" serves", func() error {
		return inWeb(t, node).ask(append([]string{"-timeout", "1s"}, outsideURLs(outsideAddresses(t)[0],
			"clientip")...)...).failed()
	})
	isReady(t, node)
}

// inMode gives a node another kind of gateway, looks at what that makes of a pod's way out, and gives it
// back its own.
func inMode(mode string, look func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, node string) {
		t.Run(mode, func(t *testing.T) {
			before := cluster.Must(t, "exec", node, "--", "cat", "/etc/weft/node.yaml")
			if !strings.Contains(before, "gateway: local") {
				t.Fatalf("%s has the configuration %q", node, before)
			}
			replaceConfig(t, node, strings.Replace(before, "gateway: local", "gateway: "+mode, 1))
			isReady(t, node)
			look(t, node)
		})
	}
}

func nobodyLeaves(t *testing.T, node string) {
	t.Helper()
	eventually(t, inForce, "no pod leaves", func() error {
		return inWeb(t, node).ask(append([]string{"-timeout", "1s"}, outsideURLs(outsideAddresses(t)[0],
			"clientip")...)...).unanswered()
	})
	webServes(t, node, 20*time.Second)
}

// leavesWithItsOwn: the routers outside are told where the pods are.
func leavesWithItsOwn(t *testing.T, node string) {
	t.Helper()
	var sources []netip.Addr
	for i, addr := range podAddresses(t, web(node)) {
		sources = append(sources, addr)
		subnet := netip.PrefixFrom(addr, []int{24, 64}[i]).Masked()
		via := nodeAddresses(t, node)[i]
		route(t, central, via, subnet)
		if isWindows(node) { // they are behind the central
			via = ofFamily(parseAddrs("172.31.0.254", "fd00:31::254"), via)
		}
		route(t, outsideHost, via, subnet)
	}
	pod := inWeb(t, node)
	eventually(t, inForce, "the pod leaves with an address of its own", func() error { return leavesAs(t, pod, sources) })
	// A gateway of another node that leaves the client's address answers it, too.
	local := "routed-" + node
	cluster.Apply(t, service(local, "type: NodePort\nexternalTrafficPolicy: Local")+slicesOf(t, local, "l1", "w1"))
	ports := nodePorts(t, local)
	for _, other := range []string{"l1", "w1"} {
		for i, addr := range nodeAddresses(t, other) {
			served(t, pod, []string{web(other)}, httpURL(addr, ports["http"], "hostname"),
				udpURL(addr, ports["udp"], "hostname"))
			if err := pod.ask(httpURL(addr, ports["http"], "clientip"), udpURL(addr, ports["udp"], "clientip")).sees(
				nodeAddresses(t, node)[i]); err != nil {
				t.Errorf("at %s of %s: %v", addr, other, err)
			}
		}
	}
	// And it is reached by it.
	if err := outsideHost.ask(httpURL(sources[0], 8080, "hostname"), httpURL(sources[1], 8080, "hostname"),
		udpURL(sources[0], 8081, "hostname")).are(web(node)); err != nil {
		t.Error(err)
	}
}
