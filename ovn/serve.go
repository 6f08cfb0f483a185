package ovn

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weftnet/weft/models/httpserver"
)

// endpoints are what an operator's tools ask the controller.
type endpoints struct {
	metrics   *metrics
	profiling bool
	// alive and ready say what is wrong, nil when nothing is.
	alive, ready func() error
}

func (e *endpoints) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", answer(e.alive))
	mux.HandleFunc("GET /readyz", answer(e.ready))
	if e.profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func answer(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// serve opens address at once, so that a port in use is an error at start, and serves until ctx is
// done. The function that it returns waits for the end.
func (e *endpoints) serve(ctx context.Context, address string) (wait func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics-address: listen on %q: %w; choose a free address, or none", address, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- httpserver.Serve(ctx, listener, e.handler(), httpserver.Endpoints) }()
	return func() error {
		if err := <-ended; err != nil {
			return fmt.Errorf("metrics-address: serve on %q: %w", address, err)
		}
		return nil
	}, nil
}
