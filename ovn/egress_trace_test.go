package ovn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestSelectedPodsLeaveByTheirAddress asks ovn-trace where packets of pods go that an EgressIP selects.
func TestSelectedPodsLeaveByTheirAddress(t *testing.T) {
	w := newWorld()
	e1, e2 := w.egressNode(1), w.egressNode(2)
	windows := w.node("w3", "10.244.3.0/24", "fd00:10:244:3::/64")
	windows.Facts = ovntest.EditFacts(3, true, func(f *contract.NodeFacts) { f.OS = contract.Windows })
	bare := w.node("bare", "10.244.4.0/24", "fd00:10:244:4::/64")
	w.put(e1, e2, windows, bare, w.namespace("a", "team=a"), w.namespace("b", "team=b"), w.namespace("c", "team=c"),
		w.namespace("default"))
	w.put(w.pod("a", "one", "e1"), w.pod("a", "win", "w3"), w.pod("a", "bare", "bare"), w.pod("b", "none", "e1"),
		w.pod("c", "v4only", "e1"), w.pod("default", "other", "e2"))
	w.put(w.egressIP("team-a.x", "team=a", "203.0.113.20", "2001:db8::20"), w.egressIP("lost", "team=b", "198.51.100.1",
		"2001:db8:77::1"),
		w.egressIP("four", "team=c", "203.0.113.21"))
	web := w.service("web", "10.96.0.10")
	w.put(web, w.slice("web-a", "web", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}},
		ready("10.244.2.3", "e2")))
	o := compile(t, ovntest.Settings(t, ovntest.Dual), w)
	for i, chassis := range []string{"chassis-1", "chassis-2", "chassis-3"} {
		ovsdbtest.Run(t, "ovn-sbctl", "--db="+o.southbound.Endpoint, "chassis-add", chassis, "geneve",
			fmt.Sprintf("192.0.2.%d", 1+i))
	}
	ovsdbtest.Run(t, "ovn-nbctl", "--timeout=300", "--db="+o.northbound.Endpoint, "--wait=sb", "sync")

	pod := func(port, subnet string, at byte) string {
		return fmt.Sprintf("inport==%q && eth.src==0a:58:0a:f4:%02x:%02x && eth.dst==0a:58:0a:f4:%02x:01 && ip.ttl==64 && ",
			port, subnet[0]-'0', at, subnet[0]-'0')
	}
	one, win, other := pod("a_one", "1", 3), pod("a_win", "3", 3), pod("default_other", "2", 3)
	none, four, noGateway := pod("b_none", "1", 4), pod("c_v4only", "1", 5), pod("a_bare", "4", 3)
	const router = `ingress(dp="egress@team-a.x"`
	for _, c := range []struct {
		name string
		flow string
		want []string // in the trace, in this order
		not  []string
	}{
		{"to the outside", one + "ip4.src==10.244.1.3 && ip4.dst==198.51.100.9 && tcp.dst==443",
			[]string{router, `"cr-rtoe-egress@team-a.x"`, "ct_snat", "203.0.113.20", `output to "localnet-egress@team-a.x"`},
			[]string{`dp="gw-`}},
		{"to the outside, IPv6", one + "ip6.src==fd00:10:244:1::3 && ip6.dst==2001:db8:9::1 && tcp.dst==443",
			[]string{router, "ct_snat", "2001:db8::20", `output to "localnet-egress@team-a.x"`}, []string{`dp="gw-`}},
		{"from a Windows node", win + "ip4.src==10.244.3.3 && ip4.dst==198.51.100.9 && udp.dst==53",
			[]string{router, "ct_snat", "203.0.113.20", `output to "localnet-egress@team-a.x"`}, []string{`dp="gw-`}},
		{"ICMP from a Windows node", win + "ip4.src==10.244.3.3 && ip4.dst==198.51.100.9 && icmp4.type==8",
			[]string{router, "203.0.113.20"}, []string{`dp="gw-`}},
		{"from a node that has no way outside at all", noGateway + "ip4.src==10.244.4.3 && ip4.dst==198.51.100.9 && " +
			"tcp.dst==443", []string{"drop;"}, []string{`dp="gw-`}},
		{"to a host in the external subnet", one + "ip4.src==10.244.1.3 && ip4.dst==203.0.113.99 && tcp.dst==443",
			[]string{router, "203.0.113.20"}, nil},
		{"to a pod", one + "ip4.src==10.244.1.3 && ip4.dst==10.244.2.3 && tcp.dst==8080",
			[]string{`output to "default_other"`}, []string{"egress@"}},
		{"to a Service", one + "ip4.src==10.244.1.3 && ip4.dst==10.96.0.10 && tcp.dst==80",
			[]string{"ct_lb", `output to "default_other"`}, []string{`dp="egress@`}},
		{"to no Service", one + "ip4.src==10.244.1.3 && ip4.dst==10.96.9.9 && tcp.dst==80", []string{"drop;"},
			[]string{`dp="egress@`, `dp="gw-`}},
		{"to its own host", one + "ip4.src==10.244.1.3 && ip4.dst==192.0.2.1 && tcp.dst==22", []string{`output to "mgmt-e1"`},
			[]string{`dp="egress@`}},
		{"to another node's host", one + "ip4.src==10.244.1.3 && ip4.dst==192.0.2.2 && tcp.dst==22",
			[]string{`dp="gw-e1"`, "203.0.113.1"}, []string{`dp="egress@`}},
		{"to a gateway router", one + "ip4.src==10.244.1.3 && ip4.dst==100.64.0.3 && icmp4.type==8", []string{`dp="gw-`},
			[]string{`dp="egress@`}},
		{"a pod that nobody selects", other + "ip4.src==10.244.2.3 && ip4.dst==198.51.100.9 && tcp.dst==443",
			[]string{`dp="gw-e2"`, "203.0.113.2"}, []string{`dp="egress@`}},
		{"a pod whose address cannot be had", none + "ip4.src==10.244.1.4 && ip4.dst==198.51.100.9 && tcp.dst==443",
			[]string{"drop;"}, []string{`dp="egress@`, `dp="gw-`}},
		{"of another family", four + "ip6.src==fd00:10:244:1::5 && ip6.dst==2001:db8:9::1 && tcp.dst==443",
			[]string{`dp="gw-e1"`}, []string{`dp="egress@`}},
	} {
		t.Run(c.name, func(t *testing.T) { o.traced(t, c.flow, c.want, c.not) })
	}
	o.t = t
	for from, flow := range map[string]string{
		`dp="gw-e1"`: one + "ip4.src==10.244.1.3 && ip4.dst==198.51.100.9 && tcp.src==8080",
		`dp="gw-w3"`: win + "ip6.src==fd00:10:244:3::3 && ip6.dst==2001:db8:9::1 && tcp.src==8080",
	} {
		text := ovsdbtest.Run(t, "ovn-trace", "--db="+o.southbound.Endpoint, "--ct=trk,est,rpl", "--ct=trk,est,rpl", flow)
		if !strings.Contains(text, from) || strings.Contains(text, `dp="egress@`) {
			t.Errorf("the answer to a client that came by the node's own gateway does not go back there:\n%s", text)
		}
	}
	pinned := ovsdbtest.Run(t, "ovn-sbctl", "--db="+o.southbound.Endpoint, "--bare", "--columns=nat_addresses", "find",
		"Port_Binding", `logical_port="etor-egress@team-a.x"`)
	if !strings.Contains(pinned, "203.0.113.20") || !strings.Contains(pinned, "cr-rtoe-egress@team-a.x") {
		t.Errorf("who announces the address after it moved: %q", pinned)
	}
}
