//go:build linux

package chassis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/models/version"
)

// heartbeat renews this host's Lease.
type heartbeat struct {
	leases    coordinationclient.LeaseInterface
	namespace string
	identity  string
	zone      string // of the nodes that this host serves
	// instance tells this process from others of its identity; predecessor is one that is known to be
	// dead with all its children, or empty.
	instance, predecessor string
	duration              time.Duration
	terms                 *tenure.Terms
	sightings             *sightings
	// What the Lease says besides; hurry is given when that has changed.
	unreachable func() []string
	leaving     func() bool
	hurry       signal.Signal
	renewed     func() // is called when a term has begun
	log         *slog.Logger

	last    *coordinationv1.Lease // as this process last wrote it
	problem string                // as last logged
}

// newInstance is a name that no other process has.
func newInstance(identity string) string {
	return contract.ChassisInstance(identity, strings.ToLower(rand.Text()[:10]))
}

// run renews until ctx is done.
func (b *heartbeat) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := b.beat(ctx)
		if ctx.Err() != nil {
			return
		}
		b.report(err)
		pause := b.duration / 5
		if err != nil {
			pause = b.duration / 10
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-b.hurry:
		}
		timer.Stop()
	}
}

func (b *heartbeat) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == b.problem {
		return
	}
	if b.problem = text; err == nil {
		b.log.Info("this host's Lease is renewed again")
		return
	}
	b.log.Warn("cannot renew this host's Lease; unless it succeeds in time, its nodes are left to other hosts", "lease",
		b.namespace+"/"+hostLease(b.identity), "error", err)
}

// beat renews once. A request is given up in time for another one, which may find another API server.
func (b *heartbeat) beat(ctx context.Context) error {
	ctx, cancel := b.terms.Request(ctx)
	defer cancel()
	if b.last == nil {
		found, err := b.leases.Get(ctx, hostLease(b.identity), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return b.write(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace,
				Name: hostLease(b.identity)}}, b.leases.Create)
		case err != nil:
			return err
		}
		if err := b.mayAcquire(found); err != nil {
			return err
		}
		return b.write(ctx, found, b.update)
	}
	err := b.write(ctx, b.last, b.update)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		b.last = nil
		return b.beat(ctx) // it was changed or removed by somebody, or by a request of ours that seemed to fail
	}
	return err
}

func (b *heartbeat) update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (
	*coordinationv1.Lease, error) {
	return b.leases.Update(ctx, lease, metav1.UpdateOptions{})
}

// mayAcquire returns why this process must not write a Lease that exists.
func (b *heartbeat) mayAcquire(found *coordinationv1.Lease) error {
	b.sightings.note(found)
	switch by := tenure.Holder(found); {
	case by == "" || by == b.instance || by == b.predecessor:
		return nil
	case b.sightings.silent(b.identity):
		return nil
	default:
		return fmt.Errorf("another process of identity %q holds it (%s); waiting for %s without a renewal: if it is not "+
			"this host's former process, give the hosts different identities", b.identity, by, duration(found, b.duration))
	}
}

func (b *heartbeat) write(ctx context.Context, lease *coordinationv1.Lease,
	send func(context.Context, *coordinationv1.Lease, metav1.CreateOptions) (*coordinationv1.Lease, error)) error {
	lease = lease.DeepCopy()
	label(lease, contract.LeaseOfHost)
	lease.Labels[contract.VersionLabel] = contract.VersionLabelValue(version.Version())
	delete(lease.Labels, contract.ZoneLabel)
	if b.zone != "" {
		lease.Labels[contract.ZoneLabel] = b.zone
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	delete(lease.Annotations, contract.ChassisUnreachableAnnotation)
	delete(lease.Annotations, leavingAnnotation)
	if b.leaving() {
		lease.Annotations[leavingAnnotation] = "true"
	}
	if nodes := b.unreachable(); len(nodes) > 0 {
		lease.Annotations[contract.ChassisUnreachableAnnotation] = strings.Join(nodes, ",")
	}
	begun := time.Now()
	seconds, stamp := wholeSeconds(b.duration), metav1.NewMicroTime(begun)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &b.instance, &seconds, &stamp
	if b.last == nil {
		lease.Spec.AcquireTime = &stamp
	}
	written, err := send(ctx, lease, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	b.last = written
	b.sightings.note(written)
	if b.terms.Renewed(begun) {
		b.renewed()
	}
	return nil
}

// resign removes the Lease, so that nobody waits for this host. It must hold nothing any more.
func (b *heartbeat) resign(ctx context.Context) error {
	if b.last == nil {
		return nil
	}
	err := b.leases.Delete(ctx, b.last.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &b.last.UID,
		ResourceVersion: &b.last.ResourceVersion}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // somebody else's by now
	}
	if err != nil {
		return fmt.Errorf("remove Lease %s/%s: %w", b.namespace, b.last.Name, err)
	}
	return nil
}

var errTermOver = errors.New("this host has not renewed its Lease in time, and another one may hold the node")
