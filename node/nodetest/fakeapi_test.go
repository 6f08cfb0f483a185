package nodetest

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
)

// TestFakeAPIHasNoGap: a pod is made and one is deleted between an informer's list and its watch.
func TestFakeAPIHasNoGap(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	client := FakeAPI(pod("stays"), pod("goes"))
	client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		if err := client.Tracker().Add(pod("comes")); err != nil {
			t.Error(err)
		}
		err := client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "default", "goes")
		if err != nil {
			t.Error(err)
		}
		return false, nil, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Lister().Pods("default")
	t.Cleanup(factory.Shutdown)
	factory.Start(t.Context().Done())
	Eventually(t, time.Minute, func() error {
		_, stays := pods.Get("stays")
		_, comes := pods.Get("comes")
		if _, goes := pods.Get("goes"); goes == nil {
			return errors.New("the deleted pod is there")
		}
		return errors.Join(stays, comes)
	})
}
