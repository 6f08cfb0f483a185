package nodetest

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// FakeAPI is client-go's fake client, whose watches have no gap after their lists.
func FakeAPI(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	WithoutGaps(client)
	return client
}

// WithoutGaps has an informer hear of what comes between its list and its watch, as the real API server does. The fake
// client alone loses it, because its store has no versions. To be called before reactors of a test's own are added.
//
// So a list by an informer starts the watch, and its version is the watch's name.
func WithoutGaps(client interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	PrependWatchReactor(resource string, reaction clienttesting.WatchReactionFunc)
	Tracker() clienttesting.ObjectTracker
}) {
	var mu sync.Mutex
	last, started := 0, map[string]watch.Interface{} // by version
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list, ok := action.(clienttesting.ListActionImpl)
		if !ok || list.ListOptions.ResourceVersion == "" {
			return false, nil, nil // not by an informer: no watch follows
		}
		events, err := client.Tracker().Watch(list.GetResource(), list.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		objects, err := client.Tracker().List(list.GetResource(), list.GetKind(), list.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		of, err := meta.ListAccessor(objects)
		if err != nil {
			return true, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		last++
		version := strconv.Itoa(last)
		of.SetResourceVersion(version)
		started[version] = events
		return true, objects, nil
	})
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		asked, ok := action.(clienttesting.WatchActionImpl)
		if !ok {
			return false, nil, nil
		}
		mu.Lock()
		defer mu.Unlock()
		version := asked.ListOptions.ResourceVersion
		events, ok := started[version]
		delete(started, version)
		return ok, events, nil
	})
}
