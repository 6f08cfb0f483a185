package ctlookup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/nodetest/hyperv"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// serve answers connections in a sandbox with its name.
func serve(t *testing.T, name, sandbox string) {
	t.Helper()
	made := make(chan error)
	var listener net.Listener
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		handle, err := netns.GetFromPath(sandbox)
		if err == nil {
			err = netns.Set(handle)
			handle.Close()
		}
		if err == nil {
			config := net.ListenConfig{}
			config.SetMultipathTCP(false)
			listener, err = config.Listen(context.Background(), "tcp", ":8080")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, name)
			conn.Close()
		}
	}()
}

// connect returns who has answered.
func connect(from, to string, port int) (string, error) {
	script := fmt.Sprintf("exec 3<>/dev/tcp/%s/%d && read -u3 who && echo $who", to, port)
	output, err := exec.Command("ip", "netns", "exec", from, "timeout", "1", "bash", "-c", script).CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

// TestOVN: OVN's own flows, with packets, with the lookups and without, by a datapath that has no more features than
// Hyper-V's: ovs-vswitchd takes them, and policies refuse what they refuse. Without the lookups load balancers reach
// all endpoints, the client itself among them.
func TestOVN(t *testing.T) {
	for _, with := range []bool{false, true} {
		t.Run(fmt.Sprint("lookups ", with), func(t *testing.T) { testOVN(t, with) })
	}
}

func testOVN(t *testing.T, with bool) {
	o := nodetest.StartOVN(t)
	dir := filepath.Dir(strings.TrimPrefix(o.OVSDatabase(), "unix:"))
	nodetest.Between(t, dir+"/between.sock", dir+"/br-int.mgmt", func(conn net.Conn) net.Conn {
		return Over(conn, Changes{Lookups: with}, func(err error) { t.Error(err) })
	})
	o.VS("--may-exist", "add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type="+nodetest.Datapath(),
		"fail_mode=secure")
	for _, feature := range hyperv.Features {
		o.Run("ovs-appctl", "--target="+dir+"/"+nodetest.Vswitchd+".ctl", "dpif/set-dp-features", "br-int", feature.Name,
			feature.Value)
	}
	o.VS("set", "open_vswitch", ".", "external_ids:system-id=n1", "external_ids:ovn-remote="+o.Southbound(),
		"external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip=192.0.2.3", "external_ids:ovn-bridge-datapath-type="+nodetest.Datapath(),
		"external_ids:ovn-bridge-remote=unix:"+dir+"/between.sock")
	o.NB("ls-add", "s", "--", "pg-add", "guarded", "--", "lr-add", "r", "--", "lrp-add", "r", "rtos", "0a:58:0a:f4:01:01",
		"10.244.1.1/24",
		"--", "lsp-add", "s", "stor", "--", "lsp-set-type", "stor", "router", "--", "lsp-set-addresses", "stor", "router",
		"--", "lsp-set-options", "stor", "router-port=rtos")
	address := map[string]string{}
	for i, name := range []string{"a", "b", "c"} {
		sandbox := nodetest.Sandbox(t, name)
		mac := fmt.Sprintf("0a:58:0a:f4:01:%02x", 10+i)
		address[name] = fmt.Sprintf("10.244.1.%d", 10+i)
		script := fmt.Sprintf(`ip link add v-%[1]s type veth peer name eth0 netns %[1]s; ip link set v-%[1]s up; ip -n %[1]s link set lo up
			ip -n %[1]s link set eth0 address %[2]s up; ip -n %[1]s addr add %[3]s/24 dev eth0; ip -n %[1]s route add default via 10.244.1.1
			ip netns exec %[1]s ethtool -K eth0 tx off > /dev/null`, name, mac, address[name])
		if output, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		o.NB("lsp-add", "s", name, "--", "lsp-set-addresses", name, mac+" "+address[name])
		o.VS("add-port", "br-int", "v-"+name, "--", "set", "interface", "v-"+name, "external_ids:iface-id="+name)
		serve(t, name, sandbox)
	}
	const vip, sticky = "10.96.0.1", "10.96.0.2"
	o.NB("lb-add", "web", vip+":80", address["a"]+":8080,"+address["b"]+":8080", "--", "set", "load_balancer", "web",
		"options:hairpin_snat_ip=169.254.169.5", "--", "ls-lb-add", "s", "web",
		"--", "lb-add", "sticky", sticky+":80", address["a"]+":8080,"+address["b"]+":8080", "--", "set", "load_balancer",
		"sticky", "options:affinity_timeout=600", "--", "ls-lb-add", "s", "sticky",
		"--", "lb-add", "sound", vip+":80", address["c"]+":8080", "udp", "--", "ls-lb-add", "s", "sound",
		"--", "lb-add", "ftp", "10.96.0.4:2121", address["a"]+":21", "--", "ls-lb-add", "s", "ftp")
	o.NB("--wait=hv", "--timeout=100", "sync")

	reaches := func(from, to string, port int, want ...string) {
		t.Helper()
		seen := map[string]bool{}
		nodetest.Eventually(t, 20*time.Second, func() error {
			who, err := connect(from, to, port)
			if err != nil {
				return fmt.Errorf("%s to %s: %w: %s", from, to, err, who)
			}
			seen[who] = true
			for _, name := range want {
				if !seen[name] {
					return fmt.Errorf("%s to %s: seen %v", from, to, seen)
				}
			}
			return nil
		})
	}
	// its packet goes no further with OVN's own flows, and comes again after a second
	first, err := connect("c", sticky, 80)
	if err != nil {
		t.Fatalf("a client's first connection by a load balancer that remembers it: %v, %q", err, first)
	}
	reaches("c", sticky, 80, first)
	refused := func(what string, try func() (string, error)) {
		t.Helper()
		for range 3 {
			if answer, err := try(); err == nil {
				t.Errorf("%s: %q", what, answer)
			}
		}
	}
	ping := func(from, to string) (string, error) {
		output, err := exec.Command("ip", "netns", "exec", from, "ping", "-n", "-c1", "-W1", to).CombinedOutput()
		return string(output), err
	}
	o.NB("--wait=hv", "--timeout=100",
		"--", "pg-set-ports", "guarded", "b",
		"--", "--type=port-group", "acl-add", "guarded", "to-lport", "1000", "outport == @guarded && ip4.src == "+
			address["a"]+" && tcp.dst == 8080", "allow-related",
		"--", "--type=port-group", "acl-add", "guarded", "to-lport", "900", "outport == @guarded && ip4", "drop",
		"--", "--type=port-group", "acl-add", "guarded", "from-lport", "900", "inport == @guarded && icmp4", "allow-related")
	reaches("a", address["b"], 8080, "b")
	reaches("a", address["c"], 8080, "c")
	reaches("a", vip, 80, "a", "b")
	reaches("b", vip, 80, "a")
	for _, way := range [][2]string{{"b", "a"}, {"b", "c"}, {"a", "c"}} {
		nodetest.Eventually(t, 10*time.Second, func() error {
			output, err := ping(way[0], address[way[1]])
			return errors.Join(err, errIf(err, output))
		})
	}
	refused("a policy lets c to b", func() (string, error) { return connect("c", address["b"], 8080) })
	refused("a policy lets a ping b", func() (string, error) { return ping("a", address["b"]) })
	refused("a policy lets a to another port of b", func() (string, error) { return connect("a", address["b"], 8081) })
	control := dir + "/" + nodetest.Vswitchd + ".ctl"
	ask := exec.Command("ip", "netns", "exec", "a", "bash", "-c", "echo > /dev/udp/"+vip+"/80")
	if output, err := ask.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	reaches("a", address["b"], 8080, "b")
	ofProtocols(t, o.Run("ovs-appctl", "--target="+control, "dpctl/dump-conntrack"))
	keepsConnections(t, o, control, address["a"])
	flows := o.Run("ovs-ofctl", "-O", "OpenFlow15", "dump-flows", "unix:"+dir+"/br-int.mgmt")
	groups := o.Run("ovs-ofctl", "-O", "OpenFlow15", "dump-groups", "unix:"+dir+"/br-int.mgmt")
	checkFlows(t, flows, groups, with)
	checkGuards(t, flows, groups)
}

// snatHairpin is OVN's OFTABLE_CT_SNAT_HAIRPIN.
const snatHairpin = "70"

// checkGuards: each table that commits has the flows that keep packets from helpers. Where a switch or router has to do
// with connections in a table, fragments are put together first. OVN has flows for all of them in one table alone, to
// which it sends nothing that it has not tracked. Nothing translates to a port of a helper's. Each ct with a zone of
// OVN's has the way before it to the table that chooses by the protocol.
func checkGuards(t *testing.T, flows, groups string) {
	t.Helper()
	const ofRegister, way = "zone=NXM_NX_REG", "resubmit(,252)"
	ports, wholes := map[string]int{}, map[string]int{}     // the latter by datapath, too
	commits, tracks := map[string]bool{}, map[string]bool{} // by table, and by datapath, too
	directly := strings.NewReplacer("resubmit(,250),", "", "resubmit(,251),", "")
	for line := range strings.Lines(flows) {
		_, rest, _ := strings.Cut(line, "table=")
		table, _, _ := strings.Cut(rest, ",")
		_, rest, _ = strings.Cut(line, "metadata=")
		datapath := strings.FieldsFunc(rest+" ", func(r rune) bool { return r == ',' || r == ' ' })
		at := table + " " + strings.Join(datapath[:min(1, len(datapath))], "")
		words := strings.TrimSpace(line)
		switch ours := strings.Contains(words, "priority=65535,"); {
		case ours && strings.HasSuffix(words, "actions=drop") &&
			(strings.Contains(words, "=21 ") || strings.Contains(words, "=69 ")):
			ports[table]++
		case ours && strings.Contains(words, "ct_state=-trk,") && strings.Contains(words, "nw_frag=yes") &&
			strings.HasSuffix(words, "actions=ct(table="+table+",zone=64009)"):
			wholes[at]++
		case strings.Contains(words, ofRegister), strings.Contains(words, "group:"):
			tracks[at] = true
			if strings.Contains(words, "ct(commit") || strings.Contains(words, "group:") {
				commits[table] = true
			}
			before := directly.Replace(words)
			cts := strings.Count(words, ofRegister) + strings.Count(words, "group:")
			if chosen := strings.Count(before, way+",ct(") + strings.Count(before, way+",group:"); chosen != cts {
				t.Errorf("%d of %d zones are chosen by the protocol: %s", chosen, cts, words)
			}
		}
	}
	commits["0"] = true // no connection begins that has such packets
	for table := range commits {
		if ports[table] != 16 {
			t.Errorf("table %s commits, and has %d flows against helpers", table, ports[table])
		}
	}
	for at := range tracks {
		if table, datapath, _ := strings.Cut(at, " "); wholes[at] != 2 || datapath == "" && table != snatHairpin {
			t.Errorf("what tracks in table %s has %d flows that put fragments together", at, wholes[at])
		}
	}
	t.Logf("flows against helpers %v, flows that put fragments together %v", ports, wholes)
	if strings.Contains(groups, ":21)") || strings.Contains(flows, ":21)") {
		t.Errorf("something translates to port 21:\n%s", groups)
	}
	if !strings.Contains(groups, "actions=drop") {
		t.Errorf("no bucket drops:\n%s", groups)
	}
}

// ofProtocols: what has been tracked of TCP is in zones of TCP, and all else in others.
func ofProtocols(t *testing.T, tracked string) {
	t.Helper()
	seen := map[bool]int{}
	for line := range strings.Lines(tracked) {
		_, rest, _ := strings.Cut(line, "zone=")
		number, _, _ := strings.Cut(strings.TrimSpace(rest), ",")
		zone, err := strconv.Atoi(number)
		tcp := strings.HasPrefix(line, "tcp,")
		if err != nil || tcp != (zone&OfTCP != 0) {
			t.Errorf("zone %q: %s", number, line)
		}
		seen[tcp]++
	}
	if seen[false] == 0 || seen[true] == 0 {
		t.Errorf("%d connections of TCP, %d others: nothing is shown", seen[true], seen[false])
	}
}

// keepsConnections: a load balancer with ct_flush goes, that of the client's switch and that of a switch that has no
// port here, beside one without ct_flush on the client's.
func keepsConnections(t *testing.T, o *nodetest.OVN, control, endpoint string) {
	const vip = "10.96.0.3"
	tracked := func() bool {
		return strings.Contains(o.Run("ovs-appctl", "--target="+control, "dpctl/dump-conntrack"), "dst="+vip+",")
	}
	o.NB("ls-add", "another", "--", "lrp-add", "r", "rtoa", "0a:58:0a:f4:02:01", "10.244.2.1/24", "--", "lsp-add",
		"another", "ator",
		"--", "lsp-set-type", "ator", "router", "--", "lsp-set-addresses", "ator", "router", "--", "lsp-set-options", "ator",
		"router-port=rtoa")
	for _, at := range []string{"s", "another"} {
		o.NB("lb-add", "dns", vip+":53", endpoint+":8081", "udp", "--", "set", "load_balancer", "dns",
			"options:ct_flush=true", "--", "ls-lb-add", at, "dns")
		if at != "s" {
			o.NB("lb-add", "plain", vip+":53", endpoint+":8081", "udp", "--", "ls-lb-add", "s", "plain")
		}
		o.NB("--wait=hv", "--timeout=100", "sync")
		nodetest.Eventually(t, 10*time.Second, func() error {
			output, err := exec.Command("ip", "netns", "exec", "c", "bash", "-c", "echo > /dev/udp/"+vip+"/53").CombinedOutput()
			if err == nil && !tracked() {
				err = errors.New("no connection")
			}
			return errors.Join(err, errIf(err, string(output)))
		})
		o.NB("--wait=hv", "--timeout=100", "lb-del", "dns")
		if !tracked() {
			t.Errorf("with a load balancer of switch %s the switch has forgotten its connection", at)
		}
		o.Run("ovs-appctl", "--target="+control, "dpctl/flush-conntrack")
	}
}

func errIf(err error, output string) error {
	if err == nil {
		return nil
	}
	return errors.New(output)
}

// checkFlows counts what br-int has: each commit after the way to its lookup, each group that commits too, or none at
// all.
func checkFlows(t *testing.T, flows, groups string, with bool) {
	t.Helper()
	const way = "resubmit(,250)"
	commits, ways := strings.Count(flows, "ct(commit"), strings.Count(flows, way)
	after := strings.Count(flows, way+",ct(commit") + strings.Count(flows, way+",group:")
	if toGroups := strings.Count(flows, "group:"); toGroups == 0 || !strings.Contains(groups, "ct(commit") ||
		commits == 0 {
		t.Fatalf("%d commits, %d groups: nothing is shown\n%s", commits, toGroups, groups)
	} else {
		commits += toGroups
	}
	if want := map[bool]int{true: commits}[with]; ways != want || after != want {
		t.Errorf("%d ways to the lookup, %d of them right before one of %d commits", ways, after, commits)
	}
	t.Logf("%d commits, %d ways to the lookup", commits, ways)
	for _, words := range [][2]string{
		{"table=250,", "priority=1,ct_state=-rpl+trk+dnat,ip actions=drop"},
		{"table=250,", "priority=1,ct_state=-rpl+trk+snat,ip actions=drop"},
		{"table=250,", "priority=0,ip actions=ct(zone=64009)"},
		{"table=251,", "priority=1,ct_state=+rpl+trk-dnat,ip actions=ct(zone=64009)"},
	} {
		has := slices.ContainsFunc(strings.Split(flows, "\n"), func(line string) bool {
			return strings.Contains(line, words[0]) && strings.HasSuffix(strings.TrimSpace(line), words[1])
		})
		if has != with {
			t.Errorf("br-int has %q: %t", words, has)
		}
	}
}
