package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/digitalocean/go-openvswitch/ovs"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

const (
	// flowsTime bounds one pass over the flows; flowsRetry is between passes that failed, and flowsAwait
	// while ovs-vswitchd comes up: the host has a plain switch meanwhile.
	flowsTime  = 10 * time.Second
	flowsRetry = time.Second
	flowsAwait = 25 * time.Millisecond
)

// bridgeFlows are the external bridge's flows. They have a part of their own in the agent: who divides the
// host's traffic does not wait for anything else.
type bridgeFlows struct {
	wanted    signal.Signal // they are to be looked at again
	installer *extbridge.Installer

	// Of the part itself.
	target  string // the bridge, as the installer dials it
	applied []*ovs.Flow

	mu       sync.Mutex
	inForce  External // that the flows are for; zero: none
	lost     bool     // the bridge may have lost its flows
	reported bool     // the controller knows of the gateway as the flows do
	network  string   // what the controller has decided for the node, as last seen

	repairs prometheus.Counter
	count   prometheus.Gauge
}

func newBridgeFlows(c nodeconfig.Config) *bridgeFlows {
	return &bridgeFlows{
		wanted: signal.New(), installer: &extbridge.Installer{Program: c.OVSOfctl, Timeout: flowsTime},
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_external_flow_repairs_total",
			Help: "Times that the external bridge had lost flows, for example by a restart of ovs-vswitchd, and " +
				"got them again.",
		}),
		count: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_external_flows", Help: "Flows of the external bridge that are in force.",
		}),
	}
}

func (f *bridgeFlows) collectors() []prometheus.Collector {
	return []prometheus.Collector{f.repairs, f.count}
}

// lose has the flows looked at as those of an ovs-vswitchd that has just come.
func (f *bridgeFlows) lose() {
	f.mu.Lock()
	f.lost = true
	f.mu.Unlock()
	f.wanted.Set()
}

func (f *bridgeFlows) takeLost() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	lost := f.lost
	f.lost = false
	return lost
}

// ready says why a gateway router must not have the host's addresses yet: nothing divides their traffic.
func (f *bridgeFlows) ready(external External) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !external.Gateway.HostAddresses || f.inForce.divides(external) {
		return nil
	}
	return fmt.Errorf("the gateway waits for the flows of bridge %s that tell its traffic from the host's",
		external.Bridge)
}

// divides says whether flows for e are right for the gateway of another one.
func (e External) divides(other External) bool {
	return e.Bridge == other.Bridge && e.Gateway.HostAddresses && e.Gateway.MAC == other.Gateway.MAC &&
		slices.Equal(mainAddresses(e.Host.Addresses), other.Gateway.Addresses)
}

// observe has the flows looked at again when the node's ranges change.
func (f *bridgeFlows) observe(network contract.NodeNetwork) {
	now := contract.Format(network)
	f.mu.Lock()
	changed := f.network != now
	f.network = now
	f.mu.Unlock()
	if changed {
		f.wanted.Set()
	}
}

// published notes that the controller knows what the flows are for: from now on what they have too much goes.
func (f *bridgeFlows) published() {
	f.mu.Lock()
	first := !f.reported
	f.reported = true
	f.mu.Unlock()
	if first {
		f.wanted.Set()
	}
}

// ReconcileFlows follows whatever the flows depend on. What tells of a change in time: the database (ports),
// the host's network, the Services, and the connection to ovs-vswitchd. The rest is found by looking again.
func (g *Gateway) ReconcileFlows(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), g.NetworkSynced) {
		return nil
	}
	tick := time.NewTicker(resync)
	defer tick.Stop()
	for {
		services, database := g.Services.Changed(), g.Database.Changed()
		ports := g.bridgePorts()
		var err error
		g.Rounds.Do("external flows", func() { err = g.reconcileFlowsOnce(ctx) })
		if !errors.Is(err, ovsdb.ErrDisconnected) {
			g.Health.Set(health.Flows, err)
		}
		var retry <-chan time.Time
		if err != nil {
			retry = time.After(flowsRetry)
		}
		for again := false; !again; {
			select {
			case <-database: // each pod changes it
				database = g.Database.Changed()
				again = !slices.Equal(ports, g.bridgePorts())
			case <-services:
				again = true
			case <-g.flows.wanted:
				again = true
			case <-retry:
				again = true
			case <-tick.C:
				g.flows.mu.Lock()
				g.flows.lost = true // perhaps: it costs one look
				g.flows.mu.Unlock()
				again = true
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// ObserveNetwork has the flows looked at again when the node's ranges change.
func (g *Gateway) ObserveNetwork(network contract.NodeNetwork) { g.flows.observe(network) }

// FactsPublished notes that the controller knows of the gateway what Facts has returned.
func (g *Gateway) FactsPublished() { g.flows.published() }

// FlowsLost is called when ovs-vswitchd has gone, and has come again.
func (g *Gateway) FlowsLost() { g.flows.lose() }

// reconcileFlowsOnce makes the flows what they must be. Flows that ovs-vswitchd has lost come again before
// anything else is asked: until then the host's traffic may go astray.
func (g *Gateway) reconcileFlowsOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flowsTime)
	defer cancel()
	f := g.flows
	if f.takeLost() {
		f.installer.Forget()
		if err := g.restoreFlows(ctx); err != nil {
			return err
		}
	}
	if !g.Database.Connected() {
		return ovsdb.ErrDisconnected
	}
	external, err := g.external()
	if errors.Is(err, errNoGateway) {
		return g.removeFlows(ctx, "")
	}
	if err != nil {
		return err
	}
	if err := g.removeFlows(ctx, external.Bridge); err != nil {
		return err
	}
	return g.applyFlows(ctx, external)
}

// restoreFlows applies again what was applied last.
func (g *Gateway) restoreFlows(ctx context.Context) error {
	f := g.flows
	if len(f.applied) == 0 {
		return nil
	}
	changed, err := g.installFlows(ctx, f.target, f.applied)
	if err != nil {
		f.mu.Lock()
		f.lost = true
		f.mu.Unlock()
		return err
	}
	if changed > 0 {
		f.repairs.Inc()
		slog.WarnContext(ctx, "the external bridge had lost flows; they are there again", "bridge", f.target, "flows",
			changed)
	}
	return nil
}

func (g *Gateway) applyFlows(ctx context.Context, external External) error {
	if _, known := g.lookup.state(); !known {
		return errNotExamined
	}
	f := g.flows
	entries, known := g.Services.Entries()
	bridge := g.describeBridge(external)
	want, target := extbridge.Flows(bridge, entries), g.Config.BridgeTarget(external.Bridge)
	row := g.Database.Bridge(external.Bridge)
	if row == nil {
		return fmt.Errorf("bridge %s, which needs flows: %w", external.Bridge, platform.ErrNoDevice)
	}
	if len(want) == 0 && row.ExternalIDs[openvswitch.FlowsKey] == "" {
		f.mu.Lock()
		f.inForce = external
		f.mu.Unlock()
		return nil
	}
	if err := g.Database.Apply(ctx, g.Database.Dividing(row, openvswitch.PatchName(g.Config.NodeName),
		bridge.HostAddresses)); err != nil {
		return fmt.Errorf("prepare bridge %s for its flows: %w", external.Bridge, err)
	}
	f.mu.Lock()
	f.installer.Keep = !known || !f.reported
	f.mu.Unlock()
	if _, err := g.installFlows(ctx, target, want); err != nil {
		return err
	}
	f.target, f.applied = target, want
	if neighbours := extbridge.Neighbours(bridge); len(neighbours) > 0 {
		if err := g.Platform.EnsureNeighbours(external.Bridge, neighbours); err != nil {
			return err
		}
	}
	f.mu.Lock()
	before := f.inForce
	f.inForce = external
	f.mu.Unlock()
	if !before.divides(external) {
		g.EnqueueNode() // the controller may be told of the gateway now
	}
	return nil
}

// installFlows makes the flows the bridge's. One that the bridge refuses is told, and does not keep the others from
// being in force.
func (g *Gateway) installFlows(ctx context.Context, target string, want []*ovs.Flow) (changed int, err error) {
	changed, err = g.flows.installer.Apply(ctx, target, want)
	var refused extbridge.RefusedFlows
	if err != nil && !errors.As(err, &refused) {
		return changed, err
	}
	g.flows.count.Set(float64(len(want) - len(refused)))
	if len(refused) == 0 {
		g.Health.Note(health.RefusedFlows, externalFlowsRefused, nil)
		return changed, nil
	}
	g.Health.Note(health.RefusedFlows, externalFlowsRefused,
		fmt.Errorf("bridge %s: %w; what depends on them does not work: report it with the version of Open vSwitch", target,
			refused))
	return changed, nil
}

var errNotExamined = errors.New("the flows wait until the datapath has been examined (conntrack-lookup is auto)")

// removeFlows clears the bridges that have flows of the agent's and must have none, except for one that is
// still the gateway router's: that has to lose the host's addresses first.
func (g *Gateway) removeFlows(ctx context.Context, keep string) error {
	marked := ovsdb.List(g.Database.Client, func(b *vswitch.Bridge) bool {
		return b.Name != keep && b.ExternalIDs[openvswitch.FlowsKey] != ""
	})
	for _, b := range marked {
		patch := g.Database.Device(openvswitch.PatchName(g.Config.NodeName))
		if patch != nil && g.Database.Holds(b, patch.Name) {
			continue // its end calls us again
		}
		if err := g.Database.ClearFlows(ctx, g.Config, g.flows.installer, b); err != nil {
			return err
		}
		g.flows.target, g.flows.applied = "", nil
		g.flows.count.Set(0)
		g.flows.mu.Lock()
		g.flows.inForce = External{}
		g.flows.mu.Unlock()
	}
	return nil
}

// describeBridge is the bridge as its flows depend on it. A node that has no subnets yet has no pods either.
func (g *Gateway) describeBridge(external External) extbridge.Bridge {
	ports := g.bridgePortsOf(external)
	bridge := extbridge.Bridge{
		Name: external.Bridge, Uplink: ports[0], Patch: ports[1], MAC: external.Host.MAC,
		Host:   contract.Addrs(external.Host.Addresses),
		Routed: external.Gateway.Routed, HostAddresses: external.Gateway.HostAddresses,
		HyperV: g.HyperV, FTP: g.Config.ConntrackFTP,
	}
	bridge.LookupFirst, _ = g.lookup.state()
	bridge.GatewayMAC, _ = net.ParseMAC(external.Gateway.MAC) // the agent's own
	if network, err := g.Network(); err == nil {
		bridge.Cluster, bridge.PodSubnets = slices.Concat(network.ClusterCIDRs, network.JoinCIDRs), network.PodCIDRs
	}
	return bridge
}

// bridgePorts are the OpenFlow ports of the bridge that the flows are for: uplink and patch port.
func (g *Gateway) bridgePorts() []uint16 {
	g.flows.mu.Lock()
	external := g.flows.inForce
	g.flows.mu.Unlock()
	ports := g.bridgePortsOf(external)
	return ports[:]
}

func (g *Gateway) bridgePortsOf(external External) (ports [2]uint16) {
	for i, name := range []string{external.Uplink, openvswitch.PatchName(g.Config.NodeName)} {
		device := g.Database.Device(name)
		if device != nil && device.Ofport != nil && *device.Ofport > 0 && *device.Ofport < 0xff00 {
			ports[i] = uint16(*device.Ofport)
		}
	}
	return ports
}
