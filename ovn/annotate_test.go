package ovn

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/models/contract"
)

// TestAnnotationRequest pins what is sent: a merge patch that holds for one incarnation of the object
// only, and asks for no more than metadata back.
func TestAnnotationRequest(t *testing.T) {
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
	write := annotateThrough(client)
	pod := annotation{podKind, "default", "web", "u1", contract.PodNetworkAnnotation, `{"mac":"m"}`}
	if err := write(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	if want := (seen{"PATCH", "/api/v1/namespaces/default/pods/web", "application/merge-patch+json", onlyMetadata,
		`{"metadata":{"uid":"u1","annotations":{"weft.net/pod-network":"{\"mac\":\"m\"}"}}}`}); got != want {
		t.Errorf("sent %+v, want %+v", got, want)
	}
	if err := write(context.Background(), annotation{nodeKind, "", "l1", "u2", contract.NodeNetworkAnnotation, "{}"}); err != nil || got.path != "/api/v1/nodes/l1" {
		t.Errorf("node: %v at %s", err, got.path)
	}
	if !json.Valid([]byte(got.body)) {
		t.Errorf("body %s", got.body)
	}
	for code, fails := range map[int]bool{http.StatusNotFound: false, http.StatusConflict: false, http.StatusForbidden: true, http.StatusInternalServerError: true} {
		status = code
		if err := write(context.Background(), pod); (err != nil) != fails {
			t.Errorf("status %d: %v", code, err)
		}
	}
}

// notebook is what was written, and how the writes go.
type notebook struct {
	mu      sync.Mutex
	values  []string
	fail    bool
	takes   time.Duration
	abreast int
	most    int
}

func (n *notebook) write(_ context.Context, a annotation) error {
	n.mu.Lock()
	n.abreast++
	n.most = max(n.most, n.abreast)
	takes := n.takes
	n.mu.Unlock()
	time.Sleep(takes)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.abreast--
	if n.fail {
		return errors.New("unavailable")
	}
	n.values = append(n.values, a.name+"="+a.value)
	return nil
}

func annotating(t *testing.T, n *notebook) (w *annotator, failures *int) {
	ctx, cancel := context.WithCancel(context.Background())
	failures = new(int)
	w = newAnnotator(n.write, func(annotation, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		*failures++
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w, failures
}

func note(name, value string) annotation {
	return annotation{kind: podKind, namespace: "default", name: name, value: value}
}

func TestAnnotatorWritesAbreast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{takes: time.Second}
		w, _ := annotating(t, n)
		var notes []annotation
		for i := range 100 {
			notes = append(notes, note(string(rune('A'+i)), "x"))
		}
		w.set(notes)
		time.Sleep(100/annotators*time.Second + time.Second/2)
		synctest.Wait()
		if len(n.values) != 100 || n.most != annotators {
			t.Errorf("%d written, %d abreast", len(n.values), n.most)
		}
	})
}

func TestAnnotatorWritesTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{takes: time.Second}
		w, _ := annotating(t, n)
		w.set([]annotation{note("web", "1")})
		synctest.Wait()
		w.set([]annotation{note("web", "1")}) // being written
		w.set([]annotation{note("web", "2")})
		w.set([]annotation{note("web", "3")})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(n.values) != 2 || n.values[0] != "web=1" || n.values[1] != "web=3" || n.most != 1 {
			t.Errorf("wrote %s, %d abreast", n.values, n.most)
		}
	})
}

func TestAnnotatorWritesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{takes: time.Second}
		w, _ := annotating(t, n)
		for range 3 { // the object's other events come before its annotation
			w.set([]annotation{note("web", "1")})
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(n.values) != 1 {
			t.Errorf("wrote %s", n.values)
		}
	})
}

func TestAnnotatorTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{fail: true}
		w, failures := annotating(t, n)
		w.set([]annotation{note("web", "1"), note("db", "1")})
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		n.mu.Lock()
		n.fail = false
		if *failures < 4 || *failures > 10 || len(n.values) > 0 {
			t.Errorf("%d failures, wrote %s", *failures, n.values)
		}
		n.mu.Unlock()
		time.Sleep(lastAnnotationPause)
		synctest.Wait()
		if len(n.values) != 2 {
			t.Errorf("wrote %s", n.values)
		}
	})
}

// TestAnnotationsAreWrittenInTurn: whoever waits longest is next, also when it is wanted anew meanwhile.
func TestAnnotationsAreWrittenInTurn(t *testing.T) {
	w := newAnnotator(nil, nil)
	note := func(name, value string) annotation {
		return annotation{kind: podKind, namespace: "default", name: name, key: contract.PodNetworkAnnotation, value: value}
	}
	var want []annotation
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		w.set([]annotation{note(name, "old")})
		want = append(want, note(name, "new"))
	}
	w.set([]annotation{note("e", "new"), note("a", "new"), note("f", "new"), note("b", "new"), note("d", "new"), note("c", "new")})
	for _, expected := range want {
		if got, ok := w.next(); !ok || got != expected {
			t.Errorf("next is %v, %v; want %v", got, ok, expected)
		}
	}
	if got, ok := w.next(); ok {
		t.Errorf("%v is left", got)
	}
}
