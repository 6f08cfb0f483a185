//go:build linux

package chassis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// serveHTTP offers what a chassis host asks of an API server to other processes: Nodes, Leases and
// Events, in JSON. It returns a kubeconfig.
func (a *api) serveHTTP(tb testing.TB) (kubeconfig string) {
	tb.Helper()
	s := &httpAPI{a.client(newLink()), a}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes", s.nodes)
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/events", s.event)
	const leases = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
	mux.HandleFunc("GET "+leases, s.leases)
	mux.HandleFunc("POST "+leases, s.lease)
	for _, verb := range []string{"GET", "PUT", "DELETE"} {
		mux.HandleFunc(verb+" "+leases+"/{name}", s.lease)
	}
	server := httptest.NewServer(mux)
	tb.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	kubeconfig = filepath.Join(tb.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: "+
		"c, context: {cluster: c}}]\ncurrent-context: c\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return kubeconfig
}

type httpAPI struct {
	client kubernetes.Interface
	api    *api
}

func (s *httpAPI) answer(w http.ResponseWriter, object runtime.Object, err error) {
	code := http.StatusOK
	if err != nil {
		status := apierrors.NewInternalError(err)
		errors.As(err, &status)
		status.ErrStatus.Kind, status.ErrStatus.APIVersion = "Status", "v1"
		object, code = &status.ErrStatus, int(status.ErrStatus.Code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // a client that was killed needs no answer
}

func (s *httpAPI) version() string {
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	return strconv.Itoa(s.api.version + 1)
}

func (s *httpAPI) nodes(w http.ResponseWriter, r *http.Request) {
	list, err := s.client.CoreV1().Nodes().List(r.Context(), metav1.ListOptions{})
	if r.FormValue("watch") == "" {
		list.ResourceVersion = s.version()
		s.answer(w, list, err)
		return
	}
	events, err := s.client.CoreV1().Nodes().Watch(r.Context(), metav1.ListOptions{})
	var first []runtime.Object
	for i := range list.Items {
		first = append(first, &list.Items[i])
	}
	s.stream(w, r, first, events, err)
}

func (s *httpAPI) leases(w http.ResponseWriter, r *http.Request) {
	leases := s.client.CoordinationV1().Leases(r.PathValue("namespace"))
	if r.FormValue("watch") == "" {
		list, err := leases.List(r.Context(), metav1.ListOptions{})
		list.ResourceVersion = s.version()
		s.answer(w, list, err)
		return
	}
	events, err := leases.Watch(r.Context(), metav1.ListOptions{}) // before the list: nothing is missed between them
	list, _ := leases.List(r.Context(), metav1.ListOptions{})
	var first []runtime.Object
	for i := range list.Items {
		first = append(first, &list.Items[i])
	}
	s.stream(w, r, first, events, err)
}

// stream sends what there is and then what changes. A list that was asked for as a stream is refused,
// as older servers do.
func (s *httpAPI) stream(w http.ResponseWriter, r *http.Request, first []runtime.Object, events watch.Interface,
	err error) {
	if r.FormValue("sendInitialEvents") != "" {
		err = apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
	}
	if err != nil {
		s.answer(w, nil, err)
		return
	}
	defer events.Stop()
	send := func(kind watch.EventType, object runtime.Object) error {
		kinds, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			return err
		}
		object = object.DeepCopyObject()
		object.GetObjectKind().SetGroupVersionKind(kinds[0])
		if err := json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object}); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	}
	w.Header().Set("Content-Type", "application/json")
	for _, object := range first {
		if send(watch.Added, object) != nil {
			return
		}
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case e, ok := <-events.ResultChan():
			if !ok || send(e.Type, e.Object) != nil {
				return
			}
		}
	}
}

func (s *httpAPI) lease(w http.ResponseWriter, r *http.Request) {
	leases, name := s.client.CoordinationV1().Leases(r.PathValue("namespace")), r.PathValue("name")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.answer(w, nil, err)
		return
	}
	var object runtime.Object
	switch r.Method {
	case http.MethodGet:
		object, err = leases.Get(r.Context(), name, metav1.GetOptions{})
	case http.MethodDelete:
		var options metav1.DeleteOptions
		if _, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &options); err == nil {
			object, err = &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}},
				leases.Delete(r.Context(), name, options)
		}
	default:
		var lease coordinationv1.Lease
		if _, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &lease); err != nil {
			break
		}
		if r.Method == http.MethodPost {
			object, err = leases.Create(r.Context(), &lease, metav1.CreateOptions{})
		} else {
			object, err = leases.Update(r.Context(), &lease, metav1.UpdateOptions{})
		}
	}
	s.answer(w, object, err)
}

func (s *httpAPI) event(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var event corev1.Event
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &event)
	}
	if err != nil {
		s.answer(w, nil, err)
		return
	}
	created, err := s.client.CoreV1().Events(r.PathValue("namespace")).Create(r.Context(), &event, metav1.CreateOptions{})
	s.answer(w, created, err)
}
