package writeback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
)

// TestRequest pins what is sent: a merge patch that holds for one incarnation of the object
// only, and asks for no more than metadata back.
func TestRequest(t *testing.T) {
	type seen struct{ method, path, contentType, accept, body string }
	var got seen
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = seen{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Accept"), string(body)}
		w.WriteHeader(status)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	write := Through(client)
	pod := part.Annotate(objects.PodKind,
		&metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"}, contract.PodNetworkAnnotation,
		part.Text(`{"mac":"m"}`))
	if err := write(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	if want := (seen{"PATCH", "/api/v1/namespaces/default/pods/web", "application/merge-patch+json", onlyMetadata,
		`{"metadata":{"uid":"u1","annotations":{"weft.net/pod-network":"{\"mac\":\"m\"}"}}}`}); got != want {
		t.Errorf("sent %+v, want %+v", got, want)
	}
	if err := write(context.Background(), part.Annotate(objects.NodeKind,
		&metav1.ObjectMeta{Name: "l1", UID: "u2"}, contract.NodeNetworkAnnotation, part.Text("{}"))); err != nil ||
		got.path != "/api/v1/nodes/l1" {
		t.Errorf("node: %v at %s", err, got.path)
	}
	guard := part.PatchStatus(objects.ClusterPolicyKind, &metav1.ObjectMeta{Name: "guard", UID: "u3"}, ready{true})
	if err := write(context.Background(), guard); err != nil ||
		got.path != "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies/guard/status" ||
		got.body != `{"metadata":{"uid":"u3"},"status":{"ready":true}}` {
		t.Errorf("status: %v, %+v", err, got)
	}
	for code, fails := range map[int]bool{http.StatusNotFound: false, http.StatusConflict: false,
		http.StatusForbidden: true, http.StatusInternalServerError: true} {
		status = code
		if err := write(context.Background(), pod); (err != nil) != fails {
			t.Errorf("status %d: %v", code, err)
		}
	}
}

// ready is a status.
type ready struct {
	Ready bool `json:"ready"`
}

func (r ready) At(time.Time) any { return r }

// notebook is what was written, and how the writes go.
type notebook struct {
	mu      sync.Mutex
	values  []string
	fail    bool
	errs    map[string]error // by name
	gone    []string         // keys of objects that are not there any more
	tried   []string
	takes   time.Duration
	events  []string
	abreast int
	most    int
}

func (n *notebook) write(_ context.Context, p part.Patch) error {
	n.mu.Lock()
	n.abreast++
	n.most = max(n.most, n.abreast)
	takes := n.takes
	n.mu.Unlock()
	time.Sleep(takes)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.abreast--
	n.tried = append(n.tried, p.Name)
	if err := n.errs[p.Name]; err != nil {
		return err
	}
	if n.fail {
		return errors.New("unavailable")
	}
	n.values = append(n.values, p.Name+"="+p.Body.(part.Annotation).Value.At(time.Now()))
	return nil
}

// look lets the test see what was done, once all are at rest.
func (n *notebook) look(see func()) {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	see()
}

// writing is a writer at work.
func writing(t *testing.T, n *notebook) (w *Writer, failures *int) {
	ctx, cancel := context.WithCancel(context.Background())
	failures = new(int)
	w = New(n.write, func(k objects.Key) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !slices.Contains(n.gone, k.Name)
	}, func(part.Patch, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		*failures++
	}, func(p objects.Problem) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.events = append(n.events, p.String())
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w, failures
}

func note(name, value string) part.Patch {
	return part.Annotate(objects.PodKind, &metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u1"},
		contract.PodNetworkAnnotation, part.Text(value))
}

func TestWriterWritesAbreast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{takes: time.Second}
		w, _ := writing(t, n)
		var notes []part.Patch
		for i := range 100 {
			notes = append(notes, note(string(rune('A'+i)), "x"))
		}
		w.Set(notes)
		time.Sleep(100/writers*time.Second + time.Second/2)
		synctest.Wait()
		if len(n.values) != 100 || n.most != writers {
			t.Errorf("%d written, %d abreast", len(n.values), n.most)
		}
	})
}

func TestWriterWritesTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{takes: time.Second}
		w, _ := writing(t, n)
		w.Set([]part.Patch{note("web", "1")})
		synctest.Wait()
		w.Set([]part.Patch{note("web", "1")}) // being written
		w.Set([]part.Patch{note("web", "2")})
		w.Set([]part.Patch{note("web", "3")})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(n.values) != 2 || n.values[0] != "web=1" || n.values[1] != "web=3" || n.most != 1 {
			t.Errorf("wrote %s, %d abreast", n.values, n.most)
		}
	})
}

func TestWriterWritesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{takes: time.Second}
		w, _ := writing(t, n)
		for range 3 { // the object's other events come before its annotation
			w.Set([]part.Patch{note("web", "1")})
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(n.values) != 1 {
			t.Errorf("wrote %s", n.values)
		}
	})
}

func TestWriterTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{fail: true}
		w, failures := writing(t, n)
		w.Set([]part.Patch{note("web", "1"), note("db", "1")})
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		n.mu.Lock()
		n.fail = false
		if *failures < 4 || *failures > 10 || len(n.values) > 0 {
			t.Errorf("%d failures, wrote %s", *failures, n.values)
		}
		n.mu.Unlock()
		time.Sleep(lastPause)
		synctest.Wait()
		if len(n.values) != 2 {
			t.Errorf("wrote %s", n.values)
		}
	})
}

// TestPatchesOfWhatIsGone: nobody waits for them, whatever the API server says.
func TestPatchesOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{errs: map[string]error{"web": tooLong}}
		w, failures := writing(t, n)
		w.Set([]part.Patch{note("web", "1")})
		time.Sleep(3 * refusedPause / 2)
		n.look(func() {
			if *failures != 2 {
				t.Errorf("%d tries of an object that is there", *failures)
			}
			n.gone = []string{"default/web"}
		})
		time.Sleep(5 * refusedPause)
		n.look(func() {
			if *failures != 3 || len(w.wanted) > 0 {
				t.Errorf("%d tries, and %d are to come", *failures, len(w.wanted))
			}
		})
	})
}

// TestPatchesAreMadeInTurn: whoever waits longest is next, also when it is wanted anew meanwhile.
func TestPatchesAreMadeInTurn(t *testing.T) {
	w := New(nil, nil, nil, nil)
	var want []part.Patch
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		w.Set([]part.Patch{note(name, "old")})
		want = append(want, note(name, "new"))
	}
	w.Set([]part.Patch{note("e", "new"), note("a", "new"), note("f", "new"), note("b", "new"), note("d", "new"),
		note("c", "new")})
	for _, expected := range want {
		if got := w.next(); got == nil || !got.Equal(expected) {
			t.Errorf("next is %v; want %v", got, expected)
		}
	}
	if got := w.next(); got != nil {
		t.Errorf("%v is left", got)
	}
}

// tooLong is what the API server says to one more annotation of a pod that is full of them.
var tooLong = apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "fat",
	field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", 262144)})

// TestRefusedPatchesStandInNobodysWay: their objects are told once, they are tried once a minute,
// and all others are written at once.
func TestRefusedPatchesStandInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{errs: map[string]error{}}
		w, _ := writing(t, n)
		var fat []part.Patch
		for i := range 3 * writers {
			name := fmt.Sprint("fat-", i)
			n.errs[name] = tooLong
			fat = append(fat, note(name, "x"))
		}
		w.Set(fat)
		synctest.Wait()
		w.Set([]part.Patch{note("web", "1")})
		n.look(func() {
			if len(n.values) != 1 {
				t.Errorf("wrote %s beside those that are refused", n.values)
			}
		})
		for range 10 { // the objects' other events
			time.Sleep(5 * time.Second)
			w.Set(fat)
		}
		n.look(func() {
			if len(n.tried) != 1+len(fat) {
				t.Errorf("tried %s within a minute", n.tried)
			}
		})
		another := note("fat-0", "x")
		another.UID = "another"
		w.Set([]part.Patch{another})
		n.look(func() {
			if len(n.tried) != 2+len(fat) {
				t.Error("a pod waits for another one that had its name")
			}
		})
		n.look(func() { delete(n.errs, "fat-1") })
		time.Sleep(refusedPause)
		n.look(func() {
			if !slices.Contains(n.values, "fat-1=x") {
				t.Errorf("wrote %s after a minute", n.values)
			}
		})
		n.look(func() {
			if len(n.events) != 1+len(fat) || !strings.Contains(n.events[0], "AnnotationRefused") ||
				!strings.Contains(n.events[0], "262144") {
				t.Errorf("events %s", n.events)
			}
		})
	})
}

// TestRefusalsTellWhatIsAtStake: a pod without its annotation has no network, a policy is in force all the same.
func TestRefusalsTellWhatIsAtStake(t *testing.T) {
	for _, c := range []struct {
		part.Patch
		want, not string
	}{
		{note("web", "x"), "no network", "policy"},
		{part.Annotate(objects.NetworkPolicyKind, &metav1.ObjectMeta{}, contract.PolicyStatusAnnotation, part.Text("{}")),
			"let the controller patch NetworkPolicies", "no network"},
		{part.PatchStatus(objects.ClusterPolicyKind, &metav1.ObjectMeta{}, ready{}), "give it to the controller",
			"no network"},
	} {
		it := &wish{Patch: c.Patch}
		text := it.refusal(tooLong).Message
		if !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
			t.Errorf("%s: %s", c.Kind, text)
		}
	}
}

// TestWriterHonoursRetryAfter of an API server that has too much to do.
func TestWriterHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{errs: map[string]error{"web": apierrors.NewTooManyRequests("later", 20)}}
		w, _ := writing(t, n)
		w.Set([]part.Patch{note("web", "1")})
		time.Sleep(19 * time.Second)
		n.look(func() {
			if len(n.tried) != 1 {
				t.Errorf("%d tries in 19 s", len(n.tried))
			}
		})
		time.Sleep(2 * time.Second)
		n.look(func() {
			if len(n.tried) != 2 || len(n.events) > 0 {
				t.Errorf("%d tries in 21 s, events %s", len(n.tried), n.events)
			}
		})
	})
}

// TestNodesAreToldAtAPace: the first write of a node's PodNetworks is made at once, and what comes soon after goes
// together. No node waits for another one, and a right that was asked for is given by whatever write is made.
func TestNodesAreToldAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // four at a time write
		var written []string
		begin := time.Now()
		w := New(func(_ context.Context, p part.Patch) error {
			networks := p.Body.(part.Networks)
			mu.Lock()
			defer mu.Unlock()
			written = append(written, fmt.Sprintf("%s %d %v at %v", p.Name, len(networks.Pods), networks.Grant,
				time.Since(begin)))
			return nil
		}, func(objects.Key) bool { return true }, nil, nil)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		told := func(node string, pods int, grant bool) {
			w.Set([]part.Patch{part.WriteNetworks(nil, part.Networks{
				Node: objects.ReferenceTo(objects.NodeKind, &metav1.ObjectMeta{Name: node}),
				Pods: make([]contract.PodAddresses, pods), Grant: grant})})
			synctest.Wait()
		}
		told("a", 1, false)
		for n := 2; n < 12; n++ {
			time.Sleep(5 * time.Millisecond)
			told("a", n, n == 5)
		}
		told("b", 1, false)
		told("c", 1, false)
		told("d", 1, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		told("a", 12, false)
		// The writers that wake by a clock have not waited for the test, so each of its looks takes the lock.
		sofar := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Sorted(slices.Values(written))
		}
		want := []string{"a 1 false at 0s", "b 1 false at 50ms", "c 1 false at 50ms", "d 1 false at 50ms",
			"a 11 true at 100ms", "a 12 false at 1m0.05s"}
		slices.Sort(want)
		if got := sofar(); !slices.Equal(got, want) {
			t.Errorf("written %q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		before := len(want)
		for n := range 80 {
			told(fmt.Sprint("n", n), 1, false)
		}
		if n := len(sofar()) - before; n != networksBurst {
			t.Errorf("of 80 nodes %d are told at once", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(sofar()) - before; n != 80 {
			t.Errorf("of 80 nodes %d are told after two seconds", n)
		}
		stop()
		<-done
	})
}

// TestNetworksThatAreRefused are told at the Node.
func TestNetworksThatAreRefused(t *testing.T) {
	node := &metav1.ObjectMeta{Name: "n1", UID: "u1"}
	it := &wish{Patch: part.WriteNetworks(nil, part.Networks{Node: objects.ReferenceTo(objects.NodeKind, node)})}
	p := it.refusal(apierrors.NewForbidden(corev1.Resource("roles"), "node:n1", errors.New("no right")))
	if text := p.String(); p.Object.Name != "n1" || p.Object.UID != "u1" || p.Kind != objects.NodeKind ||
		!strings.Contains(text, "PodNetworks") || !strings.Contains(text, "no right") {
		t.Error(text)
	}
}
