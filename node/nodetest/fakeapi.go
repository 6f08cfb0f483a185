package nodetest

import (
	"reflect"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// listed is what a list gave.
type listed struct {
	kind    schema.GroupVersionKind
	objects map[string]runtime.Object // by namespace and name
}

// WithoutGaps has an informer hear of what comes between its list and its watch, as the real API server does. The fake
// client alone loses it, because its store has no versions. To be called before reactors of a test's own are added.
//
// So each list gets a version, and a watch from a version begins with what has changed since. That holds for lists by
// others than informers, too: the fakes keep no options of a list of all namespaces, by which an informer is known.
func WithoutGaps(client interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	PrependWatchReactor(resource string, reaction clienttesting.WatchReactionFunc)
	Tracker() clienttesting.ObjectTracker
}) {
	var mu sync.Mutex
	lists := map[string]listed{} // by version
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list, ok := action.(clienttesting.ListActionImpl)
		if !ok {
			return false, nil, nil
		}
		result, objects, err := listNow(client.Tracker(), list.GetResource(), list.GetKind(), list.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		version := strconv.Itoa(len(lists) + 1)
		lists[version] = result
		of, err := meta.ListAccessor(objects)
		if err != nil {
			return true, nil, err
		}
		of.SetResourceVersion(version)
		return true, objects, nil
	})
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		asked, ok := action.(clienttesting.WatchActionImpl)
		if !ok {
			return false, nil, nil
		}
		mu.Lock()
		before, ok := lists[asked.ListOptions.ResourceVersion]
		mu.Unlock()
		if !ok {
			return false, nil, nil
		}
		events, err := client.Tracker().Watch(asked.GetResource(), asked.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		now, _, err := listNow(client.Tracker(), asked.GetResource(), before.kind, asked.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		now.tellSince(before, events.(*watch.RaceFreeFakeWatcher))
		return true, events, nil
	})
}

// listNow lists a resource.
func listNow(tracker clienttesting.ObjectTracker, resource schema.GroupVersionResource, kind schema.GroupVersionKind,
	namespace string) (listed, runtime.Object, error) {
	list, err := tracker.List(resource, kind, namespace)
	if err != nil {
		return listed{}, nil, err
	}
	objects := map[string]runtime.Object{}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		of, err := meta.Accessor(o)
		if err == nil {
			objects[of.GetNamespace()+"/"+of.GetName()] = o.DeepCopyObject()
		}
		return err
	})
	return listed{kind, objects}, list, err
}

// tellSince begins a watch with what has changed since an earlier list.
func (l listed) tellSince(before listed, events *watch.RaceFreeFakeWatcher) {
	for key, o := range l.objects {
		switch was, known := before.objects[key]; {
		case !known:
			events.Add(o)
		case !reflect.DeepEqual(was, o):
			events.Modify(o)
		}
	}
	for key, o := range before.objects {
		if _, stays := l.objects[key]; !stays {
			events.Delete(o)
		}
	}
}
