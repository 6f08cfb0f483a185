package watch

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/weftnet/weft/ovn/objects"
)

// customSource lists and watches a kind that not every API server knows: weft's own, and ServiceCIDR. Where
// it is not known, or the controller may not read it, there are no objects, and it is looked again now and
// then.
type customSource struct {
	resource dynamic.ResourceInterface
	absent   bool
	pause    time.Duration
	told     func(error) // of absence, once it begins
}

// absencePause is how long a new CustomResourceDefinition may wait to be noticed.
const absencePause = 5 * time.Second

func (s *customSource) missing(err error) bool {
	now := apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
	if now && !s.absent {
		s.told(err)
	}
	s.absent = now
	return now
}

// ListWithContext is part of [cache.ListerWatcherWithContext].
func (s *customSource) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := s.resource.List(ctx, o)
	if s.missing(err) {
		return &unstructured.UnstructuredList{Object: map[string]any{}}, nil
	}
	return list, err
}

// WatchWithContext is part of [cache.ListerWatcherWithContext].
func (s *customSource) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	before := s.absent
	w, err := s.resource.Watch(ctx, o)
	switch missing := s.missing(err); {
	case missing != before: // have it listed what there is now
		if err == nil {
			w.Stop()
		} else if !missing {
			return nil, err
		}
		return nil, apierrors.NewResourceExpired("the API server has begun or ceased to serve the resource")
	case !missing:
		return w, err
	}
	nothing := watch.NewFake()
	time.AfterFunc(s.pause, nothing.Stop)
	return nothing, nil
}

// List is part of [cache.ListerWatcher].
func (s *customSource) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is part of [cache.ListerWatcher].
func (s *customSource) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// IsWatchListSemanticsUnSupported has the reflector list first: only a list tells absence from emptiness.
func (s *customSource) IsWatchListSemanticsUnSupported() bool { return true }

func newCustomSource(own dynamic.Interface, k *objects.Kind) *customSource {
	resource := k.Resource()
	within := own.Resource(resource).Namespace(k.Within())
	return &customSource{resource: within, pause: absencePause, told: func(err error) {
		slog.Info("the API server does not let the controller read objects of this kind, which is left out until it does; "+
			"give permission, and create the CustomResourceDefinition of a kind of weft's own, if they are wanted",
			"resource", resource.GroupResource().String(), "error", err)
	}}
}
