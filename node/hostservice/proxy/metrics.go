package proxy

import "github.com/prometheus/client_golang/prometheus"

// Reasons of failures.
const (
	failedListen = "listen" // somebody else has the port
	failedAccept = "accept"
	failedDial   = "dial"  // the backend refused, or did not answer
	failedLimit  = "limit" // there are too many connections or sessions already
	failedRange  = "range" // the client is not in loadBalancerSourceRanges
	failedPod    = "pod"   // the client is a pod, which its switch serves
)

type metrics struct {
	proxies     *prometheus.GaugeVec
	open        prometheus.Gauge
	connections prometheus.Counter
	sessions    prometheus.Gauge
	failures    *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		proxies: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weft_host_proxy_sockets", Help: "Addresses and ports of the host at which the agent takes connections to " +
				"Services and pods.",
		}, []string{"protocol"}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_host_proxy_open_connections", Help: "TCP connections that pass through the agent.",
		}),
		connections: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_host_proxy_connections_total", Help: "TCP connections that the agent has passed on.",
		}),
		sessions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_host_proxy_udp_sessions", Help: "UDP clients whose datagrams pass through the agent.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_host_proxy_failures_total", Help: "Sockets that could not be opened, and connections and " +
				"datagrams that were not passed on, by reason: listen (most often another program has the port), accept, " +
				"dial (there is no endpoint, or none that answers), limit (too many connections, or too many UDP " +
				"clients, of which the agent then forgets one), range (the client " +
				"is not in loadBalancerSourceRanges), pod (the client is a pod, and the agent does not serve " +
				"pods).",
		}, []string{"protocol", "reason"}),
	}
}

func (m *metrics) failed(protocol, reason string) { m.failures.WithLabelValues(protocol, reason).Inc() }

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.proxies, m.open, m.connections, m.sessions, m.failures}
}
