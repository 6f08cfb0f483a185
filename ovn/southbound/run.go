package southbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/weftnet/weft/models/httpserver"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/models/telemetry"
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
	// profiling: serve /debug/pprof there, too, to clients of the host itself.
	Profiling bool
}

// Validate reports every mistake at once.
func (c Config) Validate() error {
	var errs []error
	if len(c.Listen) == 0 {
		errs = append(errs, errors.New("listen: is empty; give HOST:PORT, such as 192.0.2.1:6642"))
	}
	for _, address := range c.Listen {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			errs = append(errs, fmt.Errorf("listen: %q is not HOST:PORT; write it like 192.0.2.1:6642 or [2001:db8::1]:6642",
				address))
		}
	}
	if path, ok := strings.CutPrefix(c.Database, "unix:"); !ok || path == "" {
		errs = append(errs, fmt.Errorf("ovn-southbound: %q is not unix:PATH; give the server's socket, which alone "+
			"knows no role", c.Database))
	}
	for key, value := range map[string]string{"certificate": c.Certificate, "private-key": c.PrivateKey,
		"node-ca": c.NodeCA} {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s: is empty; name the PEM file", key))
		}
	}
	return errors.Join(errs...)
}

// Run guards a Southbound until ctx is done. Its metrics have more collectors beside its own.
func Run(ctx context.Context, c Config, more ...prometheus.Collector) error {
	files := &credentials{files: certificates.Files{Certificate: c.Certificate, Key: c.PrivateKey, Authorities: c.NodeCA}}
	if _, err := files.current(); err != nil {
		return err
	}
	m := newMetrics()
	m.credentials, m.profiles = files, c.Profiling
	m.registry.MustRegister(append(more, certificates.NewExpiry(
		certificates.Watched{Purpose: "certificate", File: c.Certificate},
		certificates.Watched{Purpose: "node-ca", File: c.NodeCA}))...)
	group, ctx := errgroup.WithContext(ctx)
	serve, err := httpserver.Listen(ctx, c.MetricsAddress, m.probes().Handler())
	if err != nil {
		return err
	}
	group.Go(serve)
	group.Go(func() error { return c.guard(ctx, files, m) })
	return group.Wait()
}

// guard waits for the server, and takes nodes from then on.
func (c Config) guard(ctx context.Context, files *credentials, m *metrics) error {
	model, err := sb.FullDatabaseModel()
	if err != nil {
		return err
	}
	client, err := ovsdb.Connect(ctx, ovsdb.Config{Endpoints: c.Database, Model: model, Tables: tables, AnyMember: true,
		Probe: restart / 2})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	defer client.Close()
	go m.follow(ctx, client)
	m.registry.MustRegister(&behind{client: client, now: time.Now})
	guard := &Guard{replica: &replica{Client: client}, credentials: files, metrics: m, log: slog.Default(),
		recheck: recheck, patience: patience, dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", strings.TrimPrefix(c.Database, "unix:"))
		}}
	others := &remotes{replica: guard.replica, kept: m.remote, log: slog.Default()}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { others.run(ctx); return nil })
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
	registry                            *prometheus.Registry
	clients, remote                     prometheus.Gauge
	refused, deferred, handshakes, full prometheus.Counter
	lost                                atomic.Pointer[time.Time] // since when there is no server, nil while there is one
	credentials                         *credentials
	profiles                            bool
}

func newMetrics() *metrics {
	m := &metrics{
		registry: telemetry.NewRegistry(),
		clients:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_southbound_clients", Help: "Connections of nodes."}),
		remote: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_southbound_remote_chassis",
			Help: "Remote chassis in the Southbound that its guards have made: each stands for a node of another zone."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_southbound_refused_requests_total",
			Help: "Requests of nodes that were answered with a refusal because they are not about the node's own rows, " +
				"are of a kind that no node needs, or are beyond a bound. If the guard closes the connection instead, it " +
				"does not count here."}),
		deferred: prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_southbound_deferred_requests_total",
			Help: "Requests of nodes that were answered with the demand to ask again, because the guard cannot judge them " +
				"yet or the node has written much lately."}),
		handshakes: prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_southbound_failed_handshakes_total",
			Help: "Connections that were closed because the TLS handshake failed, showed no certificate or took too long."}),
		full: prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_southbound_refused_connections_total",
			Help: "Connections that were closed because a bound was reached: that of a node, of an address or of " +
				"all."}),
	}
	m.registry.MustRegister(m.clients, m.remote, m.refused, m.deferred, m.handshakes, m.full)
	began := time.Now()
	m.lost.Store(&began)
	return m
}

// follow notes since when the guard has no server.
func (m *metrics) follow(ctx context.Context, client *ovsdb.Client) {
	for {
		m.lost.Store(nil)
		if client.WaitFor(ctx, func() bool { return !client.Connected() }) != nil {
			return
		}
		now := time.Now()
		m.lost.Store(&now)
		if client.WaitFor(ctx, client.Connected) != nil {
			return
		}
	}
}

// restart is after how long without its server the guard is worth a new start.
const restart = time.Minute

// serves says why no node could be served now: without its server the guard judges nothing, and nobody takes a
// certificate that counts no more.
func (m *metrics) serves() error {
	if m.lost.Load() != nil {
		return errors.New("the Southbound's server cannot be reached")
	}
	return m.credentials.fit()
}

// lives says why the guard does not come to serve by itself.
func (m *metrics) lives() error {
	if lost := m.lost.Load(); lost != nil && time.Since(*lost) > restart {
		return fmt.Errorf("the Southbound's server cannot be reached since %s", lost.UTC().Format(time.RFC3339))
	}
	return nil
}

// probes say whether nodes are served, and whether a new start would help.
func (m *metrics) probes() httpserver.Probes {
	return httpserver.Probes{
		Metrics: m.registry, Alive: m.lives, Profiles: m.profiles,
		Ready: func() (detail string, err error) { return "", m.serves() },
	}
}
