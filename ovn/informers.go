package ovn

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/ovn/objects"
)

// What the API server need not send: pods that have no node yet, share their node's address or are
// over, and Services and slices that belong to somebody else. An object that comes to match arrives as
// deleted.
const (
	podFields     = "spec.nodeName!=,spec.hostNetwork!=true,status.phase!=Succeeded,status.phase!=Failed"
	serviceLabels = "!" + objects.HeadlessLabel + ",!" + objects.ProxyNameLabel
)

// informers keep the trimmed objects and put what changes into the queue.
type informers struct {
	stores [objects.Kinds]cache.Store
	runs   [objects.Kinds]cache.Controller
}

func newInformers(client kubernetes.Interface, own dynamic.Interface, q *queue) *informers {
	all := &informers{}
	core := client.CoreV1()
	add(all, client, q, objects.NodeKind, &corev1.Node{}, metav1.ListOptions{},
		core.Nodes().List, core.Nodes().Watch)
	add(all, client, q, objects.PodKind, &corev1.Pod{}, metav1.ListOptions{FieldSelector: podFields},
		core.Pods("").List, core.Pods("").Watch)
	add(all, client, q, objects.ServiceKind, &corev1.Service{}, metav1.ListOptions{LabelSelector: serviceLabels},
		core.Services("").List, core.Services("").Watch)
	endpoints := client.DiscoveryV1().EndpointSlices("")
	add(all, client, q, objects.SliceKind, &discoveryv1.EndpointSlice{}, metav1.ListOptions{LabelSelector: serviceLabels},
		endpoints.List, endpoints.Watch)
	add(all, client, q, objects.NamespaceKind, &corev1.Namespace{}, metav1.ListOptions{},
		core.Namespaces().List, core.Namespaces().Watch)
	policies := client.NetworkingV1().NetworkPolicies("")
	add(all, client, q, objects.NetworkPolicyKind, &networkingv1.NetworkPolicy{}, metav1.ListOptions{},
		policies.List, policies.Watch)
	for _, k := range []objects.Kind{objects.EgressKind, objects.PoolKind, objects.ResolvedKind, objects.ServiceCIDRKind,
		objects.ClusterPolicyKind, objects.AdminPolicyKind, objects.BaselinePolicyKind} {
		all.register(q, k, &unstructured.Unstructured{}, newCustomSource(own, k.Resource()))
	}
	return all
}

func add[L runtime.Object](all *informers, client kubernetes.Interface, q *queue, k objects.Kind, object runtime.Object, selected metav1.ListOptions,
	list func(context.Context, metav1.ListOptions) (L, error), watches func(context.Context, metav1.ListOptions) (watch.Interface, error),
) {
	choose := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector, o.LabelSelector = selected.FieldSelector, selected.LabelSelector
		return o
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, choose(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return watches(ctx, choose(o))
		},
	}
	all.register(q, k, object, cache.ToListWatcherWithWatchListSemantics(source, client))
}

// register has an informer keep what a source has of a kind.
func (all *informers) register(q *queue, k objects.Kind, object runtime.Object, source cache.ListerWatcher) {
	touch := func(o any, fresh bool) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
			q.add(objects.Key{Kind: k, Name: name}, fresh)
		}
	}
	all.stores[k], all.runs[k] = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source,
		ObjectType:    object,
		Transform:     objects.Trim,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { touch(o, true) },
			UpdateFunc: func(before, after any) {
				if objects.Changed(before, after) {
					touch(after, false)
				}
			},
			DeleteFunc: func(o any) { touch(o, false) },
		},
	})
}

func (all *informers) start(ctx context.Context) {
	for _, run := range all.runs {
		go run.RunWithContext(ctx)
	}
}

// synced says whether every store holds what its first list brought.
func (all *informers) synced() bool {
	for _, run := range all.runs {
		if !run.HasSynced() {
			return false
		}
	}
	return true
}

// get is a lookup in the stores.
func (all *informers) get(e event) any {
	k, ok := e.(objects.Key)
	if !ok {
		return nil
	}
	object, _, _ := all.stores[k.Kind].GetByKey(k.Name) // a store in memory has no errors
	return object
}

// keys are those of all objects.
func (all *informers) keys() []event {
	var keys []event
	for k, store := range all.stores {
		for _, name := range store.ListKeys() {
			keys = append(keys, objects.Key{Kind: objects.Kind(k), Name: name})
		}
	}
	return keys
}
