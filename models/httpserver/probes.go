package httpserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Probes are what a program tells its operator's tools.
type Probes struct {
	// Alive says why only a restart can help the program. What it waits for is no reason. It is /healthz.
	Alive func() error
	// Ready says why the program cannot do its work. The detail is told after the error, or after "ok". It is /readyz.
	Ready func() (detail string, err error)
	// Metrics are /metrics.
	Metrics prometheus.Gatherer
	// Profiles has /debug/pprof answered, to clients of the host itself: it costs time, and says more than metrics.
	Profiles bool
}

// Handler answers the probes.
func (p Probes) Handler() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, "", p.Alive()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		detail, err := p.Ready()
		answer(w, detail, err)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Metrics, promhttp.HandlerOpts{}))
	if p.Profiles {
		mux.HandleFunc("/debug/pprof/", ofHost(pprof.Index))
		mux.HandleFunc("/debug/pprof/cmdline", ofHost(pprof.Cmdline))
		mux.HandleFunc("/debug/pprof/profile", ofHost(pprof.Profile))
		mux.HandleFunc("/debug/pprof/symbol", ofHost(pprof.Symbol))
		mux.HandleFunc("/debug/pprof/trace", ofHost(pprof.Trace))
	}
	return mux
}

// ofHost refuses clients of other hosts.
func ofHost(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !from.Addr().Unmap().IsLoopback() {
			http.Error(w, "profiles are for clients of the host itself: ask at a loopback address", http.StatusForbidden)
			return
		}
		handle(w, r)
	}
}

func answer(w http.ResponseWriter, detail string, err error) {
	status, text := http.StatusOK, "ok"
	if err != nil {
		status, text = http.StatusServiceUnavailable, err.Error()
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+detail+"\n") // a client that left needs no answer
}

// Listen opens the address of the key metrics-address at once, so that a port in use is an error at start. The function
// that it returns serves the handler until ctx is done. Without an address nothing is served.
func Listen(ctx context.Context, address string, handler http.Handler) (serve func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics-address: listen on %q: %w; choose a free address, or none", address, err)
	}
	return func() error {
		if err := Serve(ctx, listener, handler, Endpoints); err != nil {
			return fmt.Errorf("metrics-address: serve on %q: %w", address, err)
		}
		return nil
	}, nil
}
