package ovn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// ovn is a Northbound that ovn-northd has turned into logical flows.
type ovn struct {
	t                      testing.TB
	northbound, southbound *ovsdbtest.Process
}

// compile writes a world's rows and waits for the flows.
func compile(t testing.TB, s *settings.Settings, w *world) *ovn {
	t.Helper()
	d := ovsdbtest.Northbound(t)
	o := &ovn{t, ovsdbtest.Server(t, d), ovsdbtest.Server(t, ovsdbtest.Southbound(t))}
	ovsdbtest.Northd(t, o.northbound, o.southbound)
	c := newCluster(s)
	c.begin(records.Records{}, w.Keys(), w.Get)
	engine := ovsdb.NewEngine(ovsdbtest.Connect(t, d, o.northbound.Endpoint, northbound.Tables...))
	if err := engine.Replace(context.Background(), c.takeEverything()); err != nil {
		t.Fatal(err)
	}
	ovsdbtest.Run(t, "ovn-nbctl", "--timeout=300", "--db="+o.northbound.Endpoint, "--wait=sb", "sync")
	return o
}

func (o *ovn) trace(flow string) string {
	o.t.Helper()
	return ovsdbtest.Run(o.t, "ovn-trace", "--db="+o.southbound.Endpoint, "--ct=new", "--ct=new", "--ct=new", flow)
}

// traced follows a packet, and has the trace hold want, in this order, and nothing of not.
func (o *ovn) traced(t *testing.T, flow string, want, not []string) {
	t.Helper()
	o.t = t
	text := o.trace(flow)
	rest := text
	for _, word := range want {
		_, after, found := strings.Cut(rest, word)
		if !found {
			t.Fatalf("the trace lacks %q:\n%s", word, text)
		}
		rest = after
	}
	for _, word := range not {
		if strings.Contains(text, word) {
			t.Fatalf("the trace has %q:\n%s", word, text)
		}
	}
}

// wantGateway has the chassis join, and checks that OVN has the shared gateway on them, the first first,
// and nowhere else.
func (o *ovn) wantGateway(chassis ...string) {
	o.t.Helper()
	sbctl := func(args ...string) string {
		return strings.TrimSpace(ovsdbtest.Run(o.t, "ovn-sbctl",
			append([]string{"--timeout=300", "--db=" + o.southbound.Endpoint}, args...)...))
	}
	for i, name := range chassis {
		sbctl("chassis-add", name, "geneve", fmt.Sprintf("192.0.2.%d", 1+i))
	}
	ovsdbtest.Run(o.t, "ovn-nbctl", "--timeout=300", "--db="+o.northbound.Endpoint, "--wait=sb", "sync")
	group := sbctl("--bare", "--columns=ha_chassis_group", "find", "Port_Binding", "logical_port=cr-rtoe@shared")
	var got []string
	for _, member := range strings.Fields(sbctl("--bare", "--columns=ha_chassis", "list", "HA_Chassis_Group", group)) {
		priority := sbctl("get", "HA_Chassis", member, "priority")
		got = append(got, priority+" "+sbctl("get", "Chassis", sbctl("get", "HA_Chassis", member, "chassis"), "name"))
	}
	slices.Sort(got)
	slices.Reverse(got)
	var want []string
	for i, name := range chassis {
		want = append(want, fmt.Sprintf("%d %s", northbound.MaxPriority-i, name))
	}
	if !slices.Equal(got, want) {
		o.t.Errorf("the shared gateway is on %q, want %q", got, want)
	}
	if redirect := sbctl("get", "Port_Binding", "cr-rtoe@shared", "options:always-redirect"); redirect != `"true"` {
		o.t.Errorf("always-redirect is %s: other nodes would meet the outside by themselves", redirect)
	}
}

// TestPacketsFindTheirWay asks ovn-trace, OVN's own simulator, where the topology leads packets to.
func TestPacketsFindTheirWay(t *testing.T) {
	w := newWorld()
	l1, l2 := w.node("l1", "10.244.0.0/24", "fd00:10:244::/64"), w.node("l2", "10.244.1.0/24", "fd00:10:244:1::/64")
	l1.Facts, l2.Facts = ovntest.Facts(1, true), ovntest.Facts(2, true)
	l1.Gateway, l2.Gateway = "true", "true"
	shares := w.node("shares", "10.244.4.0/24", "fd00:10:244:4::/64")
	shares.Facts = sharing(4, contract.Windows)
	w.put(l1, l2, shares, w.node("bare", "10.244.2.0/23", "fd00:10:244:2::/64"))
	w.put(w.pod("default", "a", "l1"), w.pod("default", "b", "l2"), w.pod("default", "c", "bare"),
		w.pod("default", "d", "l1"), w.pod("default", "e", "shares"))
	serve := func(name string, edit func(*objects.Service), ips []string, backends ...string) {
		s := w.service(name, ips...)
		if edit != nil {
			edit(s)
		}
		w.put(s)
		for i, b := range backends {
			w.put(w.slice(fmt.Sprintf("%s-%d", name, i), name,
				[]objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}}, ready(b, "l2")))
		}
	}
	serve("web", nil, []string{"10.96.0.10", "fd00:10:96::a"}, "10.244.1.3", "fd00:10:244:1::3")
	serve("host", nil, []string{"10.96.0.11"}, "192.0.2.2")
	serve("empty", nil, []string{"10.96.0.12"})
	serve("local", func(s *objects.Service) { s.InternalLocal = true }, []string{"10.96.0.13"}, "10.244.1.3")
	signals := w.service("signals", "10.96.0.19", "fd00:10:96::13")
	signals.Ports = []objects.ServicePort{{Name: "m3ua", Protocol: "sctp", Port: 2905}}
	w.put(signals, w.slice("signals-4", "signals", []objects.ServicePort{{Name: "m3ua", Protocol: "sctp", Port: 2906}},
		ready("10.244.1.3", "l2")),
		w.slice("signals-6", "signals", []objects.ServicePort{{Name: "m3ua", Protocol: "sctp", Port: 2906}},
			ready("fd00:10:244:1::3", "l2")))
	o := compile(t, ovntest.Settings(t, func(c *settings.Config) { ovntest.Dual(c); withShared(c) }), w)
	o.wantGateway("chassis-1", "chassis-2")

	pod := func(port, mac, router string) string {
		return fmt.Sprintf("inport==%q && eth.src==%s && eth.dst==%s && ip.ttl==64 && ", port, mac, router)
	}
	a := pod("default_a", "0a:58:0a:f4:00:03", "0a:58:0a:f4:00:01")
	b := pod("default_b", "0a:58:0a:f4:01:03", "0a:58:0a:f4:01:01")
	c := pod("default_c", "0a:58:0a:f4:02:03", "0a:58:0a:f4:02:01")
	e := pod("default_e", "0a:58:0a:f4:04:03", "0a:58:0a:f4:04:01")
	host := pod("mgmt-l1", "0a:58:0a:f4:00:02", "0a:58:0a:f4:00:01")
	joined := func(port, mac string) string { // from a gateway router
		return fmt.Sprintf("inport==%q && eth.src==%s && eth.dst==0a:58:64:40:00:01 && ip.ttl==64 && ", port, mac)
	}
	for _, c := range []struct {
		name string
		flow string
		want []string // in the trace, in this order
		not  []string
	}{
		{"pod to pod on another node", a + "ip4.src==10.244.0.3 && ip4.dst==10.244.1.3 && tcp.dst==8080",
			[]string{`output to "default_b"`}, nil},
		{"pod to pod on another node, IPv6", a + "ip6.src==fd00:10:244::3 && ip6.dst==fd00:10:244:1::3 && tcp.dst==8080",
			[]string{`output to "default_b"`}, nil},
		{"pod to pod from a node without a gateway", c + "ip4.src==10.244.2.3 && ip4.dst==10.244.1.3 && tcp.dst==8080",
			[]string{`output to "default_b"`}, nil},
		{"pod to pod on its own node", a + "ip4.src==10.244.0.3 && ip4.dst==10.244.0.4 && tcp.dst==8080",
			[]string{`output to "default_d"`}, nil},
		{"pod to pod in a larger subnet", a + "ip4.src==10.244.0.3 && ip4.dst==10.244.2.3 && tcp.dst==8080",
			[]string{`output to "default_c"`}, []string{"gw-"}},
		{"pod to ClusterIP", a + "ip4.src==10.244.0.3 && ip4.dst==10.96.0.10 && tcp.dst==80",
			[]string{"ct_lb", `output to "default_b"`}, nil},
		{"pod to ClusterIP, IPv6", a + "ip6.src==fd00:10:244::3 && ip6.dst==fd00:10:96::a && tcp.dst==80",
			[]string{"ct_lb", `output to "default_b"`}, nil},
		{"pod to ClusterIP by SCTP", a + "ip4.src==10.244.0.3 && ip4.dst==10.96.0.19 && sctp.dst==2905",
			[]string{"ct_lb", "10.244.1.3:2906", `output to "default_b"`}, nil},
		{"pod to ClusterIP by SCTP, IPv6", a + "ip6.src==fd00:10:244::3 && ip6.dst==fd00:10:96::13 && sctp.dst==2905",
			[]string{"ct_lb", "[fd00:10:244:1::3]:2906", `output to "default_b"`}, nil},
		{"pod to itself by ClusterIP", b + "ip4.src==10.244.1.3 && ip4.dst==10.96.0.10 && tcp.dst==80", []string{"ct_lb"},
			[]string{"rtos-l2"}},
		{"pod to ClusterIP of another node's host", a + "ip4.src==10.244.0.3 && ip4.dst==10.96.0.11 && tcp.dst==80",
			[]string{"ct_lb", "ct_snat", "203.0.113.1", `output to "localnet-l1"`}, nil},
		{"pod to ClusterIP of its own host", b + "ip4.src==10.244.1.3 && ip4.dst==10.96.0.11 && tcp.dst==80",
			[]string{"ct_lb", `output to "mgmt-l2"`}, nil},
		{"pod to a Service without endpoints", a + "ip4.src==10.244.0.3 && ip4.dst==10.96.0.12 && tcp.dst==80",
			[]string{"tcp_reset"}, []string{"rtoj"}},
		{"pod to a local Service on its node", b + "ip4.src==10.244.1.3 && ip4.dst==10.96.0.13 && tcp.dst==80",
			[]string{"ct_lb"}, nil},
		{"pod to a local Service that its node lacks", a + "ip4.src==10.244.0.3 && ip4.dst==10.96.0.13 && tcp.dst==80",
			[]string{"tcp_reset"}, []string{"rtoj"}},
		{"pod to no Service", a + "ip4.src==10.244.0.3 && ip4.dst==10.96.99.99 && tcp.dst==80", []string{"drop;"},
			[]string{"gw-", "output to \"mgmt"}},
		{"pod to a Service's other port", a + "ip4.src==10.244.0.3 && ip4.dst==10.96.0.10 && tcp.dst==81", []string{"drop;"},
			[]string{"gw-", "output to \"mgmt"}},
		{"pod to its own node's host", a + "ip4.src==10.244.0.3 && ip4.dst==192.0.2.1 && tcp.dst==22",
			[]string{`output to "mgmt-l1"`}, []string{"ct_snat"}},
		{"pod to its own node's host, IPv6", a + "ip6.src==fd00:10:244::3 && ip6.dst==2001:db8:1::1 && tcp.dst==22",
			[]string{`output to "mgmt-l1"`}, nil},
		{"pod to another node's host", a + "ip4.src==10.244.0.3 && ip4.dst==192.0.2.2 && tcp.dst==22",
			[]string{"203.0.113.1", `output to "localnet-l1"`}, nil},
		{"pod to the outside", b + "ip4.src==10.244.1.3 && ip4.dst==198.51.100.1 && tcp.dst==443",
			[]string{"ct_snat", "203.0.113.2", `output to "localnet-l2"`}, nil},
		{"pod to the outside, IPv6", a + "ip6.src==fd00:10:244::3 && ip6.dst==2001:db8:9::1 && tcp.dst==443",
			[]string{"ct_snat", "2001:db8::1", `output to "localnet-l1"`}, nil},
		{"pod to the outside without a gateway", c + "ip4.src==10.244.2.3 && ip4.dst==198.51.100.1 && tcp.dst==443",
			[]string{"drop;"}, []string{"gw-", "output to \"mgmt"}},
		{"pod to the outside by the shared gateway", e + "ip4.src==10.244.4.3 && ip4.dst==198.51.100.1 && tcp.dst==443",
			[]string{`ingress(dp="gw@shared"`, `"cr-rtoe@shared"`, "ct_snat", "203.0.113.50", `output to "localnet@shared"`},
			[]string{`dp="gw-`}},
		{"pod to the outside by the shared gateway, IPv6", e + "ip6.src==fd00:10:244:4::3 && ip6.dst==2001:db8:9::1 && " +
			"tcp.dst==443",
			[]string{`"cr-rtoe@shared"`, "ct_snat", "2001:db8::50", `output to "localnet@shared"`}, []string{`dp="gw-`}},
		{"pod of a node that shares to a pod", e + "ip4.src==10.244.4.3 && ip4.dst==10.244.1.3 && tcp.dst==8080",
			[]string{`output to "default_b"`}, []string{`dp="gw`}},
		{"pod of a node that shares to its own host", e + "ip4.src==10.244.4.3 && ip4.dst==192.0.2.4 && tcp.dst==22",
			[]string{`output to "mgmt-shares"`}, []string{`dp="gw`}},
		{"shared gateway to pod", joined("rtoj-gw@shared", "0a:58:64:40:ff:fe") +
			"ip4.src==198.51.100.1 && ip4.dst==10.244.4.3 && tcp.dst==8080", []string{`output to "default_e"`}, nil},
		{"answer to another node's gateway router", a + "ip4.src==10.244.0.3 && ip4.dst==100.64.0.3 && icmp4.type==8",
			[]string{`ingress(dp="gw-l2"`}, []string{"gw-l1"}},
		{"host to pod on its node", host + "ip4.src==10.244.0.2 && ip4.dst==10.244.0.3 && tcp.dst==8080",
			[]string{`output to "default_a"`}, nil},
		{"host to pod on another node", host + "ip4.src==10.244.0.2 && ip4.dst==10.244.1.3 && tcp.dst==8080",
			[]string{`output to "default_b"`}, nil},
		{"host's own address to pod", host + "ip4.src==192.0.2.1 && ip4.dst==10.244.0.3 && tcp.dst==8080",
			[]string{`output to "default_a"`}, nil},
		{"host to ClusterIP", host + "ip4.src==10.244.0.2 && ip4.dst==10.96.0.10 && tcp.dst==80",
			[]string{"ct_lb", `output to "default_b"`}, nil},
		{"host to ClusterIP of another node's host", host + "ip4.src==10.244.0.2 && ip4.dst==10.96.0.11 && tcp.dst==80",
			[]string{"ct_lb", "203.0.113.1", `output to "localnet-l1"`}, nil},
		{"gateway router to pod", joined("rtoj-gw-l1", "0a:58:64:40:00:02") +
			"ip4.src==198.51.100.1 && ip4.dst==10.244.0.3 && tcp.dst==8080", []string{`output to "default_a"`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			// What leaves a router port enters the switch by its peer.
			o.traced(t, strings.Replace(c.flow, `inport=="rtoj-gw`, `inport=="jtor-gw`, 1), c.want, c.not)
		})
	}
}

// TestLogicalFlows bounds what a cluster of 20 nodes, 2,000 pods and 1,050 Services costs every chassis.
func TestLogicalFlows(t *testing.T) {
	w := loadWorld()
	for i := range 20 {
		w.objects[objects.Key{Kind: objects.NodeKind, Name: loadNode(i)}].(*objects.Node).Facts = ovntest.Facts(1+i, false)
	}
	o := compile(t, ovntest.Settings(t, func(c *settings.Config) { c.AllocateNodeCIDRs = true }), w)
	flows := len(strings.Fields(ovsdbtest.Run(t, "ovn-sbctl", "--db="+o.southbound.Endpoint, "--bare", "--columns=_uuid",
		"find", "Logical_Flow")))
	t.Logf("%d logical flows", flows)
	if flows > 12800 || flows < 5000 {
		t.Errorf("%d logical flows; want no more than 12,800", flows)
	}
}
