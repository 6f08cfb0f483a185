package node

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/ctprobe"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/hostservice"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

// gateway keeps the node's bridges and its way to the outside: the uplink where host and pods share it, and the flows
// that divide the host's traffic from the gateway router's.
type gateway struct {
	config   nodeconfig.Config
	platform gatewayPlatform
	ovs      *openvswitch.Database
	node     *ownNode
	services *hostservice.Watcher
	health   *health.Tracker
	rounds   *health.Rounds

	podSubnets func() []netip.Prefix
	// enqueueNode has the node looked at again, and arrived pods' devices.
	enqueueNode, arrived func()
	// guard says why tunnels must not be made yet.
	guard func() error
	// shut keeps chassis hosts from the database until open is called.
	shut func() (open func())

	uplink *sharedUplink
	flows  *bridgeFlows
	lookup *commitLookup
	// takeUpTime is how long ovs-vswitchd may take for what is written to its database.
	takeUpTime time.Duration
	// reopenPeriod is how often ovs-vswitchd is told to open what it could not open before.
	reopenPeriod time.Duration
	// repairs counts how often the bridges had to be written.
	repairs prometheus.Counter
	// probe examines a bridge's datapath, and probeLimit is how long that may take, with what it waits for.
	probe      func(context.Context, ctprobe.Dial) (ctprobe.Answer, error)
	probeLimit time.Duration
	// hyperV: the datapath is the extension of the Hyper-V switch.
	hyperV bool
}

// gatewayPlatform is what the gateway takes of the contract.
type gatewayPlatform interface {
	platform.Uplinks
	HostInterface(name string) (platform.HostInterface, error)
	PortType() string
}

func (a *agent) newGateway() *gateway {
	return &gateway{
		config: a.config, platform: a.platform, ovs: a.ovs, node: a.node, services: a.services.Watcher,
		hyperV: runtime.GOOS == contract.Windows,
		health: a.health, rounds: a.rounds, podSubnets: a.podSubnets,
		enqueueNode: a.enqueue, arrived: a.attacher.DevicesChanged, guard: func() error { return nil },
		shut:   func() (open func()) { return func() {} },
		uplink: newSharedUplink(a.config), flows: newBridgeFlows(a.config), lookup: newCommitLookup(a.config.ConntrackLookup),
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_node_repairs_total", Help: "Times that the node's Open vSwitch settings or bridges had to be written.",
		}),
		reopenPeriod: resync, takeUpTime: openvswitch.TakeUpTime, probe: ctprobe.Run, probeLimit: probeLimit,
	}
}

func (g *gateway) collectors() []prometheus.Collector {
	return slices.Concat(g.flows.collectors(), g.lookup.collectors(), tellFTP(g.config),
		[]prometheus.Collector{g.repairs})
}

func (g *gateway) reconcileBridges(ctx context.Context) error {
	if !g.ovs.Connected() {
		return ovsdb.ErrDisconnected
	}
	if err := g.guard(); err != nil {
		return err
	}
	if err := g.releaseUplink(ctx); err != nil {
		return err
	}
	written, problem := g.ovs.SetUp(ctx, g.config, g.uplink.get)
	if written {
		g.repairs.Inc()
	}
	g.health.Note(health.Mappings, "BridgeMissing", g.ovs.Unmapped(g.config))
	if problem != nil {
		return problem
	}
	if g.config.GatewayInterface == "" || !g.config.OwnGateway() || g.config.SharesAdapter() {
		return nil
	}
	return g.platform.EnsureGatewayDevice(g.config.GatewayInterface)
}

// boundConnections: no zone of the external bridge has more connections than the controller has decided.
func (g *gateway) boundConnections(ctx context.Context, network contract.NodeNetwork) {
	if !g.ovs.Connected() {
		return
	}
	g.health.Note(health.Connections, "ConnectionsNotBounded",
		g.ovs.BoundZones(ctx, g.config, extbridge.Bounds(network.Connections)))
}

// keepPortsOpen looks again at ports in error until ctx ends.
func (g *gateway) keepPortsOpen(ctx context.Context) error {
	if g.platform.PortType() == "" {
		return nil
	}
	tick := time.NewTicker(g.reopenPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.ovs.Reopen(ctx, g.platform.PortType())
		case <-ctx.Done():
			return nil
		}
	}
}
