package ovn

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// elect leads whenever this controller holds the Lease, until ctx is done. Work stops before the Lease
// is given back, and soon enough before it runs out: there are never two that write.
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
	var working sync.Mutex
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: c.config.LeaseNamespace, Name: c.config.LeaseName},
			Client:     c.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.config.Identity},
		},
		Name:            c.config.LeaseName,
		LeaseDuration:   c.config.LeaseDuration,
		RenewDeadline:   c.config.LeaseDuration * 2 / 3,
		RetryPeriod:     c.config.LeaseDuration / 8,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lease context.Context) {
				working.Lock()
				defer working.Unlock()
				work, stop := context.WithCancel(ctx)
				defer stop()
				defer context.AfterFunc(lease, stop)()
				if lease.Err() != nil || work.Err() != nil {
					return
				}
				c.log.Info("leading", "lease", c.config.LeaseName, "identity", c.config.Identity)
				c.metrics.leader.Set(1)
				c.lead(work)
				c.metrics.leader.Set(0)
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if identity != c.config.Identity {
					c.log.Info("standing by", "lease", c.config.LeaseName, "leader", identity)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("lease-name: elect a leader by Lease %s/%s: %w", c.config.LeaseNamespace, c.config.LeaseName, err)
	}
	done := make(chan struct{})
	stopped := context.AfterFunc(ctx, func() { // the work ends, and only then the Lease is given back
		defer close(done)
		working.Lock()
		defer working.Unlock()
		resign()
	})
	elector.Run(election)
	if stopped() {
		close(done)
	}
	<-done
	working.Lock() // a lost Lease: its work has been told to stop, and is not followed by other work before it has
	defer working.Unlock()
	return nil
}
