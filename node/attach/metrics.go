package attach

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/cni"
)

// Phases of an ADD, in their order; configure overlaps with flows.
const (
	phaseAddress   = "address"   // until the controller's annotation is there
	phaseDevice    = "device"    // make the device pair
	phasePlug      = "plug"      // commit the port
	phaseConfigure = "configure" // addresses and routes in the sandbox
	phaseFlows     = "flows"     // until OVN has installed the port's flows
)

// metrics are of the CNI plugin's calls, and of devices that come and go.
type metrics struct {
	requests *prometheus.HistogramVec
	phases   *prometheus.HistogramVec
	swept    *prometheus.CounterVec

	pendingTime prometheus.Histogram
	overdue     prometheus.Counter
	vanished    prometheus.Counter
}

func newMetrics() *metrics {
	buckets := []float64{.005, .01, .02, .03, .05, .075, .1, .15, .2, .3, .5, 1, 2, 5, 10, 30, 60}
	return &metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "weft_cni_request_seconds",
			Help:    "Seconds of the CNI calls that the agent has answered, by verb and CNI's error code (0 is success).",
			Buckets: buckets,
		}, []string{"verb", "code"}),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weft_cni_add_phase_seconds", Help: "Seconds of each phase of a CNI ADD: address (until the pod has one), " +
				"device, plug (until the port is committed), configure (addresses and routes), flows (until OVN has installed " +
				"them).", Buckets: buckets,
		}, []string{"phase"}),
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_swept_attachments_total", Help: "Attachments of pods that were removed without a CNI " +
				"DEL, by reason: \"gc\" (CNI GC asked for it), \"sandbox gone\", \"no port\".",
		}, []string{"reason"}),
		pendingTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weft_arrival_seconds",
			Help: "Seconds from the moment when the agent first saw a port until its device was attached and had " +
				"flows, for devices that come after CNI ADD, as on Windows.",
			Buckets: buckets,
		}),
		overdue: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_late_arrivals_total",
			Help: "Pods that have got an Event because their device has not come, or has no flows.",
		}),
		vanished: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_vanished_devices_total", Help: "Devices of running pods that went away. Only Windows nodes count them.",
		}),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.phases, m.swept, m.pendingTime, m.overdue, m.vanished}
}

func (m *metrics) observeRequest(verb cni.Verb, code uint, took time.Duration) {
	switch verb {
	case cni.Add, cni.Del, cni.Check, cni.Status, cni.GC:
	default:
		verb = "unknown" // a label's values must not be a peer's to choose
	}
	m.requests.WithLabelValues(string(verb), strconv.FormatUint(uint64(code), 10)).Observe(took.Seconds())
}

// phase observes the time from now until the function that it returns is called.
func (m *metrics) phase(name string) func() {
	start := time.Now()
	return func() { m.phases.WithLabelValues(name).Observe(time.Since(start).Seconds()) }
}
