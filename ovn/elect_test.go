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
	c := d.start("only", func(c *settings.Config) { c.LeaseDuration = 12 * time.Second })
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

func tenureOf(l *lock) *tenure {
	t := &tenure{Interface: l, limit: 2 * time.Second}
	t.work, t.stop = context.WithCancel(context.Background())
	return t
}

// TestOnlyTheHolderIsEntitled to claim the Northbound, and the work of anybody else ends.
func TestOnlyTheHolderIsEntitled(t *testing.T) {
	away := errors.New("no answer")
	for holder, want := range map[string]struct{ entitled, works bool }{"me": {true, true}, "another": {}, "": {},
		"unknown": {works: true}} {
		tenure := tenureOf(&lock{})
		tenure.now = func(context.Context) (*coordinationv1.Lease, error) {
			if holder == "unknown" {
				return nil, away
			}
			lease := &coordinationv1.Lease{}
			if holder != "" {
				lease.Spec.HolderIdentity = &holder
			}
			return lease, nil
		}
		if err := tenure.entitled(t.Context()); (err == nil) != want.entitled || (tenure.work.Err() == nil) != want.works {
			t.Errorf("held by %q: %v, and the work: %v", holder, err, tenure.work.Err())
		}
	}
}

func TestTenureEndsWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lock{takes: 400 * time.Millisecond}
		me := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
		tenure := tenureOf(l)
		for range 3 {
			if err := tenure.Update(t.Context(), me); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if tenure.work.Err() != nil {
			t.Error("the work has ended though the Lease was renewed")
		}
		time.Sleep(599 * time.Millisecond)
		synctest.Wait()
		if tenure.work.Err() != nil {
			t.Error("the work has ended before its time")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if tenure.work.Err() == nil {
			t.Error("the work goes on after its time, which began with the last request")
		}
		if err := tenure.Update(t.Context(), me); err != nil {
			t.Fatal(err)
		}
		tenure.do(func(context.Context) { t.Error("there is work in a term that was over") })
	})
}

func TestLeaseIsGivenBackAfterTheWork(t *testing.T) {
	l := &lock{record: resourcelock.LeaderElectionRecord{HolderIdentity: "me"}}
	tenure := tenureOf(l)
	begun, left := make(chan struct{}), -1
	go tenure.do(func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
		for deadline := time.Now().Add(50 * time.Millisecond); time.Now().Before(deadline); {
			runtime.Gosched() // the work takes its time to end
		}
		left = l.updates
	})
	<-begun
	if _, _, err := tenure.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tenure.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || left != 0 || l.updates != 1 {
		t.Errorf("given back: %v, %d times, %d of them before the work has ended", err, l.updates, left)
	}
}

// TestAnothersLeaseIsNotGivenBack: while the API server was away somebody else has taken it.
func TestAnothersLeaseIsNotGivenBack(t *testing.T) {
	l := &lock{record: resourcelock.LeaderElectionRecord{HolderIdentity: "another"}}
	tenure := tenureOf(l)
	if _, _, err := tenure.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tenure.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil || l.updates > 0 {
		t.Errorf("error %v, %d updates", err, l.updates)
	}
}
