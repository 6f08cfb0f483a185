//go:build linux

package chassis

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/node/daemons"
	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/ovsdb/certificates"
)

type metrics struct {
	registry  *prometheus.Registry
	streams   *prometheus.GaugeVec
	bytes     *prometheus.CounterVec
	restarts  *prometheus.CounterVec
	dialled   *prometheus.CounterVec
	denied    *prometheus.CounterVec
	takeovers *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: telemetry.NewRegistry(),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weft_chassis_streams", Help: "Open streams to agents, by node and target.",
		}, []string{"node", "target"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_chassis_stream_bytes_total", Help: "Bytes of the streams to agents, by node, target and direction.",
		}, []string{"node", "target", "direction"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_chassis_restarts_total", Help: "Times that a node's ovn-controller was started again after it had " +
				"ended by itself, was killed since it did not answer, or could not be started.",
		}, []string{"node"}),
		dialled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_chassis_dial_errors_total", Help: "Attempts to open a stream to an agent that failed without a " +
				"refusal, by node and reason.",
		}, []string{"node", "reason"}),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_chassis_refusals_total", Help: "Attempts to open a stream to an agent that this host or the agent " +
				"has refused, and streams that ended since the node's database is refused (bad-database), by node and reason.",
		}, []string{"node", "reason"}),
		takeovers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_chassis_takeovers_total", Help: "Nodes that this host has taken, by their state before: " +
				"new (it had no Lease), released (by another host), dead (its host no longer renewed its " +
				"Lease), own (its Lease still named this host).",
		}, []string{"from"}),
	}
	for _, from := range []origin{fromNobody, fromReleased, fromDead, fromOwn} {
		m.takeovers.WithLabelValues(string(from))
	}
	m.registry.MustRegister(m.streams, m.bytes, m.restarts, m.dialled, m.denied, m.takeovers)
	return m
}

// refused counts a stream that could not be opened.
func (m *metrics) refused(node string, reason tunnel.Reason) {
	counter := m.denied
	switch reason {
	case tunnel.Unreachable, tunnel.NoHandshake, tunnel.NoCredentials:
		counter = m.dialled
	}
	counter.WithLabelValues(node, string(reason)).Inc()
}

// forget drops what is told of a node that this host no longer holds.
func (m *metrics) forget(node string) {
	of := prometheus.Labels{"node": node}
	m.streams.DeletePartialMatch(of)
	m.bytes.DeletePartialMatch(of)
	m.restarts.DeletePartialMatch(of)
	m.dialled.DeletePartialMatch(of)
	m.denied.DeletePartialMatch(of)
}

// register adds what is read when it is asked for.
func (m *metrics) register(h *host) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weft_chassis_leases_held", Help: "Nodes that this host holds."},
			func() float64 { return float64(len(h.held())) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weft_chassis_hosts", Help: "Live chassis hosts that this one " +
			"sees, and itself while its own Lease is renewed in time. Hosts of another zone and hosts that are about to end " +
			"do not count."}, func() float64 { return float64(len(h.candidates())) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weft_chassis_lease_valid", Help: "1 while this host's own " +
			"Lease is renewed in time."}, func() float64 {
			if h.terms.Current() == nil {
				return 0
			}
			return 1
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "weft_chassis_lease_lapses_total",
			Help: "Times that this host's Lease was not renewed in time, and its ovn-controllers were ended."}, func() float64 {
			lapses := h.terms.Count()
			if h.terms.Current() != nil {
				lapses--
			}
			return float64(max(lapses, 0))
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weft_chassis_certificate_expiry_timestamp_seconds",
			Help: "Time (Unix) at which the tunnel certificate that this host uses expires; 0 if it has read none since " +
				"it started."}, h.certificateExpiry),
		nodeStates{h}, daemons.New(h.daemons),
	)
}

// daemons are the ovn-controllers of the nodes that this host holds.
func (h *host) daemons() (list []daemons.Daemon) {
	for name := range h.held() {
		list = append(list, daemons.Daemon{Name: "ovn-controller", Node: name,
			Sockets: []string{filepath.Join(h.runDir.folder(name), controlSocket)}})
	}
	return list
}

// certificates are those of files that this host and its ovn-controllers use.
func (h *host) certificates(access *rest.Config) certificates.Expiry {
	c := h.config
	own := append(certificates.OfKubeconfig(c.Kubeconfig, access.TLSClientConfig), []certificates.Watched{
		{Purpose: "tunnel-certificate", File: c.Certificate}, {Purpose: "tunnel-ca", File: c.CA},
		{Purpose: "ovn-ca", File: c.OVNCA}}...)
	return certificates.NewExpiryOf(func() []certificates.Watched {
		files := map[string]struct{}{}
		for name := range h.held() {
			files[strings.ReplaceAll(c.OVNCertificate, NodePlaceholder, name)] = struct{}{}
		}
		all := slices.Clone(own)
		for file := range files {
			all = append(all, certificates.Watched{Purpose: "ovn-certificate", File: file})
		}
		return all
	})
}

// nodeStates tells each node's state.
type nodeStates struct{ *host }

var nodeState = prometheus.NewDesc("weft_chassis_node_state",
	"The state of the ovn-controller of a node that this host holds: 1 for the present state, 0 for all others. "+
		"The states are starting, unreachable (no stream to the node's agent, or its database is refused), "+
		"no-southbound, backoff (it has ended or could not be started, and will be started again) and connected.",
	[]string{"node", "state"}, nil)

func (nodeStates) Describe(out chan<- *prometheus.Desc) { out <- nodeState }

func (n nodeStates) Collect(out chan<- prometheus.Metric) {
	for name, m := range n.held() {
		now, _ := m.status.state()
		for _, s := range states {
			value := 0.0
			if s == now {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(nodeState, prometheus.GaugeValue, value, name, string(s))
		}
	}
}
