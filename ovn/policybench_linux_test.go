package ovn

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	bench "github.com/weftnet/weft/test/bench/load"
)

// policyBench is the controller's own work on a load, without an API server: the translation, the engine, and
// a real Northbound that nobody else works on.
type policyBench struct {
	load    bench.Load
	objects map[part.Event]any
	*cluster
	engine   *ovsdb.Engine
	server   *ovsdbtest.Process
	registry *prometheus.Registry
}

func newPolicyBench(b *testing.B, edit func(*bench.Load)) *policyBench {
	b.Helper()
	p := &policyBench{load: bench.Default(), objects: map[part.Event]any{},
		server: ovsdbtest.Server(b, ovsdbtest.Northbound(b))}
	edit(&p.load)
	put(b, p, p.load.Objects())
	p.connect(b)
	return p
}

// put takes in objects as informers would, and gives their keys.
func put[T k8sruntime.Object](b *testing.B, p *policyBench, list []T) []part.Event {
	b.Helper()
	var keys []part.Event
	for _, o := range list {
		k, trimmed, err := offlineObject(o)
		if err != nil {
			b.Fatal(err)
		}
		p.objects[k] = trimmed
		keys = append(keys, k)
	}
	return keys
}

func (p *policyBench) get(k part.Event) any { return p.objects[k] }

// connect gives the Northbound a new client and engine.
func (p *policyBench) connect(b *testing.B) {
	b.Helper()
	p.engine = ovsdb.NewEngine(ovsdbtest.Connect(b, ovsdbtest.Northbound(b), p.server.Endpoint, northbound.Tables...))
	p.registry = prometheus.NewRegistry()
	p.registry.MustRegister(p.engine.Client().Metrics()...)
}

// rows is how many the engine has written.
func (p *policyBench) rows(b *testing.B) float64 {
	b.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == "weft_ovsdb_rows_written_total" {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// begin is a controller's start: what its parts used of the processors.
func (p *policyBench) begin(b *testing.B) (translate, write time.Duration) {
	b.Helper()
	start := used(b)
	p.cluster = newCluster(ovntest.Settings(b, nil))
	p.cluster.begin(engine{Engine: p.engine}.Records(p.settings), slices.Collect(maps.Keys(p.objects)), p.get)
	changes := p.takeEverything()
	translate = used(b) - start
	if err := p.engine.Replace(b.Context(), changes); err != nil {
		b.Fatal(err)
	}
	return translate, used(b) - start - translate
}

// used is the processor time of this process so far, which other work on the machine hardly moves.
func used(b *testing.B) time.Duration {
	b.Helper()
	var self unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &self); err != nil {
		b.Fatal(err)
	}
	return time.Duration(self.Utime.Nano() + self.Stime.Nano())
}

// apply is what becomes of objects that have changed.
func (p *policyBench) apply(b *testing.B, keys []part.Event) {
	b.Helper()
	p.update(keys, p.get)
	if err := p.engine.Apply(b.Context(), p.takeChanges()); err != nil {
		b.Fatal(err)
	}
	p.TakeNotes()
}

// BenchmarkPolicyStart is the start of a controller with 400 policies over 2,000 pods, with an empty Northbound
// and then with the right one, beside the same without policies.
func BenchmarkPolicyStart(b *testing.B) {
	for _, policies := range []int{0, 20} {
		b.Run(fmt.Sprintf("policies=%d", policies*bench.Default().Namespaces), func(b *testing.B) {
			for b.Loop() {
				p := newPolicyBench(b, func(l *bench.Load) { l.Policies = policies })
				before := heap()
				translate, write := p.begin(b)
				b.ReportMetric(translate.Seconds()*1000, "translate-CPU-ms")
				b.ReportMetric(write.Seconds()*1000, "write-CPU-ms")
				b.ReportMetric(p.rows(b), "rows")
				b.ReportMetric(float64(p.server.Transactions()), "txn")
				b.ReportMetric((float64(heap())-float64(before))/1e6, "heap-with-replica-MB")
				written := p.server.Transactions()
				p.cluster = nil
				p.connect(b)
				before = heap()
				p.cluster = newCluster(ovntest.Settings(b, nil))
				p.cluster.begin(engine{Engine: p.engine}.Records(p.settings), slices.Collect(maps.Keys(p.objects)), p.get)
				b.ReportMetric((float64(heap())-float64(before))/1e6, "heap-MB")
				translate, write = p.begin(b)
				b.ReportMetric((translate+write).Seconds()*1000, "again-CPU-ms")
				if more := p.server.Transactions() - written; more > 0 {
					b.Errorf("a start with the right Northbound wrote %d transactions, want none", more)
				}
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkPolicyMember adds pods, one at a time, to a namespace whose policies all select them, each by a selector
// of its own. What is written does not depend on how many pods there are.
func BenchmarkPolicyMember(b *testing.B) {
	const members = 20
	rows := map[int]float64{}
	for _, pods := range []int{100, 2000} {
		p := newPolicyBench(b, func(l *bench.Load) { l.Pods = pods })
		for _, n := range []int{0, 1, 10, 100} {
			namespace, policies := p.load.Crowd(fmt.Sprintf("crowd-%d", n), n)
			put(b, p, []k8sruntime.Object{namespace})
			put(b, p, policies)
		}
		p.begin(b)
		for _, n := range []int{0, 1, 10, 100} {
			b.Run(fmt.Sprintf("pods=%d/policies=%d", pods, n), func(b *testing.B) {
				for round := 0; b.Loop(); round++ { // each has pods of its own
					before, transactions, start := p.rows(b), p.server.Transactions(), used(b)
					for i := range members {
						p.apply(b, put(b, p, []k8sruntime.Object{p.load.Member(fmt.Sprintf("crowd-%d", n),
							fmt.Sprintf("member-%d-%d", round, i))}))
					}
					took := used(b) - start
					each := (p.rows(b) - before) / members
					b.ReportMetric(each, "rows/pod")
					b.ReportMetric(float64(p.server.Transactions()-transactions)/members, "txn/pod")
					b.ReportMetric(took.Seconds()*1000/members, "CPU-ms/pod")
					b.ReportMetric(0, "ns/op")
					if was, ok := rows[n]; ok && was != each {
						b.Errorf("%v rows for a pod among %d, %v among fewer: want the same", each, pods, was)
					}
					rows[n] = each
				}
			})
		}
	}
}

// BenchmarkPolicyLabels moves 1,000 of 2,000 pods between selectors: by their own labels, of policies' subjects
// and peers, and by those of ten namespaces, of peers.
func BenchmarkPolicyLabels(b *testing.B) {
	for _, c := range []struct {
		name string
		put  func(*testing.B, *policyBench) []part.Event
	}{
		{"pods", func(b *testing.B, p *policyBench) []part.Event { return put(b, p, p.load.OtherSides()) }},
		{"namespaces", func(b *testing.B, p *policyBench) []part.Event { return put(b, p, p.load.OtherTeams()) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				p := newPolicyBench(b, func(*bench.Load) {})
				put(b, p, p.load.SidePolicies())
				p.begin(b)
				keys := c.put(b, p)
				rows, transactions, start := p.rows(b), p.server.Transactions(), used(b)
				p.update(keys, p.get)
				changes := p.takeChanges()
				translated := used(b) - start
				if err := p.engine.Apply(b.Context(), changes); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(translated.Seconds()*1000, "translate-CPU-ms")
				b.ReportMetric((used(b)-start-translated).Seconds()*1000, "write-CPU-ms")
				b.ReportMetric(p.rows(b)-rows, "rows")
				b.ReportMetric(float64(p.server.Transactions()-transactions), "txn")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
