package watch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
)

// What the API server need not send: pods that have no node yet, share their node's address or are
// over, and Services and slices that belong to somebody else. An object that comes to match arrives as
// deleted.
const (
	podFields     = "spec.nodeName!=,spec.hostNetwork!=true,status.phase!=Succeeded,status.phase!=Failed"
	serviceLabels = "!" + objects.HeadlessLabel + ",!" + objects.ProxyNameLabel
)

// Informers keep the trimmed objects and put what changes into the queue.
type Informers struct {
	stores map[*objects.Kind]cache.Store
	runs   []cache.Controller
}

// NewInformers keep objects of some kinds. Those that every API server has are listed by its typed client.
func NewInformers(client kubernetes.Interface, own dynamic.Interface, q *Queue, kinds []*objects.Kind) *Informers {
	all := &Informers{stores: map[*objects.Kind]cache.Store{}}
	core, none := client.CoreV1(), metav1.ListOptions{}
	endpoints, policies := client.DiscoveryV1().EndpointSlices(""), client.NetworkingV1().NetworkPolicies("")
	typed := map[*objects.Kind]*cache.ListWatch{
		objects.NodeKind: selected(none, core.Nodes().List, core.Nodes().Watch),
		objects.PodKind: selected(metav1.ListOptions{FieldSelector: podFields},
			core.Pods("").List, core.Pods("").Watch),
		objects.ServiceKind: selected(metav1.ListOptions{LabelSelector: serviceLabels},
			core.Services("").List, core.Services("").Watch),
		objects.SliceKind: selected(metav1.ListOptions{LabelSelector: serviceLabels},
			endpoints.List, endpoints.Watch),
		objects.NamespaceKind:     selected(none, core.Namespaces().List, core.Namespaces().Watch),
		objects.NetworkPolicyKind: selected(none, policies.List, policies.Watch),
	}
	for _, k := range kinds {
		if source, ok := typed[k]; ok {
			all.register(q, k, cache.ToListWatcherWithWatchListSemantics(source, client))
		} else {
			all.register(q, k, newCustomSource(own, k))
		}
	}
	return all
}

// selected lists and watches the objects that some options select.
func selected[L runtime.Object](options metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error),
	watches func(context.Context, metav1.ListOptions) (watch.Interface, error),
) *cache.ListWatch {
	choose := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector, o.LabelSelector = options.FieldSelector, options.LabelSelector
		return o
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, choose(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return watches(ctx, choose(o))
		},
	}
}

// register has an informer keep what a source has of a kind.
func (all *Informers) register(q *Queue, k *objects.Kind, source cache.ListerWatcher) {
	touch := func(o any, fresh bool) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
			q.Add(objects.Key{Kind: k, Name: name}, fresh)
		}
	}
	store, run := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source,
		ObjectType:    k.Object(),
		Transform:     k.Trim,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { touch(o, true) },
			UpdateFunc: func(before, after any) {
				if k.Changed(before, after) {
					touch(after, false)
				}
			},
			DeleteFunc: func(o any) { touch(o, false) },
		},
	})
	all.stores[k], all.runs = store, append(all.runs, run)
}

// Start has the informers list and watch until ctx is done.
func (all *Informers) Start(ctx context.Context) {
	for _, run := range all.runs {
		go run.RunWithContext(ctx)
	}
}

// Synced says whether every store holds what its first list brought.
func (all *Informers) Synced() bool {
	for _, run := range all.runs {
		if !run.HasSynced() {
			return false
		}
	}
	return true
}

// Get is a lookup in the stores.
func (all *Informers) Get(e part.Event) any {
	k, ok := e.(objects.Key)
	if !ok {
		return nil
	}
	object, _, _ := all.stores[k.Kind].GetByKey(k.Name) // a store in memory has no errors
	return object
}

// Keys are those of all objects.
func (all *Informers) Keys() []part.Event {
	var keys []part.Event
	for k, store := range all.stores {
		for _, name := range store.ListKeys() {
			keys = append(keys, objects.Key{Kind: k, Name: name})
		}
	}
	return keys
}
