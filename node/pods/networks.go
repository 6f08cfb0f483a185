package pods

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/telemetry"
)

// refusedPatience is how long the API server may refuse a node its PodNetworks before the agent says that it cannot
// read it. An API server that has just started refuses more than it must.
const refusedPatience = 15 * time.Second

// networks follow the node's PodNetworks while the controller keeps one.
type networks struct {
	objects dynamic.ResourceInterface
	node    string
	changed func()
	wake    signal.Signal // is given when wanted changes
	// patience is how long the API server may refuse before the agent says that it cannot read.
	patience time.Duration

	mu     sync.Mutex
	asked  bool // it is known whether the controller keeps one
	wanted bool // it does
	before bool // an earlier process of the agent has said that it reads the object
	synced bool // the object was read, or there is none
	// lines are those of the object, by UID, nil where there is no object.
	lines        map[string]contract.PodAddresses
	refusedSince time.Time // zero when it is not refused
	refused      bool      // for longer than the patience
}

func newNetworks(own dynamic.Interface, node string, changed func()) *networks {
	return &networks{objects: own.Resource(v1alpha1.PodNetworksResource).Namespace(contract.PodNetworksNamespace),
		node: node, changed: changed, wake: signal.New(), patience: refusedPatience}
}

// set takes in whether the controller keeps an object for this node, and whether the agent has said that it reads it.
func (n *networks) set(wanted, before bool) {
	n.mu.Lock()
	changed := !n.asked || n.wanted != wanted
	n.asked, n.wanted, n.before = true, wanted, before
	n.mu.Unlock()
	if changed {
		n.wake.Set()
		n.changed()
	}
}

// reads says whether the agent reads the object; where it does not know yet, it says what it has said before.
func (n *networks) reads(before bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !n.asked:
		return before
	case !n.wanted || n.refused:
		return false
	}
	return n.synced || before
}

// lineOf is what the object says of a pod. It counts if an object is there, or may be there and was not read yet: then
// known is false.
func (n *networks) lineOf(uid string) (line contract.PodAddresses, counts, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !n.wanted || n.refused:
		return line, false, true
	case !n.synced:
		return line, n.before, false
	}
	return n.lines[uid], n.lines != nil, true
}

// run follows the object whenever there may be one, until ctx ends.
func (n *networks) run(ctx context.Context) {
	stop := func() {}
	defer func() { stop() }()
	following := false
	for {
		n.mu.Lock()
		wanted := n.wanted
		n.mu.Unlock()
		if wanted != following {
			stop()
			stop = func() {}
			if following = wanted; wanted {
				stop = n.follow(ctx)
			}
		}
		select {
		case <-n.wake:
		case <-ctx.Done():
			return
		}
	}
}

// follow begins to follow the object. What it returns ends that.
func (n *networks) follow(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source{n}, ObjectType: &unstructured.Unstructured{}, Transform: keepLines,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    n.read,
			UpdateFunc: func(_, after any) { n.read(after) },
			DeleteFunc: func(any) { n.read(nil) },
		},
	})
	var parts sync.WaitGroup
	parts.Go(func() { informer.RunWithContext(ctx) })
	parts.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			n.update(func() { n.synced = true })
		}
	})
	return func() {
		cancel()
		parts.Wait()
		n.update(func() { n.synced, n.lines, n.refusedSince, n.refused = false, nil, time.Time{}, false })
	}
}

// read takes in the object as it is now.
func (n *networks) read(object any) {
	n.update(func() {
		n.lines = nil
		if now, ok := object.(*kept); ok {
			n.lines = now.lines
		}
	})
}

func (n *networks) update(change func()) {
	n.mu.Lock()
	change()
	n.mu.Unlock()
	n.changed()
}

// listed takes in whether the API server lets the node read.
func (n *networks) listed(err error) {
	n.mu.Lock()
	refused := n.refused
	switch {
	case err == nil:
		n.refusedSince, n.refused = time.Time{}, false
	case !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err): // it may let it another time
	case n.refusedSince.IsZero():
		n.refusedSince = time.Now()
	case time.Since(n.refusedSince) >= n.patience:
		n.refused = true
	}
	changed := n.refused != refused
	n.mu.Unlock()
	if changed {
		n.changed()
	}
}

// kept is a PodNetworks as far as the agent reads it.
type kept struct {
	metav1.ObjectMeta
	lines map[string]contract.PodAddresses
}

func keepLines(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	k := &kept{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName(),
		ResourceVersion: u.GetResourceVersion()}, lines: map[string]contract.PodAddresses{}}
	list, _, _ := unstructured.NestedStringSlice(u.Object, "pods") // what is of another form has no lines
	for _, text := range list {
		line, err := contract.ParsePodAddresses(text)
		if err != nil {
			slog.Warn("the node's PodNetworks has a line that the controller does not write; it is left out",
				telemetry.Object("PodNetworks", k.Namespace, k.Name), "error", err)
			continue
		}
		k.lines[line.UID] = line
	}
	return k, nil
}

// source lists and watches the node's object alone: a node may not read another one's.
type source struct{ *networks }

func (s source) options(o metav1.ListOptions) metav1.ListOptions {
	o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.node).String()
	return o
}

// ListWithContext is part of [cache.ListerWatcherWithContext].
func (s source) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := s.objects.List(ctx, s.options(o))
	s.listed(err)
	return list, err
}

// WatchWithContext is part of [cache.ListerWatcherWithContext].
func (s source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return s.objects.Watch(ctx, s.options(o))
}

// List is part of [cache.ListerWatcher].
func (s source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is part of [cache.ListerWatcher].
func (s source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// IsWatchListSemanticsUnSupported has the reflector list first: a list says whether the node may read.
func (s source) IsWatchListSemanticsUnSupported() bool { return true }
