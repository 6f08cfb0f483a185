package writeback

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
)

// Write makes one patch. An object that is gone, or is another one of the same name by now, is not an error.
type Write func(context.Context, part.Patch) error

// onlyMetadata asks for as little as possible of the patched object, which nobody reads.
const onlyMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Through writes by a client.
func Through(client kubernetes.Interface) Write {
	core := client.CoreV1().RESTClient()
	return func(ctx context.Context, p part.Patch) error {
		if networks, ok := p.Body.(part.Networks); ok {
			return writeNetworks(ctx, core, p, networks)
		}
		return Gone(request(core, p).SetHeader("Accept", onlyMetadata).Body(p.JSON(time.Now())).Do(ctx).Error())
	}
}

// request has the client not wait and try again by itself: the writer has other patches to make meanwhile.
func request(core rest.Interface, p part.Patch) *rest.Request {
	resource := p.Kind.Resource()
	path := []string{"/apis", resource.Group, resource.Version}
	if resource.Group == "" {
		path = []string{"/api", resource.Version}
	}
	if p.Namespace != "" {
		path = append(path, "namespaces", p.Namespace)
	}
	path = append(path, resource.Resource, p.Name)
	if p.Subresource != "" {
		path = append(path, p.Subresource)
	}
	return core.Patch(types.MergePatchType).MaxRetries(0).AbsPath(path...)
}

// Gone forgives an object that was deleted, or deleted and created anew.
func Gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || isAnother(err) {
		return nil
	}
	return err
}

// isAnother says whether a patch was refused since the object of the name has another UID by now. Of an object of a
// CustomResourceDefinition the API server says that the UID cannot be changed, and of others that there is a conflict.
func isAnother(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

// Writer makes patches beside the rows: neither waits for the other. Of an object's patches only the newest counts.
// What cannot be written rests for a while, and stands in nobody's way.
type Writer struct {
	write   Write
	there   func(objects.Key) bool // whether an object of the name still is
	failed  func(part.Patch, error)
	refused func(objects.Problem)
	mu      sync.Mutex
	wanted  map[objects.Key]*wish // not being written
	order   []objects.Key         // of wanted that do not rest, each once, the longest wanted first
	writing map[objects.Key]*wish
	paced   map[objects.Key]time.Time // when the PodNetworks of a node may be written again
	limit   *rate.Limiter             // of writes of all PodNetworks
	opens   time.Time                 // when it admits the next one, if it has refused one
	wake    signal.Signal
}

// wish is a patch that is to be made, and what became of it so far.
type wish struct {
	part.Patch
	resting bool
	pause   time.Duration // the last one, 0 before the first failure
	told    bool          // the object has the Event
}

// writers is how many patches are made at a time: few, so that a burst of pods does not make the API server slower for
// those who create them. One alone makes hundreds a second.
const writers = 4

// The pauses of a patch after its first failure and after many, and when the API server has said that it does not want
// it. What failed is tried again until it is not wanted any more.
const (
	firstPause   = 500 * time.Millisecond
	lastPause    = 8 * time.Second
	refusedPause = time.Minute
	// timeout ends a request that hangs.
	timeout = 15 * time.Second
)

// The pace of writes of PodNetworks. The first of some pods does not wait, and those that follow soon go together: to
// write the addresses of 100 pods, the API server needs twice as much as to write those of one. Between two writes of
// one node there is the spacing. All nodes together have so many writes at once, and then as many in a second as nodes
// wait, or the rate if that is more: else a burst of pods would make the API server slower for those who create them.
const (
	networksSpacing            = 100 * time.Millisecond
	networksRate    rate.Limit = 20 // in a second
	networksBurst              = 40
)

// New makes by write the patches that are wanted of objects that are there. failed is told of each write that fails,
// and refused when the API server does not want it.
func New(write Write, there func(objects.Key) bool, failed func(part.Patch, error),
	refused func(objects.Problem)) *Writer {
	return &Writer{write: write, there: there, failed: failed, refused: refused,
		wanted: map[objects.Key]*wish{}, writing: map[objects.Key]*wish{}, paced: map[objects.Key]time.Time{},
		limit: rate.NewLimiter(networksRate, networksBurst), wake: signal.New()}
}

// Set has patches made; one that is being made is not made again.
func (w *Writer) Set(patches []part.Patch) {
	w.mu.Lock()
	for _, p := range patches {
		k := p.Key()
		if now := w.writing[k]; now != nil && now.Equal(p) {
			w.forget(k)
		} else {
			w.want(k, p)
		}
	}
	w.mu.Unlock()
	w.wake.Set()
}

// want and forget keep order beside wanted; w.mu is held. Who waits or rests goes on doing so, unless
// another object has the name by now.
func (w *Writer) want(k objects.Key, p part.Patch) {
	before := w.wanted[k]
	if before != nil {
		p = p.After(before.Patch)
	}
	if before != nil && before.UID == p.UID {
		before.Patch = p
		return
	}
	w.forget(k)
	it := &wish{Patch: p}
	if pause := time.Until(w.paced[k]); pause > 0 {
		w.rest(k, it, pause)
		return
	}
	w.wanted[k] = it
	w.order = append(w.order, k)
}

func (w *Writer) forget(k objects.Key) {
	if before := w.wanted[k]; before != nil {
		delete(w.wanted, k)
		if i := slices.Index(w.order, k); i >= 0 {
			w.order = slices.Delete(w.order, i, i+1)
		}
	}
}

// rest has a wish wait before it is due again; w.mu is held.
func (w *Writer) rest(k objects.Key, it *wish, pause time.Duration) {
	w.forget(k)
	it.resting = true
	w.wanted[k] = it
	time.AfterFunc(pause, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.wanted[k] == it { // and not another object's
			it.resting = false
			w.order = append(w.order, k)
			w.wake.Set()
		}
	})
}

// Run writes until ctx is done, and returns when the last write has ended.
func (w *Writer) Run(ctx context.Context) {
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for ctx.Err() == nil {
				if it := w.next(); it != nil {
					w.one(ctx, it)
					continue
				}
				select {
				case <-ctx.Done():
				case <-w.wake:
				}
			}
		})
	}
	group.Wait()
}

// next takes the one that has waited longest, nil when none is due; if there are more, another worker
// is woken.
func (w *Writer) next() *wish {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, k := range w.order {
		if w.writing[k] != nil { // its writer looks again when it is done
			continue
		}
		if k.Kind == objects.PodNetworksKind && !w.admit(now) {
			continue
		}
		it := w.wanted[k]
		w.forget(k)
		w.writing[k] = it
		if len(w.order) > 0 {
			w.wake.Set()
		}
		return it
	}
	return nil
}

// one makes a patch; if that fails, it is made again later, or what is wanted by then.
func (w *Writer) one(ctx context.Context, it *wish) {
	timed, cancel := context.WithTimeout(ctx, timeout)
	err := w.write(timed, it.Patch)
	cancel()
	k := it.Key()
	if err != nil && ctx.Err() == nil {
		w.failed(it.Patch, err)
		if !w.there(k) {
			err = nil // nobody asks for it any more
		} else if refusal(err) && !it.told {
			it.told = true
			w.refused(it.refusal(err))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.writing, k)
	newer := w.wanted[k]
	if err != nil && (newer == nil || newer.UID == it.UID) {
		if newer != nil {
			it.Patch = newer.Patch.After(it.Patch)
		}
		it.pause = it.nextPause(err)
		w.rest(k, it, it.pause)
	} else if k.Kind == objects.PodNetworksKind {
		w.pace(k, newer)
	}
	if len(w.order) > 0 {
		w.wake.Set()
	}
}

// admit says whether PodNetworks may be written now; w.mu is held. Where they may not, a worker is woken when they may.
func (w *Writer) admit(now time.Time) bool {
	if now.Before(w.opens) {
		return false
	}
	waiting := 0
	for _, k := range w.order {
		if k.Kind == objects.PodNetworksKind {
			waiting++
		}
	}
	w.limit.SetLimitAt(now, max(networksRate, rate.Limit(waiting)))
	if w.limit.AllowN(now, 1) {
		return true
	}
	next := w.limit.ReserveN(now, 1)
	pause := next.DelayFrom(now)
	next.CancelAt(now)
	w.opens = now.Add(pause)
	time.AfterFunc(pause, w.wake.Set)
	return false
}

// pace has the next write of an object wait; w.mu is held. Newer is what is wanted of it already, nil for nothing.
func (w *Writer) pace(k objects.Key, newer *wish) {
	now := time.Now()
	maps.DeleteFunc(w.paced, func(_ objects.Key, until time.Time) bool { return until.Before(now) })
	w.paced[k] = now.Add(networksSpacing)
	if newer != nil && !newer.resting {
		w.rest(k, newer, networksSpacing)
	}
}

// refusal says that the API server will answer the same to the same request.
func refusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

func (it *wish) nextPause(err error) time.Duration {
	pause := min(max(2*it.pause, firstPause), lastPause)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, min(time.Duration(seconds)*time.Second, refusedPause))
	}
	if refusal(err) {
		pause = refusedPause
	}
	return pause
}

func (it *wish) refusal(err error) objects.Problem {
	meta := &metav1.ObjectMeta{Namespace: it.Namespace, Name: it.Name, UID: it.UID}
	if networks, ok := it.Body.(part.Networks); ok {
		meta := &metav1.ObjectMeta{Name: networks.Node.Name, UID: networks.Node.UID}
		return objects.Problemf(networks.Node.Kind, meta, podNetworksRefused,
			"the API server refuses the node's PodNetworks, or the right to read it, without which new pods of the node "+
				"may have no network: %v; if permission is missing, give it to the controller; it is tried again every minute",
			objects.Quoted(err.Error()))
	}
	switch key := it.Annotation(); key {
	case "":
		return objects.Problemf(it.Kind, meta, statusRefused,
			"the API server refuses the object's status: %v; if permission is missing, give it to the controller; it is tried "+
				"again every minute", objects.Quoted(err.Error()))
	case contract.PolicyStatusAnnotation:
		return objects.Problemf(it.Kind, meta, annotationRefused,
			"the API server refuses annotation %s, which only tells what became of the policy: %v; make the object's other "+
				"annotations shorter; if permission is missing, let the controller patch NetworkPolicies; it is tried again "+
				"every minute",
			key, objects.Quoted(err.Error()))
	default:
		return objects.Problemf(it.Kind, meta, annotationRefused,
			"the API server refuses annotation %s, without which the object has no network: %v; make the object's other "+
				"annotations shorter, or create it anew; if permission is missing, give it to the controller; it is tried again "+
				"every minute",
			key, objects.Quoted(err.Error()))
	}
}

// Log is a function that logs writes that fail, and counts them.
func Log(log *slog.Logger, count func(string)) func(part.Patch, error) {
	return func(p part.Patch, err error) {
		if errors.Is(err, context.Canceled) {
			return
		}
		count("annotation")
		log.Warn("could not write to an object; trying again",
			telemetry.Object(p.Kind.String(), p.Namespace, p.Name),
			"field", cmp.Or(p.Annotation(), p.Subresource), "error", err)
	}
}
