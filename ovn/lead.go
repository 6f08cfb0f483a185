package ovn

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/watch"
	"github.com/weftnet/weft/ovsdb"
)

// Northbound is what the controller asks of the database's engine, *ovsdb.Engine in earnest.
//
// Both return nil when everything is committed, a *[ovsdb.RefusedError] when all but some owners'
// changes are, and another error when the connection failed: then anything may be committed, and the
// same call made again does the rest. [ovsdb.ErrFenced] is such an error, too: somebody else has made a claim.
type Northbound interface {
	// Claim makes this controller the only one that writes, as long as nobody else makes a claim. entitled says
	// why it may not make one. What others have written before is seen when it returns nil.
	Claim(ctx context.Context, entitled func(context.Context) error) error
	// Replace makes changes the whole of what weft has in the database.
	Replace(ctx context.Context, changes []ovsdb.Change) error
	// Apply brings the given owners' rows into the given state.
	Apply(ctx context.Context, changes []ovsdb.Change) error
}

// zonal is a Northbound that consists of those of zones, of which some may be away. Calls do the work of those that are
// there.
type zonal interface {
	// returned says whether a zone is back that does not have all that it should. It may be asked by any goroutine.
	returned() bool
	// bringBack writes such zones as a whole. everything is what they need. The error is of owners that were refused.
	bringBack(ctx context.Context, entitled func(context.Context) error, everything func() []ovsdb.Change) error
	// has says whether the Northbound of a node's zone has all that it should, and complete whether all have.
	has(node string) bool
	complete() bool
}

// source is where objects come from; *informers in earnest.
type source interface {
	Get(part.Event) any
	Keys() []part.Event
}

// leader keeps the Northbound in step while this controller leads. All of it runs in one goroutine, so
// what it remembers needs no lock, and the database sees one writer.
type leader struct {
	cluster    *cluster
	source     source
	queue      *watch.Queue
	northbound Northbound
	zones      zonal                       // the northbound, nil without zones
	entitled   func(context.Context) error // asks who holds the Lease
	// records are what earlier terms have decided. zone is the zone that a Node's label names.
	records  func(zone func(node string) string) records.Records
	disabled func() []string                   // features that the Northbound's server lacks
	ports    func() map[types.UID][]netip.Addr // the pods that have a port in the Northbound
	metrics  *metrics
	log      *slog.Logger
	annotate func([]part.Patch)
	report   func(objects.Problem)

	// backoff is about owners whose rows were refused.
	backoff map[ovsdb.Owner]backoff
	first   time.Duration // shortest pauses; tests make them short
	// disputes are those of late, by owner.
	disputes map[ovsdb.Owner]dispute
	// unreported are owners that have been written while a zone was away: their statuses wait until it has their rows.
	unreported map[ovsdb.Owner]struct{}
	taking     sync.Mutex   // held while the cluster takes objects in and gives addresses
	begun      atomic.Int64 // when the batch under way, or the first write, began, in nanoseconds; 0 between batches
}

// backoff is the last pause before a refused owner's next try, and when its object had an Event last.
type backoff struct {
	pause time.Duration
	told  time.Time
}

// spacing is the least time between the starts of two batches. A change that comes alone does not wait;
// in a stream of changes it makes a third of the transactions, each of which would also wake ovn-northd.
const spacing = 5 * time.Millisecond

const (
	firstPause = 200 * time.Millisecond
	lastPause  = time.Minute
	// complaintEvery is how often an object is told that its rows are refused. Kubernetes forgets Events after an hour.
	complaintEvery = 30 * time.Minute
)

// run leads until ctx is done.
func (l *leader) run(ctx context.Context) {
	if l.first == 0 {
		l.first = firstPause
	}
	l.backoff = map[ovsdb.Owner]backoff{}
	// What comes into the queue from here on is looked at again, whether the stores had it
	// already or not.
	l.queue.Collect(true)
	defer l.queue.Collect(false)
	start := time.Now()
	l.begun.Store(start.UnixNano())
	l.cluster.At(start)
	if !l.claim(ctx) {
		return
	}
	l.take(func() { l.cluster.begin(l.records(l.zoneOf), l.source.Keys(), l.source.Get) })
	l.publish(ctx)
	if !l.all(ctx, nil) {
		return
	}
	l.begun.Store(0)
	l.log.Info("the Northbound is in step with the cluster", "nodes", l.cluster.nodes.Known(), "pods",
		l.cluster.pods.Known(),
		"services", l.cluster.services.Known(), "seconds", time.Since(start).Seconds())
	for {
		entries := l.queue.Take(ctx)
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

// zoneOf is the zone that a Node's label names, "" if it names none.
func (l *leader) zoneOf(node string) string {
	n, _ := l.source.Get(objects.Key{Kind: objects.NodeKind, Name: node}).(*objects.Node)
	if n == nil {
		return ""
	}
	label, labelled := n.Labels.Lookup(contract.ZoneLabel)
	zone, _ := l.cluster.settings.Zone(label, labelled)
	return zone
}

// claim makes this controller the only one that writes, and does not give up before it is; false means that ctx is
// done. What former leaders have decided is read after it: they can add nothing any more.
func (l *leader) claim(ctx context.Context) bool {
	return l.insist(ctx, "could not claim the Northbound; trying again", func() error {
		return l.northbound.Claim(ctx, l.entitled)
	})
}

// insist tries until nothing but owners' changes fails; false means that ctx is done.
func (l *leader) insist(ctx context.Context, failed string, try func() error) bool {
	for pause := l.first; ; pause = min(2*pause, 5*time.Second) {
		err := try()
		if ctx.Err() != nil {
			return false
		}
		if !lost(err) {
			return true
		}
		l.metrics.failed("northbound")
		l.log.Warn(failed, "error", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// take has the cluster take objects in, while nobody counts its addresses.
func (l *leader) take(in func()) {
	l.taking.Lock()
	defer l.taking.Unlock()
	in()
}

// batch does what a set of touched objects asks for.
func (l *leader) batch(ctx context.Context, entries map[part.Event]watch.Entry) {
	start := time.Now()
	l.begun.Store(start.UnixNano())
	keys := make([]part.Event, 0, len(entries))
	for k := range entries {
		keys = append(keys, k)
	}
	l.cluster.At(start)
	l.take(func() { l.cluster.update(keys, l.source.Get) })
	l.publish(ctx)
	if moved := l.cluster.nodes.TakeMoved(); l.fit() || moved {
		l.all(ctx, entries)
		return
	}
	changes := l.cluster.takeChanges()
	owners := ownersOf(changes)
	err := l.northbound.Apply(ctx, changes)
	if lost(err) {
		l.all(ctx, entries)
		return
	}
	l.afterWrite(ctx, owners, err)
	l.bringBack(ctx)
	since(l.metrics.reconcile, start)
	l.observe(entries)
}

// bringBack writes the zones whose Northbound is back.
func (l *leader) bringBack(ctx context.Context) {
	if l.zones == nil || !l.zones.returned() {
		return
	}
	var owners []ovsdb.Owner
	err := l.zones.bringBack(ctx, l.entitled, func() []ovsdb.Change {
		l.cluster.pods.Seen(l.ports())
		changes := l.cluster.takeEverything()
		owners = ownersOf(changes)
		return changes
	})
	l.afterWrite(ctx, owners, err)
}

// awaits says whether the Northbound of a node's zone is away: its pods are told of no address that it does not have.
func (l *leader) awaits(node string) bool {
	return l.zones != nil && !l.zones.has(node)
}

// all writes everything, and does not give up before it is written: with the connection or the claim lost, nobody
// knows what is. false means that ctx is done.
func (l *leader) all(ctx context.Context, entries map[part.Event]watch.Entry) bool {
	return l.insist(ctx, "could not write the Northbound; trying again", func() error {
		start := time.Now()
		if err := l.northbound.Claim(ctx, l.entitled); err != nil {
			return err
		}
		l.cluster.pods.Seen(l.ports())
		l.fit()
		changes := l.cluster.takeEverything()
		owners := ownersOf(changes)
		err := l.northbound.Replace(ctx, changes) // which frees the rows that it has made: nobody else has them
		if lost(err) || ctx.Err() != nil {
			return err
		}
		l.afterWrite(ctx, owners, err)
		since(l.metrics.reconcile, start)
		l.observe(entries)
		return nil
	})
}

// fit takes in what the Northbound's server knows, and says whether that is something else than before, as after
// its upgrade. A row whose column it does not know would say another thing than is meant.
func (l *leader) fit() (changed bool) {
	disabled := l.disabled()
	now := settings.Features{AclTiers: slices.Contains(disabled, models.ACLTiers),
		ConditionalNAT: slices.Contains(disabled, models.ConditionalNAT)}
	changed = now != l.cluster.settings.Lacks
	l.cluster.settings.Lacks = now
	return changed
}

// lost says that an error is the connection's and not an owner's.
func lost(err error) bool {
	var refused *ovsdb.RefusedError
	return err != nil && !errors.As(err, &refused)
}

// afterWrite has refused owners tried again later, each at a pace of its own, and the others forgiven.
func (l *leader) afterWrite(ctx context.Context, owners []ovsdb.Owner, err error) {
	var refused *ovsdb.RefusedError
	errors.As(err, &refused)
	l.written(owners, refused)
	if len(l.backoff) > 0 {
		for _, owner := range owners {
			if refused == nil || refused.Owners[owner] == nil {
				delete(l.backoff, owner)
			}
		}
	}
	l.handOut(refused)
	l.publish(ctx)
	l.releaseHeld(refused)
	if refused == nil {
		return
	}
	for owner, cause := range refused.Owners {
		l.metrics.failed("refused")
		l.log.Error("the Northbound refused an object's rows", telemetry.ObjectKey, owner, "error", cause)
		if !l.cluster.owns(owner) {
			continue
		}
		now := l.backoff[owner]
		now.pause = min(max(2*now.pause, l.first), lastPause)
		if k, meta := l.object(owner); meta != nil && time.Since(now.told) >= complaintEvery {
			now.told = time.Now()
			l.report(objects.Problemf(k.Kind, meta, rowsRefused,
				"the OVN Northbound refused the rows of this object: %v; all others are served; it is tried again "+
					"until it succeeds", objects.Quoted(cause.Error())))
		}
		l.backoff[owner] = now
		l.later(ctx, part.Signal{What: part.Again, Name: string(owner)}, now.pause)
	}
}

// written has statuses speak of rows that all Northbounds have.
func (l *leader) written(owners []ovsdb.Owner, refused *ovsdb.RefusedError) {
	if l.zones != nil && !l.zones.complete() {
		if l.unreported == nil {
			l.unreported = map[ovsdb.Owner]struct{}{}
		}
		for _, owner := range owners {
			l.unreported[owner] = struct{}{}
		}
		return
	}
	if len(l.unreported) > 0 {
		owners = slices.AppendSeq(slices.Clone(owners), maps.Keys(l.unreported))
		l.unreported = nil
	}
	l.cluster.policies.Written(owners, refused)
}

// releaseHeld frees the addresses of pods whose end all Northbounds know, and has pods that wait for one looked at.
func (l *leader) releaseHeld(refused *ovsdb.RefusedError) {
	if l.zones == nil || !l.zones.complete() {
		return
	}
	waiting := false
	l.take(func() {
		waiting = l.cluster.pods.ReleaseHeld(func(owner ovsdb.Owner) bool {
			return refused != nil && refused.Owners[owner] != nil || l.backoff[owner].pause > 0
		})
	})
	if waiting {
		l.queue.Add(part.Signal{What: addressesFree}, false)
	}
}

func ownersOf(changes []ovsdb.Change) []ovsdb.Owner {
	owners := make([]ovsdb.Owner, len(changes))
	for i := range changes {
		owners[i] = changes[i].Owner
	}
	return owners
}

// object is the Kubernetes object that an owner's rows are for, nil when there is none.
func (l *leader) object(owner ovsdb.Owner) (objects.Key, *metav1.ObjectMeta) {
	k, ok := l.cluster.keyOf(owner)
	if !ok {
		return k, nil
	}
	object, _ := l.source.Get(k).(metav1.ObjectMetaAccessor)
	if object == nil {
		return k, nil
	}
	meta, _ := object.GetObjectMeta().(*metav1.ObjectMeta)
	return k, meta
}

func (l *leader) later(ctx context.Context, e part.Event, pause time.Duration) {
	time.AfterFunc(pause, func() {
		if ctx.Err() == nil {
			l.queue.Add(e, false)
		}
	})
}

// handOut has objects written once the Northbound has what they say: a leader that ends before has
// told nobody of an address that the next one may give to somebody else. What was refused is noted again when it is
// tried again, and a pod without a port waits until it has one.
func (l *leader) handOut(refused *ovsdb.RefusedError) {
	l.take(func() {
		l.cluster.pods.NoteNetworks(func(node string, owner ovsdb.Owner) bool {
			return l.backoff[owner].pause > 0 || refused != nil && refused.Owners[owner] != nil || l.awaits(node)
		})
	})
	var notes []part.Patch
	for _, a := range l.cluster.TakeNotes() {
		k := objects.Key{Kind: a.Kind, Name: objects.FullName(a.Namespace, a.Name)}
		isPod, p := a.Kind == objects.PodKind, l.cluster.pods.At(k.Name)
		switch {
		case (isPod || a.Kind == objects.NodeKind) && refused != nil &&
			refused.Owners[ovsdb.Owner(a.Kind.String()+"/"+k.Name)] != nil:
		case isPod && p != nil && (!p.There() || l.awaits(p.Node())):
			l.cluster.Note(a)
		default:
			notes = append(notes, a)
		}
	}
	if len(notes) > 0 {
		l.annotate(notes)
	}
}

// publish hands on what else the translation found out beside the rows.
func (l *leader) publish(ctx context.Context) {
	for _, p := range l.cluster.TakeProblems() {
		l.report(p)
	}
	for _, e := range l.cluster.TakeExpected() {
		l.later(ctx, e, part.Wait(e))
	}
}

// observe tells how long the objects have waited whose rows are committed now.
func (l *leader) observe(entries map[part.Event]watch.Entry) {
	for touched, e := range entries {
		k, isObject := touched.(objects.Key)
		if !isObject {
			continue
		}
		l.metrics.object.WithLabelValues(k.Kind.String()).Observe(time.Since(e.Since).Seconds())
		if p := l.cluster.pods.At(k.Name); e.Fresh && k.Kind == objects.PodKind && p != nil && len(p.Addresses()) > 0 {
			since(l.metrics.podRow, e.Since)
		}
	}
}

// dispute is about an owner's rows that another hand changes.
type dispute struct {
	until time.Time // when they were last put back, or will be
	pause time.Duration
}

// suspect is told the owners whose rows another hand has changed. They are put back at once, and ever
// more slowly if that does not end it: the other hand may be another cluster's controller, which does
// the same. It is called by one goroutine.
func (l *leader) suspect(ctx context.Context, owners []ovsdb.Owner) {
	now, first, count := time.Now(), ovsdb.Owner(""), 0
	maps.DeleteFunc(l.disputes, func(_ ovsdb.Owner, d dispute) bool { return now.Sub(d.until) > lastPause })
	for _, owner := range owners {
		again := part.Signal{What: part.Again, Name: string(owner)}
		d := l.disputes[owner]
		if !l.cluster.owns(owner) || now.Before(d.until) { // not ours, or it will be put back
			continue
		}
		if count++; count == 1 {
			first = owner
		}
		if d.pause == 0 {
			l.queue.Add(again, false)
		} else {
			l.later(ctx, again, d.pause)
		}
		l.disputes[owner] = dispute{now.Add(d.pause), min(max(2*d.pause, firstPause), lastPause)}
	}
	if count > 0 {
		l.log.Warn("somebody else changed rows in the Northbound; they are put back; if this goes on, see whether another "+
			"controller writes there",
			"objects", count, "first", first)
	}
}
