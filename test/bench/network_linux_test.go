package bench

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
		for table, flows := range c.flows(b) {
			a.openFlow[table] += one * flows
		}
		a.groups["all"] += one * float64(strings.Count(c.ofctl(b, "dump-groups"), "group_id="))
	}
	return a
}

// flows are numbers of OpenFlow's flows by table.
func (c *chassis) flows(b testing.TB) parts {
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
