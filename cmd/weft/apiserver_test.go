package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A host that is lost answers nothing, and closes nothing either. What waits for its API server's news is told soon.
func TestASilentAPIServerIsLeft(t *testing.T) {
	for _, v := range signsOfLife {
		t.Setenv(v.name, "") // and restored in the end
	}
	askAPIServers()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the client speaks %s", r.Proto)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	var lost atomic.Bool
	wire := &net.Dialer{}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host:            server.URL,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true, NextProtos: []string{"h2"}},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := wire.DialContext(ctx, network, address)
			return &silenced{Conn: conn, lost: &lost}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // while client-go by itself would wait for 45 s
	defer cancel()
	watch, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	lost.Store(true)
	select {
	case event := <-watch.ResultChan():
		if event.Type != apiwatch.Error && event.Type != "" {
			t.Errorf("the watch told %v", event)
		}
	case <-ctx.Done():
		t.Error("the watch has not noticed that the API server is lost")
	}
}

// silenced is a connection to a host that may be lost: then what is sent goes nowhere, and what came is not heard.
type silenced struct {
	net.Conn
	lost *atomic.Bool
}

func (s *silenced) Write(p []byte) (int, error) {
	if s.lost.Load() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (s *silenced) Read(p []byte) (int, error) {
	for {
		n, err := s.Conn.Read(p)
		if err != nil || !s.lost.Load() {
			return n, err
		}
	}
}
