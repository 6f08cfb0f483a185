package flows

import (
	"bufio"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/conntrack"
)

var update = flag.Bool("update", false, "write the golden files anew")

// cluster has the node n1 with two pods of namespace shop, and two Services.
func cluster() *Names {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		contract.NodeFactsAnnotation: contract.Format(contract.NodeFacts{Chassis: "n1",
			Addresses: []netip.Addr{netip.MustParseAddr("172.31.0.2"), netip.MustParseAddr("fd00:172:31::2")}}),
		contract.NodeNetworkAnnotation: contract.Format(contract.NodeNetwork{ID: 1,
			PodCIDRs:     []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")},
			ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")},
			ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}),
	}}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n1.example.net"},
		{Type: corev1.NodeInternalIP, Address: "172.31.0.2"}}
	pod := func(name string, addresses ...string) api.PortTopology {
		return api.PortTopology{Namespace: "shop", Name: name, Addresses: addresses}
	}
	names := NewNames(&api.NetworkTopology{
		Routers: []api.RouterTopology{{Name: "cluster",
			Ports: []api.RouterPortTopology{{Networks: []string{"100.64.0.1/16"}}}}},
		Nodes: []api.NodeTopology{{Name: "n1",
			Host: &api.PortTopology{Name: "mgmt-n1", Addresses: []string{"10.244.1.2", "fd00:10:244:1::2"}},
			Gateway: &api.RouterTopology{Name: "gw-n1", Ports: []api.RouterPortTopology{
				{Networks: []string{"100.64.0.2/16", "fd98::2/64"}}, {Networks: []string{"172.31.0.2/24"}}}},
			Pods: []api.PortTopology{pod("web", "10.244.1.3", "fd00:10:244:1::3"),
				pod("db", "10.244.1.4", "fd00:10:244:1::4")}}},
	}, []*corev1.Node{node})
	service := func(name string, nodePort int32, addresses ...string) {
		names.AddService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: corev1.ServiceSpec{ClusterIPs: addresses, Ports: []corev1.ServicePort{
				{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: nodePort}}}})
	}
	service("front", 30080, "10.96.0.10", "fd00:10:96::10")
	service("own", 0, "10.96.0.11", "fd00:10:96::11")
	service("headless", 0, corev1.ClusterIPNone)
	return names
}

// entries are the lines of a dump of a node.
func entries(t testing.TB, node, text string) (list []Entry) {
	t.Helper()
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		c, _, err := conntrack.Parse(strings.TrimSpace(lines.Text()))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, Entry{node, c})
	}
	return list
}

// told is a line for each flow.
func told(flows []api.Flow) string {
	var text strings.Builder
	end := func(e *api.FlowEnd) string {
		name := strings.Join(slices.DeleteFunc([]string{e.Kind, e.Namespace, e.Name, e.Node}, func(word string) bool {
			return word == ""
		}), "/")
		return fmt.Sprintf("%s %s %d", name, e.Address, e.Port)
	}
	for i := range flows {
		f := &flows[i]
		fmt.Fprintf(&text, "%s %s > %s", f.Protocol, end(&f.Source), end(&f.Destination))
		if s := f.Service; s != nil {
			fmt.Fprintf(&text, " by %s/%s %s %d", s.Namespace, s.Name, s.Address, s.Port)
		}
		if f.SeenAs != "" {
			fmt.Fprintf(&text, " seen as %s", f.SeenAs)
		}
		fmt.Fprintf(&text, " %s %v", f.State, f.Nodes)
		if f.Packets+f.ReplyPackets > 0 {
			fmt.Fprintf(&text, " %d/%d packets, %d/%d bytes", f.Packets, f.ReplyPackets, f.Bytes, f.ReplyBytes)
		}
		fmt.Fprintln(&text)
	}
	return text.String()
}

// TestRealNodes: what real datapaths remember of connections to pods, Services, NodePorts and the outside, of pods, the
// host and the outside, is one flow for each connection. An ovs-vswitchd of Linux over the emulated
// extension has told the states of Windows: it takes ESTABLISHED for FIN_WAIT_1, as that of Windows does not.
func TestRealNodes(t *testing.T) {
	for _, datapath := range []string{"userspace", "windows"} {
		t.Run(datapath, func(t *testing.T) {
			dump, err := os.ReadFile(filepath.Join("testdata", datapath+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			list := entries(t, "n1", string(dump))
			got, golden := told(Join(list, cluster())), filepath.Join("testdata", datapath+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			slices.Reverse(list)
			if again := told(Join(list, cluster())); again != got {
				t.Errorf("in another order the entries are\n%s\nand were\n%s", again, got)
			}
		})
	}
}

func line(protocol, source, destination, replySource, replyDestination, more string) string {
	at := func(text string) (address, port string) {
		a := netip.MustParseAddrPort(text)
		return a.Addr().String(), fmt.Sprint(a.Port())
	}
	s, sp := at(source)
	d, dp := at(destination)
	rs, rsp := at(replySource)
	rd, rdp := at(replyDestination)
	return fmt.Sprintf("%s,orig=(src=%s,dst=%s,sport=%s,dport=%s),reply=(src=%s,dst=%s,sport=%s,dport=%s)%s", protocol, s,
		d, sp, dp, rs, rd, rsp, rdp, more)
}

// counted is a connection of TCP from web to db in a zone of a datapath that counts packets, as that of Windows does.
func counted(zone int, sent, heard, state string) string {
	return fmt.Sprintf("tcp,orig=(src=10.244.1.3,dst=10.244.1.4,sport=4000,dport=80%s),reply=(src=10.244.1.4,"+
		"dst=10.244.1.3,sport=80,dport=4000%s),zone=%d,timeout=29,protoinfo=(state=%s)\n", sent, heard, zone, state)
}

// What is not in the dumps of one node.
func TestJoin(t *testing.T) {
	const web, db = "10.244.1.3:4000", "10.244.1.4:80"
	const five, one, none = ",packets=5,bytes=350", ",packets=1,bytes=74", ""
	straight := func(state string) string {
		return line("tcp", web, db, db, web, ",zone=1,protoinfo=(state="+state+")")
	}
	for name, c := range map[string]struct {
		nodes []string // what each of n1, n2… remembers
		want  string
	}{
		"nothing": {nil, ""},
		"one connection on two nodes": {[]string{straight("ESTABLISHED"), straight("ESTABLISHED")},
			"TCP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80 ESTABLISHED [n1 n2]\n"},
		"one that has ended in a zone, and is only begun in another": {
			[]string{straight("SYN_SENT") + "\n" + straight("ESTABLISHED") + "\n" + straight("TIME_WAIT")},
			"TCP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80 TIME_WAIT [n1]\n"},
		"a probe of a Windows node that has ended": {
			[]string{counted(32774, five, five, "SYN_SENT") + counted(32775, five, five, "SYN_SENT")},
			"TCP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80 ESTABLISHED [n1] 5/5 packets, 350/350 bytes\n"},
		"one of a Windows node that has no answer": {
			[]string{counted(32774, one, none, "ESTABLISHED") + counted(32775, one, none, "ESTABLISHED")},
			"TCP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80 SYN_SENT [n1] 1/0 packets, 74/0 bytes\n"},
		"one that has no answer": {[]string{counted(5, one, none, "SYN_SENT")},
			"TCP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80 SYN_SENT [n1] 1/0 packets, 74/0 bytes\n"},
		"one whose answer a zone has not counted": {
			[]string{counted(32774, one, none, "ESTABLISHED") + counted(32775, five, one, "ESTABLISHED")},
			"TCP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80 ESTABLISHED [n1] 5/1 packets, 350/74 bytes\n"},
		"one that nobody counts and that has no answer": {[]string{straight("SYN_SENT")},
			"TCP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80 SYN_SENT [n1]\n"},
		"a protocol of its own on the same ports": {
			[]string{straight("ESTABLISHED") + "\n" + line("udp", web, db, db, web, ",zone=1")},
			"TCP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80 ESTABLISHED [n1]\n" +
				"UDP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80  [n1]\n"},
		"an address that no pod has now": {[]string{line("udp", "10.244.9.9:1", db, db, "10.244.9.9:1", ",zone=1")},
			"UDP Address 10.244.9.9 1 > Pod/shop/db/n1 10.244.1.4 80  [n1]\n"},
		"a Service that is gone": {[]string{line("tcp", web, "10.96.0.99:80", db, web, ",zone=1")},
			"TCP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80 by / 10.96.0.99 80  [n1]\n"},
		"a port of a pod that is a NodePort elsewhere": {
			[]string{line("tcp", "10.244.1.4:7", "10.244.1.3:30080", "10.244.1.4:80", "10.244.1.4:7", ",zone=1")},
			"TCP Pod/shop/db/n1 10.244.1.4 7 > Pod/shop/db/n1 10.244.1.4 80 by / 10.244.1.3 30080  [n1]\n"},
		"the alias of each node's host": {
			[]string{line("tcp", "169.254.169.3:1", "169.254.169.2:22", "169.254.169.2:22", "169.254.169.3:1", ",zone=1"),
				line("tcp", "169.254.169.3:1", "169.254.169.2:22", "169.254.169.2:22", "169.254.169.3:1", ",zone=1")},
			"TCP Node/n1 169.254.169.3 1 > Node/n1 169.254.169.2 22  [n1]\n" +
				"TCP Node/n2 169.254.169.3 1 > Node/n2 169.254.169.2 22  [n2]\n"},
		"a circle": {[]string{line("tcp", web, db, web, db, ",zone=1") + "\n" + line("tcp", db, web, db, web, ",zone=2")},
			"TCP Pod/shop/db/n1 10.244.1.4 80 > Pod/shop/web/n1 10.244.1.3 4000  [n1]\n" +
				"TCP Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n1 10.244.1.4 80  [n1]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var list []Entry
			for i, text := range c.nodes {
				list = append(list, entries(t, fmt.Sprintf("n%d", i+1), text)...)
			}
			if got := told(Join(list, cluster())); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
