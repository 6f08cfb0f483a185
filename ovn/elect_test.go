package ovn

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/ovn/settings"
)

// TestHangingAPIServerEndsTheWorkInTime: before another controller could take the Lease. This API server
// does not even let go of requests whose time is over.
func TestHangingAPIServerEndsTheWorkInTime(t *testing.T) {
	t.Parallel()
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("one", "l1"))
	var renewed atomic.Int64
	hang := make(chan struct{})
	var hangs atomic.Bool
	d.api.PrependReactor("*", "leases", func(a kubetesting.Action) (bool, kuberuntime.Object, error) {
		if hangs.Load() {
			<-hang
		}
		if a.GetVerb() != "get" {
			renewed.Store(time.Now().UnixNano())
		}
		return false, nil, nil
	})
	// A third of the Lease is between the end of the work and that of the Lease: as long as a busy machine lets nobody
	// work.
	c := d.start("only", func(c *settings.Config) { c.LeaseDuration = 30 * time.Second })
	d.eventually("it leads and has annotated all", func() bool { return d.port("default_one") != nil && d.patches() == 2 })
	hangs.Store(true)
	d.eventually("it stops", func() bool { return c.leader.Load() == nil })
	if late := time.Since(time.Unix(0, renewed.Load())); late > c.config.LeaseDuration {
		t.Errorf("it has worked for %s after the last renewal of a Lease of %s", late, c.config.LeaseDuration)
	}
	hangs.Store(false)
	close(hang)
	d.create(kubePod("two", "l1"))
	d.eventually("it leads again", func() bool { return d.port("default_two") != nil })
}

// lock is a Lease that does as the test says.
type lock struct {
	resourcelock.Interface
	record  resourcelock.LeaderElectionRecord
	updates int
	takes   time.Duration
}

func (l *lock) Identity() string { return "me" }

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &l.record, nil, nil
}

func (l *lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	time.Sleep(l.takes)
	l.updates++
	l.record = r
	return nil
}

func leaseOf(l *lock) *lease {
	return &lease{Interface: l, work: tenure.NewTerm(context.Background(), 2*time.Second)}
}

// TestOnlyTheHolderIsEntitled to claim the Northbound, and the work of anybody else ends.
func TestOnlyTheHolderIsEntitled(t *testing.T) {
	away := errors.New("no answer")
	for holder, want := range map[string]struct{ entitled, works bool }{"me": {true, true}, "another": {}, "": {},
		"unknown": {works: true}} {
		lease := leaseOf(&lock{})
		lease.now = func(context.Context) (*coordinationv1.Lease, error) {
			if holder == "unknown" {
				return nil, away
			}
			held := &coordinationv1.Lease{}
			if holder != "" {
				held.Spec.HolderIdentity = &holder
			}
			return held, nil
		}
		if err := lease.entitled(t.Context()); (err == nil) != want.entitled || (lease.work.Err() == nil) != want.works {
			t.Errorf("held by %q: %v, and the work: %v", holder, err, lease.work.Err())
		}
	}
}

func TestTheWorkEndsWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lock{takes: 400 * time.Millisecond}
		me := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
		lease := leaseOf(l)
		for range 3 {
			if err := lease.Update(t.Context(), me); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if lease.work.Err() != nil {
			t.Error("the work has ended though the Lease was renewed")
		}
		time.Sleep(599 * time.Millisecond)
		synctest.Wait()
		if lease.work.Err() != nil {
			t.Error("the work has ended before its time")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if lease.work.Err() == nil {
			t.Error("the work goes on after its time, which began with the last request")
		}
		if err := lease.Update(t.Context(), me); err != nil {
			t.Fatal(err)
		}
		lease.do(func(context.Context) { t.Error("there is work in a term that was over") })
	})
}

func TestLeaseIsGivenBackAfterTheWork(t *testing.T) {
	l := &lock{record: resourcelock.LeaderElectionRecord{HolderIdentity: "me"}}
	lease := leaseOf(l)
	lease.work.Renewed(time.Now())
	begun, left := make(chan struct{}), -1
	go lease.do(func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
		for deadline := time.Now().Add(50 * time.Millisecond); time.Now().Before(deadline); {
			runtime.Gosched() // the work takes its time to end
		}
		left = l.updates
	})
	<-begun
	if _, _, err := lease.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lease.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || left != 0 || l.updates != 1 {
		t.Errorf("given back: %v, %d times, %d of them before the work has ended", err, l.updates, left)
	}
}

// TestAnothersLeaseIsNotGivenBack: while the API server was away somebody else has taken it.
func TestAnothersLeaseIsNotGivenBack(t *testing.T) {
	l := &lock{record: resourcelock.LeaderElectionRecord{HolderIdentity: "another"}}
	lease := leaseOf(l)
	if _, _, err := lease.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lease.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil || l.updates > 0 {
		t.Errorf("error %v, %d updates", err, l.updates)
	}
}
