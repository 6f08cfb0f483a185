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
	"github.com/weftnet/weft/node/ctprobe"
	"github.com/weftnet/weft/node/domains"
	"github.com/weftnet/weft/node/hostservice"
	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/ovsdb"
)

// agent keeps one node fit for pods and serves its CNI plugin.
type agent struct {
	config    Config
	platform  Platform
	ovs       *openVSwitch
	node      *ownNode
	pods      *pods
	sandboxes *sandboxes
	records   records
	inspector *inspector
	health    *health
	rounds    *rounds
	listening atomic.Bool // the plugin is served
	metrics   *metrics
	events    *events
	uplink    *sharedUplink
	flows     *bridgeFlows
	lookup    *commitLookup
	arrivals  *arrivals
	tunnel    *agentTunnel // nil where nobody has a stream to the node
	services  *hostservice.Watcher
	apiServer *apiServer
	crypt     tunnelKeeper     // nil on systems whose tunnels cannot be encrypted
	domains   *domains.Watcher // nil where the node's DNS servers cannot be watched

	// attention is full when something may have changed and the node is to be looked at again.
	attention chan struct{}
	// untidy is full when a sweep is wanted before its time.
	untidy chan struct{}
	// portless is since when a device has had no port; for the sweep alone. One that has had none
	// for portlessTime is nobody's.
	portless     map[string]time.Time
	portlessTime time.Duration
	// takeUpTime is how long ovs-vswitchd may take for what is written to its database.
	takeUpTime time.Duration
	// probe examines a bridge's datapath, and probeLimit is how long that may take, with what it waits for.
	probe      func(context.Context, ctprobe.Dial) (ctprobe.Answer, error)
	probeLimit time.Duration
	// hyperV: the datapath is the extension of the Hyper-V switch.
	hyperV bool
	// reopenPeriod is how often ovs-vswitchd is told to open what it could not open before.
	reopenPeriod time.Duration

	mu      sync.Mutex
	subnets []netip.Prefix
	podMTU  int
	managed bool // the management port has been set up once
}

// Periods of what no event tells.
const (
	resync          = 30 * time.Second // settings that somebody changed behind the agent's back
	sweepPeriod     = time.Minute
	controllerProbe = 2 * time.Second
	controllerAwait = 250 * time.Millisecond // while it is away, pods wait for it
	// settle keeps a flood of events, such as many pods at once, from becoming a flood of looks.
	settle = 200 * time.Millisecond
	// lookTime bounds a look: a server that does not answer is asked again.
	lookTime = 5 * time.Second
)

func newAgent(config Config, platform Platform, ovs *openVSwitch, client kubernetes.Interface) (*agent, error) {
	a := &agent{
		flows:  newBridgeFlows(config),
		lookup: newCommitLookup(config.ConntrackLookup), probe: ctprobe.Run, probeLimit: probeLimit,
		hyperV: runtime.GOOS == contract.Windows,
		config: config, platform: platform, ovs: ovs, sandboxes: newSandboxes(), records: newRecords(config), inspector: newInspector(config),
		attention: make(chan struct{}, 1), untidy: make(chan struct{}, 1), portlessTime: portlessTime, takeUpTime: takeUpTime, reopenPeriod: resync,
		rounds: newRounds(), apiServer: &apiServer{}, events: newEvents(config.NodeName), uplink: newSharedUplink(config), arrivals: newArrivals(),
	}
	var more []condition
	if config.ownGateway() {
		more = append(more, conditionFlows)
	}
	if config.sharesAdapter() {
		more = append(more, conditionUplink)
	}
	if config.Encryption == ipsec.Enforce {
		more = append(more, conditionEncryption)
	}
	a.health = newHealth(func(c condition, err error) {
		if err == nil {
			slog.Info("condition holds", "condition", c)
			a.sweepSoon() // it may not have held because the database was lost
		} else {
			slog.Warn("condition does not hold", "condition", c, "reason", err)
		}
		a.look()
	}, more...)
	a.metrics = newMetrics(
		func() float64 { return float64(len(ovs.attached())) },
		func() float64 {
			if len(a.health.problems()) > 0 {
				return 0
			}
			return 1
		})
	a.metrics.registry.MustRegister(ovs.Metrics()...)
	a.metrics.registry.MustRegister(a.flows.collectors()...)
	a.metrics.registry.MustRegister(a.lookup.collectors()...)
	a.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weft_pending_arrivals", Help: "Ports of pods whose device or flows have not come yet.",
	}, func() float64 { return float64(a.arrivals.pending()) }))
	if config.servesTunnel() {
		a.tunnel = newAgentTunnel(config)
		a.tunnel.admit, a.tunnel.lookup = a.admitChassisHost, a.lookup
		a.metrics.registry.MustRegister(a.tunnel.collectors()...)
	}
	var err error
	if a.pods, err = newPods(client, config.NodeName); err != nil {
		return nil, err
	}
	if err = a.newServices(client); err != nil {
		return nil, err
	}
	a.node, err = newOwnNode(client, config.NodeName, a.look)
	return a, err
}

// look asks for the node to be looked at soon.
func (a *agent) look() {
	select {
	case a.attention <- struct{}{}:
	default:
	}
}

// run serves until ctx ends or something fails that no waiting heals.
func (a *agent) run(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	var web net.Listener
	if a.config.MetricsAddress != "" {
		var err error
		if web, err = net.Listen("tcp", a.config.MetricsAddress); err != nil {
			return fmt.Errorf("metrics-address: %w", err)
		}
		defer web.Close()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	part := func(name string, run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	parts.Go(func() { a.pods.informer.RunWithContext(ctx) })
	parts.Go(func() { a.node.informer.RunWithContext(ctx) })
	a.listening.Store(true)
	part("cni", func(ctx context.Context) error { return cni.Serve(ctx, listener, a, a.metrics.observeRequest) })
	if web != nil {
		part("metrics", func(ctx context.Context) error {
			return httpserver.Serve(ctx, web, a.endpoints(), httpserver.Endpoints)
		})
	}
	defer a.events.start(a.node.client)()
	part("platform", a.watchPlatform)
	part("open vswitch", a.watchDatabase)
	if a.tunnel != nil {
		part("tunnel", a.tunnel.serve)
	}
	if a.config.Chassis == ChassisHosted {
		part("chassis host", a.watchHosted)
	} else {
		part("ovn-controller", a.watchController)
	}
	if a.config.sharesAdapter() {
		part("uplink", a.keepUplink)
	}
	part("flows", a.keepFlows)
	part("switch", a.watchSwitch)
	part("services", a.services.Run)
	part("host's services", a.keepServices)
	if a.crypt != nil {
		part("encryption", a.keepEncrypted)
	}
	if a.domains != nil {
		part("domain names", a.domains.Run)
		part("devices of DNS servers", a.followServers)
	}
	part("arrivals", a.finishArrivals)
	part("refused ports", a.keepPortsOpen)
	part("node", a.keep)
	part("sweep", a.sweepAgainAndAgain)
	<-ctx.Done()
	parts.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// hostChanged is called when interfaces, addresses or routes of the host may have changed.
func (a *agent) hostChanged() {
	a.look()
	a.flows.look()
	a.uplink.look()
	a.arrivals.look()
	if a.domains != nil {
		a.domains.Look()
	}
}

// watchPlatform begins anew when the subscription breaks, as netlink's does when it overflows.
func (a *agent) watchPlatform(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := a.platform.Watch(ctx, a.hostChanged); err != nil {
			slog.WarnContext(ctx, "watch the host's network again", "error", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

func (a *agent) watchDatabase(ctx context.Context) error {
	for {
		changed := a.ovs.Changed()
		if a.ovs.Connected() {
			if a.health.problems()[conditionDatabase] != nil {
				a.uplink.look()
			}
			a.health.set(conditionDatabase, nil)
		} else {
			a.health.set(conditionDatabase, fmt.Errorf("no connection to %s", a.config.OVSDatabase))
		}
		a.look()
		if a.crypt != nil {
			a.crypt.Look() // at tunnels that have come
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
		a.health.set(conditionController, err)
		if err == nil {
			pause(ctx, controllerProbe)
		} else {
			pause(ctx, controllerAwait)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// keep looks at the node whenever something may have changed and puts right what is not as it
// shall be. Nothing is remembered between looks, so a start, a repair and a new setting are one.
func (a *agent) keep(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.node.informer.HasSynced, a.pods.informer.HasSynced) {
		return nil
	}
	tick := time.NewTicker(resync)
	defer tick.Stop()
	for {
		a.rounds.do("node", func() { a.keepOnce(ctx) })
		pause(ctx, settle)
		select {
		case <-a.attention:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *agent) keepOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	// Bridges do not go away with the connection; that has a condition of its own.
	if err := a.keepBridges(ctx); !errors.Is(err, ovsdb.ErrDisconnected) {
		a.health.set(conditionBridges, err)
	}
	facts, err := a.publishFacts(ctx)
	a.health.set(conditionFacts, err)
	known := err == nil
	network, err := a.node.network()
	a.health.set(conditionNetwork, err)
	if err == nil {
		a.setSubnets(network.PodCIDRs)
		a.flows.follow(network)
		a.health.set(conditionManagement, a.keepManagement(ctx, network))
	}
	if known && err == nil {
		a.tellServices(facts, network)
		a.flows.published()
	}
	if len(a.health.problems()) > 0 {
		return
	}
	if err := writeConflist(a.config); err != nil {
		slog.ErrorContext(ctx, "the container runtime does not know of weft", "error", err)
	}
}

func (a *agent) keepBridges(ctx context.Context) error {
	if !a.ovs.Connected() {
		return ovsdb.ErrDisconnected
	}
	if err := a.guardTunnels(); err != nil {
		return err
	}
	if err := a.releaseUplink(ctx); err != nil {
		return err
	}
	a.ovs.bridges.Lock()
	defer a.ovs.bridges.Unlock()
	operations, problem := a.ovs.setUp(a.config, a.uplink.get())
	if len(operations) > 0 {
		a.metrics.repairs.Inc()
		if err := a.ovs.apply(ctx, operations); err != nil {
			return fmt.Errorf("set up Open vSwitch: %w", err)
		}
	}
	a.note(noteMappings, "BridgeMissing", a.ovs.unmapped(a.config))
	if problem != nil {
		return problem
	}
	if a.config.GatewayInterface == "" || !a.config.ownGateway() || a.config.sharesAdapter() {
		return nil
	}
	return a.platform.EnsureGatewayDevice(a.config.GatewayInterface)
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
	root, err := a.ovs.root()
	if err != nil {
		return contract.NodeFacts{}, err
	}
	facts := contract.NodeFacts{Chassis: root.ExternalIDs["system-id"], SharedGateway: a.config.gateway() == GatewayShared}
	if runtime.GOOS != contract.Linux {
		facts.OS = runtime.GOOS
	}
	if a.config.Chassis == ChassisHosted {
		facts.Hosted = &contract.Hosted{Address: a.config.tunnelEnd()}
	}
	if a.tunnel != nil {
		facts.Counters = a.config.tunnelEnd()
	}
	if a.config.sharesAdapter() && a.uplink.get() == (Uplink{}) { // addresses are on the way
		return facts, errNoUplink
	}
	if facts.Chassis == "" {
		return facts, errors.New("the chassis has no system-id yet")
	}
	uplink := a.config.UplinkMTU
	if uplink == 0 {
		if uplink, err = a.platform.UplinkMTU(a.config.EncapAddress); err != nil {
			return facts, fmt.Errorf("encap-address: %w", err)
		}
		if uplink < minUplinkMTU {
			return facts, fmt.Errorf("encap-address: the interface of %v has an MTU of %d bytes, less than the %d that pods need; raise it, or set uplink-mtu", a.config.EncapAddress, uplink, minUplinkMTU)
		}
	}
	facts.MTU = podMTU(uplink, a.config.EncapAddress, a.config.encrypts())
	if facts.Addresses, err = a.platform.HostAddresses(managementDevice); err != nil {
		return facts, err
	}
	facts.Listeners = a.listeners()
	switch external, err := a.external(); {
	case err == nil:
		a.note(noteNextHops, "NextHopMissing", external.incomplete)
		if err := a.flows.ready(external); err != nil {
			return facts, err
		}
		facts.Gateway = &external.Gateway
	case !errors.Is(err, errNoGateway):
		return facts, err
	}
	return facts, nil
}

func (a *agent) keepManagement(ctx context.Context, network contract.NodeNetwork) error {
	m := management(network, a.mtu())
	vips, all := a.services.Routes()
	m.Routes, m.Partial = append(m.Routes, vipRoutes(network, vips)...), !all
	operations, err := a.ovs.managementPort(a.config, m)
	if err != nil {
		return err
	}
	if err := a.ovs.apply(ctx, operations); err != nil {
		return fmt.Errorf("make the management port: %w", err)
	}
	if m.MTU == 0 {
		return errors.New("the MTU of the tunnels is not known yet: see the condition node-facts")
	}
	if err := a.platform.EnsureManagement(m); err != nil {
		return err
	}
	if len(vips) > 0 { // the host's own stand-in is one of them
		a.setManaged()
	}
	// This port's flows are also the proof that ovn-controller reaches br-int and not only the
	// Southbound.
	device := a.ovs.device(m.Device)
	if device == nil || device.ExternalIDs[installedKey] != "true" {
		return fmt.Errorf("ovn-controller has not installed the flows of logical port %s yet: see its log, and whether the Northbound has the port", contract.ManagementPort(a.config.NodeName))
	}
	return nil
}

// management is the host's interface as the controller's decision implies it.
func management(network contract.NodeNetwork, mtu int) Management {
	m := Management{Device: managementDevice, MTU: mtu}
	for _, subnet := range network.PodCIDRs {
		source, gateway := contract.ManagementAddress(subnet), contract.GatewayAddress(subnet)
		m.Addresses = append(m.Addresses, netip.PrefixFrom(source, subnet.Bits()))
		for _, destination := range slices.Concat(network.ClusterCIDRs, network.ServiceCIDRs) {
			destination = destination.Masked()
			if destination.Addr().Is4() == source.Is4() && destination != subnet.Masked() {
				m.Routes = append(m.Routes, Route{Destination: destination, NextHop: gateway, Source: source})
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
		a.uplink.look()
		a.pods.wake()
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
