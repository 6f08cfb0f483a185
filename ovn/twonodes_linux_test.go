package ovn

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
)

// TestTwoNodesWithPackets is the short test of Linux' own datapath. Two nodes have a datapath and an Open vSwitch each,
// and a tunnel between them. There are pods, a Service, a policy, the gateway, and connections that go on while
// ovs-vswitchd is killed. A datapath in userspace sends tunnels by bridges alone: the cluster's tests have that one.
func TestTwoNodesWithPackets(t *testing.T) {
	if nodetest.Userspace() {
		t.Skip("it is of Linux' own datapath: make test-kernel-short runs it")
	}
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	n2 := d.secondNode()
	d.do(d.namespace("default", "kubernetes.io/metadata.name=default"))
	d.pods("a", "c")
	d.podsAt(n2, "n2", "b")
	d.outside(nil)
	d.serve("outside")
	s := d.service("web", "10.96.0.10", "fd00:10:96::a")
	ports := []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}}
	b, b6 := d.addresses("b")
	d.do(s, d.slice("web-4", "web", ports, ready(b, "n2")), d.slice("web-6", "web", ports, ready(b6, "n2")))
	a, a6 := d.addresses("a")

	pods := []visit{
		{"pod", "a", b + ":8080", a}, {"pod", "a", "[" + b6 + "]:8080", a6},
		{"Service", "a", "10.96.0.10:80", a}, {"Service", "a", "[fd00:10:96::a]:80", a6},
		{"Service of its own", "b", "10.96.0.10:80", "169.254.169.5"},
	}
	outside := []visit{{"gateway", "a", testClient + ":8080", testGateway},
		{"gateway", "a", "[" + testClient6 + "]:8080", testGateway6}}
	d.visits(append(pods, outside...)...)

	t.Run("a policy comes and goes", func(t *testing.T) {
		policy := d.policies(t, `
kind: NetworkPolicy
metadata: {name: to-b, namespace: default}
spec:
  podSelector: {}
  ingress: [{from: [{ipBlock: {cidr: `+a+`/32}}]}]
`)
		d.do(policy...)
		d.visits(visit{"who may", "a", b + ":8080", a}, visit{"who may not", "c", b + ":8080", noAnswer},
			visit{"who may not, by the Service", "c", "10.96.0.10:80", noAnswer})
		d.undo(policy...)
		c, _ := d.addresses("c")
		d.visits(visit{"policy is gone", "c", b + ":8080", c})
	})
	for name, node := range map[string]*nodetest.OVN{"n1": d.ovn, "n2": n2} {
		t.Run("ovs-vswitchd of "+name+" ends and comes back", func(t *testing.T) { d.connectionGoesOn(t, node) })
		d.t = t
	}
	d.visits(append(pods, outside...)...)
}

// secondNode is n2, in a network namespace that a cable joins to n1's.
func (d *datapath) secondNode() *nodetest.OVN {
	d.t.Helper()
	return d.secondNodeOf(d.ovn)
}

// secondNodeOf is n2 with the databases of a central, and with more settings of both nodes.
func (d *datapath) secondNodeOf(central *nodetest.OVN, more ...string) *nodetest.OVN {
	d.t.Helper()
	nodetest.Sandbox(d.t, "n2")
	d.ovn.Shell("ip link add wire type veth peer name wire netns n2\nip -n n2 link set lo up")
	d.t.Cleanup(func() { d.ovn.Shell("ip link del wire") })
	node := central.StartNode("n2")
	for number, n := range map[string]*nodetest.OVN{"1": d.ovn, "2": node} {
		device := "wire"
		if nodetest.Userspace() { // which sends tunnels by bridges alone
			device = "br-wire"
			n.VS("add-br", device, "--", "set", "Bridge", device, "datapath_type="+nodetest.Datapath(), "--", "add-port", device,
				"wire")
		}
		n.Shell(fmt.Sprintf("ethtool -K wire tx off >/dev/null\nip link set wire up\nip addr add 192.0.2.%s/24 dev %[2]s\n"+
			"ip link set %[2]s up", number, device))
		n.VS(append([]string{"set", "Open_vSwitch", ".", "external_ids:ovn-encap-ip=192.0.2." + number}, more...)...)
	}
	becomeChassis(node, "2", "192.0.2.2")
	n := d.node("n2", "10.244.1.0/24", "fd00:10:244:1::/64")
	n.Facts = ovntest.Facts(2, true)
	if len(d.c.settings.Zones) > 0 {
		n.Labels = objects.NewLabelSet(map[string]string{contract.ZoneLabel: "b"})
	}
	d.do(n)
	return node
}

// podsAt are pods of a node other than n1.
func (d *datapath) podsAt(node *nodetest.OVN, name string, pods ...string) {
	d.t.Helper()
	for _, pod := range pods {
		p := d.pod("default", pod, name)
		d.do(p)
		d.plugAt(node, pod, contract.PodPort("default", pod), string(p.UID), d.c.pods.At("default/"+pod).Addresses())
		d.serve(pod)
	}
}

// addresses of a pod: IPv4's and IPv6's.
func (d *datapath) addresses(pod string) (ip4, ip6 string) {
	for _, a := range d.c.pods.At("default/" + pod).Addresses() {
		if a.Addr().Is4() {
			ip4 = a.Addr().String()
		} else {
			ip6 = a.Addr().String()
		}
	}
	return ip4, ip6
}

// connectionGoesOn while a node's ovs-vswitchd is killed and started anew. The datapath keeps the flows it has, and
// ovs-vswitchd leaves it alone until its own are back (flow-restore-wait), as the playbooks have it.
func (d *datapath) connectionGoesOn(t *testing.T, node *nodetest.OVN) {
	d.t = t
	const port = 9000
	d.echo("b", port)
	b, _ := d.addresses("b")
	address := netip.AddrPortFrom(netip.MustParseAddr(b), port)
	var conn net.Conn
	var err error
	d.within("a", func() { conn, err = net.DialTimeout("tcp", address.String(), d.patience) })
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rounds := 0
	var longest time.Duration
	round := func() {
		t.Helper()
		began := time.Now()
		conn.SetDeadline(began.Add(d.patience))
		if _, err := conn.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatalf("after %d rounds: %v", rounds, err)
		}
		rounds, longest = rounds+1, max(longest, time.Since(began))
	}
	round()
	node.VS("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
	node.Kill(nodetest.Vswitchd)
	for range 10 { // nobody but the datapath is there
		round()
	}
	node.Start(nodetest.Vswitchd)
	flows, since := 0, time.Now()
	nodetest.Eventually(t, nodetest.Patience, func() error { // as AwaitFlows of package node
		round()
		text, err := node.Try("ovs-ofctl", "--timeout=10", "-O", "OpenFlow15", "dump-flows", "br-int")
		if now := strings.Count(text, "cookie="); now != flows {
			flows, since = now, time.Now()
		}
		if err == nil && (flows == 0 || time.Since(since) < time.Second) {
			err = fmt.Errorf("%d flows are back, and more may come", flows)
		}
		return err
	})
	node.VS("--no-wait", "remove", "Open_vSwitch", ".", "other_config", "flow-restore-wait")
	for range 10 {
		round()
	}
	t.Logf("%d rounds, none longer than %s", rounds, longest)
}
