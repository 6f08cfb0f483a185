package ovn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// elect leads whenever this controller holds the Lease, until ctx is done.
//
// There are never two that write, for two reasons. The clock: others take a Lease when they have seen no renewal for
// its duration, and they see one no earlier than its request has begun. So the work ends two thirds of the duration
// after the beginning of the last request that succeeded, whether others hang or not: client-go's own deadline would
// begin with the first one that fails, and end only with it. And the Lease is given back only when the work has ended.
// The fence: a process that was suspended learns late that its time is over, and what it has sent may arrive late. So a
// leader claims the Northbound first, as long as the Lease is its own, and the Northbound refuses what others send from
// then on ([ovsdb.Fence]).
func (c *controller) elect(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := c.term(ctx); err != nil {
			return err
		}
	}
	return nil
}

// term is one time of waiting for the Lease, leading, and losing it.
func (c *controller) term(ctx context.Context) error {
	election, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	leases := c.client.CoordinationV1()
	t := &tenure{limit: c.config.LeaseDuration * 2 / 3, now: func(ctx context.Context) (*coordinationv1.Lease, error) {
		return leases.Leases(c.config.LeaseNamespace).Get(ctx, c.config.LeaseName, metav1.GetOptions{})
	}, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.config.LeaseNamespace, Name: c.config.LeaseName},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.config.Identity},
	}}
	t.work, t.stop = context.WithCancel(ctx)
	defer context.AfterFunc(t.work, func() { // whatever made it stop
		t.end()
		resign()
	})()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            t,
		Name:            c.config.LeaseName,
		LeaseDuration:   c.config.LeaseDuration,
		RenewDeadline:   t.limit,
		RetryPeriod:     c.config.LeaseDuration / 8,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				t.do(func(ctx context.Context) {
					c.log.Info("leading", "lease", c.config.LeaseName, "identity", c.config.Identity)
					c.metrics.leader.Set(1)
					c.lead(ctx, t.entitled)
					c.metrics.leader.Set(0)
				})
			},
			OnStoppedLeading: t.stop,
			OnNewLeader: func(identity string) {
				if identity != c.config.Identity {
					c.log.Info("standing by", "lease", c.config.LeaseName, "leader", identity)
				}
			},
		},
	})
	if err != nil {
		t.stop()
		return fmt.Errorf("lease-name: elect a leader by Lease %s/%s: %w", c.config.LeaseNamespace, c.config.LeaseName, err)
	}
	elector.Run(election)
	t.end()
	return nil
}

// tenure is the Lease, and the work that it allows: once, and not longer than limit after the beginning
// of the last request that renewed it. The elector calls it from one goroutine.
type tenure struct {
	resourcelock.Interface
	limit time.Duration
	now   func(context.Context) (*coordinationv1.Lease, error) // what the API server has

	work    context.Context // the work's; once it is done, there is none in this term
	stop    context.CancelFunc
	working sync.Mutex // held while there is work

	timer  *time.Timer
	holder string // as last read
}

// do works, unless the time for it is over.
func (t *tenure) do(work func(context.Context)) {
	t.working.Lock()
	defer t.working.Unlock()
	if t.work.Err() == nil {
		work(t.work)
	}
}

// end returns when the work has ended; there will be no more.
func (t *tenure) end() {
	t.stop()
	t.working.Lock()
	defer t.working.Unlock()
}

// extend lets the work go on until limit after a renewal.
func (t *tenure) extend(renewed time.Time) {
	left := t.limit - time.Since(renewed)
	if t.timer == nil {
		t.timer = time.AfterFunc(left, t.stop)
		context.AfterFunc(t.work, func() { t.timer.Stop() })
		return
	}
	t.timer.Reset(left)
}

// entitled says why the work must end, where the Lease is somebody else's by now, and has it end then. It reads the
// Lease by itself: what the elector has read belongs to the elector's next update.
func (t *tenure) entitled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.limit/2)
	defer cancel()
	lease, err := t.now(ctx)
	if err != nil {
		return fmt.Errorf("read the Lease before the claim: %w", err)
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != t.Identity() {
		t.stop()
		return errors.New("the Lease is somebody else's by now")
	}
	return nil
}

// request gives up a request in time for another one, which may find another API server.
func (t *tenure) request(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, t.limit/2)
	defer cancel()
	begun := time.Now()
	err := call(ctx)
	if err == nil {
		t.extend(begun)
	}
	return err
}

func (t *tenure) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, t.limit/2)
	defer cancel()
	record, raw, err := t.Interface.Get(ctx)
	if err == nil {
		t.holder = record.HolderIdentity
	}
	return record, raw, err
}

func (t *tenure) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return t.request(ctx, func(ctx context.Context) error { return t.Interface.Create(ctx, record) })
}

// Update renews the Lease, or gives it back when the record names no holder: only after the work, and
// only if it is still ours. The elector reads it before, but does not look who holds it now.
func (t *tenure) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		t.end()
		if t.holder != t.Identity() {
			return errors.New("somebody else holds it by now")
		}
		return t.Interface.Update(ctx, record)
	}
	return t.request(ctx, func(ctx context.Context) error { return t.Interface.Update(ctx, record) })
}
