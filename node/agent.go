package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/httpserver"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/attach"
	"github.com/weftnet/weft/node/domains"
	"github.com/weftnet/weft/node/encryption"
	"github.com/weftnet/weft/node/gateway"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/pods"
	"github.com/weftnet/weft/ovsdb"
)

// agent keeps one node fit for pods: it looks at the whole of it, and wires the parts that keep what is theirs.
type agent struct {
	config    nodeconfig.Config
	platform  platform.Platform
	ovs       *openvswitch.Database
	node      *ownNode
	pods      *pods.Watcher
	health    *health.Tracker
	rounds    *health.Rounds
	registry  *prometheus.Registry
	events    *events
	listening atomic.Bool // the plugin is served

	attacher *attach.Attacher
	gateway  *gateway.Gateway
	services *services
	tunnel   *agentTunnel        // nil where nobody has a stream to the node
	crypt    *encryption.Tunnels // nil on systems whose tunnels cannot be encrypted
	domains  *domains.Watcher    // nil where the node's DNS servers cannot be watched

	// attention is given when something may have changed and the node is to be looked at again.
	attention signal.Signal

	mu      sync.Mutex
	subnets []netip.Prefix
	podMTU  int
}

// Periods of what no event tells.
const (
	resync          = 30 * time.Second // settings that somebody changed behind the agent's back
	controllerProbe = 2 * time.Second
	controllerAwait = 250 * time.Millisecond // while it is away, pods wait for it
	// debounce keeps a flood of events, such as many pods at once, from becoming a flood of looks.
	debounce = 200 * time.Millisecond
	// reconcileTime bounds a look: a server that does not answer is asked again.
	reconcileTime = 5 * time.Second
)

func newAgent(
	c nodeconfig.Config, system platform.Platform, ovs *openvswitch.Database, client kubernetes.Interface,
) (*agent, error) {
	a := &agent{
		config: c, platform: system, ovs: ovs, rounds: health.NewRounds(), events: newEvents(c.NodeName),
		attention: signal.New(),
	}
	a.health = health.New(a.conditionChanged, a.warn, conditionsOf(c)...)
	a.registry = newRegistry(
		func() float64 { return float64(len(ovs.Attached())) },
		func() float64 {
			if len(a.health.Problems()) > 0 {
				return 0
			}
			return 1
		})
	var err error
	if a.pods, err = pods.New(client, c.NodeName); err != nil {
		return nil, err
	}
	if a.node, err = newOwnNode(client, c.NodeName, a.enqueue); err != nil {
		return nil, err
	}
	if a.services, err = a.newServices(client); err != nil {
		return nil, err
	}
	a.attacher = attach.New(attach.Parts{
		Config: c, Platform: system, Database: ovs, Pods: a.pods, Health: a.health, Rounds: a.rounds,
		Report: a.events.report, PodSubnets: a.podSubnets, MTU: a.mtu,
	})
	a.gateway = a.newGateway()
	a.registry.MustRegister(ovs.Metrics()...)
	a.registry.MustRegister(a.attacher.Collectors()...)
	a.registry.MustRegister(a.gateway.Collectors()...)
	if c.ServesTunnel() {
		a.tunnel = newAgentTunnel(c)
		a.tunnel.switchReady, a.tunnel.awaitLookup = a.gateway.SwitchReady, a.gateway.AwaitLookup
		a.registry.MustRegister(a.tunnel.collectors()...)
	}
	return a, nil
}

func (a *agent) newGateway() *gateway.Gateway {
	return gateway.New(gateway.Parts{
		Config: a.config, Platform: a.platform, Database: a.ovs, Services: a.services.Watcher, Health: a.health,
		Rounds: a.rounds, HyperV: runtime.GOOS == contract.Windows,
		Network: a.node.network, NetworkSynced: a.node.informer.HasSynced, PodSubnets: a.podSubnets,
		EnqueueNode: a.enqueue, DevicesChanged: a.attacher.DevicesChanged,
		TunnelsReady: func() error {
			if a.crypt == nil {
				return nil
			}
			return a.crypt.Ready()
		},
		ShutDatabase: func() (open func()) {
			if a.tunnel == nil {
				return func() {}
			}
			return a.tunnel.shut()
		},
	})
}

// encrypt gives the agent what keeps its tunnels.
func (a *agent) encrypt(keeper encryption.Keeper) {
	a.crypt = encryption.New(keeper, a.config.Encryption, a.ovs, a.health, a.rounds)
	a.registry.MustRegister(a.crypt.Collectors()...)
}

// conditionsOf are those that not every node has.
func conditionsOf(c nodeconfig.Config) []health.Condition {
	var more []health.Condition
	if c.OwnGateway() {
		more = append(more, health.Flows)
	}
	if c.SharesAdapter() {
		more = append(more, health.Uplink)
	}
	if c.Encryption == ipsec.Enforce {
		more = append(more, health.Encryption)
	}
	return more
}

func (a *agent) conditionChanged(c health.Condition, err error) {
	if err == nil {
		slog.Info("condition holds", "condition", c)
		a.attacher.SweepSoon() // it may not have held because the database was lost
	} else {
		slog.Warn("condition does not hold", "condition", c, "reason", err)
	}
	a.enqueue()
}

// warn tells users on the Node.
func (a *agent) warn(reason, message string) {
	a.events.warn(nodeReference(a.config.NodeName), reason, message)
}

// enqueue asks for the node to be looked at soon.
func (a *agent) enqueue() {
	a.attention.Set()
}

// run serves until ctx ends or something fails that no waiting heals.
func (a *agent) run(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	serve, err := httpserver.Listen(ctx, a.config.MetricsAddress, a.probes().Handler())
	if err != nil {
		return err
	}
	var parts sync.WaitGroup
	part := func(name string, run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	parts.Go(func() { a.pods.Informer.RunWithContext(ctx) })
	parts.Go(func() { a.node.informer.RunWithContext(ctx) })
	a.listening.Store(true)
	part("cni", func(ctx context.Context) error {
		return cni.Serve(ctx, listener, a.attacher, a.attacher.ObserveRequest)
	})
	part("metrics", func(context.Context) error { return serve() })
	defer a.events.start(a.node.client)()
	part("platform", a.watchPlatform)
	part("open vswitch", a.watchDatabase)
	if a.tunnel != nil {
		part("tunnel", a.tunnel.serve)
	}
	if a.config.Chassis == nodeconfig.ChassisHosted {
		part("chassis host", a.watchHosted)
	} else {
		part("ovn-controller", a.watchController)
	}
	if a.config.SharesAdapter() {
		part("uplink", a.gateway.ReconcileUplink)
	}
	part("flows", a.gateway.ReconcileFlows)
	part("switch", a.gateway.WatchSwitch)
	part("services", a.services.Run)
	part("host's services", a.services.watch)
	if a.crypt != nil {
		part("encryption", a.crypt.Reconcile)
	}
	if a.domains != nil {
		part("domain names", a.domains.Run)
		part("devices of DNS servers", a.watchServers)
	}
	part("pending ports", a.attacher.ReconcilePending)
	part("refused ports", a.gateway.KeepPortsOpen)
	part("node", a.reconcile)
	part("sweep", a.attacher.SweepPeriodically)
	<-ctx.Done()
	parts.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// hostChanged is called when interfaces, addresses or routes of the host may have changed.
func (a *agent) hostChanged() {
	a.enqueue()
	a.gateway.HostChanged()
	a.attacher.DevicesChanged()
	if a.domains != nil {
		a.domains.Enqueue()
	}
}

// watchPlatform begins anew when the subscription breaks, as netlink's does when it overflows.
func (a *agent) watchPlatform(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := a.platform.Watch(ctx, a.hostChanged); err != nil {
			slog.WarnContext(ctx, "watch the host's network again", "error", err)
			signal.Sleep(ctx, time.Second)
		}
	}
	return nil
}

func (a *agent) watchDatabase(ctx context.Context) error {
	for {
		changed := a.ovs.Changed()
		if a.ovs.Connected() {
			if a.health.Problems()[health.Database] != nil {
				a.gateway.EnqueueUplink()
			}
			a.health.Set(health.Database, nil)
		} else {
			a.health.Set(health.Database, fmt.Errorf("no connection to %s", a.config.OVSDatabase))
		}
		a.enqueue()
		if a.crypt != nil {
			a.crypt.Enqueue() // at tunnels that have come
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *agent) watchController(ctx context.Context) error {
	for ctx.Err() == nil {
		err := controllerStatus(ctx, controllerFolders(a.config))
		a.health.Set(health.Controller, err)
		if err == nil {
			signal.Sleep(ctx, controllerProbe)
		} else {
			signal.Sleep(ctx, controllerAwait)
		}
	}
	return nil
}

// reconcile looks at the node whenever something may have changed and puts right what is not as it
// shall be. Nothing is remembered between looks, so a start, a repair and a new setting are one.
func (a *agent) reconcile(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.node.informer.HasSynced, a.pods.Informer.HasSynced) {
		return nil
	}
	tick := time.NewTicker(resync)
	defer tick.Stop()
	for {
		a.rounds.Do("node", func() { a.reconcileOnce(ctx) })
		signal.Sleep(ctx, debounce)
		select {
		case <-a.attention:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *agent) reconcileOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTime)
	defer cancel()
	// Bridges do not go away with the connection; that has a condition of its own.
	if err := a.gateway.ReconcileBridges(ctx); !errors.Is(err, ovsdb.ErrDisconnected) {
		a.health.Set(health.Bridges, err)
	}
	facts, err := a.publishFacts(ctx)
	a.health.Set(health.Facts, err)
	known := err == nil
	network, err := a.node.network()
	a.health.Set(health.Network, err)
	if err == nil {
		a.setSubnets(network.PodCIDRs)
		a.gateway.ObserveNetwork(network)
		a.health.Set(health.Management, a.reconcileManagement(ctx, network))
	}
	if known && err == nil {
		a.services.report(facts, network)
		a.gateway.FactsPublished()
	}
	if len(a.health.Problems()) > 0 {
		return
	}
	if err := writeConflist(a.config); err != nil {
		slog.ErrorContext(ctx, "the container runtime does not know of weft", "error", err)
	}
}

func (a *agent) publishFacts(ctx context.Context) (contract.NodeFacts, error) {
	facts, err := a.facts()
	if err != nil {
		return facts, err
	}
	a.mu.Lock()
	a.podMTU = facts.MTU
	a.mu.Unlock()
	return facts, a.node.publish(ctx, facts)
}

func (a *agent) facts() (contract.NodeFacts, error) {
	root, err := a.ovs.Root()
	if err != nil {
		return contract.NodeFacts{}, err
	}
	facts := contract.NodeFacts{Chassis: root.ExternalIDs["system-id"],
		SharedGateway: a.config.GatewayMode() == nodeconfig.GatewayShared}
	if runtime.GOOS != contract.Linux {
		facts.OS = runtime.GOOS
	}
	if a.config.Chassis == nodeconfig.ChassisHosted {
		facts.Hosted = &contract.Hosted{Address: a.config.TunnelEnd()}
	}
	if a.tunnel != nil {
		facts.Counters = a.config.TunnelEnd()
	}
	if err := a.gateway.UplinkReady(); err != nil {
		return facts, err
	}
	if facts.Chassis == "" {
		return facts, errors.New("the chassis has no system-id yet")
	}
	uplink := a.config.UplinkMTU
	if uplink == 0 {
		if uplink, err = a.platform.UplinkMTU(a.config.EncapAddress); err != nil {
			return facts, fmt.Errorf("encap-address: %w", err)
		}
		if uplink < nodeconfig.MinUplinkMTU {
			return facts, fmt.Errorf("encap-address: the interface of %v has an MTU of %d bytes, less than the %d that pods "+
				"need; raise it, or set uplink-mtu", a.config.EncapAddress, uplink, nodeconfig.MinUplinkMTU)
		}
	}
	facts.MTU = nodeconfig.PodMTU(uplink, a.config.EncapAddress, a.config.Encrypts())
	if facts.Addresses, err = a.platform.HostAddresses(platform.ManagementDevice); err != nil {
		return facts, err
	}
	facts.Listeners = a.services.listeners()
	facts.Gateway, err = a.gateway.Facts()
	return facts, err
}

func (a *agent) reconcileManagement(ctx context.Context, network contract.NodeNetwork) error {
	m := management(network, a.mtu())
	vips, all := a.services.Routes()
	m.Routes, m.Partial = append(m.Routes, vipRoutes(network, vips)...), !all
	operations, err := a.ovs.ManagementPort(a.config, m)
	if err != nil {
		return err
	}
	if err := a.ovs.Apply(ctx, operations); err != nil {
		return fmt.Errorf("make the management port: %w", err)
	}
	if m.MTU == 0 {
		return errors.New("the MTU of the tunnels is not known yet: see the condition node-facts")
	}
	if err := a.platform.EnsureManagement(m); err != nil {
		return err
	}
	if len(vips) > 0 { // the host's own stand-in is one of them
		a.services.managed.Store(true)
	}
	// This port's flows are also the proof that ovn-controller reaches br-int and not only the
	// Southbound.
	device := a.ovs.Device(m.Device)
	if device == nil || device.ExternalIDs[openvswitch.InstalledKey] != "true" {
		return fmt.Errorf("ovn-controller has not installed the flows of logical port %s yet: see its log, and whether "+
			"the Northbound has the port", contract.ManagementPort(a.config.NodeName))
	}
	return nil
}

// management is the host's interface as the controller's decision implies it.
func management(network contract.NodeNetwork, mtu int) platform.Management {
	m := platform.Management{Device: platform.ManagementDevice, MTU: mtu}
	for _, subnet := range network.PodCIDRs {
		source, gateway := contract.ManagementAddress(subnet), contract.GatewayAddress(subnet)
		m.Addresses = append(m.Addresses, netip.PrefixFrom(source, subnet.Bits()))
		for _, destination := range slices.Concat(network.ClusterCIDRs, network.ServiceCIDRs) {
			destination = destination.Masked()
			if destination.Addr().Is4() == source.Is4() && destination != subnet.Masked() {
				m.Routes = append(m.Routes, platform.Route{Destination: destination, NextHop: gateway, Source: source})
			}
		}
	}
	m.MAC = contract.MAC(contract.Addrs(m.Addresses)...)
	return m
}

func (a *agent) setSubnets(subnets []netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.subnets, subnets) {
		a.gateway.EnqueueUplink()
		a.pods.Wake()
	}
	a.subnets = subnets
}

func (a *agent) podSubnets() []netip.Prefix {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.subnets
}

func (a *agent) mtu() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.podMTU
}
