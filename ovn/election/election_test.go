package election

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/tenure"
)

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

// TestAStandbyThatIsUnfitAsksForNothing: it could lead when it began to wait for the Lease. While it could not, the
// leader ends, and the Lease is left to others.
func TestAStandbyThatIsUnfitAsksForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const duration = 8 * time.Second
		api := fake.NewClientset()
		var requests atomic.Int64
		api.PrependReactor("*", "leases", func(kubetesting.Action) (bool, k8sruntime.Object, error) {
			requests.Add(1)
			return false, nil, nil
		})
		held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "weft", Name: "leader"},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: new("another"), LeaseDurationSeconds: new(int32(8)),
				RenewTime: &metav1.MicroTime{Time: time.Now()}}}
		if _, err := api.CoordinationV1().Leases("weft").Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var fit, leads atomic.Bool
		fit.Store(true)
		until := func(want bool) func(context.Context) {
			return func(ctx context.Context) {
				for fit.Load() != want && ctx.Err() == nil {
					signal.Sleep(ctx, 100*time.Millisecond)
				}
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- Run(ctx, Config{Leases: api.CoordinationV1(), Namespace: "weft", Name: "leader", Identity: "me",
				Duration: duration, Fit: until(true), Unfit: until(false), Log: slog.New(slog.DiscardHandler)},
				func(ctx context.Context, _ func(context.Context) error) {
					leads.Store(true)
					<-ctx.Done()
				})
		}()
		after := func(pause time.Duration) {
			time.Sleep(pause)
			synctest.Wait()
		}
		if after(duration / 2); requests.Load() < 2 {
			t.Errorf("a standby that is fit has asked %d times", requests.Load())
		}
		fit.Store(false)
		after(time.Second)
		before := requests.Load()
		if after(time.Minute); requests.Load() != before || leads.Load() {
			t.Errorf("a standby that is unfit has asked %d times, leads %t", requests.Load()-before, leads.Load())
		}
		fit.Store(true)
		if after(4 * duration); !leads.Load() {
			t.Error("a standby that is fit again does not lead")
		}
		fit.Store(false) // a leader's work ends by itself
		before = requests.Load()
		if after(2 * duration); requests.Load() == before {
			t.Error("a leader does not renew its Lease")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
