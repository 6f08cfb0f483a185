package ovn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/watch"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// memory is a Northbound that remembers the owners' changes and does as the test says.
type memory struct {
	mu      sync.Mutex
	owners  map[ovsdb.Owner]ovsdb.Change
	refuse  map[ovsdb.Owner]error
	broken  error
	unowned bool          // until the next claim
	hangs   chan struct{} // where not nil, a claim waits for it
	another bool          // has the Lease
	applies atomic.Int64
	// annotated are the pods' annotations that were handed out; early are those that were before the rows were there.
	annotated map[string]string
	early     []string
}

// annotate notes what was handed out, and what of it the Northbound does not have.
func (m *memory) annotate(notes []part.Patch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range notes {
		name := objects.FullName(a.Namespace, a.Name)
		if a.Annotation() != contract.PodNetworkAnnotation {
			continue
		}
		network, err := objects.ParseAnnotation[contract.PodNetwork](a.Annotation(), ovntest.Written(a))
		if err != nil {
			continue
		}
		if m.annotated == nil {
			m.annotated = map[string]string{}
		}
		m.annotated[name] = network.Addresses[0].Addr().String()
		has := slices.ContainsFunc(m.owners[northbound.PodOwner(name)].Rows, func(r ovsdb.Row) bool {
			p, ok := r.Model.(*nb.LogicalSwitchPort)
			return ok && r.Key == network.UID && slices.Equal(records.PortIPs(p), contract.Addrs(network.Addresses))
		})
		if !has {
			m.early = append(m.early, name+" "+ovntest.Written(a))
		}
	}
}

func (m *memory) Claim(ctx context.Context, entitled func(context.Context) error) error {
	if m.hangs != nil {
		<-m.hangs
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := entitled(ctx); err != nil || m.another {
		return errors.Join(err, errors.New("the Lease is another's"))
	}
	m.unowned = false
	return nil
}

func (m *memory) Replace(_ context.Context, changes []ovsdb.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken == nil {
		m.owners = map[ovsdb.Owner]ovsdb.Change{}
	}
	return m.write(changes)
}

func (m *memory) Apply(_ context.Context, changes []ovsdb.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applies.Add(1)
	return m.write(changes)
}

func (m *memory) write(changes []ovsdb.Change) error {
	if m.broken != nil {
		return m.broken
	}
	if m.unowned {
		return fmt.Errorf("transact: %w", ovsdb.ErrFenced)
	}
	refused := map[ovsdb.Owner]error{}
	for _, c := range changes {
		switch err := m.refuse[c.Owner]; {
		case err != nil:
			refused[c.Owner] = err
		case len(c.Rows) == 0:
			delete(m.owners, c.Owner)
		default:
			m.owners[c.Owner] = c
		}
	}
	if len(refused) > 0 {
		return &ovsdb.RefusedError{Owners: refused}
	}
	return nil
}

func (m *memory) has() []ovsdb.Owner {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.owners))
}

func (m *memory) set(edit func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	edit()
}

// lockedWorld is a world that a leader reads while the test changes it.
type lockedWorld struct {
	mu sync.Mutex
	*world
	queue *watch.Queue
}

func (w *lockedWorld) Get(k part.Event) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.world.Get(k)
}

func (w *lockedWorld) Keys() []part.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.world.Keys()
}

func (w *lockedWorld) change(objects ...any) {
	w.mu.Lock()
	keys := w.put(objects...)
	w.mu.Unlock()
	for _, k := range keys {
		w.queue.Add(k, true)
	}
}

// reports are the problems that a leader reports. A test reads them while the leader goes on.
type reports struct {
	mu   sync.Mutex
	list []string
}

func (r *reports) add(p objects.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, p.String())
}

func (r *reports) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// lead starts a leader over a memory, in a bubble of synctest.
func lead(t *testing.T, m *memory, w *lockedWorld) (*leader, *reports) {
	return leadUntil(t, context.Background(), m, w)
}

// leadUntil is lead, until ctx is done.
func leadUntil(t *testing.T, ctx context.Context, m *memory, w *lockedWorld) (*leader, *reports) {
	ctx, cancel := context.WithCancel(ctx)
	heard := &reports{}
	l := newLeader(t, m, w)
	l.report = heard.add
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if len(m.early) > 0 {
			t.Errorf("handed out before the Northbound had them: %q", m.early)
		}
	})
	return l, heard
}

// newLeader is a leader over a memory, which does not run yet.
func newLeader(t *testing.T, m *memory, w *lockedWorld) *leader {
	return &leader{
		disabled: func() []string { return nil },
		entitled: func(context.Context) error { return nil },
		records:  func(func(string) string) records.Records { return records.Records{} },
		ports:    func() map[types.UID][]netip.Addr { return nil },
		cluster:  newCluster(ovntest.Settings(t, nil)), source: w, queue: w.queue, northbound: m,
		metrics: newMetrics(w.queue), log: ovsdbtest.Logger(t), annotate: m.annotate, disputes: map[ovsdb.Owner]dispute{},
		report: func(objects.Problem) {},
	}
}

func counted(c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		panic(err)
	}
	return m.GetCounter().GetValue()
}

func owners(list ...ovsdb.Owner) []ovsdb.Owner { return list }

func wantOwners(t *testing.T, m *memory, want []ovsdb.Owner) {
	t.Helper()
	time.Sleep(2 * spacing) // a batch may be waiting for its turn
	synctest.Wait()
	if got := m.has(); !slices.Equal(got, want) {
		t.Errorf("the Northbound has %s, want %s", got, want)
	}
}

// TestRefusedOwnerIsTriedAgain: its object is told before Kubernetes forgets it, all others are served, and it is tried
// at a slowing pace until it succeeds.
func TestRefusedOwnerIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := watch.NewQueue()
		w := &lockedWorld{world: newWorld(), queue: q}
		w.put(w.node("l1", "10.244.0.0/24"), w.pod("default", "bad", "l1"), w.pod("default", "good", "l1"))
		m := &memory{refuse: map[ovsdb.Owner]error{"Pod/default/bad": errors.New("constraint violation")}}
		l, reports := lead(t, m, w)
		wantOwners(t, m, owners("Cluster", "Node/l1", "Pod/default/good"))

		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := m.applies.Load(); n < 4 || n > 12 {
			t.Errorf("%d tries in 30 s", n)
		}
		if got := reports.all(); len(got) != 1 {
			t.Errorf("reports %q, want one", got)
		}
		time.Sleep(2 * (complaintEvery + lastPause))
		synctest.Wait()
		if got := reports.all(); len(got) != 3 {
			t.Errorf("after an hour, reports %q, want three", got)
		}
		w.change(w.pod("default", "later", "l1"))
		wantOwners(t, m, owners("Cluster", "Node/l1", "Pod/default/good", "Pod/default/later"))

		m.set(func() { m.refuse = nil })
		time.Sleep(lastPause)
		wantOwners(t, m, owners("Cluster", "Node/l1", "Pod/default/bad", "Pod/default/good", "Pod/default/later"))
		before := m.applies.Load()
		time.Sleep(10 * lastPause)
		synctest.Wait()
		if m.applies.Load() != before {
			t.Error("a forgiven owner is still tried")
		}
		if n := counted(l.metrics.errors.WithLabelValues("refused")); n < 4 {
			t.Errorf("%v refusals counted", n)
		}
	})
}

// TestAddressesAreHandedOutWhenCommitted: a leader that ends before its Northbound has a pod's port has told nobody of
// the pod's address, which the next leader gives to another pod. One whose port is refused is told when it has it.
func TestAddressesAreHandedOutWhenCommitted(t *testing.T) {
	for _, at := range []string{"first write", "batch"} {
		synctest.Test(t, func(t *testing.T) {
			w := &lockedWorld{world: newWorld(), queue: watch.NewQueue()}
			w.put(w.node("l1", "10.244.0.0/24"))
			young := w.pod("default", "young", "l1")
			young.CreationTimestamp = metav1.NewTime(time.Unix(2000, 0))
			m := &memory{}
			if at == "first write" {
				m.broken = errors.New("connection refused")
				w.put(young)
			}
			ctx, kill := context.WithCancel(t.Context())
			leadUntil(t, ctx, m, w)
			time.Sleep(time.Second)
			m.set(func() { m.broken = errors.New("connection refused") })
			if at == "batch" {
				w.change(young)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			kill()
			synctest.Wait()
			m.set(func() {
				if len(m.annotated) > 0 {
					t.Errorf("%s: a leader that was killed amid its write has handed out %v", at, m.annotated)
				}
				m.broken, m.refuse = nil, map[ovsdb.Owner]error{"Pod/default/refused": errors.New("constraint violation")}
			})
			w.queue = watch.NewQueue()
			old, refused := w.pod("default", "old", "l1"), w.pod("default", "refused", "l1")
			old.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
			w.put(old, refused)
			lead(t, m, w)
			time.Sleep(time.Second)
			want := func(want map[string]string) {
				t.Helper()
				synctest.Wait()
				m.set(func() {
					if !maps.Equal(m.annotated, want) {
						t.Errorf("%s: %v are handed out, want %v", at, m.annotated, want)
					}
				})
			}
			want(map[string]string{"default/old": "10.244.0.3", "default/young": "10.244.0.4"})
			m.set(func() { m.refuse = nil })
			time.Sleep(2 * lastPause)
			want(map[string]string{"default/old": "10.244.0.3", "default/young": "10.244.0.4", "default/refused": "10.244.0.5"})
		})
	}
}

// TestRowsSayNothingElseThanIsMeant on a server that lacks a column of theirs: they are left out, and are there
// once it has been upgraded.
func TestRowsSayNothingElseThanIsMeant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := watch.NewQueue()
		w := &lockedWorld{world: newWorld(), queue: q}
		n := w.node("l1", "10.244.0.0/24")
		n.Facts = ovntest.Facts(1, false)
		w.put(n)
		m := &memory{}
		l, _ := lead(t, m, w)
		conditional := func() (n int) {
			wantOwners(t, m, owners("Cluster", "Node/l1"))
			m.set(func() {
				for _, r := range m.owners["Node/l1"].Rows {
					if nat, ok := r.Model.(*nb.NAT); ok && nat.Match != "" {
						n++
					}
				}
			})
			return n
		}
		if conditional() == 0 {
			t.Error("no NAT has a condition")
		}
		var lacks atomic.Bool
		lacks.Store(true)
		l.disabled = func() []string {
			if lacks.Load() {
				return []string{models.ConditionalNAT}
			}
			return nil
		}
		w.change(n)
		if count := conditional(); count != 0 {
			t.Errorf("%d rows are about all packets on a server that knows no conditions", count)
		}
		lacks.Store(false)
		w.change(n)
		if conditional() == 0 {
			t.Error("no NAT has a condition after the upgrade")
		}
	})
}

// TestNothingIsLostWithTheNorthbound: what happens while it is away is there when it is back.
func TestNothingIsLostWithTheNorthbound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := watch.NewQueue()
		w := &lockedWorld{world: newWorld(), queue: q}
		w.put(w.node("l1", "10.244.0.0/24"))
		m := &memory{broken: errors.New("connection refused")}
		l, reports := lead(t, m, w)
		time.Sleep(10 * time.Second)
		wantOwners(t, m, nil)
		m.set(func() { m.broken = nil })
		time.Sleep(5 * time.Second)
		wantOwners(t, m, owners("Cluster", "Node/l1"))

		w.change(w.pod("default", "one", "l1"))
		wantOwners(t, m, owners("Cluster", "Node/l1", "Pod/default/one"))
		m.set(func() { m.broken = errors.New("broken pipe") })
		for i := range 5 {
			w.change(w.pod("default", fmt.Sprint("p", i), "l1"))
			time.Sleep(time.Second)
		}
		w.mu.Lock()
		delete(w.objects, objects.Key{Kind: objects.PodKind, Name: "default/one"})
		w.mu.Unlock()
		q.Add(objects.Key{Kind: objects.PodKind, Name: "default/one"}, false)
		m.set(func() { m.broken = nil })
		time.Sleep(6 * time.Second)
		wantOwners(t, m, owners("Cluster", "Node/l1", "Pod/default/p0", "Pod/default/p1", "Pod/default/p2", "Pod/default/p3",
			"Pod/default/p4"))
		if got := reports.all(); len(got) > 0 {
			t.Errorf("objects are blamed for a broken connection: %q", got)
		}
		if n := counted(l.metrics.errors.WithLabelValues("northbound")); n < 5 {
			t.Errorf("%v failures counted", n)
		}
	})
}

// TestBatchesGrowUnderLoad: what is touched while a batch is under way is the next one, whatever it is.
func TestBatchesGrowUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := watch.NewQueue()
		w := &lockedWorld{world: newWorld(), queue: q}
		w.put(w.node("l1", "10.244.0.0/24"))
		m := &memory{}
		lead(t, m, w)
		synctest.Wait()
		m.mu.Lock() // the Northbound is slow
		for i := range 100 {
			w.change(w.pod("default", fmt.Sprint("p", i), "l1"))
		}
		m.mu.Unlock()
		time.Sleep(2 * spacing)
		synctest.Wait()
		if n := m.applies.Load(); len(m.has()) != 102 || n > 2 {
			t.Errorf("%d owners in %d batches, want 102 in at most 2", len(m.has()), n)
		}
	})
}

// TestLostClaimIsMadeAgain while the Lease is still its own, as after an operator has restored a backup, and all is
// written again. Without the Lease it writes nothing more.
func TestLostClaimIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &lockedWorld{world: newWorld(), queue: watch.NewQueue()}
		w.put(w.node("l1", "10.244.0.0/24"))
		m := &memory{}
		lead(t, m, w)
		wantOwners(t, m, owners("Cluster", "Node/l1"))
		m.set(func() { m.unowned, m.owners = true, nil })
		w.change(w.pod("default", "a", "l1"))
		wantOwners(t, m, owners("Cluster", "Node/l1", "Pod/default/a"))
		m.set(func() { m.another, m.unowned, m.owners = true, true, nil })
		w.change(w.pod("default", "b", "l1"))
		wantOwners(t, m, nil)
		m.set(func() { m.another = false })
		time.Sleep(10 * time.Second)
		wantOwners(t, m, owners("Cluster", "Node/l1", "Pod/default/a", "Pod/default/b"))
	})
}

// TestForeignHandsAreUndone: what somebody else took away comes back, of each kind.
func TestForeignHandsAreUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := watch.NewQueue()
		w := &lockedWorld{world: newWorld(), queue: q}
		w.put(w.node("l1", "10.244.0.0/24"), w.pod("default", "web-1", "l1"), w.service("web", "10.96.0.10"))
		m := &memory{}
		l, _ := lead(t, m, w)
		all := owners("Cluster", "Node/l1", "Pod/default/web-1", "Service/default/web")
		wantOwners(t, m, all)
		m.set(func() { clear(m.owners) })
		l.suspect(t.Context(), append(all, "Mystery/x"))
		wantOwners(t, m, all)
	})
}

// TestDisputesSlowDown: somebody undoes at once whatever this controller does.
func TestDisputesSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := watch.NewQueue()
		w := &lockedWorld{world: newWorld(), queue: q}
		w.put(w.node("l1", "10.244.0.0/24"))
		m := &memory{}
		l, _ := lead(t, m, w)
		synctest.Wait()
		for range 60_000 { // ten minutes
			l.suspect(t.Context(), owners("Node/l1"))
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if n := m.applies.Load(); n < 10 || n > 30 {
			t.Errorf("put back %d times in ten minutes", n)
		}
		time.Sleep(2*lastPause + time.Second)
		before := m.applies.Load()
		l.suspect(t.Context(), owners("Node/l1"))
		time.Sleep(2 * spacing)
		synctest.Wait()
		if m.applies.Load() != before+1 {
			t.Error("a slip after a long peace is not put back at once")
		}
	})
}

// TestNewNodeHasAMoment: what Kubernetes will give it is missed after a while, and told once.
func TestNewNodeHasAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := watch.NewQueue()
		w := &lockedWorld{world: newWorld(), queue: q}
		m := &memory{}
		_, reports := lead(t, m, w)
		synctest.Wait()
		quick, never := w.node("quick"), w.node("never")
		w.change(quick, never)
		time.Sleep(part.Patience / 2)
		given := *quick
		given.PodCIDRs = []string{"10.244.0.0/24"}
		w.change(&given)
		time.Sleep(part.Patience)
		synctest.Wait()
		if got := reports.all(); len(got) != 1 || !strings.Contains(got[0], "Node never: NoPodSubnet") {
			t.Errorf("reports %q", got)
		}
	})
}

// TestStuckFirstWriteIsNotHealthy: a leader that never comes to its first batch.
func TestStuckFirstWriteIsNotHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &lockedWorld{world: newWorld(), queue: watch.NewQueue()}
		w.put(w.node("l1", "10.244.0.0/24"))
		m := &memory{hangs: make(chan struct{})}
		l, _ := lead(t, m, w)
		c := &controller{database: away{connected: true}}
		c.leader.Store(l)
		synctest.Wait()
		_ = c.alive() // it is asked again and again
		time.Sleep(stuck + time.Second)
		if err := c.alive(); err == nil {
			t.Error("the first write has hung for long, and the controller is healthy")
		}
		close(m.hangs)
		wantOwners(t, m, owners("Cluster", "Node/l1"))
		if err := c.alive(); err != nil {
			t.Errorf("all is written: %v", err)
		}
	})
}

// TestStuckBatchIsNotHealthy, unless it is the Northbound that does not answer, or did not until now.
func TestStuckBatchIsNotHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{database: away{connected: true}}
		probe := func(what string, healthy bool) {
			t.Helper()
			var err error
			for range 36 { // six minutes
				err = c.alive()
				time.Sleep(10 * time.Second)
			}
			if (err == nil) != healthy {
				t.Errorf("%s: %v", what, err)
			}
		}
		probe("a standby", true)
		l := &leader{}
		c.leader.Store(l)
		probe("an idle leader", true)
		l.begun.Store(time.Now().UnixNano())
		c.database = away{connected: false}
		probe("a restart does not bring the Northbound back", true)
		c.database = away{connected: true}
		if err := c.alive(); err != nil {
			t.Errorf("the Northbound is back: %v", err)
		}
		probe("a stuck leader", false)
		l.begun.Store(time.Now().UnixNano())
		if err := c.alive(); err != nil {
			t.Errorf("the next batch: %v", err)
		}
	})
}

// away is a database that is connected or not, and does nothing else.
type away struct {
	database
	connected bool
}

func (a away) Connected() bool { return a.connected }
