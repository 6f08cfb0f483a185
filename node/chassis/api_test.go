//go:build linux

package chassis

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	kubetesting "k8s.io/client-go/testing"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/nodetest"
)

// api is an API server that compares and swaps Leases, and that several clients reach, each of which
// can be cut off.
type api struct {
	tracker kubetesting.ObjectTracker

	mu      sync.Mutex
	version int
}

func newAPI(tb testing.TB, objects ...runtime.Object) *api {
	tb.Helper()
	a := &api{tracker: kubetesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())}
	for _, object := range objects {
		if err := a.tracker.Add(object); err != nil {
			tb.Fatal(err)
		}
	}
	return a
}

// link is one client's way to the API server.
type link struct {
	mu    sync.Mutex
	calls chan struct{} // closed while calls pass
	watch chan struct{} // closed while events pass
}

func newLink() *link {
	l := &link{}
	l.thaw()
	return l
}

// freeze lets calls, events or both hang, whatever deadline a caller has set.
func (l *link) freeze(calls, events bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if calls {
		l.calls = make(chan struct{})
	}
	if events {
		l.watch = make(chan struct{})
	}
}

func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, gate := range []*chan struct{}{&l.calls, &l.watch} {
		if *gate == nil {
			*gate = make(chan struct{})
		}
		select {
		case <-*gate:
		default:
			close(*gate)
		}
	}
}

func (l *link) pass(gate *chan struct{}) {
	l.mu.Lock()
	open := *gate
	l.mu.Unlock()
	<-open
}

// client reaches the API server by l.
func (a *api) client(l *link) *fake.Clientset {
	c := &fake.Clientset{}
	linked := linkedClient{c, a, l}
	linked.PrependWatchReactor("*", func(action kubetesting.Action) (bool, watch.Interface, error) {
		events, err := a.tracker.Watch(action.GetResource(), action.GetNamespace())
		return true, events, err
	})
	linked.PrependReactor("*", "*", a.react)
	nodetest.WithoutGaps(linked)
	return c
}

// linkedClient has all calls of a client and all events for it pass by a link.
type linkedClient struct {
	*fake.Clientset
	api  *api
	link *link
}

func (c linkedClient) Tracker() kubetesting.ObjectTracker { return c.api.tracker }

func (c linkedClient) PrependReactor(verb, resource string, react kubetesting.ReactionFunc) {
	c.Clientset.PrependReactor(verb, resource, func(action kubetesting.Action) (bool, runtime.Object, error) {
		c.link.pass(&c.link.calls)
		c.api.mu.Lock()
		defer c.api.mu.Unlock()
		return react(action)
	})
}

func (c linkedClient) PrependWatchReactor(resource string, react kubetesting.WatchReactionFunc) {
	c.Clientset.PrependWatchReactor(resource, func(action kubetesting.Action) (bool, watch.Interface, error) {
		handled, events, err := react(action)
		if !handled || err != nil {
			return handled, nil, err
		}
		return true, newStream(events, func() { c.link.pass(&c.link.watch) }), nil
	})
}

// stream passes on a watch's events through a gate. Those that wait are kept: the tracker panics when a
// hundred of them are not taken.
type stream struct {
	source watch.Interface
	events chan watch.Event
	once   sync.Once
	ended  chan struct{}
}

func newStream(source watch.Interface, gate func()) *stream {
	s := &stream{source: source, events: make(chan watch.Event), ended: make(chan struct{})}
	more, mu, queue := signal.New(), sync.Mutex{}, []watch.Event{}
	go func() {
		for e := range source.ResultChan() {
			mu.Lock()
			queue = append(queue, e)
			mu.Unlock()
			more.Set()
		}
	}()
	go func() {
		defer close(s.events)
		for {
			select {
			case <-s.ended:
				return
			case <-more:
			}
			mu.Lock()
			batch := queue
			queue = nil
			mu.Unlock()
			for _, e := range batch {
				gate()
				select {
				case <-s.ended:
					return
				case s.events <- e:
				}
			}
		}
	}()
	return s
}

func (s *stream) ResultChan() <-chan watch.Event { return s.events }

func (s *stream) Stop() {
	s.once.Do(func() {
		s.source.Stop()
		close(s.ended)
	})
}

func (a *api) react(action kubetesting.Action) (bool, runtime.Object, error) {
	if action.GetResource().Resource == "leases" {
		if err := a.compareAndSwap(action); err != nil {
			return true, nil, err
		}
	}
	return kubetesting.ObjectReaction(a.tracker)(action)
}

// compareAndSwap refuses what was made from an old version, and gives a new one.
func (a *api) compareAndSwap(action kubetesting.Action) error {
	stored := func(name string) *coordinationv1.Lease {
		object, err := a.tracker.Get(action.GetResource(), action.GetNamespace(), name)
		if err != nil {
			return nil
		}
		return object.(*coordinationv1.Lease)
	}
	conflict := func(name string) error {
		return apierrors.NewConflict(action.GetResource().GroupResource(), name, fmt.Errorf("it has changed"))
	}
	switch action := action.(type) {
	case kubetesting.UpdateActionImpl:
		lease := action.GetObject().(*coordinationv1.Lease)
		if now := stored(lease.Name); now != nil && (now.ResourceVersion != lease.ResourceVersion || now.UID != lease.UID) {
			return conflict(lease.Name)
		}
		a.stamp(lease)
	case kubetesting.CreateActionImpl:
		lease := action.GetObject().(*coordinationv1.Lease)
		a.stamp(lease)
		lease.UID = types.UID("uid-" + lease.ResourceVersion)
	case kubetesting.DeleteActionImpl:
		now, want := stored(action.Name), action.DeleteOptions.Preconditions
		if now != nil && want != nil && (*want.ResourceVersion != now.ResourceVersion || *want.UID != now.UID) {
			return conflict(action.Name)
		}
	}
	return nil
}

func (a *api) stamp(lease *coordinationv1.Lease) {
	a.version++
	lease.ResourceVersion = strconv.Itoa(a.version)
}
