package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/digitalocean/go-openvswitch/ovs"
	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/ovsdb"
)

const (
	// flowsKey marks a bridge that has flows of the agent's.
	flowsKey = "weft.net/flows"
	// flowsTime bounds one pass over the flows; flowsRetry is between passes that failed, and flowsAwait
	// while ovs-vswitchd comes up: the host has a plain switch meanwhile.
	flowsTime  = 10 * time.Second
	flowsRetry = time.Second
	flowsAwait = 25 * time.Millisecond
)

// bridgeFlows are the external bridge's flows. They have a part of their own in the agent: who divides the
// host's traffic does not wait for anything else.
type bridgeFlows struct {
	wanted    chan struct{} // full when they are to be looked at again
	installer *extbridge.Installer

	// Of the part itself.
	target  string // the bridge, as the installer dials it
	applied []*ovs.Flow

	mu      sync.Mutex
	inForce External // that the flows are for; zero: none
	lost    bool     // the bridge may have lost its flows
	told    bool     // the controller knows of the gateway as the flows do
	network string   // what the controller has decided for the node, as last seen

	repairs prometheus.Counter
	count   prometheus.Gauge
}

func newBridgeFlows(c Config) *bridgeFlows {
	return &bridgeFlows{
		wanted: make(chan struct{}, 1), installer: &extbridge.Installer{Program: c.OVSOfctl, Timeout: flowsTime},
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_external_flow_repairs_total", Help: "Times that the external bridge had lost flows, as when ovs-vswitchd restarts, and got them again.",
		}),
		count: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_external_flows", Help: "Flows of the external bridge that are in force.",
		}),
	}
}

func (f *bridgeFlows) collectors() []prometheus.Collector {
	return []prometheus.Collector{f.repairs, f.count}
}

func (f *bridgeFlows) look() {
	select {
	case f.wanted <- struct{}{}:
	default:
	}
}

// lose is called when ovs-vswitchd has gone, and has come again.
func (f *bridgeFlows) lose() {
	f.mu.Lock()
	f.lost = true
	f.mu.Unlock()
	f.look()
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
	return fmt.Errorf("the gateway waits for the flows of bridge %s that tell its traffic from the host's", external.Bridge)
}

// divides says whether flows for e are right for the gateway of another one.
func (e External) divides(other External) bool {
	return e.Bridge == other.Bridge && e.Gateway.HostAddresses && e.Gateway.MAC == other.Gateway.MAC &&
		slices.Equal(mainAddresses(e.Host.Addresses), other.Gateway.Addresses)
}

// follow has the flows looked at again when the node's ranges change.
func (f *bridgeFlows) follow(network contract.NodeNetwork) {
	now := contract.Format(network)
	f.mu.Lock()
	changed := f.network != now
	f.network = now
	f.mu.Unlock()
	if changed {
		f.look()
	}
}

// published notes that the controller knows what the flows are for: from now on what they have too much goes.
func (f *bridgeFlows) published() {
	f.mu.Lock()
	first := !f.told
	f.told = true
	f.mu.Unlock()
	if first {
		f.look()
	}
}

// keepFlows follows whatever the flows depend on. What tells of a change in time: the database (ports),
// the host's network, the Services, and the connection to ovs-vswitchd. The rest is found by looking again.
func (a *agent) keepFlows(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.node.informer.HasSynced) {
		return nil
	}
	tick := time.NewTicker(resync)
	defer tick.Stop()
	for {
		services, database := a.services.Changed(), a.ovs.Changed()
		ports := a.bridgePorts()
		var err error
		a.rounds.do("external flows", func() { err = a.keepFlowsOnce(ctx) })
		if !errors.Is(err, ovsdb.ErrDisconnected) {
			a.health.set(conditionFlows, err)
		}
		var retry <-chan time.Time
		if err != nil {
			retry = time.After(flowsRetry)
		}
		for again := false; !again; {
			select {
			case <-database: // each pod changes it
				database = a.ovs.Changed()
				again = !slices.Equal(ports, a.bridgePorts())
			case <-services:
				again = true
			case <-a.flows.wanted:
				again = true
			case <-retry:
				again = true
			case <-tick.C:
				a.flows.mu.Lock()
				a.flows.lost = true // perhaps: it costs one look
				a.flows.mu.Unlock()
				again = true
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// keepFlowsOnce makes the flows what they shall be. Flows that ovs-vswitchd has lost come again before
// anything else is asked: until then the host's traffic may go astray.
func (a *agent) keepFlowsOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flowsTime)
	defer cancel()
	f := a.flows
	if f.takeLost() {
		f.installer.Forget()
		if err := a.restoreFlows(ctx); err != nil {
			return err
		}
	}
	if !a.ovs.Connected() {
		return ovsdb.ErrDisconnected
	}
	external, err := a.external()
	if errors.Is(err, errNoGateway) {
		return a.removeFlows(ctx, "")
	}
	if err != nil {
		return err
	}
	if err := a.removeFlows(ctx, external.Bridge); err != nil {
		return err
	}
	return a.applyFlows(ctx, external)
}

// restoreFlows applies again what was applied last.
func (a *agent) restoreFlows(ctx context.Context) error {
	f := a.flows
	if len(f.applied) == 0 {
		return nil
	}
	changed, err := a.installFlows(ctx, f.target, f.applied)
	if err != nil {
		f.mu.Lock()
		f.lost = true
		f.mu.Unlock()
		return err
	}
	if changed > 0 {
		f.repairs.Inc()
		slog.WarnContext(ctx, "the external bridge had lost flows; they are there again", "bridge", f.target, "flows", changed)
	}
	return nil
}

func (a *agent) applyFlows(ctx context.Context, external External) error {
	if _, known := a.lookup.state(); !known {
		return errNotExamined
	}
	f := a.flows
	entries, known := a.services.Entries()
	bridge := a.describeBridge(external)
	want, target := extbridge.Flows(bridge, entries), a.config.bridgeTarget(external.Bridge)
	row := a.ovs.bridge(external.Bridge)
	if row == nil {
		return fmt.Errorf("bridge %s, which shall have flows: %w", external.Bridge, ErrNoDevice)
	}
	if len(want) == 0 && row.ExternalIDs[flowsKey] == "" {
		f.mu.Lock()
		f.inForce = external
		f.mu.Unlock()
		return nil
	}
	if err := a.ovs.apply(ctx, a.ovs.dividing(row, patchName(a.config.NodeName), bridge.HostAddresses)); err != nil {
		return fmt.Errorf("prepare bridge %s for its flows: %w", external.Bridge, err)
	}
	f.mu.Lock()
	f.installer.Keep = !known || !f.told
	f.mu.Unlock()
	if _, err := a.installFlows(ctx, target, want); err != nil {
		return err
	}
	f.target, f.applied = target, want
	if neighbours := extbridge.Neighbours(bridge); len(neighbours) > 0 {
		if err := a.platform.EnsureNeighbours(external.Bridge, neighbours); err != nil {
			return err
		}
	}
	f.mu.Lock()
	before := f.inForce
	f.inForce = external
	f.mu.Unlock()
	if !before.divides(external) {
		a.look() // the controller may be told of the gateway now
	}
	return nil
}

// installFlows makes the flows the bridge's. One that the bridge refuses is told, and does not keep the others from
// being in force.
func (a *agent) installFlows(ctx context.Context, target string, want []*ovs.Flow) (changed int, err error) {
	changed, err = a.flows.installer.Apply(ctx, target, want)
	var refused extbridge.RefusedFlows
	if err != nil && !errors.As(err, &refused) {
		return changed, err
	}
	a.flows.count.Set(float64(len(want) - len(refused)))
	if len(refused) == 0 {
		a.note(noteFlows, "ExternalFlowsRefused", nil)
		return changed, nil
	}
	a.note(noteFlows, "ExternalFlowsRefused", fmt.Errorf("bridge %s: %w; what depends on them does not work: report it with the version of Open vSwitch", target, refused))
	return changed, nil
}

var errNotExamined = errors.New("the flows wait until the datapath has been examined (conntrack-lookup is auto)")

// removeFlows clears the bridges that have flows of the agent's and shall have none, but for one that is
// still the gateway router's: that has to lose the host's addresses first.
func (a *agent) removeFlows(ctx context.Context, keep string) error {
	marked := ovsdb.List(a.ovs.Client, func(b *vswitch.Bridge) bool {
		return b.Name != keep && b.ExternalIDs[flowsKey] != ""
	})
	for _, b := range marked {
		if patch := a.ovs.device(patchName(a.config.NodeName)); patch != nil && a.ovs.holds(b, patch.Name) {
			continue // its end calls us again
		}
		if err := a.ovs.clearFlows(ctx, a.config, a.flows.installer, b); err != nil {
			return err
		}
		a.flows.target, a.flows.applied = "", nil
		a.flows.count.Set(0)
		a.flows.mu.Lock()
		a.flows.inForce = External{}
		a.flows.mu.Unlock()
	}
	return nil
}

// clearFlows removes a bridge's flows, and what else it has had for them.
func (o *openVSwitch) clearFlows(ctx context.Context, c Config, installer *extbridge.Installer, b *vswitch.Bridge) error {
	installer.Keep = false
	if _, err := installer.Apply(ctx, c.bridgeTarget(b.Name), nil); err != nil {
		return err
	}
	if err := o.apply(ctx, o.undividing(b, patchName(c.NodeName))); err != nil {
		return fmt.Errorf("bridge %s has no flows any more: %w", b.Name, err)
	}
	return nil
}

// describeBridge is the bridge as its flows depend on it. A node that has no subnets yet has no pods either.
func (a *agent) describeBridge(external External) extbridge.Bridge {
	ports := a.bridgePortsOf(external)
	bridge := extbridge.Bridge{
		Name: external.Bridge, Uplink: ports[0], Patch: ports[1], MAC: external.Host.MAC, Host: contract.Addrs(external.Host.Addresses),
		Routed: external.Gateway.Routed, HostAddresses: external.Gateway.HostAddresses, HyperV: a.hyperV,
	}
	bridge.LookupFirst, _ = a.lookup.state()
	bridge.GatewayMAC, _ = net.ParseMAC(external.Gateway.MAC) // the agent's own
	if network, err := a.node.network(); err == nil {
		bridge.Cluster, bridge.PodSubnets = slices.Concat(network.ClusterCIDRs, network.JoinCIDRs), network.PodCIDRs
	}
	return bridge
}

// bridgePorts are the OpenFlow ports of the bridge that the flows are for: uplink and patch port.
func (a *agent) bridgePorts() []uint16 {
	a.flows.mu.Lock()
	external := a.flows.inForce
	a.flows.mu.Unlock()
	ports := a.bridgePortsOf(external)
	return ports[:]
}

func (a *agent) bridgePortsOf(external External) (ports [2]uint16) {
	for i, name := range []string{external.Uplink, patchName(a.config.NodeName)} {
		device := a.ovs.device(name)
		if device != nil && device.Ofport != nil && *device.Ofport > 0 && *device.Ofport < 0xff00 {
			ports[i] = uint16(*device.Ofport)
		}
	}
	return ports
}

// patchName is how ovn-controller names the bridge's port to the node's gateway router.
func patchName(node string) string { return "patch-localnet-" + node + "-to-br-int" }

// bridgeTarget is a bridge as ovs-ofctl dials it: its socket beside the database's, or just its name.
func (c Config) bridgeTarget(bridge string) string {
	first, _, _ := strings.Cut(c.OVSDatabase, ",")
	socket, isUnix := strings.CutPrefix(first, "unix:")
	if !isUnix {
		return bridge
	}
	return "unix:" + filepath.Join(filepath.Dir(socket), bridge+".mgmt")
}

// dividing returns what a bridge needs beside its flows: the mark, and, where host and gateway router share
// an address, that NORMAL switches nothing between their ports. Each would answer for the other's address.
func (o *openVSwitch) dividing(bridge *vswitch.Bridge, patch string, shared bool) []libovsdb.Operation {
	operations := o.protecting(bridge, patch, shared)
	if mutations := setKeys("external_ids", bridge.ExternalIDs, map[string]string{flowsKey: "true"}); len(mutations) > 0 {
		operations = append(operations, mutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
	}
	return operations
}

func (o *openVSwitch) undividing(bridge *vswitch.Bridge, patch string) []libovsdb.Operation {
	mutations := setKeys("external_ids", bridge.ExternalIDs, map[string]string{flowsKey: ""})
	return append(o.protecting(bridge, patch, false), mutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
}

// protecting sets whether the host's port and the gateway router's are protected from each other.
func (o *openVSwitch) protecting(bridge *vswitch.Bridge, patch string, protected bool) []libovsdb.Operation {
	var operations []libovsdb.Operation
	for _, name := range []string{bridge.Name, patch} {
		port := o.port(name)
		if port != nil && port.Protected != protected && slices.Contains(bridge.Ports, port.UUID) {
			operations = append(operations, updateRow(vswitch.PortTable, port.UUID, libovsdb.Row{"protected": protected}))
		}
	}
	return operations
}

// holds says whether a bridge has a port of that name.
func (o *openVSwitch) holds(bridge *vswitch.Bridge, name string) bool {
	port := o.port(name)
	return port != nil && slices.Contains(bridge.Ports, port.UUID)
}
