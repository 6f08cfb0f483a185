package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/bench/load"
)

const (
	servicesVariable = "WEFT_BENCH_SERVICES" // of the clusters in which endpoints change; 100,5000
	changesVariable  = "WEFT_BENCH_CHANGES"  // in each of them, as many of the floor's; 200
	amountsVariable  = "WEFT_BENCH_AMOUNTS"  // ClusterIP and NodePort Services whose rows and flows are counted; 1000,100
)

// BenchmarkServices measures how long a change of an endpoint takes to every node's flows, and how many rows and
// flows Services are.
func BenchmarkServices(b *testing.B) {
	var r report
	for _, n := range numbers(b, servicesVariable, "100,5000") {
		measureChanges(b, &r, n, numbers(b, changesVariable, "200")[0])
	}
	for _, nodes := range []int{3, 20} {
		measureAmounts(b, &r, numbers(b, amountsVariable, "1000,100"), nodes)
	}
	r.publish(b)
	r.print(os.Stdout)
}

func numbers(b *testing.B, variable, text string) []int {
	b.Helper()
	if given := os.Getenv(variable); given != "" {
		text = given
	}
	var list []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			b.Fatalf("%s: %q is no list of numbers", variable, text)
		}
		list = append(list, n)
	}
	return list
}

// running are the nodes that have an ovn-controller; of more there are only the rows.
const running = 3

// mixed are nodes of which a third are Windows nodes; gateway routers have the hosts' addresses.
func mixed(nodes int) load.Load {
	return load.Load{Nodes: nodes, Windows: nodes / 3, HostAddresses: true, Namespaces: 20, Apps: 50, Ports: 1,
		Endpoints: 10}
}

// cluster is everything between an API server and the flows of nodes.
type cluster struct {
	load       load.Load
	api        *apiserver
	controller *controller
	watches    []*groupWatch
	*network
}

func startCluster(b *testing.B, l load.Load) *cluster {
	b.Helper()
	c := &cluster{load: l, api: startAPIServer(b)}
	nb := startNorthbound(b)
	c.network = startNetwork(b, nb, running)
	c.controller = startController(b, c.api, nb)
	perform(b, c.api, l.CreateNodes)
	perform(b, c.api, l.CreateNamespaces)
	c.controller.settle(b, c.controller.started, 0, content{})
	c.sync(b)
	return c
}

func (c *cluster) createServices(b *testing.B) {
	b.Helper()
	perform(b, c.api, c.load.CreateServices)
	c.controller.settle(b, c.controller.started, 0, content{services: c.load.Services + c.load.NodePorts,
		backends: c.load.Backends()})
	c.sync(b)
}

func (c *cluster) stop(b *testing.B) {
	b.Helper()
	c.controller.stop(b)
	c.network.stop(b)
	c.nb.server.stop(b)
	c.api.stop(b)
}

// changesInTurn of one kind are made before the other's.
const changesInTurn = 10

// measureChanges replaces endpoints of Services in the API server and, in turns, those of a load balancer that
// a bare client has in the same Northbound, in the same group as all others.
func measureChanges(b *testing.B, r *report, services, n int) {
	b.Helper()
	l := mixed(running)
	l.Services = services
	c := startCluster(b, l)
	defer c.stop(b)
	c.createServices(b)
	for _, node := range c.nodes {
		c.watches = append(c.watches, node.watchGroups(b))
	}
	floor := newFloorBalancer(b, c.nb)
	defer floor.client.conn.Close()
	c.sync(b)
	weft, bare := &changes{cluster: c}, &changes{cluster: c}
	for len(weft.all) < n {
		weft.turn(b, func(ctx context.Context, i int, addr netip.Addr) error {
			return l.ReplaceEndpoint(ctx, c.api.api, i*services/n%services, addr)
		})
		bare.turn(b, func(_ context.Context, _ int, addr netip.Addr) error {
			floor.replace(b, addr)
			return nil
		})
	}
	scenario := fmt.Sprintf("%d Services", services)
	weft.tell(b, r, scenario)
	for _, p := range []int{50, 99} {
		r.add(scenario, fmt.Sprintf("p%d to floor", p), "x", percentile(weft.toFlows(), p)/percentile(bare.toFlows(), p))
	}
	bare.tell(b, r, scenario+" floor")
}

// changes of one kind.
type changes struct {
	*cluster
	all []change
	cpu map[string]time.Duration
}

// change is when an endpoint was changed, when who was asked for that answered, and when all nodes had the new
// one in their flows.
type change struct{ began, answered, known time.Time }

// turn makes changes, one after the other.
func (s *changes) turn(b *testing.B, do func(ctx context.Context, i int, addr netip.Addr) error) {
	b.Helper()
	defer s.sync(b) // what is left to do belongs to this turn
	before := s.used(b)
	for range changesInTurn {
		s.all = append(s.all, s.one(b, len(s.all), do))
	}
	if s.cpu == nil {
		s.cpu = map[string]time.Duration{}
	}
	for part, used := range s.used(b) {
		s.cpu[part] += used - before[part]
	}
}

// used is the processor time of each part so far.
func (c *cluster) used(b *testing.B) map[string]time.Duration {
	b.Helper()
	parts := map[string][]*process{
		"weft": {c.controller.process}, "API": {c.api.etcd, c.api.kube}, "northd": {c.northd},
		"databases": {c.nb.server, c.sb.server},
	}
	for _, node := range c.nodes {
		parts["ovn-controllers"] = append(parts["ovn-controllers"], node.controls)
		parts["ovs-vswitchds"] = append(parts["ovs-vswitchds"], node.vswitchd)
	}
	used := map[string]time.Duration{}
	for part, processes := range parts {
		for _, p := range processes {
			t, err := p.cpu()
			if err != nil {
				b.Fatal(err)
			}
			used[part] += t
		}
	}
	return used
}

func (c *cluster) one(b *testing.B, i int, do func(ctx context.Context, i int, addr netip.Addr) error) change {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// Addresses that no endpoint of the load has; the last Service that had this one is long done.
	addr := netip.AddrFrom4([4]byte{10, 244, byte(i % c.load.Nodes), byte(243 + i/c.load.Nodes%12)})
	var seen []<-chan time.Time
	for _, w := range c.watches {
		seen = append(seen, w.expect(addr))
	}
	done := change{began: time.Now()}
	if err := do(ctx, i, addr); err != nil {
		b.Fatal(err)
	}
	done.answered = time.Now()
	for node, known := range seen {
		select {
		case at, ok := <-known:
			if !ok {
				b.Fatalf("the groups of node %d cannot be watched: %v", node, c.watches[node].err)
			}
			if at.After(done.known) {
				done.known = at
			}
		case <-ctx.Done():
			b.Fatalf("change %d: no group of node %d has endpoint %s after a minute\n%s\n%s", i, node, addr, c.northd.tail(),
				c.nodes[node].controls.tail())
		}
	}
	return done
}

func (s *changes) times(until func(change) time.Time) []time.Duration {
	var times []time.Duration
	for _, c := range s.all {
		times = append(times, until(c).Sub(c.began))
	}
	return times
}

func (s *changes) toFlows() []time.Duration {
	return s.times(func(c change) time.Time { return c.known })
}

// rows is how long each change took to the Northbound, by the Northbound's own log.
func (s *changes) rows(b *testing.B) []time.Duration {
	b.Helper()
	var times []time.Duration
	records := s.nb.read(b).Records
	for _, c := range s.all {
		began := c.began.Truncate(time.Millisecond) // as the log does
		for _, record := range records {
			if !record.Time.Before(began) && record.Changes["Load_Balancer"].Modified > 0 {
				times = append(times, record.Time.Sub(began))
				break
			}
		}
	}
	if len(times) != len(s.all) {
		b.Fatalf("the Northbound's log has %d changes of %d", len(times), len(s.all))
	}
	return times
}

func (s *changes) tell(b *testing.B, r *report, scenario string) {
	b.Helper()
	for _, p := range []int{50, 99} {
		r.add(scenario, fmt.Sprintf("to flows p%d", p), "ms", percentile(s.toFlows(), p))
	}
	r.add(scenario, "to answer p50", "ms", percentile(s.times(func(c change) time.Time { return c.answered }), 50))
	r.add(scenario, "to Northbound p50", "ms", percentile(s.rows(b), 50))
	for _, part := range slices.Sorted(maps.Keys(s.cpu)) {
		r.add(scenario, "CPU a change of "+part, "ms", s.cpu[part].Seconds()*1000/float64(len(s.all)))
	}
}

// percentile in milliseconds.
func percentile(times []time.Duration, p int) float64 {
	times = slices.Sorted(slices.Values(times))
	return float64(times[len(times)*p/100].Microseconds()) / 1000
}

// measureAmounts compares what Services are with a layout of the same made by hand, on the same routers
// and switches.
func measureAmounts(b *testing.B, r *report, services []int, nodes int) {
	b.Helper()
	l := mixed(nodes)
	l.Services, l.NodePorts = services[0], services[len(services)-1]
	c := startCluster(b, l)
	base := c.amount(b)
	empty, err := os.ReadFile(c.nb.file)
	if err != nil {
		b.Fatal(err)
	}
	c.createServices(b)
	weft := c.amount(b).less(base)
	like := c.nb.read(b)
	c.stop(b)

	nb := copyDatabase(b, "nb", empty)
	n := startNetwork(b, nb, running)
	n.sync(b)
	if again := n.amount(b).less(base); again.logical.total() != 0 || again.openFlow.total() != 0 {
		b.Errorf("without Services the same Northbound is %v more logical flows, and %v more flows a node, at another time",
			again.logical.total(), again.openFlow.total())
	}
	writeMinimal(b, nb, like)
	minimal := n.amount(b).less(base)
	n.stop(b)
	nb.server.stop(b)

	scenario := fmt.Sprintf("%d ClusterIPs and %d NodePorts on %d nodes", l.Services, l.NodePorts, nodes)
	for _, f := range []struct {
		name, unit             string
		weft, minimal, without parts
	}{
		{"Northbound rows", "rows", weft.rows, minimal.rows, base.rows},
		{"logical flows", "flows", weft.logical, minimal.logical, base.logical},
		{"OpenFlow flows", "flows/node", weft.openFlow, minimal.openFlow, base.openFlow},
		{"OpenFlow groups", "groups/node", weft.groups, minimal.groups, base.groups},
	} {
		r.add(scenario, f.name, f.unit, f.weft.total())
		r.add(scenario, f.name+" by hand", f.unit, f.minimal.total())
		r.add(scenario, f.name+" without Services", f.unit, f.without.total())
		r.add(scenario, f.name+" to those by hand", "x", f.weft.total()/f.minimal.total())
		more := f.weft.less(f.minimal)
		where := slices.SortedFunc(maps.Keys(more), func(x, y string) int { return cmp.Compare(more[y], more[x]) })
		for _, name := range where[:min(5, len(where))] {
			if more[name] >= 1 {
				r.add(scenario, "more "+f.name+" in "+name, f.unit, more[name])
			}
		}
	}
}
