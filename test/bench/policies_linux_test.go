package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/test/bench/load"
	"github.com/weftnet/weft/test/bench/ovsdblog"
)

const membersVariable = "WEFT_BENCH_MEMBERS" // pods added to each namespace that has policies for them; 20

// BenchmarkPolicies measures what network policies cost, how long it takes until they hold for a new pod, and what
// becomes of changes of labels.
func BenchmarkPolicies(b *testing.B) {
	var r report
	members := numbers(b, membersVariable, "20")[0]
	measureMembers(b, &r, 100, members)
	measurePolicies(b, &r, members)
	r.publish(b)
	r.print(os.Stdout)
}

// policyLoad is a cluster without Services.
func policyLoad(pods int) load.Load {
	l := load.Default()
	l.Pods, l.Services, l.NodePorts = pods, 0, 0
	return l
}

func startPolicies(b *testing.B, l load.Load) *cluster {
	b.Helper()
	c := startCluster(b, l)
	perform(b, c.api, l.CreatePods)
	c.controller.settle(b, c.controller.started, 0, content{pods: l.Pods})
	c.sync(b)
	return c
}

// measureMembers adds pods to namespaces with policies, in a cluster of so many other pods with all of the load's
// policies.
func measureMembers(b *testing.B, r *report, pods, members int) {
	b.Helper()
	c := startPolicies(b, policyLoad(pods))
	defer c.stop(b)
	c.change(b, c.load.CreatePolicies, pods)
	c.measureCrowds(b, r, members)
}

// change performs a phase and waits until its outcome is in all nodes' flows. It gives the processor time of each
// part, and what the Northbound was sent.
func (c *cluster) change(b *testing.B, phase phase, pods int) (cpu map[string]time.Duration, e effort, rows result,
	known time.Duration) {
	b.Helper()
	c.api.rest(b)
	before := c.used(b)
	e, rows = c.controller.during(b, phase, content{pods: pods})
	c.sync(b)
	known = time.Since(e.Start)
	cpu = c.used(b)
	for part := range cpu {
		cpu[part] -= before[part]
	}
	return cpu, e, rows, known
}

func (c *cluster) tellChange(b *testing.B, r *report, scenario string, phase phase, pods int) {
	b.Helper()
	cpu, e, rows, _ := c.change(b, phase, pods)
	r.add(scenario, "requests", "s", e.Took().Seconds())
	r.add(scenario, "last row", "s", rows.lastRow.Seconds())
	r.add(scenario, "transactions", "txn", float64(rows.transactions))
	r.add(scenario, "rows written", "rows", float64(rows.rows))
	for _, part := range slices.Sorted(maps.Keys(cpu)) {
		r.add(scenario, "CPU of "+part, "s", cpu[part].Seconds())
	}
}

func measurePolicies(b *testing.B, r *report, members int) {
	b.Helper()
	l := policyLoad(2000)
	c := startPolicies(b, l)
	base, without := c.amount(b), c.nbText(b)
	scenario := fmt.Sprintf("%d policies", l.Policies*l.Namespaces)
	c.tellChange(b, r, scenario, l.CreatePolicies, l.Pods)
	weft, with := c.amount(b).less(base), c.nbText(b)
	for _, f := range []struct {
		name, unit string
		parts
	}{{"Northbound rows", "rows", weft.rows}, {"logical flows", "flows", weft.logical}, {"OpenFlow flows", "flows/node",
		weft.openFlow}} {
		r.add(scenario, f.name, f.unit, f.total())
	}
	for _, table := range []string{"ACL", "Port_Group", "Address_Set"} {
		r.add(scenario, "rows of "+table, "rows", weft.rows[table])
	}
	c.tellChange(b, r, "10 namespaces' labels", l.ChangeTeams, l.Pods)
	c.change(b, l.CreateSidePolicies, l.Pods)
	c.tellChange(b, r, "1000 pods' labels", l.ChangeSides, l.Pods)
	c.measureCrowds(b, r, members)
	c.stop(b)
	measureNaive(b, r, l, without, with)
}

func (c *cluster) nbText(b *testing.B) []byte {
	b.Helper()
	text, err := os.ReadFile(c.nb.file)
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// measureCrowds adds pods, one at a time, to namespaces with more and more policies that select them, plugs them in on
// the first node, and waits until ovn-controller says that all flows of theirs are there.
func (c *cluster) measureCrowds(b *testing.B, r *report, members int) {
	b.Helper()
	client := dialBare(b, c.nb.remote, "OVN_Northbound")
	defer client.conn.Close()
	pods := c.load.Pods
	var floor float64
	for _, n := range []int{0, 1, 10, 100} {
		namespace := fmt.Sprintf("crowd-%d", n)
		if err := c.load.CreateCrowd(b.Context(), c.api.api, namespace, n); err != nil {
			b.Fatal(err)
		}
		c.controller.settle(b, time.Now(), 0, content{pods: pods})
		c.sync(b)
		pods += members
		began, before := time.Now(), c.used(b)
		var inForce []time.Duration
		for i := range members {
			name, start := fmt.Sprintf("m%d-%d", n, i), time.Now()
			if err := c.load.CreateMember(b.Context(), c.api.api, namespace, name); err != nil {
				b.Fatal(err)
			}
			pod, port := c.load.Member(namespace, name), contract.PodPort(namespace, name)
			pod.UID = c.api.uid(b, namespace, name)
			c.nodes[0].plug(b, pod)
			client.transact(b, []any{map[string]any{"op": "wait", "timeout": 60000, "table": "Logical_Switch_Port",
				"columns": []string{"up"}, "until": "==",
				"where": []any{[]any{"name", "==", port}}, "rows": []any{map[string]any{"up": true}}}})
			inForce = append(inForce, time.Since(start))
		}
		after := c.used(b)
		scenario := fmt.Sprintf("a pod among %d with %d policies", c.load.Pods, n)
		rows, transactions := newPorts(c.nb.read(b), began)
		r.add(scenario, "rows written", "rows", float64(rows)/float64(members))
		r.add(scenario, "transactions", "txn", float64(transactions)/float64(members))
		median := percentile(inForce, 50)
		if n == 0 {
			floor = median
		}
		r.add(scenario, "in force p50", "ms", median)
		r.add(scenario, "in force p50 to that of 0 policies", "x", median/floor)
		for _, part := range []string{"weft", "northd", "ovn-controllers"} {
			r.add(scenario, "CPU of "+part, "ms", (after[part]-before[part]).Seconds()*1000/float64(members))
		}
	}
}

// uid is that of a pod that was just made.
func (s *apiserver) uid(b *testing.B, namespace, name string) types.UID {
	b.Helper()
	var text bytes.Buffer
	var pod metav1.PartialObjectMetadata
	err := s.get(b.Context(), "/api/v1/namespaces/"+namespace+"/pods/"+name,
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", &text)
	if err == nil {
		err = json.Unmarshal(text.Bytes(), &pod)
	}
	if err != nil {
		b.Fatal(err)
	}
	return pod.UID
}

// newPorts counts the transactions with new ports from a moment on, and their rows.
func newPorts(db *ovsdblog.Database, from time.Time) (rows, transactions int) {
	for _, record := range db.Records {
		if record.Time.Before(from.Truncate(time.Millisecond)) || record.Changes["Logical_Switch_Port"].Inserted == 0 {
			continue
		}
		transactions++
		for _, change := range record.Changes {
			rows += change.Inserted + change.Modified + change.Deleted
		}
	}
	return rows, transactions
}

// naiveNamespaces are those whose policies are translated the naive way, too: all would be 74,000 ACLs.
const naiveNamespaces = 4

// measureNaive has a northd translate from nothing: a Northbound without policies, Weft's with them, and one with an
// ACL for each pair of a pod and a peer of the policies of some namespaces.
func measureNaive(b *testing.B, r *report, l load.Load, without, with []byte) {
	b.Helper()
	measure := func(text []byte, more func(*database)) (flows int, cpu time.Duration) {
		nb := copyDatabase(b, "nb", text)
		defer nb.server.stop(b)
		if more != nil {
			more(nb)
		}
		flows, _, _, cpu = logicalFlows(b, l, nb)
		return flows, cpu
	}
	baseFlows, baseCPU := measure(without, nil)
	weftFlows, weftCPU := measure(with, nil)
	all, some := naiveACLs(b, l, l.Namespaces), naiveACLs(b, l, naiveNamespaces)
	naiveFlows, naiveCPU := measure(without, func(nb *database) { writeNaive(b, nb, some) })
	policies := float64(l.Policies * l.Namespaces)
	share := policies * naiveNamespaces / float64(l.Namespaces)
	scenario := "a policy beside the naive translation"
	db := readText(b, with)
	acls := 0
	for _, row := range db.Tables["ACL"] {
		if strings.HasPrefix(owner(row), "NetworkPolicy/") {
			acls++
		}
	}
	for _, f := range []struct {
		name, unit  string
		weft, naive float64
	}{
		{"ACLs", "rows", float64(acls) / policies, float64(len(all)) / policies},
		{"logical flows", "flows", float64(weftFlows-baseFlows) / policies, float64(naiveFlows-baseFlows) / share},
		{"CPU of a northd from nothing", "ms", (weftCPU - baseCPU).Seconds() * 1000 / policies,
			(naiveCPU - baseCPU).Seconds() * 1000 / share},
	} {
		r.add(scenario, f.name, f.unit, f.weft)
		r.add(scenario, f.name+" of the naive one", f.unit, f.naive)
		r.add(scenario, f.name+", naive to Weft", "x", f.naive/f.weft)
	}
}

func readText(b *testing.B, text []byte) *ovsdblog.Database {
	b.Helper()
	file := filepath.Join(runDir(b, "log"), "db")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		b.Fatal(err)
	}
	db, err := ovsdblog.Read(file)
	if err != nil {
		b.Fatal(err)
	}
	return db
}
