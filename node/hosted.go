package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/ctlookup"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/local"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openflow"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/ovsdb"
)

// agentTunnel is the node's end of the streams of a chassis host, where the node has one, and of `weft observe`.
type agentTunnel struct {
	config      nodeconfig.Config
	credentials tunnel.Credentials
	changed     signal.Signal // a stream has come or gone
	// switchReady says why a chassis host gets no way to the database yet: its ovn-controller makes br-int, and
	// ovs-vswitchd ends over a bridge without a switch.
	switchReady func() error
	// awaitLookup says how an ovn-controller's flows go to br-int, once that is known.
	awaitLookup func(context.Context) bool
	// metrics are the agent's.
	metrics prometheus.Gatherer
	// captures answers who asks for packets.
	captures func(context.Context) (net.Conn, error)
	// connections opens a stream of those that the datapath remembers.
	connections func(context.Context) (net.Conn, error)
	// probes answers who asks for a probe.
	probes func(context.Context) (net.Conn, error)

	mu      sync.Mutex
	open    map[tunnel.Target]int
	problem error // of the listener
	closed  bool  // nobody gets a way to the database
	ways    map[net.Conn]struct{}

	unread  prometheus.Counter
	streams *prometheus.GaugeVec
	bytes   *prometheus.CounterVec
	refused *prometheus.CounterVec
}

// notBegun is what an agent answers until it knows its pods.
func notBegun(context.Context) (net.Conn, error) {
	return nil, errors.New("the agent starts, and knows no pods yet: ask again in a moment")
}

func newAgentTunnel(c nodeconfig.Config) *agentTunnel {
	return &agentTunnel{
		config: c, credentials: tunnel.Files(c.TunnelCA, c.TunnelCertificate, c.TunnelPrivateKey),
		changed: signal.New(), open: map[tunnel.Target]int{}, ways: map[net.Conn]struct{}{},
		switchReady: func() error { return nil }, awaitLookup: func(context.Context) bool { return false },
		metrics: prometheus.NewRegistry(), connections: notBegun, probes: notBegun, captures: notBegun,
		problem: fmt.Errorf("tunnel-address: not listening on %s yet", c.TunnelAddress),
		unread: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_conntrack_lookup_failures_total",
			Help: "OpenFlow messages of a chassis host's ovn-controller that the agent could not change as the datapath " +
				"needs it, for example by the lookup before a commit.",
		}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weft_tunnel_streams", Help: "Open streams of chassis hosts and of weft observe, by the target that they " +
				"lead to.",
		}, []string{"target"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_tunnel_bytes_total", Help: "Bytes of the streams of chassis hosts and of weft observe, by target and " +
				"direction.",
		}, []string{"target", "direction"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_tunnel_refused_total", Help: "Connections of chassis hosts, of weft observe and of other " +
				"clients to the agent that got no stream, by the reason of the refusal.",
		}, []string{"reason"}),
	}
}

func (h *agentTunnel) collectors() []prometheus.Collector {
	return []prometheus.Collector{h.unread, h.streams, h.bytes, h.refused}
}

// serve listens until ctx ends, and again when the listener fails: the address may come later, or
// move to another interface.
func (h *agentTunnel) serve(ctx context.Context) error {
	for ctx.Err() == nil {
		err := h.listen(ctx)
		if ctx.Err() != nil {
			break
		}
		h.note(func() { h.problem = err })
		signal.Sleep(ctx, time.Second)
	}
	return nil
}

func (h *agentTunnel) listen(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.config.TunnelAddress)
	if err != nil {
		return fmt.Errorf("tunnel-address: %w", err)
	}
	h.note(func() { h.problem = nil })
	return tunnel.Serve(ctx, listener, tunnel.ServerConfig{
		Credentials: h.credentials,
		Targets:     h.services(),
		Observe: tunnel.Observer{
			Opened: func(t tunnel.Target) { h.count(t, 1) },
			Closed: func(t tunnel.Target) { h.count(t, -1) },
			Passed: func(t tunnel.Target, d tunnel.Direction, n int) {
				h.bytes.WithLabelValues(string(t), string(d)).Add(float64(n))
			},
			Refused: func(r tunnel.Reason) { h.refused.WithLabelValues(string(r)).Inc() },
		},
	})
}

// services are for a chassis host only where the node is hosted: a node's own ovn-controller needs nobody's help.
func (h *agentTunnel) services() map[tunnel.Target]tunnel.Service {
	services := map[tunnel.Target]tunnel.Service{
		tunnel.Counters:    {Peer: tunnel.ObserverName, Open: h.openCounters},
		tunnel.Metrics:     {Peer: tunnel.ObserverName, Open: h.openMetrics},
		tunnel.Capture:     {Peer: tunnel.ObserverName, Open: h.captures},
		tunnel.Connections: {Peer: tunnel.ObserverName, Open: h.connections},
		tunnel.Probe:       {Peer: tunnel.ObserverName, Open: h.probes},
	}
	if h.config.Chassis == nodeconfig.ChassisHosted {
		services[tunnel.OVSDB] = tunnel.Service{Peer: tunnel.HostName, Open: h.dialDatabase}
		services[tunnel.OpenFlow] = tunnel.Service{Peer: tunnel.HostName, Open: h.dialBridge}
	}
	return services
}

func (h *agentTunnel) dialDatabase(ctx context.Context) (net.Conn, error) {
	endpoints, err := ovsdb.ParseEndpoints(h.config.OVSDatabase)
	if err != nil {
		return nil, fmt.Errorf("ovs-database: %w", err)
	}
	if err := h.switchReady(); err != nil {
		return nil, err
	}
	var problems []error
	for _, endpoint := range endpoints {
		conn, err := local.Dial(ctx, endpoint)
		if err == nil {
			return h.keepWay(conn)
		}
		problems = append(problems, err)
	}
	return nil, errors.Join(problems...)
}

// databaseWay is a chassis host's connection to the database.
type databaseWay struct {
	net.Conn
	tunnel *agentTunnel
}

func (w databaseWay) Close() error {
	w.tunnel.mu.Lock()
	delete(w.tunnel.ways, w.Conn)
	w.tunnel.mu.Unlock()
	return w.Conn.Close()
}

// CloseWrite passes the end of one direction on.
func (w databaseWay) CloseWrite() error {
	half, ok := w.Conn.(interface{ CloseWrite() error })
	if !ok {
		return w.Close()
	}
	return half.CloseWrite()
}

// keepWay knows a connection as long as it is open, so that shut ends it. The bridges may have gone while it was
// dialled, and the ways been opened again for those to come.
func (h *agentTunnel) keepWay(conn net.Conn) (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.switchReady()
	if h.closed {
		err = openvswitch.ErrAwaitsUplink
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	h.ways[conn] = struct{}{}
	return databaseWay{conn, h}, nil
}

// shut ends the ways to the database, and lets nobody have one until it is opened again.
func (h *agentTunnel) shut() (open func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for conn := range h.ways {
		conn.Close()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.closed = false
	}
}

// dialBridge is for an ovn-controller. It waits until it is known what the datapath needs of its flows; a
// connection that is there before keeps its lookups.
func (h *agentTunnel) dialBridge(ctx context.Context) (net.Conn, error) {
	lookups := h.awaitLookup(ctx)
	conn, err := openvswitch.DialSwitch(ctx, h.config)
	if err != nil {
		return nil, err
	}
	changes := ctlookup.Changes{Lookups: lookups, Flushes: h.config.ConntrackFlush, FTP: h.config.ConntrackFTP}
	return ctlookup.Over(conn, changes, func(err error) {
		h.unread.Inc()
		slog.ErrorContext(ctx, "a flow of ovn-controller's cannot be read: it goes to br-int without what the datapath "+
			"needs, or drops its packets, so some connections may fail; report it", "error", err)
	}), nil
}

// note changes what is known and has the condition looked at again.
func (h *agentTunnel) note(change func()) {
	h.mu.Lock()
	change()
	h.mu.Unlock()
	h.changed.Set()
}

func (h *agentTunnel) count(target tunnel.Target, n int) {
	h.streams.WithLabelValues(string(target)).Add(float64(n))
	h.note(func() { h.open[target] += n })
}

// status returns nil while a chassis host has a stream to the database and one to br-int. Whether
// its ovn-controller reaches the Southbound is not seen from here; the management port's flows tell.
func (h *agentTunnel) status(now time.Time) error {
	h.mu.Lock()
	open, problem := maps.Clone(h.open), h.problem
	h.mu.Unlock()
	if problem != nil {
		return problem
	}
	if open[tunnel.OVSDB] > 0 && open[tunnel.OpenFlow] > 0 {
		return nil
	}
	if err := h.switchReady(); err != nil {
		return fmt.Errorf("a chassis host has no way to the database: %w", err)
	}
	if err := h.certificateProblem(now); err != nil {
		return err
	}
	missing := "has a stream to br-int and none to the database"
	switch {
	case open[tunnel.OVSDB] > 0:
		missing = "has a stream to the database and none to br-int; see its log, and ovs-openflow"
	case open[tunnel.OpenFlow] == 0:
		missing = fmt.Sprintf("is connected to %s: see whether `weft chassis` runs, its log, and whether a firewall lets "+
			"it through", h.config.TunnelEnd())
		return errors.New("no chassis host " + missing)
	}
	return errors.New("the chassis host " + missing)
}

// certificateProblem says what a chassis host would not accept of this node's certificate.
func (h *agentTunnel) certificateProblem(now time.Time) error {
	set, err := h.credentials()
	if err != nil {
		return fmt.Errorf("tunnel-certificate: %w", err)
	}
	leaf := set.Own.Leaf
	want := tunnel.AgentName(h.config.NodeName)
	switch {
	case !slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return strings.EqualFold(name, want) }):
		return fmt.Errorf("tunnel-certificate: %s is for %v and not for %s; issue one with that DNS name",
			h.config.TunnelCertificate, leaf.DNSNames, want)
	case now.After(leaf.NotAfter):
		return fmt.Errorf("tunnel-certificate: %s has expired at %v; renew it, or set the clock right",
			h.config.TunnelCertificate, leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("tunnel-certificate: %s is not valid before %v; set the clock right", h.config.TunnelCertificate,
			leaf.NotBefore)
	}
	return nil
}

// watchHosted keeps the condition of the ovn-controller that runs elsewhere.
func (a *agent) watchHosted(ctx context.Context) error {
	tick := time.NewTicker(resync)
	defer tick.Stop()
	for {
		a.health.Set(health.Controller, a.tunnel.status(time.Now()))
		select {
		case <-a.tunnel.changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// openCounters answers one [contract.CountersRequest] on the connection that it returns. It fails where br-int is
// not reached.
func (h *agentTunnel) openCounters(ctx context.Context) (net.Conn, error) {
	bridge, err := openvswitch.DialSwitch(ctx, h.config)
	if err != nil {
		return nil, err
	}
	return openflow.Counters(bridge), nil
}
