package southbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// Config is what `weft southbound` is told. The key in front of each comment is the user's name for the field.
type Config struct {
	// listen: HOST:PORT where nodes find their Southbound.
	Listen []string
	// ovn-southbound: the server's socket, unix:PATH.
	Database string
	// certificate, private-key: PEM files of the guard's own; node-ca: of the authority of nodes' certificates. They
	// are read again when they change.
	Certificate, PrivateKey, NodeCA string
	// metrics-address: of /metrics, /healthz and /readyz; empty serves none.
	MetricsAddress string
}

// Validate reports every mistake at once.
func (c Config) Validate() error {
	var errs []error
	if len(c.Listen) == 0 {
		errs = append(errs, errors.New("listen: is empty; give HOST:PORT, such as 192.0.2.1:6642"))
	}
	for _, address := range c.Listen {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			errs = append(errs, fmt.Errorf("listen: %q is not HOST:PORT; write it like 192.0.2.1:6642 or [2001:db8::1]:6642", address))
		}
	}
	if path, ok := strings.CutPrefix(c.Database, "unix:"); !ok || path == "" {
		errs = append(errs, fmt.Errorf("ovn-southbound: %q is not unix:PATH; give the server's socket, which alone knows no role", c.Database))
	}
	for key, value := range map[string]string{"certificate": c.Certificate, "private-key": c.PrivateKey, "node-ca": c.NodeCA} {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s: is empty; name the PEM file", key))
		}
	}
	return errors.Join(errs...)
}

// Run guards a Southbound until ctx is done.
func Run(ctx context.Context, c Config) error {
	files := &credentials{files: certificates.Files{Certificate: c.Certificate, Key: c.PrivateKey, Authorities: c.NodeCA}}
	if _, err := files.current(); err != nil {
		return err
	}
	m := newMetrics()
	group, ctx := errgroup.WithContext(ctx)
	if c.MetricsAddress != "" {
		server := &http.Server{Addr: c.MetricsAddress, Handler: m.handler()}
		context.AfterFunc(ctx, func() { server.Close() })
		group.Go(func() error {
			if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("metrics-address: %w", err)
			}
			return nil
		})
	}
	group.Go(func() error { return c.guard(ctx, files, m) })
	return group.Wait()
}

// guard waits for the server, and takes nodes from then on.
func (c Config) guard(ctx context.Context, files *credentials, m *metrics) error {
	model, err := sb.FullDatabaseModel()
	if err != nil {
		return err
	}
	client, err := ovsdb.Connect(ctx, ovsdb.Config{Endpoints: c.Database, Model: model, Tables: tables, AnyMember: true})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	defer client.Close()
	m.ready.Store(client)
	guard := &Guard{replica: &replica{Client: client}, credentials: files, metrics: m, log: slog.Default(), recheck: recheck, patience: patience, dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", strings.TrimPrefix(c.Database, "unix:"))
	}}
	group, ctx := errgroup.WithContext(ctx)
	for _, address := range c.Listen {
		group.Go(func() error {
			listener, err := listen(ctx, address)
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			return guard.serve(ctx, listener)
		})
	}
	slog.Info("the Southbound is guarded", "listen", strings.Join(c.Listen, ","), "server", c.Database)
	return group.Wait()
}

// listen waits for an address that the host does not have yet, as when it starts.
func listen(ctx context.Context, address string) (net.Listener, error) {
	for told := false; ; told = true {
		listener, err := net.Listen("tcp", address)
		if !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return listener, err
		}
		if !told {
			slog.Warn("the host does not have the address yet; it is waited for", "address", address)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type metrics struct {
	registry                  *prometheus.Registry
	clients                   prometheus.Gauge
	refused, handshakes, full prometheus.Counter
	ready                     atomic.Pointer[ovsdb.Client]
}

func newMetrics() *metrics {
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		clients:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_southbound_clients", Help: "Nodes' connections."}),
		refused:    prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_southbound_refused_requests_total", Help: "Requests of nodes for what is not their own."}),
		handshakes: prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_southbound_failed_handshakes_total", Help: "Connections without a certificate that counts."}),
		full:       prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_southbound_refused_connections_total", Help: "Connections beyond the bounds of one node, one address or all."}),
	}
	m.registry.MustRegister(m.clients, m.refused, m.handshakes, m.full, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if c := m.ready.Load(); c == nil || !c.Connected() {
			http.Error(w, "the Southbound's server cannot be reached", http.StatusServiceUnavailable)
		}
	})
	return mux
}
