package domains

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/contract"
)

// policyResources are the kinds of policies that name domains. A cluster has one of them, or none.
var policyResources = []schema.GroupVersionResource{
	{Group: "policy.networking.k8s.io", Version: "v1alpha2", Resource: "clusternetworkpolicies"},
	{Group: "policy.networking.k8s.io", Version: "v1alpha1", Resource: "adminnetworkpolicies"},
}

// policy is a policy cut down to the domain names in it, in normal form.
type policy struct {
	metav1.ObjectMeta
	names []string
}

// trimPolicy is an informer's transform. It does not look at actions: a rule that may have no names is
// refused, and a name too many opens nothing.
func trimPolicy(object any) (any, error) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	p := &policy{ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion()}}
	for _, rule := range items(o.Object, "spec", "egress") {
		for _, peer := range items(rule, "to") {
			names, _, _ := unstructured.NestedStringSlice(peer, "domainNames") // what is none has no names
			for _, name := range names {
				p.names = append(p.names, contract.DomainName(name))
			}
		}
	}
	return p, nil
}

// items are the objects of a list in an object.
func items(object map[string]any, fields ...string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(object, fields...) // what is none has no items
	var maps []map[string]any
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			maps = append(maps, m)
		}
	}
	return maps
}

// newPolicies watches a kind of policies.
func newPolicies(own dynamic.Interface, kind schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
	resource := own.Resource(kind)
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}, own), &unstructured.Unstructured{}, 0, cache.Indexers{})
	told := false
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		switch {
		case apierrors.IsNotFound(err): // the cluster does not have the kind, or not yet
		case apierrors.IsForbidden(err):
			if !told {
				slog.WarnContext(ctx, "the agent may not watch "+kind.Resource+": until its user may list and watch them, domain "+
					"names in policies stand for no addresses", "error", err)
			}
			told = true
		default:
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	}); err != nil {
		return nil, err
	}
	return informer, informer.SetTransform(trimPolicy)
}
