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

	"github.com/weftnet/weft/models/tenure"
)

// elect leads whenever this controller holds the Lease, until ctx is done.
//
// There are never two that write, for two reasons. The clock: the work ends with its term (package tenure), whether
// requests hang or not. client-go's own deadline would begin with the first request that fails, and end only with it.
// And the Lease is given back only when the work has ended.
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
	limit := tenure.Limit(c.config.LeaseDuration)
	l := &lease{work: tenure.NewTerm(ctx, limit), now: func(ctx context.Context) (*coordinationv1.Lease, error) {
		return leases.Leases(c.config.LeaseNamespace).Get(ctx, c.config.LeaseName, metav1.GetOptions{})
	}, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.config.LeaseNamespace, Name: c.config.LeaseName},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.config.Identity},
	}}
	defer context.AfterFunc(l.work, func() { // whatever made it stop
		l.end()
		resign()
	})()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            l,
		Name:            c.config.LeaseName,
		LeaseDuration:   c.config.LeaseDuration,
		RenewDeadline:   limit,
		RetryPeriod:     c.config.LeaseDuration / 8,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				l.do(func(ctx context.Context) {
					c.log.Info("leading", "lease", c.config.LeaseName, "identity", c.config.Identity)
					c.metrics.leader.Set(1)
					c.lead(ctx, l.entitled)
					c.metrics.leader.Set(0)
				})
			},
			OnStoppedLeading: l.work.End,
			OnNewLeader: func(identity string) {
				if identity != c.config.Identity {
					c.log.Info("standing by", "lease", c.config.LeaseName, "leader", identity)
				}
			},
		},
	})
	if err != nil {
		l.work.End()
		return fmt.Errorf("lease-name: elect a leader by Lease %s/%s: %w", c.config.LeaseNamespace, c.config.LeaseName, err)
	}
	elector.Run(election)
	l.end()
	return nil
}

// lease is the Lease, and the work that it allows for one term. The elector calls it from one goroutine.
type lease struct {
	resourcelock.Interface
	now func(context.Context) (*coordinationv1.Lease, error) // what the API server has

	work    *tenure.Term
	working sync.Mutex // held while there is work

	holder string // as last read
}

// do works, unless the time for it is over.
func (l *lease) do(work func(context.Context)) {
	l.working.Lock()
	defer l.working.Unlock()
	if !l.work.Over() {
		work(l.work)
	}
}

// end returns when the work has ended; there will be no more.
func (l *lease) end() {
	l.work.End()
	l.working.Lock()
	defer l.working.Unlock()
}

// entitled says why the work must end, where the Lease is somebody else's by now, and has it end then. It reads the
// Lease by itself: what the elector has read belongs to the elector's next update.
func (l *lease) entitled(ctx context.Context) error {
	ctx, cancel := l.work.Request(ctx)
	defer cancel()
	now, err := l.now(ctx)
	if err != nil {
		return fmt.Errorf("read the Lease before the claim: %w", err)
	}
	if tenure.Holder(now) != l.Identity() {
		l.work.End()
		return errors.New("the Lease is somebody else's by now")
	}
	return nil
}

// renew makes a request that renews the Lease.
func (l *lease) renew(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := l.work.Request(ctx)
	defer cancel()
	begun := time.Now()
	err := call(ctx)
	if err == nil {
		l.work.Renewed(begun)
	}
	return err
}

func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := l.work.Request(ctx)
	defer cancel()
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder = record.HolderIdentity
	}
	return record, raw, err
}

func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(ctx, func(ctx context.Context) error { return l.Interface.Create(ctx, record) })
}

// Update renews the Lease, or gives it back when the record names no holder: only after the work, and
// only if it is still ours. The elector reads it before, but does not look who holds it now.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		l.end()
		if l.holder != l.Identity() {
			return errors.New("somebody else holds it by now")
		}
		return l.Interface.Update(ctx, record)
	}
	return l.renew(ctx, func(ctx context.Context) error { return l.Interface.Update(ctx, record) })
}
