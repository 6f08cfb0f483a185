package bench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/weftnet/weft/test/bench/load"
	"github.com/weftnet/weft/test/bench/ovsdblog"
)

// What the controller should keep to on the default load.
const (
	aimColdSeconds      = 0.5
	aimColdCPUSeconds   = 0.6
	aimColdMegabytes    = 90
	aimColdTransactions = 100
	aimLiveRatio        = 1.25
	aimLogicalFlows     = 16000 // 400 policies among them
)

// The environment chooses how much to measure.
const (
	roundsVariable = "WEFT_BENCH_ROUNDS" // pairs of clusters with and without a controller; 3
	// an absolute directory that is given the last databases, and the profiles of one more cold start
	profileVariable = "WEFT_BENCH_PROFILE"
)

// BenchmarkController measures pairs of clusters that see the same load one after the other, one
// without a controller and one with it, so that a busy machine slows both. Each second pair has PodNetworks in place of
// annotations of pods.
func BenchmarkController(b *testing.B) {
	rounds := 3
	if text := os.Getenv(roundsVariable); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			b.Fatalf("%s: %q is not a number of rounds", roundsVariable, text)
		}
	}
	s := &suite{load: load.Default()}
	for round := range rounds {
		for _, s.load.PodNetworks = range []bool{false, true} {
			last := round == rounds-1 && !s.load.PodNetworks
			s.live(b, s.alone(b), last)
		}
	}
	s.publish(b)
	s.print(os.Stdout)
}

// suite is the load and what was found.
type suite struct {
	report
	load load.Load
}

// add notes a value of clusters that have annotations of pods, or that have PodNetworks.
func (s *suite) add(scenario, name, unit string, value float64) *figure {
	if s.load.PodNetworks {
		scenario += ", PodNetworks"
	}
	return s.report.add(scenario, name, unit, value)
}

// server starts an API server for the load.
func (s *suite) server(b *testing.B) *apiserver {
	b.Helper()
	server := startAPIServer(b)
	if s.load.PodNetworks {
		server.install(b)
	}
	return server
}

// controller starts a controller for the load.
func (s *suite) controller(b *testing.B, server *apiserver, nb *database, more ...string) *controller {
	b.Helper()
	return startController(b, server, nb, append(more, fmt.Sprint("--pod-networks=", s.load.PodNetworks))...)
}

type phase func(context.Context, *load.API) (load.Phase, error)

// full is what the Northbound must say of the whole load.
func (s *suite) full() content {
	return content{s.load.Pods, s.load.Services + s.load.NodePorts, s.load.Backends()}
}

// alone fills an API server that nobody watches, and measures the first start of a controller on
// it. It returns what each phase took without a controller.
func (s *suite) alone(b *testing.B) map[string]effort {
	b.Helper()
	server := s.server(b)
	defer server.stop(b)
	efforts := map[string]effort{}
	l := s.load
	do := func(phases ...phase) {
		for _, phase := range phases {
			e := perform(b, server, phase)
			efforts[e.Name] = e
		}
	}
	do(l.CreateNodes, l.CreateNamespaces, l.CreatePods, l.CreateServices, l.CreatePolicies)
	lists, size := listFloor(b, server)
	s.add("floor", "bare lists", "s", lists.Seconds())
	s.add("floor", "lists size", "MB", float64(size)/1e6)

	nb := startNorthbound(b)
	c := s.controller(b, server, nb)
	s.addColdStart("new cluster", c.settle(b, c.started, 0, s.full()))
	c.stop(b)
	nb.server.stop(b)

	do(l.DeletePods, l.RecreatePods, l.ScaleServices)
	return efforts
}

// live fills an API server under a controller's eyes, then starts the controller again: over the
// same Northbound, and over an empty one.
func (s *suite) live(b *testing.B, alone map[string]effort, last bool) {
	b.Helper()
	server, nb := s.server(b), startNorthbound(b)
	defer server.stop(b)
	c := s.controller(b, server, nb)
	c.settle(b, c.started, 0, content{})
	l := s.load
	perform(b, server, l.CreateNodes)
	perform(b, server, l.CreateNamespaces)
	measure := func(phase phase, want content) {
		e, r := c.during(b, phase, want)
		s.addLive("live "+e.Name, alone[e.Name], e, r)
	}
	measure(l.CreatePods, content{pods: l.Pods})
	measure(l.CreateServices, s.full())
	c.during(b, l.CreatePolicies, s.full())
	s.add("live", "peak memory", "MB", float64(c.peak(b))/1e6)
	c.stop(b)

	s.restart(b, server, nb)
	before := nb.read(b)
	nb.server.stop(b)
	nb = startNorthbound(b)
	c = s.controller(b, server, nb)
	s.addColdStart("cold start", c.settle(b, c.started, 0, s.full()))
	after := nb.read(b)
	compare(b, before, after)
	floor, transactions := ovsdbFloor(b, after)
	s.add("floor", "bare writes", "s", floor.Seconds())
	s.add("floor", "bare transactions", "txn", float64(transactions))

	want := s.full()
	want.pods -= l.ChurnPods
	measure(l.DeletePods, want)
	measure(l.RecreatePods, s.full())
	want = s.full()
	want.backends = l.BackendsAfterChurn()
	measure(l.ScaleServices, want)
	c.stop(b)
	if last {
		s.profile(b, server, want)
		s.addFlows(b, nb)
	}
	nb.server.stop(b)
}

// restart starts a controller where nothing has changed.
func (s *suite) restart(b *testing.B, server *apiserver, nb *database) {
	b.Helper()
	c := s.controller(b, server, nb)
	r := c.settle(b, c.started, 0, s.full())
	c.stop(b)
	s.add("restart", "idle after", "s", r.idle.Seconds())
	s.add("restart", "CPU", "s", r.cpu.Seconds())
	s.add("restart", "peak memory", "MB", float64(r.peak)/1e6)
	s.add("restart", "writes", "txn", float64(r.transactions))
	if r.transactions != 1 {
		b.Errorf("a restart with nothing changed wrote %d transactions to the Northbound, want the claim alone",
			r.transactions)
	}
}

func (s *suite) addColdStart(scenario string, r result) {
	s.add(scenario, "last row", "s", r.lastRow.Seconds()).atMost(aimColdSeconds)
	s.add(scenario, "leading", "s", r.lead.Seconds())
	s.add(scenario, "last row since leading", "s", (r.lastRow - r.lead).Seconds())
	s.add(scenario, "idle after", "s", r.idle.Seconds())
	s.add(scenario, "CPU", "s", r.cpu.Seconds()).atMost(aimColdCPUSeconds)
	s.add(scenario, "CPU until last row", "s", r.cpuLastRow.Seconds())
	s.add(scenario, "peak memory", "MB", float64(r.peak)/1e6).atMost(aimColdMegabytes)
	s.add(scenario, "transactions", "txn", float64(r.transactions)).atMost(aimColdTransactions)
	s.add(scenario, "rows written", "rows", float64(r.rows))
}

func (s *suite) addLive(scenario string, alone, live effort, r result) {
	s.add(scenario, "API server alone", "s", alone.Took().Seconds())
	s.add(scenario, "requests", "s", live.Took().Seconds())
	s.add(scenario, "last row", "s", r.lastRow.Seconds())
	s.add(scenario, "last row to alone", "x", r.lastRow.Seconds()/alone.Took().Seconds()).atMost(aimLiveRatio)
	s.add(scenario, "last row behind requests", "s", (r.lastRow - live.Took()).Seconds())
	// Of the processors' time, not of the clock's: other work on the machine hardly moves it.
	s.add(scenario, "CPU of all to alone", "x", live.cpu.Seconds()/alone.cpu.Seconds())
	s.add(scenario, "idle after", "s", r.idle.Seconds())
	s.add(scenario, "CPU", "s", r.cpu.Seconds())
	s.add(scenario, "transactions", "txn", float64(r.transactions))
}

func (s *suite) addFlows(b *testing.B, nb *database) {
	b.Helper()
	keep(b, nb)
	total, stages, took, _ := logicalFlows(b, s.load, nb)
	s.add("southbound", "logical flows", "flows", float64(total)).atMost(aimLogicalFlows)
	s.add("southbound", "northd from nothing", "s", took.Seconds())
	names := slices.SortedFunc(maps.Keys(stages), func(x, y string) int { return stages[y] - stages[x] })
	for _, name := range names[:min(8, len(names))] {
		s.add("southbound", "in "+name, "flows", float64(stages[name]))
	}
}

// profile is a cold start of its own: profiling costs.
func (s *suite) profile(b *testing.B, server *apiserver, want content) {
	b.Helper()
	dir := os.Getenv(profileVariable)
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	nb := startNorthbound(b)
	defer nb.server.stop(b)
	c := s.controller(b, server, nb, "--profiling")
	wait := c.profile(b, dir)
	c.settle(b, c.started, 0, want)
	wait()
	c.stop(b)
}

// keep copies a database to where the profiles are.
func keep(b *testing.B, d *database) {
	b.Helper()
	dir := os.Getenv(profileVariable)
	if dir == "" {
		return
	}
	text, err := os.ReadFile(d.file)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(d.file)), text, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// compare fails when a controller that saw everything come, piece by piece, and one that found it
// all there have written different Northbounds. NB_Global is the database's own, and says who leads.
func compare(b *testing.B, live, cold *ovsdblog.Database) {
	b.Helper()
	differences := slices.Collect(ovsdblog.Differences(live, cold, "NB_Global"))
	for _, difference := range differences[:min(10, len(differences))] {
		b.Errorf("live and cold start differ: %.700s", difference)
	}
}
