package ovn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/ovsdb"
)

// Northbound is what the controller asks of the database's engine, *ovsdb.Engine in earnest.
//
// Both return nil when everything is committed, a *[ovsdb.RefusedError] when all but some owners'
// changes are, and another error when the connection failed: then anything may be committed, and the
// same call made again does the rest.
type Northbound interface {
	// Replace makes changes the whole of what weft has in the database.
	Replace(ctx context.Context, changes []ovsdb.Change) error
	// Apply brings the given owners' rows into the given state.
	Apply(ctx context.Context, changes []ovsdb.Change) error
}

// source is where objects come from; *informers in earnest.
type source interface {
	get(objectKey) any
	keys() []objectKey
}

// leader keeps the Northbound in step while this controller leads. All of it runs in one goroutine, so
// what it remembers needs no lock, and the database sees one writer.
type leader struct {
	cluster    *cluster
	source     source
	queue      *queue
	northbound Northbound
	records    records
	metrics    *metrics
	log        *slog.Logger
	annotate   func([]annotation)
	report     func(problem)

	// backoff is the last pause before a refused owner's next try.
	backoff map[objectKey]time.Duration
	timers  sync.WaitGroup
	first   time.Duration // shortest pauses; tests make them short
	begun   atomic.Int64  // when the batch under way began, in nanoseconds; 0 between batches
}

// spacing is the least time between the starts of two batches. A change that comes alone does not wait;
// in a stream of changes it makes a third of the transactions, each of which would also wake ovn-northd.
const spacing = 5 * time.Millisecond

const (
	firstPause = 200 * time.Millisecond
	lastPause  = time.Minute
)

// run leads until ctx is done.
func (l *leader) run(ctx context.Context) {
	defer l.timers.Wait()
	if l.first == 0 {
		l.first = firstPause
	}
	l.backoff = map[objectKey]time.Duration{}
	// What comes into the queue from here on is looked at again, whether the stores had it
	// already or not.
	l.queue.collect(true)
	defer l.queue.collect(false)
	start := time.Now()
	l.cluster.begin(l.records, l.source.keys(), l.source.get)
	l.publish()
	if !l.all(ctx, nil) {
		return
	}
	l.log.Info("the Northbound is in step with the cluster", "nodes", len(l.cluster.nodes), "pods", len(l.cluster.pods),
		"services", len(l.cluster.services), "seconds", time.Since(start).Seconds())
	for {
		entries := l.queue.take(ctx)
		if entries == nil {
			return
		}
		next := time.After(spacing)
		l.batch(ctx, entries)
		l.begun.Store(0)
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// batch does what a set of touched objects asks for.
func (l *leader) batch(ctx context.Context, entries map[objectKey]entry) {
	start := time.Now()
	l.begun.Store(start.UnixNano())
	keys := make([]objectKey, 0, len(entries))
	for k := range entries {
		keys = append(keys, k)
	}
	l.cluster.update(keys, l.source.get)
	l.publish()
	changes := l.cluster.changes()
	err := l.northbound.Apply(ctx, changes)
	if lost(err) {
		l.all(ctx, entries)
		return
	}
	l.settle(ctx, changes, err)
	since(l.metrics.reconcile, start)
	l.observe(entries)
}

// all writes everything, and does not give up before it is written: with the connection lost, nobody
// knows what is. false means that ctx is done.
func (l *leader) all(ctx context.Context, entries map[objectKey]entry) bool {
	for pause := l.first; ; pause = min(2*pause, 5*time.Second) {
		start := time.Now()
		changes := l.cluster.everything()
		err := l.northbound.Replace(ctx, changes)
		if ctx.Err() != nil {
			return false
		}
		if !lost(err) {
			l.publish()
			l.settle(ctx, changes, err)
			since(l.metrics.reconcile, start)
			l.observe(entries)
			return true
		}
		l.metrics.failed("northbound")
		l.log.Warn("could not write the Northbound; trying again", "error", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// lost says that an error is the connection's and not an owner's.
func lost(err error) bool {
	var refused *ovsdb.RefusedError
	return err != nil && !errors.As(err, &refused)
}

// settle has refused owners tried again later, each at a pace of its own, and the others forgiven.
func (l *leader) settle(ctx context.Context, changes []ovsdb.Change, err error) {
	var refused *ovsdb.RefusedError
	errors.As(err, &refused)
	if len(l.backoff) > 0 {
		for i := range changes {
			if k, ok := ownerKey(changes[i].Owner); ok && (refused == nil || refused.Owners[changes[i].Owner] == nil) {
				delete(l.backoff, k)
			}
		}
	}
	if refused == nil {
		return
	}
	for owner, cause := range refused.Owners {
		l.metrics.failed("refused")
		l.log.Error("the Northbound refused an object's rows", "owner", owner, "error", cause)
		k, ok := ownerKey(owner)
		if !ok {
			continue
		}
		pause := min(max(2*l.backoff[k], l.first), lastPause)
		if meta := l.cluster.object(k); meta != nil && l.backoff[k] == 0 {
			l.report(problemf(k.kind.String(), meta, "RowsRefused",
				"the OVN Northbound refused the rows of this object: %v; all others are served; it is tried again until it succeeds", quoted(cause.Error())))
		}
		l.backoff[k] = pause
		l.later(ctx, k, pause)
	}
}

func (l *leader) later(ctx context.Context, k objectKey, pause time.Duration) {
	l.timers.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			l.queue.add(k, false)
		}
	})
}

// publish hands on what the translation found out beside the rows.
func (l *leader) publish() {
	if notes := l.cluster.takeNotes(); len(notes) > 0 {
		l.annotate(notes)
	}
	for _, p := range l.cluster.takeProblems() {
		l.report(p)
	}
}

func (l *leader) observe(entries map[objectKey]entry) {
	for k, e := range entries {
		if p := l.cluster.pods[k.name]; e.fresh && k.kind == podKind && p != nil && len(p.addresses) > 0 {
			since(l.metrics.podRow, e.since)
		}
	}
}

// suspect is told the owners whose rows another hand has changed.
func (l *leader) suspect(owners []ovsdb.Owner) {
	for _, owner := range owners {
		if k, ok := ownerKey(owner); ok {
			l.log.Warn("somebody else changed rows in the Northbound; they are put back", "owner", owner)
			l.queue.add(k, false)
		}
	}
}

// reference is how an Event names its object.
func (p problem) reference() *corev1.ObjectReference {
	version := "v1"
	if p.kind == sliceKind.String() {
		version = "discovery.k8s.io/v1"
	}
	return &corev1.ObjectReference{Kind: p.kind, APIVersion: version,
		Namespace: p.meta.Namespace, Name: p.meta.Name, UID: p.meta.UID, ResourceVersion: p.meta.ResourceVersion}
}

func (p problem) String() string {
	return fmt.Sprintf("%s %s: %s: %s", p.kind, key(p.meta.Namespace, p.meta.Name), p.reason, p.message)
}
