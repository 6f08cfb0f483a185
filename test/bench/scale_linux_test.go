package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/ovn"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/bench/load"
)

const (
	nodesVariable = "WEFT_BENCH_NODES" // sizes of clusters; 20,100,500,1000
	// what all clusters have alike: Services of type ClusterIP, of type NodePort, and policies; 9900,100,2000
	sharedVariable = "WEFT_BENCH_SHARED"
	// pods per node, on average: 1 to 200; kubelet's limit, 110
	podsVariable = "WEFT_BENCH_PODS"
	// values of ovn-monitor-all with which the real node is measured, one after the other; true,false
	monitorVariable = "WEFT_BENCH_MONITOR_ALL"
)

// Bounds of a node in a cluster of 1,000.
const (
	aimNodeFlows             = 200_000
	aimNodeMegabytes         = 550
	aimNodeRecomputeSeconds  = 2
	aimNorthdPodMilliseconds = 20
	// aimGrowth is of a node's flows, from the smallest cluster to the largest.
	aimGrowth = 1.5
)

// BenchmarkScale is the gauge of large clusters. The rows are those of the translation, in a real Northbound; northd
// and the Southbound are real, and so are the ovn-controller and the Open vSwitch of one node, whose datapath has no
// packets. The other nodes are rows: a chassis each, to which their pods and routers are bound. The node is measured
// with each value of ovn-monitor-all: its flows must be the same.
func BenchmarkScale(b *testing.B) {
	var r report
	sizes, monitors := numbers(b, nodesVariable, "20,100,500,1000"), monitorValues(b)
	for _, nodes := range sizes {
		measureScale(b, &r, scaleScenario(nodes), &largeCluster{load: large(b, nodes)}, monitors...)
	}
	r.growScale(scaleScenario(sizes[0]), scaleScenario(sizes[len(sizes)-1]), monitors...)
	r.publish(b)
	r.print(os.Stdout)
}

func sharedNumbers(b *testing.B) []int {
	b.Helper()
	shared := numbers(b, sharedVariable, "9900,100,2000")
	if len(shared) != 3 {
		b.Fatalf("%s: needs three numbers, of ClusterIP and NodePort Services and of policies", sharedVariable)
	}
	return shared
}

// monitorValues are the values of ovn-monitor-all that are measured.
func monitorValues(b *testing.B) []string {
	b.Helper()
	values := strings.Split(cmp.Or(os.Getenv(monitorVariable), "true,false"), ",")
	for _, all := range values {
		if _, err := strconv.ParseBool(all); err != nil {
			b.Fatalf("%s: %q is neither true nor false", monitorVariable, all)
		}
	}
	return values
}

func scaleScenario(nodes int) string { return fmt.Sprintf("%d nodes", nodes) }

// monitorScenario is a scenario with a value of ovn-monitor-all.
func monitorScenario(scenario, all string) string { return scenario + ", ovn-monitor-all=" + all }

// mostPods leaves room in a node's subnet for pods that events make, and for the addresses of new endpoints.
const mostPods = 200

func podsPerNode(b *testing.B) int {
	b.Helper()
	pods := numbers(b, podsVariable, "110")
	if len(pods) != 1 || pods[0] > mostPods {
		b.Fatalf("%s: needs one number, of pods per node, from 1 to %d", podsVariable, mostPods)
	}
	return pods[0]
}

// large is the load of a cluster of so many nodes.
func large(b *testing.B, nodes int) load.Load {
	b.Helper()
	l, shared := mixed(nodes), sharedNumbers(b)
	l.Pods, l.Services, l.NodePorts, l.Policies = podsPerNode(b)*nodes, shared[0], shared[1], shared[2]/l.Namespaces
	return l
}

// largeCluster is a cluster whose rows a translation without an API server makes.
type largeCluster struct {
	load       load.Load
	zone       *zone // the part of it that the databases have, nil for all
	translated *ovn.Rehearsal
	engine     *ovsdb.Engine
	members    int // pods that have come since
	*network
}

// begin has the rows of the cluster in databases, and all nodes but the first one as rows.
func (c *largeCluster) begin(b *testing.B, r *report, scenario string) {
	b.Helper()
	c.network = &network{nb: startNorthbound(b), sb: startSouthbound(b)}
	c.translate(b, r, scenario)
	c.makeSouthbound(b, r, scenario)
	c.bindOthers(b)
}

// measureScale measures the cluster, and its first node with each of the values of ovn-monitor-all.
func measureScale(b *testing.B, r *report, scenario string, c *largeCluster, monitors ...string) {
	b.Helper()
	c.begin(b, r, scenario)
	node := c.startNode(b)
	if c.zone != nil {
		c.checkWays(b)
	}
	for _, all := range monitors {
		c.measureNode(b, r, monitorScenario(scenario, all), all)
	}
	c.measureEvents(b, r, scenario, monitors...)
	for _, one := range []struct {
		name string
		*process
	}{
		{"ovs-vswitchd", node.vswitchd}, {"northd", c.northd}, {"Northbound's server", c.nb.server},
		{"Southbound's server", c.sb.server},
	} {
		r.add(scenario, one.name+", peak memory", "MB", float64(one.peak(b))/1e6)
	}
	c.stop(b)
	c.nb.server.stop(b)
}

// translate writes what all objects become.
func (c *largeCluster) translate(b *testing.B, r *report, scenario string) {
	b.Helper()
	config := settings.DefaultConfig()
	config.PodCIDRs, config.ServiceCIDRs = []string{load.PodCIDR}, []string{load.ServiceCIDR}
	config.DefaultGatewayNetwork, config.Northbound = load.Network, []string{c.nb.remote}
	var err error
	if c.translated, err = ovn.NewRehearsal(config); err != nil {
		b.Fatal(err)
	}
	if c.zone != nil {
		c.zone.begin(b, config)
	}
	objects := append(c.load.Objects(), c.load.ServiceObjects()...)
	before := spent(b)
	if err := c.translated.Update(objects, nil); err != nil {
		b.Fatal(err)
	}
	for _, p := range c.translated.Problems() {
		if !p.Lasting { // Windows nodes are told what they lack
			b.Fatalf("an object is not as it should be: %v", p)
		}
	}
	c.translated.Notes()
	translated := spent(b) - before
	c.engine = ovsdb.NewEngine(ovsdbtest.Connect(b, ovsdbtest.Northbound(b), c.nb.remote, northbound.Tables...))
	before = spent(b)
	if err := c.engine.Replace(b.Context(), c.zone.rows(c.translated.Changes())); err != nil {
		b.Fatal(err)
	}
	if c.zone != nil { // the translation is of more than a zone's
		return
	}
	r.add(scenario, "translation, CPU", "s", translated.Seconds())
	r.add(scenario, "writing, CPU", "s", (spent(b) - before).Seconds())
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	r.add(scenario, "heap with all objects, rows and the replica", "MB", float64(memory.HeapAlloc)/1e6)
}

// makeSouthbound has northd make the Southbound, which knows all chassis but one.
func (c *largeCluster) makeSouthbound(b *testing.B, r *report, scenario string) {
	b.Helper()
	var chassis []string
	var foreign []int
	for i := 1; i < c.load.Nodes; i++ {
		if c.zone.has(i) {
			chassis = append(chassis, "--", "chassis-add", load.Chassis(i), "geneve", load.NodeAddress(i).String())
		} else {
			foreign = append(foreign, i)
		}
	}
	run(b, ovnProgram(b, "ovn-sbctl"), append([]string{"--db=" + c.sb.remote}, chassis[1:]...)...)
	c.addRemoteChassis(b, foreign...)
	c.northd = startNorthd(b, c.nb, c.sb)
	c.wait(b, "sb")
	r.add(scenario, "northd from nothing, CPU", "s", c.cpu(b, c.northd).Seconds())
	rows := parts{}
	for table, all := range c.nb.read(b).Tables {
		rows[table] = float64(len(all))
	}
	r.add(scenario, "Northbound rows", "rows", rows.total())
	r.add(scenario, "logical flows", "flows", float64(len(c.sb.read(b).Tables["Logical_Flow"])))
}

// bindOthers binds the ports of all nodes but the first, as their ovn-controllers would.
func (c *largeCluster) bindOthers(b *testing.B) {
	b.Helper()
	client := dialBare(b, c.sb.remote, "OVN_Southbound")
	defer client.conn.Close()
	all := func(table string, columns ...string) any {
		return map[string]any{"op": "select", "table": table, "where": []any{}, "columns": columns}
	}
	found := client.transact(b, []any{all("Chassis", "_uuid", "name"), all("HA_Chassis", "_uuid", "chassis"),
		all("HA_Chassis_Group", "_uuid", "ha_chassis"),
		all("Port_Binding", "_uuid", "type", "requested_chassis", "options", "ha_chassis_group")})
	id := func(row libovsdb.Row, column string) string { return ovsdb.TextUUID(row[column]) }
	byName := map[string]string{}
	for _, row := range found[0].Rows {
		byName[fmt.Sprint(row["name"])] = id(row, "_uuid")
	}
	byMember, byGroup := map[string]string{}, map[string]string{}
	for _, row := range found[1].Rows {
		byMember[id(row, "_uuid")] = id(row, "chassis")
	}
	for _, row := range found[2].Rows {
		byGroup[id(row, "_uuid")] = byMember[id(row, "ha_chassis")]
	}
	var operations []any
	for _, row := range found[3].Rows {
		chassis := id(row, "requested_chassis")
		switch row["type"] {
		case "l3gateway":
			chassis = byName[ovsdb.TextMap(row["options"])["l3gateway-chassis"]]
		case "chassisredirect":
			chassis = byGroup[id(row, "ha_chassis_group")]
		case "remote": // northd binds it itself
			chassis = ""
		}
		if chassis != "" {
			operations = append(operations, map[string]any{"op": "update", "table": "Port_Binding",
				"where": whereID(id(row, "_uuid")), "row": map[string]any{"chassis": []string{"uuid", chassis}, "up": true}})
		}
	}
	if pods := c.pods() * (c.nodesHere() - 1) / c.nodesHere(); len(operations) < pods*9/10 {
		b.Fatalf("only %d ports have a chassis to be bound to, of %d pods", len(operations), pods)
	}
	for batch := range slices.Chunk(operations, 5000) {
		client.transact(b, batch)
	}
	c.wait(b, "sb")
}

// startNode starts the first node, with all its pods.
func (c *largeCluster) startNode(b *testing.B) *chassis {
	b.Helper()
	node := startChassis(b, c.sb, 0, c.zone.chassisSettings()...)
	c.nodes = append(c.nodes, node)
	var pods []*corev1.Pod
	for i := range c.load.Pods {
		if pod := c.load.Pod(i); pod.Spec.NodeName == load.NodeName(0) {
			pods = append(pods, pod)
		}
	}
	node.plug(b, pods...)
	node.awaitPods(b, pods...)
	c.awaitTunnels(b, c.load.Nodes-1)
	return node
}

// awaitTunnels waits until the first node has so many. ovn-controller makes a tunnel's flows when Open vSwitch has
// given it a port, and is in sync before.
func (c *largeCluster) awaitTunnels(b *testing.B, tunnels int) {
	b.Helper()
	until(b, 5*time.Minute, "all tunnels have flows", c.nodes[0].controls, func(context.Context) error {
		c.sync(b)
		if got := strings.Count(c.nodes[0].ofctl(b, "dump-flows", "table=0,icmp,icmp_type=3"), "cookie="); got < tunnels {
			return fmt.Errorf("%d of %d", got, tunnels)
		}
		return nil
	})
}

// measureNode starts the ovn-controller of the first node anew. The flows come to be the same as before.
func (c *largeCluster) measureNode(b *testing.B, r *report, scenario, all string) {
	b.Helper()
	node := c.nodes[0]
	c.recompute(b) // which also leaves no flows that nobody needs any more
	before := node.flows(b)
	took, incomplete := c.restart(b, node, all)
	r.add(scenario, "ovn-controller from nothing, CPU", "s", c.cpu(b, node.controls).Seconds())
	r.add(scenario, "ovn-controller from nothing, until all flows", "s", took.Seconds())
	r.add(scenario, "… time in which flows are missing", "s", incomplete.Seconds())
	if missing, more := differences(before, node.flows(b)); len(missing)+len(more) > 0 {
		b.Errorf("%s: after a restart %d flows are missing, such as %q, and there are %d others, such as %q", scenario,
			len(missing), first(missing), len(more), first(more))
	}
	counted := c.amount(b)
	r.add(scenario, "OpenFlow flows", "flows", counted.openFlow.total()).atMost(aimNodeFlows)
	for _, table := range counted.openFlow.largest(6) {
		r.add(scenario, "… in "+table, "flows", counted.openFlow[table])
	}
	r.add(scenario, "OpenFlow groups", "groups", counted.groups.total())
	r.add(scenario, "recompute, CPU", "s", c.recompute(b).Seconds()).atMost(aimNodeRecomputeSeconds)
	r.add(scenario, "ovn-controller, peak memory", "MB", float64(node.controls.peak(b))/1e6).atMost(aimNodeMegabytes)
}

// recompute has the first node's ovn-controller work out everything from nothing.
func (c *largeCluster) recompute(b *testing.B) time.Duration {
	b.Helper()
	node := c.nodes[0]
	c.sync(b)
	before := c.cpu(b, node.controls)
	run(b, ovnProgram(b, "ovn-appctl"), "-t", filepath.Join(node.dir, "ovn-controller.ctl"), "inc-engine/recompute")
	c.sync(b)
	return c.cpu(b, node.controls) - before
}

// restart ends a node's ovn-controller as its unit does, and starts another one. It takes so long until all flows are
// there; incomplete is the part of it in which there were fewer than before.
func (c *largeCluster) restart(b *testing.B, node *chassis, all string) (took, incomplete time.Duration) {
	b.Helper()
	before := node.flowCount(b)
	node.leave(b)
	node.monitor(b, all)
	began := time.Now()
	node.controls = node.start(b, "ovn-controller", "unix:"+filepath.Join(node.dir, "db.sock"))
	synced := make(chan error, 1)
	go func() {
		synced <- exec.Command(ovnProgram(b, "ovn-nbctl"), "--db="+c.nb.remote, "--timeout=500", "--wait=hv", "sync").Run()
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last := began; ; {
		select {
		case err := <-synced:
			if err != nil {
				b.Fatalf("wait for flows after a restart: %v\n%s", err, node.controls.tail())
			}
			return time.Since(began), incomplete
		case <-tick.C:
		}
		count, now := node.flowCount(b), time.Now()
		if count < before {
			incomplete += now.Sub(last)
		}
		last = now
	}
}

// eventRounds is how often each event is made.
const eventRounds = 10

// event is a change of the cluster, made several times; make gives the object that is new or another one.
type event struct {
	name   string
	make   func(i int) k8sruntime.Object
	plug   bool   // the first node has the pod's interface before the Southbound has its port
	settle func() // nil, or waits for what a sync does not wait for
	// Aims of northd's processor time, and of what comes to the first node's flows; 0 is none.
	northdMilliseconds, flows float64
}

// measureEvents makes single changes, one after the other, each until it is in the first node's flows. Those with
// another value of ovn-monitor-all are others of the same kind.
func (c *largeCluster) measureEvents(b *testing.B, r *report, scenario string, monitors ...string) {
	b.Helper()
	sides := c.load.SidePolicies()
	member := func(name string) func(i int) k8sruntime.Object {
		return func(i int) k8sruntime.Object { return c.load.Member(sides[0].Namespace, fmt.Sprint(name, i)) }
	}
	events := []event{
		{name: "nothing", make: func(int) k8sruntime.Object { return nil }},
		{name: "a pod", northdMilliseconds: aimNorthdPodMilliseconds, make: member("member-")},
		{name: "a pod of the node", plug: true, make: member("plugged-")},
		{name: "an endpoint", make: func(i int) k8sruntime.Object {
			return c.load.WithEndpoint(i, load.PodAddress(0, 244+i%eventRounds))
		}},
	}
	if c.zone != nil {
		events = append(events, c.foreignEvents(b)...)
	}
	policy := event{name: "a policy", make: func(i int) k8sruntime.Object { return sides[i] }}
	for _, list := range [][]event{events, {policy}} { // policies add many flows, so they come last
		for i, all := range monitors {
			c.nodes[0].monitor(b, all) // is followed without a restart
			c.recompute(b)
			for _, e := range list {
				c.measureEvent(b, r, monitorScenario(scenario, all), e, i*eventRounds)
			}
		}
	}
}

func (c *largeCluster) measureEvent(b *testing.B, r *report, scenario string, e event, from int) {
	b.Helper()
	node := c.nodes[0]
	names := []string{"northd", "ovn-controller", "Southbound's server"}
	processes := []*process{c.northd, node.controls, c.sb.server}
	flows, before, recomputed := node.flowsByTable(b), make([]time.Duration, len(names)), c.recomputes(b)
	for i, p := range processes {
		before[i] = c.cpu(b, p)
	}
	var took []time.Duration
	var own time.Duration
	for i := from; i < from+eventRounds; i++ {
		o := e.make(i)
		if e.plug {
			node.plug(b, o.(*corev1.Pod))
		}
		start, began := time.Now(), spent(b)
		if o != nil {
			c.apply(b, o)
		}
		own += spent(b) - began
		if e.plug {
			node.awaitPods(b, o.(*corev1.Pod))
		}
		c.sync(b)
		took = append(took, time.Since(start))
	}
	if e.settle != nil {
		e.settle()
		c.sync(b)
	}
	each := func(spent time.Duration) float64 { return spent.Seconds() * 1000 / eventRounds }
	r.add(scenario, e.name+" to the flows, p50", "ms", percentile(took, 50))
	r.add(scenario, e.name+", CPU of the translation and the engine", "ms", each(own))
	for i, p := range processes {
		f := r.add(scenario, e.name+", CPU of "+names[i], "ms", each(c.cpu(b, p)-before[i]))
		if p == c.northd {
			f.atMost(e.northdMilliseconds)
		}
	}
	more := node.flowsByTable(b).less(flows)
	r.add(scenario, e.name+", OpenFlow flows", "flows", more.total()/eventRounds).atMost(e.flows)
	for _, table := range more.largest(8) {
		if more[table] >= eventRounds {
			r.add(scenario, e.name+", OpenFlow flows in "+table, "flows", more[table]/eventRounds)
		}
	}
	after := c.recomputes(b)
	for _, stage := range slices.Sorted(maps.Keys(after)) {
		if more := after[stage] - recomputed[stage]; more > 0 {
			r.add(scenario, e.name+", recomputes of northd's "+stage, "times", float64(more)/eventRounds)
		}
	}
}

// apply writes what an object has changed.
func (c *largeCluster) apply(b *testing.B, o k8sruntime.Object) {
	b.Helper()
	err := c.translated.Update([]k8sruntime.Object{o}, nil)
	if err == nil {
		err = c.engine.Apply(b.Context(), c.zone.rows(c.translated.Changes()))
	}
	if err != nil {
		b.Fatal(err)
	}
}

// recomputes is how often northd has worked out each of its stages from nothing, see ovn-northd(8), inc-engine. Stages
// that only read a table, or that wait for a time, do nothing else.
func (c *largeCluster) recomputes(b *testing.B) map[string]int {
	b.Helper()
	all, stage := map[string]int{}, ""
	text := run(b, ovnProgram(b, "ovn-appctl"), "-t", filepath.Join(c.sb.dir, "northd.ctl"), "inc-engine/show-stats")
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.Trim(line, "- \n"), ": ")
		switch name {
		case "Node":
			stage = value
		case "recompute":
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				b.Fatalf("inc-engine/show-stats: %q: %v", line, err)
			}
			if !strings.HasPrefix(stage, "NB_") && !strings.HasPrefix(stage, "SB_") && !strings.HasSuffix(stage, "_waker") {
				all[stage] = n
			}
		}
	}
	if len(all) == 0 {
		b.Fatalf("inc-engine/show-stats says no numbers of recomputes:\n%s", text)
	}
	return all
}

func (c *largeCluster) cpu(b testing.TB, p *process) time.Duration {
	b.Helper()
	used, err := p.cpu()
	if err != nil {
		b.Fatal(err)
	}
	return used
}

// grow adds how much larger each figure of one scenario is in another.
func (r *report) grow(small, large string) {
	if small == large {
		return
	}
	for _, f := range slices.Clone(r.figures) {
		if f.scenario != small || f.median() == 0 {
			continue
		}
		for _, other := range r.figures {
			if other.scenario == large && other.name == f.name {
				grown := r.add(large+" to "+small, f.name, "x", other.median()/f.median())
				if f.name == "OpenFlow flows" {
					grown.atMost(aimGrowth)
				}
			}
		}
	}
}

// growScale is grow, of the figures of a cluster and of its node with each of the values of ovn-monitor-all.
func (r *report) growScale(small, large string, monitors ...string) {
	r.grow(small, large)
	for _, all := range monitors {
		r.grow(monitorScenario(small, all), monitorScenario(large, all))
	}
}
