package writeback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
)

// Write writes one annotation of one object. An object that is gone, or is another one of
// the same name by now, is not an error.
type Write func(context.Context, part.Annotation) error

// Patch is a merge patch that fails on an object of another UID.
func Patch(a part.Annotation) []byte {
	if a.Key == part.StatusKey {
		return StatusPatch(a, time.Now())
	}
	type metadata struct {
		UID         types.UID         `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	}
	value := a.Value
	if a.Key == contract.PolicyStatusAnnotation { // its time is that of writing
		value = strings.Replace(value, `"since":null`, `"since":"`+time.Now().UTC().Format(time.RFC3339)+`"`, 1)
	}
	text, err := json.Marshal(map[string]metadata{"metadata": {a.UID, map[string]string{a.Key: value}}})
	if err != nil { // strings alone
		panic(err)
	}
	return text
}

// onlyMetadata asks for as little as possible of the patched object, which nobody reads.
const onlyMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Through writes by a client.
func Through(client kubernetes.Interface) Write {
	core := client.CoreV1().RESTClient()
	return func(ctx context.Context, a part.Annotation) error {
		return Gone(request(core, a).SetHeader("Accept", onlyMetadata).Body(Patch(a)).Do(ctx).Error())
	}
}

// request has the client not wait and try again by itself: the annotator has others to write meanwhile.
func request(core rest.Interface, a part.Annotation) *rest.Request {
	resource := a.Kind.Resource()
	path := []string{"/apis", resource.Group, resource.Version}
	if resource.Group == "" {
		path = []string{"/api", resource.Version}
	}
	if a.Namespace != "" {
		path = append(path, "namespaces", a.Namespace)
	}
	path = append(path, resource.Resource, a.Name)
	if a.Key == part.StatusKey {
		path = append(path, part.StatusKey)
	}
	return core.Patch(types.MergePatchType).MaxRetries(0).AbsPath(path...)
}

// Gone forgives an object that was deleted, or deleted and created anew.
func Gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Writer writes annotations beside the rows: neither waits for the other. Of an object's annotation
// only the newest value counts. What cannot be written rests for a while, and stands in nobody's way.
type Writer struct {
	write   Write
	there   func(objects.Key) bool // whether an object of the name still is
	failed  func(part.Annotation, error)
	refused func(objects.Problem)
	mu      sync.Mutex
	wanted  map[noteKey]*wish // not being written
	order   []noteKey         // of wanted that do not rest, each once, the longest wanted first
	writing map[noteKey]*wish
	wake    signal.Signal
}

type noteKey struct {
	kind            *objects.Kind
	namespace, name string
}

// wish is an annotation that is to be written, and what became of it so far.
type wish struct {
	part.Annotation
	resting bool
	pause   time.Duration // the last one, 0 before the first failure
	told    bool          // the object has the Event
}

// annotators is how many annotations are written at a time: few, so that a burst of pods does not make
// the API server slower for those who create them. One alone writes hundreds a second.
const annotators = 4

// The pauses of an annotation after its first failed write and after many, and when the API server has
// said that it does not want it. What failed is written again until it is not wanted any more.
const (
	firstAnnotationPause   = 500 * time.Millisecond
	lastAnnotationPause    = 8 * time.Second
	refusedAnnotationPause = time.Minute
	// annotationTimeout ends a request that hangs.
	annotationTimeout = 15 * time.Second
)

// New writes by write what is wanted of objects that are there. failed is told of each write that fails, and refused
// when the API server does not want it.
func New(write Write, there func(objects.Key) bool, failed func(part.Annotation, error),
	refused func(objects.Problem)) *Writer {
	return &Writer{write: write, there: there, failed: failed, refused: refused,
		wanted: map[noteKey]*wish{}, writing: map[noteKey]*wish{}, wake: signal.New()}
}

// Set has annotations written; one that is being written with this value is not written again.
func (w *Writer) Set(notes []part.Annotation) {
	w.mu.Lock()
	for _, a := range notes {
		k := noteKey{a.Kind, a.Namespace, a.Name}
		if now := w.writing[k]; now != nil && now.Annotation == a {
			w.forget(k)
		} else {
			w.want(k, a)
		}
	}
	w.mu.Unlock()
	w.wake.Set()
}

// want and forget keep order beside wanted; w.mu is held. Who waits or rests goes on doing so, unless
// another object has the name by now.
func (w *Writer) want(k noteKey, a part.Annotation) {
	if before := w.wanted[k]; before != nil && before.UID == a.UID {
		before.Annotation = a
		return
	}
	w.forget(k)
	w.wanted[k] = &wish{Annotation: a}
	w.order = append(w.order, k)
}

func (w *Writer) forget(k noteKey) {
	if before := w.wanted[k]; before != nil {
		delete(w.wanted, k)
		if i := slices.Index(w.order, k); i >= 0 {
			w.order = slices.Delete(w.order, i, i+1)
		}
	}
}

// rest has a wish wait before it is due again; w.mu is held.
func (w *Writer) rest(k noteKey, it *wish, pause time.Duration) {
	w.forget(k)
	it.resting, it.pause = true, pause
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
	for range annotators {
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
	for _, k := range w.order {
		if w.writing[k] != nil { // its writer looks again when it is done
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

// one writes an annotation; if that fails, it is written again later, or what is wanted by then.
func (w *Writer) one(ctx context.Context, it *wish) {
	timed, cancel := context.WithTimeout(ctx, annotationTimeout)
	err := w.write(timed, it.Annotation)
	cancel()
	if err != nil && ctx.Err() == nil {
		w.failed(it.Annotation, err)
		if !w.there(objects.Key{Kind: it.Kind, Name: objects.FullName(it.Namespace, it.Name)}) {
			err = nil // nobody asks for it any more
		} else if refusal(err) && !it.told {
			it.told = true
			w.refused(it.refusal(err))
		}
	}
	k := noteKey{it.Kind, it.Namespace, it.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.writing, k)
	newer := w.wanted[k]
	if err != nil && (newer == nil || newer.UID == it.UID) {
		if newer != nil {
			it.Annotation = newer.Annotation
		}
		w.rest(k, it, it.nextPause(err))
	}
	if len(w.order) > 0 {
		w.wake.Set()
	}
}

// refusal says that the API server will answer the same to the same request.
func refusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

func (it *wish) nextPause(err error) time.Duration {
	pause := min(max(2*it.pause, firstAnnotationPause), lastAnnotationPause)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, min(time.Duration(seconds)*time.Second, refusedAnnotationPause))
	}
	if refusal(err) {
		pause = refusedAnnotationPause
	}
	return pause
}

func (it *wish) refusal(err error) objects.Problem {
	meta := &metav1.ObjectMeta{Namespace: it.Namespace, Name: it.Name, UID: it.UID}
	if it.Key == part.StatusKey {
		return objects.Problemf(it.Kind, meta, "StatusRefused",
			"the API server refuses the object's status: %v; if permission is missing, give it to the controller; it is tried "+
				"again every minute", objects.Quoted(err.Error()))
	}
	if it.Key == contract.PolicyStatusAnnotation {
		return objects.Problemf(it.Kind, meta, "AnnotationRefused",
			"the API server refuses annotation %s, which only tells what became of the policy: %v; make the object's other "+
				"annotations shorter; if permission is missing, let the controller patch NetworkPolicies; it is tried again "+
				"every minute",
			it.Key, objects.Quoted(err.Error()))
	}
	return objects.Problemf(it.Kind, meta, "AnnotationRefused",
		"the API server refuses annotation %s, without which the object has no network: %v; make the object's other "+
			"annotations shorter, or create it anew; if permission is missing, give it to the controller; it is tried again "+
			"every minute",
		it.Key, objects.Quoted(err.Error()))
}

// Log is a function that logs writes that fail, and counts them.
func Log(log *slog.Logger, count func(string)) func(part.Annotation, error) {
	return func(a part.Annotation, err error) {
		if errors.Is(err, context.Canceled) {
			return
		}
		count("annotation")
		log.Warn("could not write an annotation; trying again", "annotation", a.Key,
			"object", fmt.Sprintf("%s %s", a.Kind, objects.FullName(a.Namespace, a.Name)), "error", err)
	}
}
