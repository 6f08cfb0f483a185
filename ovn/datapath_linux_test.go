package ovn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestMain gives the tests namespaces of their own, which those with a datapath need. Without root's
// rights those fail, and the others run as they are.
func TestMain(m *testing.M) {
	if os.Geteuid() == 0 {
		nodetest.MainInParts(m, 3)
	}
	os.Exit(m.Run())
}

// datapath is node n1 with a whole OVN that has the translation's rows, and with pods and a host in
// network namespaces.
type datapath struct {
	*world
	t      *testing.T
	ovn    *nodetest.OVN
	c      *cluster
	engine *ovsdb.Engine
	zones  []*datapathZone
	// patience is how long a client waits for a connection.
	patience time.Duration
	// port is the last one that a client had. No two have the same: a connection by a Service, once translated, would
	// equal one straight to its endpoint, which the tracker and the endpoint's kernel remember for a minute.
	port atomic.Int32
}

// datapathZone is an OVN with databases of its own, and what they have of the translation's rows.
type datapathZone struct {
	ovn    *nodetest.OVN
	engine *ovsdb.Engine
	rows   func([]ovsdb.Change) []ovsdb.Change
}

func newDatapath(t *testing.T, s *settings.Settings) *datapath {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes network namespaces: run it as root")
	}
	o := nodetest.StartOVN(t)
	becomeChassis(o, "1", "127.0.0.1")
	schema := ovsdbtest.Northbound(t)
	d := &datapath{world: newWorld(), t: t, ovn: o, c: newCluster(s),
		engine: ovsdb.NewEngine(ovsdbtest.Connect(t, schema, o.Northbound(), northbound.Tables...))}
	d.zones = []*datapathZone{{o, d.engine, func(all []ovsdb.Change) []ovsdb.Change { return all }}}
	d.patience = nodetest.Patience
	d.port.Store(10000) // below those that the kernel gives
	n1 := d.node("n1", "10.244.0.0/24", "fd00:10:244::/64")
	n1.Facts = ovntest.Facts(1, true)
	d.c.begin(records.Records{}, d.put(n1), d.Get)
	if err := d.engine.Replace(context.Background(), d.c.takeEverything()); err != nil {
		t.Fatal(err)
	}
	return d
}

// becomeChassis has a node join OVN as the one with that number, which tunnels come to at an address.
func becomeChassis(o *nodetest.OVN, number, tunnels string) {
	o.VS("set", "Open_vSwitch", ".", "external_ids:system-id=chassis-"+number, "external_ids:hostname=n"+number,
		"external_ids:ovn-remote="+o.Southbound(), "external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip="+tunnels, "external_ids:ovn-bridge-datapath-type="+nodetest.Datapath(),
		"external_ids:ovn-bridge-mappings=external:br-ex")
	o.VS("--may-exist", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type="+nodetest.Datapath(),
		"fail_mode=secure",
		"--", "add-br", "br-ex", "--", "set", "Bridge", "br-ex", "datapath_type="+nodetest.Datapath())
}

// do puts objects, and waits until their flows are in force.
func (d *datapath) do(given ...any) {
	d.t.Helper()
	d.touch(d.put(given...))
}

// touch has objects looked at again, and waits until the flows are in force.
func (d *datapath) touch(keys []part.Event) {
	d.t.Helper()
	for ; len(keys) > 0; keys = d.absorb(d.c) {
		d.c.update(keys, d.Get)
		changes := d.c.takeChanges()
		for _, z := range d.zones {
			if err := z.engine.Apply(context.Background(), z.rows(changes)); err != nil {
				d.t.Fatal(err)
			}
		}
	}
	for _, z := range d.zones {
		z.ovn.NB("--timeout=100", "--wait=hv", "sync")
	}
	d.revalidate()
}

// revalidate has the datapath looked through: until then it has copies of flows that are gone, and numbers
// of packets that nobody has counted. The first look that ends may have begun before the flows changed.
func (d *datapath) revalidate() {
	d.t.Helper()
	for range 2 {
		d.ovn.Run("ovs-appctl", "-t", filepath.Join(filepath.Dir(strings.TrimPrefix(d.ovn.OVSDatabase(), "unix:")),
			nodetest.Vswitchd+".ctl"), "revalidator/wait")
	}
}

// pods are new, and serve as servers that tell their names on port 8080.
func (d *datapath) pods(names ...string) {
	d.t.Helper()
	for _, name := range names {
		p := d.pod("default", name, "n1")
		d.do(p)
		addresses := d.c.pods.At("default/" + name).Addresses()
		d.plug(name, contract.PodPort("default", name), string(p.UID), addresses)
		d.serve(name)
	}
}

// plug makes a network namespace with an interface for a logical port of n1.
func (d *datapath) plug(name, port, uid string, addresses []netip.Prefix, more ...string) {
	d.t.Helper()
	d.plugAt(d.ovn, name, port, uid, addresses, more...)
}

// plugAt is plug on any node.
func (d *datapath) plugAt(node *nodetest.OVN, name, port, uid string, addresses []netip.Prefix, more ...string) {
	d.t.Helper()
	nodetest.Sandbox(d.t, name)
	script := []string{"ip link add v-%[1]s type veth peer name eth0 netns %[1]s", "ip -n %[1]s link set lo up",
		"ip -n %[1]s link set eth0 address %[2]s up",
		"ip netns exec %[1]s ethtool -K eth0 tx off >/dev/null", "ip link set v-%[1]s up"}
	for _, a := range addresses {
		script = append(script, fmt.Sprintf("ip -n %s addr add %v dev eth0 nodad", name, a),
			fmt.Sprintf("ip -n %s route add default via %v", name, contract.GatewayAddress(a)))
	}
	for _, a := range more {
		script = append(script, "ip -n "+name+" addr add "+a+" dev eth0")
	}
	node.Shell(fmt.Sprintf(strings.Join(script, "\n"), name, contract.MAC(contract.Addrs(addresses)...)))
	node.VS("add-port", "br-int", "v-"+name, "--", "set", "Interface", "v-"+name, "external_ids:iface-id="+port,
		"external_ids:iface-id-ver="+uid)
	nodetest.Eventually(d.t, 20*time.Second, func() error {
		if up := node.VS("--if-exists", "get", "Interface", "v-"+name, "external_ids:ovn-installed"); up != `"true"` {
			return fmt.Errorf("port %s is not installed", port)
		}
		return nil
	})
}

// host plugs the node's host in, which has client addresses of its own beside.
func (d *datapath) host(clients ...string) {
	d.t.Helper()
	var addresses []netip.Prefix
	for _, subnet := range d.c.nodes.At("n1").Subnets {
		addresses = append(addresses, netip.PrefixFrom(contract.ManagementAddress(subnet), subnet.Bits()))
	}
	d.plug("host", contract.ManagementPort("n1"), "host", addresses, clients...)
}

// outside is a namespace on the other side of the gateway: its next hop, with more addresses, which sends
// what is for other addresses to the gateway.
func (d *datapath) outside(addresses []string, routes ...string) {
	d.t.Helper()
	nodetest.Sandbox(d.t, "outside")
	script := []string{"ip link add v-outside type veth peer name eth0 netns outside", "ip -n outside link set lo up",
		"ip -n outside link set eth0 up",
		"ip netns exec outside ethtool -K eth0 tx off >/dev/null", "ip link set v-outside up"}
	for _, a := range append([]string{"203.0.113.254/24", "2001:db8::ffff/64 nodad"}, addresses...) {
		script = append(script, "ip -n outside addr add "+a+" dev eth0")
	}
	for _, r := range routes {
		script = append(script, "ip -n outside route add "+r)
	}
	if output, err := exec.Command("sh", "-ec", strings.Join(script, "\n")).CombinedOutput(); err != nil {
		d.t.Fatalf("plug outside: %v\n%s", err, output)
	}
	d.ovn.VS("add-port", "br-ex", "v-outside")
}

// within runs something in a network namespace: sockets that it makes are there.
func (d *datapath) within(namespace string, do func()) {
	d.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		d.t.Fatal(err)
	}
	defer home.Close()
	there, err := netns.GetFromName(namespace)
	if err != nil {
		d.t.Fatalf("network namespace %s: %v", namespace, err)
	}
	defer there.Close()
	if err := netns.Set(there); err != nil {
		d.t.Fatal(err)
	}
	defer func() {
		if err := netns.Set(home); err != nil {
			panic(err) // the thread is lost to the tests
		}
	}()
	do()
}

// serve answers every connection and every datagram with the server's name and the client's address.
func (d *datapath) serve(name string) {
	d.t.Helper()
	var listener net.Listener
	var socket net.PacketConn
	var err1, err2 error
	d.within(name, func() {
		listener, err1 = net.Listen("tcp", ":8080")
		socket, err2 = net.ListenPacket("udp", ":8080")
	})
	if err := errors.Join(err1, err2); err != nil {
		d.t.Fatal(err)
	}
	var servers sync.WaitGroup
	servers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(name + " " + conn.RemoteAddr().String())) // the client sees what is missing
			conn.Close()
		}
	})
	servers.Go(func() {
		buffer := make([]byte, 100)
		for {
			_, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo([]byte(name+" "+from.String()), from)
		}
	})
	d.t.Cleanup(func() {
		listener.Close()
		socket.Close()
		servers.Wait()
	})
}

// reply is what a client got.
type reply struct {
	server string
	client netip.AddrPort // as the server sees it
	after  time.Duration
	tries  int // datagrams
	err    error
}

// ask connects from an address of a namespace, any if it is "", and reads who answers. A datagram is
// sent again until it is answered.
func (d *datapath) ask(namespace, from, network, to string) (a reply) {
	d.t.Helper()
	start := time.Now()
	var conn net.Conn
	d.within(namespace, func() {
		ip, port := net.ParseIP(from), int(d.port.Add(1))
		dialer := net.Dialer{Timeout: d.patience, LocalAddr: &net.TCPAddr{IP: ip, Port: port}}
		if network == "udp" {
			dialer.LocalAddr = &net.UDPAddr{IP: ip, Port: port}
		}
		conn, a.err = dialer.Dial(network, to)
	})
	if a.err != nil {
		return a
	}
	defer conn.Close()
	text, tries, err := exchange(conn, network == "udp", d.patience)
	a.after, a.tries, a.err = time.Since(start), tries, err
	if a.err != nil {
		return a
	}
	server, client, _ := strings.Cut(text, " ")
	a.server = server
	a.client, a.err = netip.ParseAddrPort(client)
	return a
}

// exchange asks who answers. A datagram is sent ten times before patience ends it.
func exchange(conn net.Conn, datagrams bool, patience time.Duration) (text string, tries int, err error) {
	buffer := make([]byte, 200)
	wait := nodetest.Patience
	if datagrams {
		wait = 300 * time.Millisecond
	}
	began := time.Now()
	for tries = 1; ; tries++ {
		if datagrams {
			if _, err := conn.Write([]byte("who")); err != nil {
				return "", tries, err
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return "", tries, err
		}
		n, err := conn.Read(buffer)
		if err == nil {
			return string(buffer[:n]), tries, nil
		}
		if !datagrams || tries >= 10 && time.Since(began) >= patience {
			return "", tries, err
		}
	}
}

// everyone asks once from each address at the same time.
func (d *datapath) everyone(namespace string, clients []string, network, to string) []reply {
	d.t.Helper()
	answers := make([]reply, len(clients))
	var all sync.WaitGroup
	for i, client := range clients {
		all.Go(func() { answers[i] = d.ask(namespace, client, network, to) })
	}
	all.Wait()
	for i, a := range answers {
		if a.err != nil {
			d.t.Fatalf("client %s: %v", clients[i], a.err)
		}
	}
	return answers
}

func servers(answers []reply) []string {
	names := make([]string, len(answers))
	for i, a := range answers {
		names[i] = a.server
	}
	return names
}

// slowest is the longest that a client of many waited.
func slowest(answers []reply) time.Duration {
	return slices.MaxFunc(answers, func(a, b reply) int { return int(a.after - b.after) }).after
}
