package node

import (
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/pods"
)

// attacherParts are what an attacher works with.
type attacherParts struct {
	Config   nodeconfig.Config
	Platform platform.Endpoints
	Database *openvswitch.Database
	Pods     *pods.Watcher
	Health   *health.Tracker
	Rounds   *health.Rounds
	// Report writes an Event of that kind on a pod, and to the log.
	Report func(pod cni.Pod, kind, reason, message string)
	// PodSubnets and MTU are what is known of the node's pods; none and 0 before.
	PodSubnets func() []netip.Prefix
	MTU        func() int
}

// attacher gives pods their ports. It serves the CNI plugin, attends to devices that come after ADD, and removes
// what nobody will ask to delete. What a pod has stands in its interface's row, and in a record for the day when
// the database is lost.
type attacher struct {
	config   nodeconfig.Config
	platform platform.Endpoints
	ovs      *openvswitch.Database
	pods     *pods.Watcher
	health   *health.Tracker
	rounds   *health.Rounds
	metrics  *attachMetrics

	report     func(pod cni.Pod, kind, reason, message string)
	podSubnets func() []netip.Prefix
	mtu        func() int

	sandboxes *sandboxes
	records   records
	inspector *inspector
	arrivals  *arrivals
	// untidy is full when a sweep is wanted before its time.
	untidy chan struct{}
	// portless is since when a device has had no port; for the sweep alone. One that has had none
	// for portlessTime is nobody's.
	portless     map[string]time.Time
	portlessTime time.Duration
}

func newAttacher(p attacherParts) *attacher {
	return &attacher{
		config: p.Config, platform: p.Platform, ovs: p.Database, pods: p.Pods, health: p.Health, rounds: p.Rounds,
		report: p.Report, podSubnets: p.PodSubnets, mtu: p.MTU, metrics: newAttachMetrics(),
		sandboxes: newSandboxes(), records: newRecords(p.Config), inspector: newInspector(p.Config),
		arrivals: newArrivals(), untidy: make(chan struct{}, 1), portlessTime: portlessTime,
	}
}

// collectors are the attacher's metrics.
func (a *attacher) collectors() []prometheus.Collector {
	return append(a.metrics.collectors(), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weft_pending_arrivals", Help: "Ports of pods whose device or flows have not come yet.",
	}, func() float64 { return float64(a.arrivals.pending()) }))
}

// observeRequest is told of each call that was answered.
func (a *attacher) observeRequest(verb cni.Verb, code uint, took time.Duration) {
	a.metrics.observeRequest(verb, code, took)
}

// devicesChanged is called when devices of pods may have come or gone.
func (a *attacher) devicesChanged() { a.arrivals.look() }
