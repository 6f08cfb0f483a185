// Package election has one controller lead at a time, by a Lease.
//
// There are never two that write, for two reasons. The clock: the work ends with its term (package tenure), whether
// requests hang or not. client-go's own deadline would begin with the first request that fails, and end only with it.
// And the Lease is given back only when the work has ended.
// The fence: a process that was suspended learns late that its time is over, and what it has sent may arrive late. So a
// leader claims the Northbound first, as long as the Lease is its own, and the Northbound refuses what others send from
// then on ([ovsdb.Fence]).
package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	leases "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/models/version"
)

// Config says which Lease it is, and who wants it.
type Config struct {
	Leases          leases.LeasesGetter
	Namespace, Name string
	Identity        string
	Duration        time.Duration
	// Fit returns when this controller could lead, or when ctx is done. It asks for the Lease only then.
	Fit func(ctx context.Context)
	// Unfit returns when this controller could not lead any more, or when ctx is done. If it does not lead, it no longer
	// asks for the Lease then. A leader's own work ends if it cannot lead.
	Unfit func(ctx context.Context)
	Log   *slog.Logger
}

// Work is what a leader does until ctx is done, or until it can lead no longer. Then the Lease is given back. entitled
// says why the Lease is not this leader's any more, and ends ctx then.
type Work func(ctx context.Context, entitled func(context.Context) error)

// Run works whenever this controller holds the Lease, until ctx is done. It returns when all work has ended.
func Run(ctx context.Context, config Config, work Work) error {
	for config.Fit(ctx); ctx.Err() == nil; config.Fit(ctx) {
		if err := config.term(ctx, work); err != nil {
			return err
		}
	}
	return nil
}

// term is one time of waiting for the Lease, leading, and losing it.
func (c *Config) term(ctx context.Context, work Work) error {
	election, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	waiting, lead := context.WithCancel(election)
	defer lead()
	limit := tenure.Limit(c.Duration)
	l := &lease{work: tenure.NewTerm(ctx, limit), now: func(ctx context.Context) (*coordinationv1.Lease, error) {
		return c.Leases.Leases(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	}, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Client:     c.Leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.Identity},
		Labels:     map[string]string{contract.VersionLabel: contract.VersionLabelValue(version.Version())},
	}}
	defer context.AfterFunc(l.work, func() { // whatever made it stop
		l.end()
		resign()
	})()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            l,
		Name:            c.Name,
		LeaseDuration:   c.Duration,
		RenewDeadline:   limit,
		RetryPeriod:     c.Duration / 8,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				lead()
				l.do(func(ctx context.Context) {
					c.Log.Info("leading", "lease", c.Name, "identity", c.Identity)
					work(ctx, l.entitled)
				})
			},
			OnStoppedLeading: l.work.End,
			OnNewLeader: func(identity string) {
				if identity != c.Identity {
					c.Log.Info("standing by", "lease", c.Name, "leader", identity)
				}
			},
		},
	})
	if err != nil {
		l.work.End()
		return fmt.Errorf("lease-name: elect a leader by Lease %s/%s: %w", c.Namespace, c.Name, err)
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		if c.Unfit(waiting); waiting.Err() == nil {
			resign()
		}
	})
	elector.Run(election)
	l.end()
	lead()
	watch.Wait()
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

// do works, unless the time for it is over. The term is over with the work.
func (l *lease) do(work func(context.Context)) {
	l.working.Lock()
	defer l.working.Unlock()
	defer l.work.End()
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
