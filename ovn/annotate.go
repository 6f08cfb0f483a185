package ovn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// writeAnnotation writes one annotation of one object. An object that is gone, or is another one of
// the same name by now, is not an error.
type writeAnnotation func(context.Context, annotation) error

// patch is a merge patch that fails on an object of another UID.
func (a annotation) patch() []byte {
	type metadata struct {
		UID         types.UID         `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	}
	text, err := json.Marshal(map[string]metadata{"metadata": {a.uid, map[string]string{a.key: a.value}}})
	if err != nil { // strings alone
		panic(err)
	}
	return text
}

// onlyMetadata asks for as little as possible of the patched object, which nobody reads.
const onlyMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

func annotateThrough(client kubernetes.Interface) writeAnnotation {
	core := client.CoreV1().RESTClient()
	return func(ctx context.Context, a annotation) error {
		return gone(request(core, a).SetHeader("Accept", onlyMetadata).Body(a.patch()).Do(ctx).Error())
	}
}

func request(core rest.Interface, a annotation) *rest.Request {
	r := core.Patch(types.MergePatchType).Name(a.name)
	if a.kind == nodeKind {
		return r.Resource("nodes")
	}
	return r.Resource("pods").Namespace(a.namespace)
}

// gone forgives an object that was deleted, or deleted and created anew.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// annotator writes annotations beside the rows: neither waits for the other. Of an object's annotation
// only the newest value counts.
type annotator struct {
	write   writeAnnotation
	failed  func(annotation, error)
	mu      sync.Mutex
	wanted  map[noteKey]annotation // not yet being written
	order   []noteKey              // of wanted, each once, the longest wanted first
	writing map[noteKey]annotation
	wake    chan struct{}
}

type noteKey struct {
	kind            kind
	namespace, name string
}

// annotators is how many annotations are written at a time: few, so that a burst of pods does not make
// the API server slower for those who create them. One alone writes hundreds a second.
const annotators = 4

func newAnnotator(write writeAnnotation, failed func(annotation, error)) *annotator {
	return &annotator{write: write, failed: failed,
		wanted: map[noteKey]annotation{}, writing: map[noteKey]annotation{}, wake: make(chan struct{}, 1)}
}

// set has annotations written; one that is being written with this value is not written again.
func (w *annotator) set(notes []annotation) {
	w.mu.Lock()
	for _, a := range notes {
		k := noteKey{a.kind, a.namespace, a.name}
		if w.writing[k] == a {
			w.forget(k)
		} else {
			w.want(k, a)
		}
	}
	w.mu.Unlock()
	w.signal()
}

// want and forget keep order beside wanted; w.mu is held.
func (w *annotator) want(k noteKey, a annotation) {
	if _, waits := w.wanted[k]; !waits {
		w.order = append(w.order, k)
	}
	w.wanted[k] = a
}

func (w *annotator) forget(k noteKey) {
	if _, waits := w.wanted[k]; waits {
		delete(w.wanted, k)
		i := slices.Index(w.order, k)
		w.order = slices.Delete(w.order, i, i+1)
	}
}

func (w *annotator) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run writes until ctx is done, and returns when the last write has ended.
func (w *annotator) run(ctx context.Context) {
	var group sync.WaitGroup
	for range annotators {
		group.Go(func() {
			pause := firstAnnotationPause
			for ctx.Err() == nil {
				if a, ok := w.next(); ok {
					if w.one(ctx, a, pause) {
						pause = firstAnnotationPause
					} else {
						pause = min(2*pause, lastAnnotationPause)
					}
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

// next takes the one that has waited longest; if there are more, another worker is woken.
func (w *annotator) next() (annotation, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.order {
		if _, busy := w.writing[k]; busy { // its writer looks again when it is done
			continue
		}
		a := w.wanted[k]
		w.forget(k)
		w.writing[k] = a
		if len(w.wanted) > 0 {
			w.signal()
		}
		return a, true
	}
	return annotation{}, false
}

// The pauses of a worker after one failed write and after many. What failed is written again until it
// is not wanted any more.
const (
	firstAnnotationPause = 500 * time.Millisecond
	lastAnnotationPause  = 8 * time.Second
)

// one writes an annotation, and says whether it could.
func (w *annotator) one(ctx context.Context, a annotation, pause time.Duration) bool {
	k := noteKey{a.kind, a.namespace, a.name}
	err := w.write(ctx, a)
	if err != nil && ctx.Err() == nil {
		w.failed(a, err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	w.mu.Lock()
	delete(w.writing, k)
	if _, newer := w.wanted[k]; err != nil && !newer && ctx.Err() == nil {
		w.want(k, a)
	}
	more := len(w.wanted) > 0
	w.mu.Unlock()
	if more {
		w.signal()
	}
	return err == nil
}

func logAnnotation(log *slog.Logger, count func(string)) func(annotation, error) {
	return func(a annotation, err error) {
		if errors.Is(err, context.Canceled) {
			return
		}
		count("annotation")
		log.Warn("could not write an annotation; trying again", "annotation", a.key,
			"object", fmt.Sprintf("%s %s", a.kind, key(a.namespace, a.name)), "error", err)
	}
}
