package nodetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// FakeAPI is a fake client of client-go's whose watches are known. Its store has no versions, and a client never hears
// of what comes between its list and its watch: a test has to wait for the watch before it makes an object.
type FakeAPI struct {
	mu      sync.Mutex
	watched map[string]bool // by resource
}

// Watched notes the watches of a fake client from now on.
func Watched(client interface {
	PrependWatchReactor(resource string, reaction clienttesting.WatchReactionFunc)
	Tracker() clienttesting.ObjectTracker
}) *FakeAPI {
	f := &FakeAPI{}
	f.Forget()
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		all, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		f.mu.Lock()
		defer f.mu.Unlock()
		f.watched[action.GetResource().Resource] = true
		return true, all, err
	})
	return f
}

// Forget has the next watches waited for, as those of a client that starts anew.
func (f *FakeAPI) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watched = map[string]bool{}
}

// Await waits until somebody watches these resources, by their names in the plural.
func (f *FakeAPI) Await(tb testing.TB, resources ...string) {
	tb.Helper()
	for _, resource := range resources {
		Eventually(tb, 10*time.Second, func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if !f.watched[resource] {
				return fmt.Errorf("%s are not watched", resource)
			}
			return nil
		})
	}
}
