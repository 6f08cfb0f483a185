package attach

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/pods"
)

// Parts are what an attacher works with.
type Parts struct {
	Config   nodeconfig.Config
	Platform platform.Endpoints
	Database *openvswitch.Database
	Pods     *pods.Watcher
	Health   *health.Tracker
	Rounds   *health.Rounds
	// Report writes an Event on a pod, and to the log.
	Report func(pod cni.Pod, reason *reasons.Event, message string)
	// PodSubnets and MTU are what is known of the node's pods; none and 0 before.
	PodSubnets func() []netip.Prefix
	MTU        func() int
}

// Attacher gives pods their ports. It serves the CNI plugin, attends to devices that come after ADD, and removes
// what nobody will ask to delete. What a pod has stands in its interface's row, and in a record for the day when
// the database is lost.
type Attacher struct {
	config   nodeconfig.Config
	platform platform.Endpoints
	ovs      *openvswitch.Database
	pods     *pods.Watcher
	health   *health.Tracker
	rounds   *health.Rounds
	metrics  *metrics

	report     func(pod cni.Pod, reason *reasons.Event, message string)
	podSubnets func() []netip.Prefix
	mtu        func() int

	sandboxes *sandboxes
	records   records
	results   results
	inspector *Inspector
	pending   *pendingPorts
	// untidy asks for a sweep before its time.
	untidy signal.Signal
	// portless is since when a device has had no port; for the sweep alone. One that has had none
	// for portlessTime is nobody's.
	portless     map[string]time.Time
	portlessTime time.Duration
}

func New(p Parts) *Attacher {
	return &Attacher{
		config: p.Config, platform: p.Platform, ovs: p.Database, pods: p.Pods, health: p.Health, rounds: p.Rounds,
		report: p.Report, podSubnets: p.PodSubnets, mtu: p.MTU, metrics: newMetrics(),
		sandboxes: newSandboxes(), records: newRecords(p.Config), results: newResults(p.Config),
		inspector: NewInspector(p.Config), pending: newPendingPorts(), untidy: signal.New(), portlessTime: portlessTime,
	}
}

// Collectors are the attacher's metrics.
func (a *Attacher) Collectors() []prometheus.Collector {
	return append(a.metrics.collectors(), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weft_pending_arrivals", Help: "Ports of pods whose device or flows have not come yet.",
	}, func() float64 { return float64(a.pending.count()) }))
}

// ObserveRequest is told of each call that was answered.
func (a *Attacher) ObserveRequest(verb cni.Verb, code uint, took time.Duration) {
	a.metrics.observeRequest(verb, code, took)
}

// DevicesChanged is called when devices of pods may have come or gone.
func (a *Attacher) DevicesChanged() { a.pending.wanted.Set() }

// objectOf names a pod in a line of the log.
func objectOf(p cni.Pod) slog.Attr { return telemetry.Object("Pod", p.Namespace, p.Name) }
