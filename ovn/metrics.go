package ovn

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/ovn/watch"
)

// metrics answer what an operator asks first: does it work, does it keep up, who leads.
type metrics struct {
	registry  *prometheus.Registry
	reconcile prometheus.Histogram
	podRow    prometheus.Histogram
	object    *prometheus.HistogramVec
	errors    *prometheus.CounterVec
	problems  *prometheus.CounterVec
	leader    prometheus.Gauge
	inStep    *prometheus.GaugeVec
}

func newMetrics(q *watch.Queue) *metrics {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 16) // half a millisecond to 16 seconds
	m := &metrics{
		registry: telemetry.NewRegistry(),
		reconcile: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weft_controller_reconcile_seconds", Buckets: buckets,
			Help: "Seconds to translate a batch of changed objects and to commit it to the Northbound."}),
		podRow: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weft_controller_pod_row_seconds", Buckets: buckets,
			Help: "Seconds from the moment when a new pod was seen until its port was committed to the Northbound."}),
		object: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weft_controller_object_seconds", Buckets: buckets,
			Help: "Seconds from the moment when a change of an object was seen until its rows were committed to " +
				"the Northbound, by the object's kind."}, []string{"kind"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_controller_errors_total",
			Help: "Failures, by kind: northbound (it could not be claimed or written), refused (the rows of one object), " +
				"annotation (an annotation, a status or a PodNetworks could not be written)."},
			[]string{"kind"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_controller_object_problems_total",
			Help: "Problems with objects that were reported as Events, by reason."}, []string{"reason"}),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_controller_leader", Help: "1 on the controller that leads, since it holds the Lease, 0 on a " +
				"standby. The leader alone writes the Northbound, if it reaches it."}),
	}
	m.inStep = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weft_controller_zone_in_step", Help: "1 if the Northbound of a zone has all rows that it should have, 0 if " +
			"it is away or cannot be written; on the leader of a cluster with zones."}, []string{"zone"})
	depth := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weft_controller_queue_depth", Help: "Changed objects, and checks that are due, that the leader has " +
			"not yet begun to process; 0 on a standby."},
		func() float64 { return float64(q.Len()) })
	m.registry.MustRegister(m.reconcile, m.podRow, m.object, m.errors, m.problems, m.leader, m.inStep, depth)
	for _, kind := range []string{"northbound", "refused", "annotation"} { // so that a rate has a start
		m.errors.WithLabelValues(kind)
	}
	return m
}

func (m *metrics) failed(kind string) { m.errors.WithLabelValues(kind).Inc() }

func since(h prometheus.Histogram, start time.Time) { h.Observe(time.Since(start).Seconds()) }
