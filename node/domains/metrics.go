package domains

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	answers  prometheus.Counter
	failures prometheus.Counter
	delay    prometheus.Histogram
	sizes    []prometheus.Collector
}

func newMetrics(b *book) *metrics {
	return &metrics{
		answers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_domain_answers_total", Help: "Answers of the cluster's DNS servers that run on this " +
				"node, if they gave addresses of a domain name that a policy has.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_domain_report_failures_total", Help: "Attempts to read or write the node's ResolvedNames that failed.",
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weft_domain_report_seconds", Help: "Seconds from an answer with a new address until the API server had " +
				"it.",
			Buckets: []float64{.01, .02, .03, .05, .1, .2, .5, 1, 2, 5, 10, 30},
		}),
		sizes: []prometheus.Collector{
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "weft_domain_addresses", Help: "Addresses of domain names that the agent reports.",
			}, func() float64 { _, addresses, _ := b.size(); return float64(addresses) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "weft_domain_addresses_lost_total", Help: "Addresses of domain names that were left out because there were " +
					"too many.",
			}, func() float64 { _, _, lost := b.size(); return float64(lost) }),
		},
	}
}

// Collectors are the watcher's metrics.
func (w *Watcher) Collectors() []prometheus.Collector {
	return append([]prometheus.Collector{w.metrics.answers, w.metrics.failures, w.metrics.delay}, w.metrics.sizes...)
}
