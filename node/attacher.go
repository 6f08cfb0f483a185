package node

import (
	"net/netip"
	"time"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
)

// attacher gives pods their ports. It serves the CNI plugin, attends to devices that come after ADD, and removes
// what nobody will ask to delete. What a pod has stands in its interface's row, and in a record for the day when
// the database is lost.
type attacher struct {
	config   nodeconfig.Config
	platform platform.Endpoints
	ovs      *openvswitch.Database
	pods     *pods
	health   *health
	events   *events
	metrics  *metrics
	rounds   *rounds
	// podSubnets and mtu are what is known of the node's pods; none and 0 before.
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

func (a *agent) newAttacher() *attacher {
	return &attacher{
		config: a.config, platform: a.platform, ovs: a.ovs, pods: a.pods, health: a.health, events: a.events,
		metrics: a.metrics, rounds: a.rounds, podSubnets: a.podSubnets, mtu: a.mtu,
		sandboxes: newSandboxes(), records: newRecords(a.config), inspector: newInspector(a.config),
		arrivals: newArrivals(), untidy: make(chan struct{}, 1), portlessTime: portlessTime,
	}
}
