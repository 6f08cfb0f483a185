package gateway

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/ctlookup"
	"github.com/weftnet/weft/node/ctprobe"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

// Platform is what the gateway takes of the contract with the operating system.
type Platform interface {
	platform.Uplinks
	HostInterface(name string) (platform.HostInterface, error)
	PortType() string
}

// Services are what the host answers for, as the bridge to the outside has to know it.
type Services interface {
	// Entries are the ports that lead into the cluster; known is false until all are known.
	Entries() (entries []extbridge.Entry, known bool)
	// Changed is closed when Entries have changed since the call.
	Changed() <-chan struct{}
}

// Parts are what a gateway works with.
type Parts struct {
	Config   nodeconfig.Config
	Platform Platform
	Database *openvswitch.Database
	Services Services
	Health   *health.Tracker
	Rounds   *health.Rounds
	// HyperV: the datapath is the extension of the Hyper-V switch.
	HyperV bool

	// Network is what the controller has decided for the node; NetworkSynced is true once it has been asked for.
	Network       func() (contract.NodeNetwork, error)
	NetworkSynced func() bool
	// PodSubnets are the node's; none before they are known.
	PodSubnets func() []netip.Prefix
	// EnqueueNode has the node looked at again, and DevicesChanged the devices of pods.
	EnqueueNode, DevicesChanged func()
	// TunnelsReady says why tunnels must not be made yet.
	TunnelsReady func() error
	// ShutDatabase keeps chassis hosts from the database until open is called.
	ShutDatabase func() (open func())
}

// Gateway keeps the node's bridges and its way to the outside: the uplink where host and pods share it, and the flows
// that divide the host's traffic from the gateway router's.
type Gateway struct {
	Parts
	// Times are its bounds and periods. They are not to be changed while it runs.
	Times Times

	uplink *sharedUplink
	flows  *bridgeFlows
	lookup *commitLookup
	// repairs counts how often the bridges had to be written.
	repairs prometheus.Counter
	// probe examines a bridge's datapath.
	probe func(context.Context, ctprobe.Dial) (ctprobe.Answer, error)
}

// Times are bounds and periods of the gateway's work.
type Times struct {
	// TakeUp is how long ovs-vswitchd may take for what is written to its database.
	TakeUp time.Duration
	// Write is how long the database itself may take for that.
	Write time.Duration
	// Reopen is how often ovs-vswitchd is told to open what it could not open before.
	Reopen time.Duration
	// Probe is how long the examination of a datapath may take, with what it waits for.
	Probe time.Duration
}

// resync is the period of looks for settings that somebody has changed behind the agent's back.
const resync = 30 * time.Second

func New(p Parts) *Gateway {
	return &Gateway{
		Parts:  p,
		Times:  Times{TakeUp: openvswitch.TakeUpTime, Write: openvswitch.TakeUpTime, Reopen: resync, Probe: probeLimit},
		uplink: newSharedUplink(p.Config), flows: newBridgeFlows(p.Config), lookup: newCommitLookup(p.Config.ConntrackLookup),
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_node_repairs_total", Help: "Times that the node's Open vSwitch settings or bridges had to be written.",
		}),
		probe: ctprobe.Run,
	}
}

// Collectors are the gateway's metrics.
func (g *Gateway) Collectors() []prometheus.Collector {
	return slices.Concat(g.flows.collectors(), g.lookup.collectors(), tellFTP(g.Config),
		[]prometheus.Collector{g.repairs})
}

// HostChanged is called when interfaces, addresses or routes of the host may have changed.
func (g *Gateway) HostChanged() {
	g.flows.wanted.Set()
	g.uplink.wanted.Set()
}

// EnqueueUplink has the uplink looked at again.
func (g *Gateway) EnqueueUplink() { g.uplink.wanted.Set() }

// ReconcileBridges makes the bridges and the settings of ovn-controller what they must be.
func (g *Gateway) ReconcileBridges(ctx context.Context) error {
	if !g.Database.Connected() {
		return ovsdb.ErrDisconnected
	}
	if err := g.TunnelsReady(); err != nil {
		return err
	}
	if err := g.releaseUplink(ctx); err != nil {
		return err
	}
	config, device := g.Config, ""
	if config.OwnGateway() && !config.SharesAdapter() {
		device = config.GatewayInterface
	}
	// With the host's addresses, a device costs the host its network as soon as it joins a bridge. One that does not
	// exist yet is one that Open vSwitch makes.
	joins := g.ensureDevice(device)
	if joins != nil && !errors.Is(joins, platform.ErrNoDevice) {
		config.GatewayInterface = ""
	}
	written, problem := g.Database.SetUp(ctx, config, g.uplink.get)
	if written {
		g.repairs.Inc()
	}
	g.Health.Note(health.Mappings, bridgeMissing, g.Database.Unmapped(g.Config))
	if problem != nil {
		return problem
	}
	if errors.Is(joins, platform.ErrNoDevice) {
		joins = g.ensureDevice(device)
	}
	return joins
}

// ensureDevice: the device, if there is one, can be a port of the gateway's bridge.
func (g *Gateway) ensureDevice(name string) error {
	if name == "" {
		return nil
	}
	return g.Platform.EnsureGatewayDevice(name)
}

// BoundConnections: no zone of the external bridge has more connections than the controller has decided, nor one of
// TCP's more than the zone that it belongs to.
func (g *Gateway) BoundConnections(ctx context.Context, network contract.NodeNetwork) {
	if !g.Database.Connected() {
		return
	}
	twin := 0
	if g.HyperV {
		twin = ctlookup.OfTCP
	}
	g.Health.Note(health.Connections, connectionsNotBounded,
		openvswitch.NewZones(g.Database, g.Config).Bound(ctx, extbridge.Bounds(network.Connections), twin))
}

// KeepPortsOpen looks again at ports in error until ctx ends.
func (g *Gateway) KeepPortsOpen(ctx context.Context) error {
	if g.Platform.PortType() == "" {
		return nil
	}
	tick := time.NewTicker(g.Times.Reopen)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.Database.Reopen(ctx, g.Platform.PortType())
		case <-ctx.Done():
			return nil
		}
	}
}
