package ovsdb

import (
	"crypto/tls"
	"net"

	"github.com/prometheus/client_golang/prometheus"
)

type stats struct {
	transactions *prometheus.CounterVec
	rows         *prometheus.CounterVec
	refused      prometheus.Counter
	reconnects   prometheus.Counter
	serverExpiry prometheus.Gauge
}

func newStats(database string) *stats {
	labels := prometheus.Labels{"database": database}
	return &stats{
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_ovsdb_transactions_total", ConstLabels: labels,
			Help: "Transactions sent, by result: committed, refused or failed (the connection broke).",
		}, []string{"result"}),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_ovsdb_rows_written_total", ConstLabels: labels,
			Help: "Rows written, by table and operation.",
		}, []string{"table", "operation"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_ovsdb_refused_owners_total", ConstLabels: labels,
			Help: "Owners of rows (objects of Kubernetes) whose changes the database has refused.",
		}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_ovsdb_reconnects_total", ConstLabels: labels,
			Help: "Connections to the database that were made after the first one.",
		}),
		serverExpiry: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_ovsdb_server_certificate_expiry_timestamp_seconds", ConstLabels: labels,
			Help: "Time (Unix) at which the certificate expires that the database's server has shown last; 0 if it has shown " +
				"none.",
		}),
	}
}

// shown notes until when the server's certificate is valid, if the connection has TLS.
func (s *stats) shown(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		s.serverExpiry.Set(float64(secured.ConnectionState().PeerCertificates[0].NotAfter.Unix()))
	}
}

// Metrics are the client's and its engine's, to be registered with Prometheus.
func (c *Client) Metrics() []prometheus.Collector {
	return []prometheus.Collector{
		c.stats.transactions, c.stats.rows, c.stats.refused, c.stats.reconnects, c.stats.serverExpiry,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_ovsdb_connected", ConstLabels: prometheus.Labels{"database": c.config.Model.Name()},
			Help: "1 while there is a connection to the database.",
		}, func() float64 {
			if c.Connected() {
				return 1
			}
			return 0
		}),
	}
}
