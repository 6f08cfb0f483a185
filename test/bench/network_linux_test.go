package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/bench/load"
)

// network is what makes flows of a Northbound: a northd, a Southbound, and nodes.
type network struct {
	nb, sb *database
	northd *process
	nodes  []*chassis
}

// chassis is a node's Open vSwitch, with a datapath that has no packets, and its ovn-controller. That
// of a Windows node is no different: the way from its chassis host is not measured here.
type chassis struct {
	dir                          string
	database, vswitchd, controls *process
}

func startNetwork(b testing.TB, nb *database, nodes int) *network {
	b.Helper()
	n := &network{nb: nb, sb: startSouthbound(b)}
	n.northd = startNorthd(b, nb, n.sb)
	for i := range nodes {
		n.nodes = append(n.nodes, startChassis(b, n.sb, i))
	}
	return n
}

func startSouthbound(b testing.TB) *database {
	b.Helper()
	sb := startDatabase(b, "sb", "ovn-sb.ovsschema")
	// ovn-controller of 25.03 ends by a null pointer while there is no row SB_Global, which northd writes with the rest.
	run(b, ovnProgram(b, "ovn-sbctl"), "--db="+sb.remote, "init")
	return sb
}

func startNorthd(b testing.TB, nb, sb *database) *process {
	b.Helper()
	return start(b, "northd", sb.dir, ovnProgram(b, "ovn-northd"), "--ovnnb-db="+nb.remote, "--ovnsb-db="+sb.remote,
		"--unixctl="+filepath.Join(sb.dir, "northd.ctl"), "-vconsole:warn")
}

// startChassis starts node i, with further settings of its Open_vSwitch row.
func startChassis(b testing.TB, sb *database, i int, settings ...string) *chassis {
	b.Helper()
	c := &chassis{dir: runDir(b, "chassis")}
	file, remote := filepath.Join(c.dir, "conf.db"), "unix:"+filepath.Join(c.dir, "db.sock")
	run(b, ovnProgram(b, "ovsdb-tool"), "create", file, filepath.Join(ovsdbtest.Repository(), "models", "schemas",
		"vswitch.ovsschema"))
	c.database = c.start(b, "ovsdb-server", file, "--remote=p"+remote)
	c.await(b, c.database, "db.sock")
	settings = append([]string{"external_ids:system-id=" + load.Chassis(i), "external_ids:hostname=" + load.NodeName(i),
		"external_ids:ovn-remote=" + sb.remote, "external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip=" + load.NodeAddress(i).String(), "external_ids:ovn-bridge=br-int",
		"external_ids:ovn-bridge-datapath-type=dummy", "external_ids:ovn-monitor-all=true",
		"external_ids:ovn-bridge-mappings=" + load.Network + ":br-ex"}, settings...)
	run(b, ovnProgram(b, "ovs-vsctl"), slices.Concat([]string{"--db=" + remote, "--retry", "--timeout=60", "--no-wait",
		"init", "--", "set", "open_vswitch", "."}, settings, []string{
		"--", "add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=dummy", "fail_mode=secure",
		"--", "add-br", "br-ex", "--", "set", "bridge", "br-ex", "datapath_type=dummy",
		"--", "add-port", "br-int", "mgmt", "--", "set", "interface", "mgmt", "type=dummy", "external_ids:iface-id=mgmt-" +
			load.NodeName(i)})...)
	c.vswitchd = c.start(b, "ovs-vswitchd", remote, "--enable-dummy", "--disable-system")
	c.await(b, c.vswitchd, "br-int.mgmt")
	c.controls = c.start(b, "ovn-controller", remote)
	return c
}

func (c *chassis) start(b testing.TB, name string, args ...string) *process {
	b.Helper()
	return start(b, name, c.dir, "/usr/bin/env", append([]string{"OVS_RUNDIR=" + c.dir, "OVN_RUNDIR=" + c.dir,
		ovnProgram(b, name)},
		append(args, "--unixctl="+filepath.Join(c.dir, name+".ctl"), "--no-chdir", "-vconsole:warn")...)...)
}

func (c *chassis) await(b testing.TB, p *process, socket string) {
	b.Helper()
	until(b, time.Minute, p.name+" listening", p, func(context.Context) error {
		_, err := os.Stat(filepath.Join(c.dir, socket))
		return err
	})
}

// sync waits until all of the Northbound is in the flows of every node.
func (n *network) sync(b testing.TB) {
	b.Helper()
	n.wait(b, "hv")
}

// wait until all of the Northbound is in the Southbound ("sb"), or in the flows of every node ("hv").
func (n *network) wait(b testing.TB, until string) {
	b.Helper()
	run(b, ovnProgram(b, "ovn-nbctl"), "--db="+n.nb.remote, "--timeout=500", "--wait="+until, "sync")
}

func (n *network) stop(b testing.TB) {
	b.Helper()
	for _, c := range n.nodes {
		for _, p := range []*process{c.controls, c.vswitchd, c.database} {
			p.stop(b)
		}
	}
	n.northd.stop(b)
	n.sb.server.stop(b)
}

// amount is how much there is of what Services become.
type amount struct {
	rows, logical, openFlow, groups parts
}

// parts are numbers of something by where it is.
type parts map[string]float64

func (p parts) total() float64 {
	sum := 0.0
	for _, n := range p {
		sum += n
	}
	return sum
}

func (p parts) less(base parts) parts {
	rest := parts{}
	for name, n := range p {
		rest[name] = n - base[name]
	}
	return rest
}

// largest are the names of the n largest parts, the largest first.
func (p parts) largest(n int) []string {
	names := slices.SortedFunc(maps.Keys(p), func(x, y string) int {
		return cmp.Or(cmp.Compare(p[y], p[x]), cmp.Compare(x, y))
	})
	return names[:min(n, len(names))]
}

func (a amount) less(base amount) amount {
	return amount{a.rows.less(base.rows), a.logical.less(base.logical), a.openFlow.less(base.openFlow),
		a.groups.less(base.groups)}
}

// amount counts the Northbound's rows by table, the Southbound's logical flows by stage, and, as a mean of
// all nodes, OpenFlow's flows by table.
func (n *network) amount(b testing.TB) amount {
	b.Helper()
	n.sync(b)
	a := amount{parts{}, parts{}, parts{}, parts{}}
	for table, rows := range n.nb.read(b).Tables {
		a.rows[table] = float64(len(rows))
	}
	for _, flow := range n.sb.read(b).Tables["Logical_Flow"] {
		a.logical[flow["external_ids"]["stage-name"]]++
	}
	one := 1 / float64(len(n.nodes))
	for _, c := range n.nodes {
		for table, flows := range c.flowsByTable(b) {
			a.openFlow[table] += one * flows
		}
		a.groups["all"] += one * float64(strings.Count(c.ofctl(b, "dump-groups"), "group_id="))
	}
	return a
}

// flowsByTable is how many flows the node's bridge has in each table.
func (c *chassis) flowsByTable(b testing.TB) parts {
	b.Helper()
	p := parts{}
	for line := range strings.Lines(c.ofctl(b, "dump-flows")) {
		if !strings.Contains(line, "cookie=") {
			continue
		}
		_, table, _ := strings.Cut(line, " table=") // not there for table 0
		table, _, _ = strings.Cut(table, ",")
		p["table "+cmp.Or(table, "0")]++
	}
	return p
}

func (c *chassis) ofctl(b testing.TB, verb string, args ...string) string {
	b.Helper()
	return run(b, ovnProgram(b, "ovs-ofctl"), append([]string{"-O", "OpenFlow15", verb,
		"unix:" + filepath.Join(c.dir, "br-int.mgmt")}, args...)...)
}

func (c *chassis) vsctl(b testing.TB, args ...string) string {
	b.Helper()
	return strings.TrimSpace(run(b, ovnProgram(b, "ovs-vsctl"), append([]string{
		"--db=unix:" + filepath.Join(c.dir, "db.sock"), "--timeout=500"}, args...)...))
}

// plug gives the node the interfaces of pods, as the CNI plugin does.
func (c *chassis) plug(b testing.TB, pods ...*corev1.Pod) {
	b.Helper()
	var args []string
	for _, pod := range pods {
		uid := cmp.Or(string(pod.UID), string(northbound.PodOwner(pod.Namespace+"/"+pod.Name))) // a rehearsal's
		args = append(args, "--", "add-port", "br-int", pod.Name, "--", "set", "interface", pod.Name, "type=dummy",
			"external_ids:iface-id="+contract.PodPort(pod.Namespace, pod.Name), "external_ids:iface-id-ver="+uid)
	}
	c.vsctl(b, args...)
}

// awaitPods waits until pods of the node are bound and have all their flows.
func (c *chassis) awaitPods(b testing.TB, pods ...*corev1.Pod) {
	b.Helper()
	var args []string
	for _, pod := range pods {
		args = append(args, "--", "wait-until", "interface", pod.Name, "external_ids:ovn-installed=true")
	}
	c.vsctl(b, args...)
}

// monitor gives ovn-monitor-all a value.
func (c *chassis) monitor(b testing.TB, all string) {
	b.Helper()
	c.vsctl(b, "--no-wait", "set", "Open_vSwitch", ".", "external_ids:ovn-monitor-all="+all)
}

// leave ends the node's ovn-controller, so that its chassis and flows stay.
func (c *chassis) leave(b testing.TB) {
	b.Helper()
	run(b, ovnProgram(b, "ovn-appctl"), "-t", filepath.Join(c.dir, "ovn-controller.ctl"), "exit", "--restart")
	<-c.controls.exited
}

// flowCount is how many flows the node's bridge has.
func (c *chassis) flowCount(b testing.TB) int {
	b.Helper()
	text := c.ofctl(b, "dump-aggregate")
	_, number, _ := strings.Cut(text, "flow_count=")
	var n int
	if _, err := fmt.Sscan(number, &n); err != nil {
		b.Fatalf("dump-aggregate says %q: %v", text, err)
	}
	return n
}

// numbered are the parts of flows for which each ovn-controller has other numbers: cookies, conjunctions and meters.
var numbered = regexp.MustCompile(`cookie=0x[0-9a-f]+, |conj_id=\d+|(conjunction\()\d+|meter_id=\d+|meter:\d+`)

// flows are those of the node's bridge, sorted, by what does not depend on which ovn-controller has made them. A group
// is what it has in the place of its number.
func (c *chassis) flows(b testing.TB) []string {
	b.Helper()
	groups := map[string]string{}
	for line := range strings.Lines(c.ofctl(b, "dump-groups")) {
		if _, group, ok := strings.Cut(line, "group_id="); ok {
			number, content, _ := strings.Cut(strings.TrimSpace(group), ",")
			groups["group:"+number] = "group:" + content
		}
	}
	var all []string
	for line := range strings.Lines(c.ofctl(b, "dump-flows", "--no-stats")) {
		if !strings.Contains(line, "cookie=") {
			continue
		}
		line = numbered.ReplaceAllString(strings.TrimSpace(line), "$1")
		all = append(all, groupNumber.ReplaceAllStringFunc(line, func(number string) string { return groups[number] }))
	}
	slices.Sort(all)
	return all
}

var groupNumber = regexp.MustCompile(`group:\d+`)

// differences are what the second one of two sorted lists lacks, and what it has more.
func differences(before, after []string) (missing, more []string) {
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0] < after[0]:
			missing, before = append(missing, before[0]), before[1:]
		case len(before) == 0 || after[0] < before[0]:
			more, after = append(more, after[0]), after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
	return missing, more
}

// first is an example of what a list has.
func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
