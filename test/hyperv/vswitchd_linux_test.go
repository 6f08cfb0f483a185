package hyperv

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/weftnet/weft/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// node is a stock ovs-vswitchd over the emulated extension, with a bridge br-int.
type node struct {
	*nodetest.OVN
	t         testing.TB
	extension *Extension
}

// serve has an extension, to which ovs-vswitchd is led, until the test ends.
func serve(t testing.TB, config Config) *Extension {
	t.Helper()
	config.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	e := New(config)
	t.Cleanup(e.Close)
	for variable, value := range nodetest.Driver(t, e.Serve) {
		t.Setenv(variable, value)
	}
	return e
}

func startNode(t testing.TB, faults Faults) *node {
	t.Helper()
	e := serve(t, Config{Adapter: "Ethernet", Faults: faults})
	n := &node{OVN: nodetest.StartOVS(t), t: t, extension: e}
	n.VS("add-br", "br-int", "--", "set", "bridge", "br-int", "fail_mode=secure")
	return n
}

// ctl asks ovs-vswitchd something.
func (n *node) ctl(words ...string) string {
	n.t.Helper()
	return n.Run("ovs-appctl", append([]string{"--target", n.Control(nodetest.Vswitchd)}, words...)...)
}

// flows gives br-int these flows and no others.
func (n *node) flows(flows ...string) {
	n.t.Helper()
	n.Run("ovs-ofctl", "del-flows", n.management())
	for _, flow := range flows {
		n.Run("ovs-ofctl", "add-flow", n.management(), flow)
	}
}

// try runs a program that may fail.
func (n *node) try(program string, args ...string) (string, error) {
	output, err := exec.CommandContext(n.t.Context(), filepath.Join(nodetest.Programs(n.t), program),
		args...).CombinedOutput()
	return string(output), err
}

func (n *node) management() string {
	return "unix:" + filepath.Join(filepath.Dir(n.Control(nodetest.Vswitchd)), "br-int.mgmt")
}

// pod is a network namespace with one port on br-int.
type pod struct {
	n                 *node
	name, mac         string
	address, address6 string
}

// pod adds the pod of that number: 10.0.0.N and fd00::N, OpenFlow port N. It knows its neighbours, so that
// there is no other traffic than a test's.
func (n *node) pod(number int) pod {
	n.t.Helper()
	p := pod{n, fmt.Sprintf("pod%d", number), podMAC(number), fmt.Sprintf("10.0.0.%d", number),
		fmt.Sprintf("fd00::%d", number)}
	space, err := netns.GetFromPath(nodetest.Sandbox(n.t, p.name))
	if err != nil {
		n.t.Fatal(err)
	}
	defer space.Close()
	mac, _ := net.ParseMAC(p.mac)
	end := "v" + p.name
	err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: end}, PeerName: "eth0", PeerHardwareAddr: mac,
		PeerNamespace: netlink.NsFd(int(space))})
	if err != nil {
		n.t.Fatal(err)
	}
	run(n.t, "sysctl", "-qw", "net.ipv6.conf."+end+".disable_ipv6=1")
	run(n.t, "ip", "link", "set", end, "up")
	p.run("ip", "link", "set", "lo", "up")
	p.run("ip", "link", "set", "eth0", "up")
	p.run("ethtool", "-K", "eth0", "tx", "off")
	p.run("ip", "addr", "add", p.address+"/16", "dev", "eth0")
	p.run("ip", "addr", "add", p.address6+"/64", "dev", "eth0", "nodad")
	for other := 1; other < 10; other++ {
		if other != number {
			p.run("ip", "neigh", "add", fmt.Sprintf("10.0.0.%d", other), "lladdr", podMAC(other), "dev", "eth0")
			p.run("ip", "neigh", "add", fmt.Sprintf("fd00::%d", other), "lladdr", podMAC(other), "dev", "eth0")
		}
	}
	n.VS("add-port", "br-int", end, "--", "set", "interface", end, fmt.Sprintf("ofport_request=%d", number))
	return p
}

func podMAC(number int) string { return fmt.Sprintf("0a:58:0a:00:00:%02x", number) }

func (p pod) run(words ...string) string {
	p.n.t.Helper()
	return run(p.n.t, append([]string{"ip", "netns", "exec", p.name}, words...)...)
}

// ping counts the answers to so many requests.
func (p pod) ping(to string, requests int) int {
	p.n.t.Helper()
	return p.pingSized(to, requests, 56)
}

// pingSized is ping with so many bytes in a request.
func (p pod) pingSized(to string, requests, size int) int {
	p.n.t.Helper()
	command := exec.CommandContext(p.n.t.Context(), "ip", "netns", "exec", p.name, "ping", "-n", "-q", "-i", "0.05", "-W",
		"10", "-c", fmt.Sprint(requests),
		"-s", fmt.Sprint(size), to)
	output, _ := command.CombinedOutput() // no answer is an error of ping's
	var sent, received int
	for line := range strings.SplitSeq(string(output), "\n") {
		if n, _ := fmt.Sscanf(line, "%d packets transmitted, %d received", &sent, &received); n == 2 {
			return received
		}
	}
	p.n.t.Fatalf("ping %s: %s", to, output)
	return 0
}

func run(t testing.TB, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nodetest.Patience)
	defer cancel()
	output, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, output)
	}
	return string(output)
}

// without are all known faults but these.
func without(faults ...Fault) Faults {
	f := KnownFaults()
	for _, fault := range faults {
		delete(f, fault)
	}
	return f
}
