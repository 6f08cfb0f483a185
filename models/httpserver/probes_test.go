package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What a probe finds wrong is told with its reason, and the detail is told in any case.
func TestProbesTellTheirReasons(t *testing.T) {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_tests_total", Help: "Tests."})
	registry := prometheus.NewRegistry()
	registry.MustRegister(counter)
	var dead, unready error
	handler := Probes{
		Alive: func() error { return dead }, Metrics: registry,
		Ready: func() (string, error) { return "\nnode1 well", unready },
	}.Handler()
	ask := func(path string, status int, text string) {
		t.Helper()
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		if body := recorder.Body.String(); recorder.Code != status || !strings.Contains(body, text) {
			t.Errorf("%s: %d %q; want %d %q", path, recorder.Code, body, status, text)
		}
	}
	ask("/healthz", http.StatusOK, "ok\n")
	ask("/readyz", http.StatusOK, "ok\nnode1 well\n")
	ask("/metrics", http.StatusOK, "weft_tests_total 0")
	dead, unready = errors.New("stuck"), errors.New("no certificate")
	ask("/healthz", http.StatusServiceUnavailable, "stuck\n")
	ask("/readyz", http.StatusServiceUnavailable, "no certificate\nnode1 well\n")
}

// Profiles are for the host itself, and only where they are asked for.
func TestProfilesAreForTheHostItself(t *testing.T) {
	for _, c := range []struct {
		on     bool
		client string
		want   int
	}{
		{false, "127.0.0.1:4000", http.StatusNotFound}, {true, "127.0.0.1:4000", http.StatusOK},
		{true, "[::1]:4000", http.StatusOK}, {true, "[::ffff:127.0.0.1]:4000", http.StatusOK},
		{true, "192.0.2.1:4000", http.StatusForbidden}, {true, "", http.StatusForbidden},
	} {
		for _, page := range []string{"", "cmdline", "goroutine?debug=1"} {
			request := httptest.NewRequest(http.MethodGet, "/debug/pprof/"+page, nil)
			request.RemoteAddr = c.client
			recorder := httptest.NewRecorder()
			Probes{Profiles: c.on, Metrics: prometheus.NewRegistry()}.Handler().ServeHTTP(recorder, request)
			if recorder.Code != c.want {
				t.Errorf("profiles %v, client %q, %q: %d, want %d", c.on, c.client, page, recorder.Code, c.want)
			}
		}
	}
}

// A port in use is an error at start, and an empty address asks for no server.
func TestListenOpensItsAddressAtOnce(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := other.Addr().String()
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	if _, err := Listen(t.Context(), address, handler); err == nil || !strings.Contains(err.Error(), "metrics-address") {
		t.Errorf("a port in use: %v", err)
	}
	other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	serve, err := Listen(ctx, address, handler)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve() }()
	response, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	cancel()
	if err := <-served; err != nil {
		t.Errorf("it ends with %v", err)
	}
	if serve, err = Listen(t.Context(), "", handler); err != nil || serve() != nil {
		t.Errorf("without an address: %v", err)
	}
}
