package nodetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// fakes are client-go's fake clients.
type fakes interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	PrependWatchReactor(resource string, reaction clienttesting.WatchReactionFunc)
	Tracker() clienttesting.ObjectTracker
}

// TestFakeAPIHasNoGap: an object is made, one is changed and one is deleted between an informer's list and its watch.
// The typed fake and the dynamic one differ, and so do objects of a namespace and of the cluster.
func TestFakeAPIHasNoGap(t *testing.T) {
	pods, nodes := corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("nodes")
	for resource, namespace := range map[schema.GroupVersionResource]string{pods: "default", nodes: ""} {
		typed := func(name, label string) runtime.Object {
			of := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"is": label}}
			if resource == pods {
				return &corev1.Pod{ObjectMeta: of}
			}
			return &corev1.Node{ObjectMeta: of}
		}
		dynamic := func(name, label string) runtime.Object {
			o := &unstructured.Unstructured{}
			if err := scheme.Scheme.Convert(typed(name, label), o, nil); err != nil {
				t.Fatal(err)
			}
			return o
		}
		try := func(name string, client fakes, object func(name, label string) runtime.Object,
			informer cache.SharedIndexInformer) {
			t.Run(name+" "+resource.Resource, func(t *testing.T) {
				tracker := client.Tracker()
				for _, name := range []string{"stays", "changes", "goes"} {
					if err := tracker.Create(resource, object(name, "old"), namespace); err != nil {
						t.Fatal(err)
					}
				}
				WithoutGaps(client)
				client.PrependWatchReactor(resource.Resource, func(clienttesting.Action) (bool, watch.Interface, error) {
					if err := errors.Join(tracker.Create(resource, object("comes", "new"), namespace),
						tracker.Update(resource, object("changes", "new"), namespace),
						tracker.Delete(resource, namespace, "goes")); err != nil {
						t.Error(err)
					}
					return false, nil, nil
				})
				go informer.RunWithContext(t.Context())
				want := []string{"changes new", "comes new", "stays old"}
				Eventually(t, time.Second, func() error {
					var got []string
					for _, o := range informer.GetStore().List() {
						of := o.(metav1.Object)
						got = append(got, of.GetName()+" "+of.GetLabels()["is"])
					}
					if slices.Sort(got); !slices.Equal(got, want) {
						return fmt.Errorf("the informer has %q, want %q", got, want)
					}
					return nil
				})
			})
		}
		client := fake.NewClientset()
		generic, err := informers.NewSharedInformerFactory(client, 0).ForResource(resource)
		if err != nil {
			t.Fatal(err)
		}
		try("typed", client, typed, generic.Informer())
		untyped := dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
		try("dynamic", untyped, dynamic,
			dynamicinformer.NewDynamicSharedInformerFactory(untyped, 0).ForResource(resource).Informer())
	}
}
