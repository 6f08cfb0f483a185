package extbridge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/go-openvswitch/ovs"
	"github.com/vishvananda/netns"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// world is an external bridge in a real Open vSwitch with the userspace datapath. The test's own namespace
// is the host; another is the outside, with the address of a router there. Behind the patch port a Linux router
// in a namespace stands in for OVN's: it has the host's MAC and address, passes pods' packets without
// translation, and servers on it stand for what OVN's load balancers would lead on to pods. How OVN's own
// router goes with the flows is not shown here.
type world struct {
	tb        testing.TB
	ovn       *nodetest.OVN
	bridge    Bridge
	entries   []Entry
	installer *Installer
	target    string // the bridge, as the installer dials it
	outside   namespace
	gateway   namespace
	pod       namespace
}

type namespace string // its path, empty for the host's

var (
	host4, host6       = netip.MustParseAddr("172.31.0.2"), netip.MustParseAddr("fd00:172:31::2")
	second4, second6   = netip.MustParseAddr("172.31.0.22"), netip.MustParseAddr("fd00:172:31::22")
	outside4, outside6 = netip.MustParseAddr("172.31.0.254"), netip.MustParseAddr("fd00:172:31::254")
	pod4, pod6         = netip.MustParseAddr("10.244.1.5"), netip.MustParseAddr("fd00:10:244:1::5")
	virtual4, virtual6 = netip.MustParseAddr("172.31.0.100"), netip.MustParseAddr("fd00:172:31::100")
	router4, router6   = netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("fd00:10:244:1::1")
	hostMAC            = mustMAC("02:00:00:00:00:02")
	ownMAC             = mustMAC("02:00:00:00:00:99")
	own4, own6         = netip.MustParseAddr("172.31.0.99"), netip.MustParseAddr("fd00:172:31::99")
)

// A node port, and one that the host's connections may have.
const nodePort, highPort = 30080, 40080

func mustMAC(text string) net.HardwareAddr {
	mac, err := net.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	return mac
}

// newWorld has no flows yet. With own the gateway router has a MAC and addresses of its own.
func newWorld(tb testing.TB, own bool) *world {
	tb.Helper()
	w := &world{tb: tb, ovn: nodetest.StartOVN(tb)}
	for _, name := range []string{nodetest.OVNController, nodetest.Northd} { // of no use here
		w.ovn.Kill(name)
	}
	for _, ns := range []struct {
		to   *namespace
		name string
	}{{&w.outside, "outside"}, {&w.gateway, "gateway"}, {&w.pod, "pod"}} {
		*ns.to = namespace(nodetest.Sandbox(tb, fmt.Sprintf("%s-%d", ns.name, sequence())))
	}
	rundir := filepath.Dir(strings.TrimPrefix(w.ovn.OVSDatabase(), "unix:"))
	w.installer, w.target = &Installer{Program: filepath.Join(nodetest.Programs(tb), "ovs-ofctl")},
		"unix:"+rundir+"/br-ex.mgmt"
	w.ovn.VS("add-br", "br-ex", "--", "set", "bridge", "br-ex", "datapath_type="+nodetest.Datapath(),
		`other-config:hwaddr="`+hostMAC.String()+`"`,
		"--", "add-br", "br-gw", "--", "set", "bridge", "br-gw", "datapath_type="+nodetest.Datapath(),
		"--", "add-port", "br-gw", "patch-gw", "--", "set", "interface", "patch-gw", "type=patch", "options:peer=patch-ex")
	w.connect("up0", "br-ex", w.outside, "eth0")
	w.connect("gw0", "br-gw", w.gateway, "ext0")
	w.crossAsOVN()
	w.run("", "ip", "addr", "add", host4.String()+"/24", "dev", "br-ex")
	w.run("", "ip", "addr", "add", host6.String()+"/64", "dev", "br-ex", "nodad")
	w.run("", "ip", "link", "set", "br-ex", "up")
	tb.Cleanup(func() { w.run("", "ip", "link", "set", "br-ex", "down") })
	w.run(w.outside, "ip", "addr", "add", outside4.String()+"/24", "dev", "eth0")
	w.run(w.outside, "ip", "addr", "add", outside6.String()+"/64", "dev", "eth0", "nodad")
	w.startGateway(own)
	w.bridge = Bridge{
		Name: "br-ex", MAC: hostMAC, Host: []netip.Addr{host4, host6}, HostAddresses: !own, GatewayMAC: ownMAC,
		Cluster: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48"),
			netip.MustParsePrefix("100.64.0.0/16"), netip.MustParsePrefix("fd98::/64")},
		PodSubnets: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")},
	}
	for _, n := range Neighbours(w.bridge) { // as the agent's platform does
		w.run("", "ip", "route", "replace", netip.PrefixFrom(n.Addr, n.Addr.BitLen()).String(), "dev", "br-ex")
		w.run("", "ip", "neigh", "replace", n.Addr.String(), "lladdr", n.MAC.String(), "dev", "br-ex", "nud", "permanent")
	}
	w.bridge.Uplink = w.ofport("up0")
	w.entries = []Entry{{Protocol: "tcp", Port: nodePort}, {Protocol: "udp", Port: nodePort},
		{Protocol: "tcp", Port: highPort}, {Protocol: "udp", Port: highPort},
		{Addr: virtual4, Protocol: "tcp", Port: 80}, {Addr: virtual6, Protocol: "tcp", Port: 80}}
	return w
}

// startGateway makes the router behind the patch port, and a pod behind that.
func (w *world) startGateway(own bool) {
	w.tb.Helper()
	mac, address4, address6 := hostMAC, host4, host6
	if own {
		mac, address4, address6 = ownMAC, own4, own6
	}
	w.run(w.gateway, "ip", "link", "set", "ext0", "address", mac.String())
	w.run(w.gateway, "ip", "addr", "add", address4.String()+"/24", "dev", "ext0")
	w.run(w.gateway, "ip", "addr", "add", address6.String()+"/64", "dev", "ext0", "nodad")
	for _, virtual := range []string{virtual4.String() + "/32", virtual6.String() + "/128"} {
		w.run(w.gateway, "ip", "addr", "add", virtual, "dev", "lo")
	}
	if own { // as a load balancer of OVN's takes them
		w.run(w.gateway, "ip", "addr", "add", host4.String()+"/32", "dev", "lo")
		w.run(w.gateway, "ip", "addr", "add", host6.String()+"/128", "dev", "lo")
	}
	w.run(w.gateway, "ip", "route", "add", "default", "via", outside4.String())
	w.run(w.gateway, "ip", "-6", "route", "add", "default", "via", outside6.String())
	for i, alias := range contract.HostAliases {
		w.run(w.gateway, "ip", "route", "add", fmt.Sprintf("%v/%d", alias, alias.BitLen()), "dev", "ext0", "src",
			[]netip.Addr{address4, address6}[i].String())
		// as OVN's router has them by table Static_MAC_Binding
		for _, addr := range []netip.Addr{alias, []netip.Addr{second4, second6}[i]} {
			w.run(w.gateway, "ip", "neigh", "replace", addr.String(), "lladdr", contract.HostAliasMAC().String(), "dev", "ext0")
		}
	}
	w.run(w.gateway, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
		"net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.ext0.arp_announce=2", "net.ipv4.conf.ext0.arp_ignore=1")
	// A gateway router of OVN's resets no connection to its addresses (ovn-northd(8), "UDP port unreachable" and "TCP
	// reset").
	w.run(w.gateway, "nft", "add table inet quiet; add chain inet quiet output { type filter hook output priority 0; }; "+
		"add rule inet quiet output tcp flags rst drop")
	w.run(w.gateway, "ip", "link", "add", "pod0", "type", "veth", "peer", "name", "eth0", "netns",
		filepath.Base(string(w.pod)))
	for _, address := range []string{router4.String() + "/24", router6.String() + "/64"} {
		w.run(w.gateway, "ip", "addr", "add", address, "dev", "pod0")
	}
	w.run(w.gateway, "ip", "link", "set", "pod0", "up")
	w.run(w.pod, "ip", "link", "set", "eth0", "up")
	w.run(w.pod, "ip", "link", "set", "lo", "up")
	w.run(w.pod, "ip", "addr", "add", pod4.String()+"/24", "dev", "eth0")
	w.run(w.pod, "ip", "addr", "add", pod6.String()+"/64", "dev", "eth0", "nodad")
	w.run(w.pod, "ip", "route", "add", "default", "via", router4.String())
	w.run(w.pod, "ip", "-6", "route", "add", "default", "via", router6.String())
}

// connect makes a device of a namespace a port of a bridge.
func (w *world) connect(port, bridge string, ns namespace, device string) {
	w.tb.Helper()
	w.run("", "ip", "link", "add", port, "type", "veth", "peer", "name", device, "netns", filepath.Base(string(ns)))
	w.tb.Cleanup(func() { w.run("", "ip", "link", "del", port) })
	w.run("", "sysctl", "-qw", "net.ipv6.conf."+port+".disable_ipv6=1")
	if nodetest.Userspace() { // a packet socket copies frames: the host's own stack must not see them
		w.run("", "nft", "add table netdev test; add chain netdev test "+port+
			" { type filter hook ingress device "+port+" priority 0; policy drop; }")
	}
	w.run("", "ip", "link", "set", port, "up")
	w.run(ns, "ethtool", "-K", device, "tx", "off")
	w.run(ns, "ip", "link", "set", device, "up")
	w.run(ns, "ip", "link", "set", "lo", "up")
	w.ovn.VS("add-port", bridge, port)
}

// plugGateway makes the patch port to the router, as ovn-controller does when the gateway's rows are there.
func (w *world) plugGateway() {
	w.tb.Helper()
	w.ovn.VS("add-port", "br-ex", "patch-ex", "--", "set", "interface", "patch-ex", "type=patch", "options:peer=patch-gw")
	w.ovn.VS("set", "port", "patch-ex", "protected=true", "--", "set", "port", "br-ex", "protected=true")
	w.bridge.Patch = w.ofport("patch-ex")
}

// crossAsOVN has the router's packets cross the patch port as OVN's do: not as the last that is done with them
// (OVN's controller/physical.c, of localnet ports).
func (w *world) crossAsOVN() {
	w.tb.Helper()
	out, in := w.ofport("patch-gw"), w.ofport("gw0")
	rundir := filepath.Dir(strings.TrimPrefix(w.target, "unix:"))
	for _, flow := range []string{
		fmt.Sprintf("in_port=%d,actions=push:NXM_OF_IN_PORT[],load:0->NXM_OF_IN_PORT[],output:%d,pop:NXM_OF_IN_PORT[]", in,
			out),
		fmt.Sprintf("in_port=%d,actions=output:%d", out, in),
	} {
		w.ovn.Run("ovs-ofctl", "add-flow", "unix:"+rundir+"/br-gw.mgmt", flow)
	}
}

func (w *world) ofport(device string) uint16 {
	w.tb.Helper()
	w.ovn.VS("wait-until", "interface", device, "ofport>0")
	n, err := strconv.ParseUint(w.ovn.VS("get", "interface", device, "ofport"), 10, 16)
	if err != nil {
		w.tb.Fatal(err)
	}
	return uint16(n)
}

// install applies the flows of the world as it is now.
func (w *world) install() {
	w.tb.Helper()
	w.apply(Flows(w.bridge, w.entries))
}

func (w *world) apply(flows []*ovs.Flow) {
	w.tb.Helper()
	if _, err := w.installer.Apply(w.tb.Context(), w.target, flows); err != nil {
		w.tb.Fatal(err)
	}
}

// ready is a world with flows and a gateway.
func ready(tb testing.TB, own bool) *world {
	tb.Helper()
	w := newWorld(tb, own)
	w.install()
	w.plugGateway()
	w.install()
	return w
}

func (w *world) run(ns namespace, command ...string) {
	w.tb.Helper()
	if ns != "" {
		command = append([]string{"nsenter", "--net=" + string(ns)}, command...)
	}
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		w.tb.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, output)
	}
}

var sequence = func() func() int {
	n := 0
	return func() int { n++; return n }
}()

// within runs a function in a namespace: sockets stay where they are made.
func within[T any](ns namespace, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if ns != "" {
			handle, err := netns.GetFromPath(string(ns))
			if err == nil {
				err = netns.Set(handle)
				handle.Close()
			}
			if err != nil {
				var none T
				answers <- answer{none, err}
				return
			}
		}
		value, err := do()
		answers <- answer{value, err}
	}()
	a := <-answers
	return a.value, a.err
}

// serve answers each line on each connection with the client's address, NAME, and the line.
func (w *world) serve(ns namespace, address, name string) {
	w.tb.Helper()
	listener, err := within(ns, func() (net.Listener, error) {
		config := net.ListenConfig{}
		config.SetMultipathTCP(false)
		return config.Listen(context.Background(), "tcp", address)
	})
	if err != nil {
		w.tb.Fatal(err)
	}
	var open sync.WaitGroup
	w.tb.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					if _, err := fmt.Fprintf(conn, "%s %s %s\n", conn.RemoteAddr(), name, lines.Text()); err != nil {
						return
					}
				}
			})
		}
	}()
}

// serveUDP answers each datagram alike.
func (w *world) serveUDP(ns namespace, address, name string) {
	w.tb.Helper()
	socket, err := within(ns, func() (net.PacketConn, error) { return net.ListenPacket("udp", address) })
	if err != nil {
		w.tb.Fatal(err)
	}
	w.tb.Cleanup(func() { socket.Close() })
	go func() {
		buffer := make([]byte, 65536)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo(fmt.Appendf(nil, "%s %s %s", from, name, buffer[:n]), from) // a lost answer is one
		}
	}()
}

// brief is for one attempt of several.
const brief = 3 * time.Second

// dial connects from a namespace; a local address may be empty.
func dial(ns namespace, network, local, remote string, limit time.Duration) (net.Conn, error) {
	return within(ns, func() (net.Conn, error) {
		dialer := net.Dialer{Timeout: limit}
		dialer.SetMultipathTCP(false)
		if local != "" {
			var err error
			if strings.HasPrefix(network, "udp") {
				dialer.LocalAddr, err = net.ResolveUDPAddr(network, local)
			} else {
				dialer.LocalAddr, err = net.ResolveTCPAddr(network, local)
			}
			if err != nil {
				return nil, err
			}
		}
		return dialer.Dial(network, remote)
	})
}

// answer is a server's to one line: who it is, and whom it sees.
type answer struct {
	client netip.AddrPort
	server string
}

// say sends a line, and reads the answer.
func say(conn net.Conn, text string, limit time.Duration) (answer, error) {
	_ = conn.SetDeadline(time.Now().Add(limit)) // sockets have deadlines
	line := text
	if conn.RemoteAddr().Network() == "tcp" {
		line += "\n"
	}
	if _, err := io.WriteString(conn, line); err != nil {
		return answer{}, err
	}
	buffer := make([]byte, 65536)
	n, err := conn.Read(buffer)
	if err != nil {
		return answer{}, err
	}
	fields := strings.Fields(string(buffer[:n]))
	if len(fields) != 3 || fields[2] != text {
		return answer{}, fmt.Errorf("got %q for %q", buffer[:n], text)
	}
	client, err := netip.ParseAddrPort(fields[0])
	return answer{netip.AddrPortFrom(client.Addr().Unmap(), client.Port()), fields[1]}, err
}

// ask is dial and say, again and again within the time that neighbours need to be found.
func (w *world) ask(ns namespace, network, remote string) answer {
	w.tb.Helper()
	var got answer
	nodetest.Eventually(w.tb, 8*time.Second, func() error {
		conn, err := dial(ns, network, "", remote, brief)
		if err != nil {
			return err
		}
		defer conn.Close()
		got, err = say(conn, "hello", brief)
		if err != nil {
			err = fmt.Errorf("%s %s: %w", network, remote, err)
		}
		return err
	})
	return got
}

// carries a long packet of a protocol that neither the flows nor connection tracking know, in fragments. None of them
// waits anywhere: what comes late does not count.
func (w *world) carries(from, to namespace, address netip.Addr) {
	w.tb.Helper()
	const unknown = ":253" // RFC 3692's, for experiments
	network := map[bool]string{true: "ip4", false: "ip6"}[address.Is4()] + unknown
	socket, err := within(to, func() (net.PacketConn, error) { return net.ListenPacket(network, address.String()) })
	if err != nil {
		w.tb.Fatal(err)
	}
	defer socket.Close()
	sender, err := within(from, func() (net.Conn, error) { return net.Dial(network, address.String()) })
	if err != nil {
		w.tb.Fatal(err)
	}
	defer sender.Close()
	attempt := 0
	nodetest.Eventually(w.tb, 8*time.Second, func() error {
		attempt++
		packet := bytes.Repeat([]byte{byte(attempt)}, 4000)
		if _, err := sender.Write(packet); err != nil {
			return err
		}
		if err := socket.SetReadDeadline(time.Now().Add(brief)); err != nil {
			return err
		}
		buffer := make([]byte, 65536)
		n, _, err := socket.ReadFrom(buffer)
		if err == nil && !bytes.Equal(buffer[:n], packet) {
			err = fmt.Errorf("%d bytes of another attempt have come to %v", n, address)
		}
		return err
	})
}

func (w *world) ping(ns namespace, to netip.Addr, options ...string) {
	w.tb.Helper()
	nodetest.Eventually(w.tb, 8*time.Second, func() error {
		command := append([]string{"ping", "-n", "-c1", "-W1"}, options...)
		command = append(command, to.String())
		if ns != "" {
			command = append([]string{"nsenter", "--net=" + string(ns)}, command...)
		}
		if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return errors.Join(err, errors.New(string(output)))
		}
		return nil
	})
}

func on(addr netip.Addr, port uint16) string { return netip.AddrPortFrom(addr, port).String() }
