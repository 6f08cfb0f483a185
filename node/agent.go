package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/attach"
	"github.com/weftnet/weft/node/capture"
	"github.com/weftnet/weft/node/domains"
	"github.com/weftnet/weft/node/encryption"
	"github.com/weftnet/weft/node/gateway"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/ovncontroller"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/pods"
)

// agent keeps one node fit for pods: it wires the parts, each of which keeps what is its own.
type agent struct {
	*reconciler
	registry  *prometheus.Registry
	events    *events
	listening atomic.Bool // the plugin is served

	attacher *attach.Attacher
	tunnel   *agentTunnel        // nil where nobody has a stream to the node
	captures *capture.Server     // nil without tunnel
	crypt    *encryption.Tunnels // nil on systems whose tunnels cannot be encrypted
	domains  *domains.Watcher    // nil where the node's DNS servers cannot be watched
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
	own dynamic.Interface,
) (*agent, error) {
	a := &agent{events: newEvents(c.NodeName), reconciler: &reconciler{
		config: c, platform: system, ovs: ovs, rounds: health.NewRounds(), attention: signal.New(),
	}}
	a.health = health.New(a.conditionChanged, a.warn, conditionsOf(c)...)
	a.registry = newRegistry(c, a.bridged,
		func() float64 { return float64(len(ovs.Attached())) },
		func() float64 {
			if len(a.health.Problems()) > 0 {
				return 0
			}
			return 1
		})
	var err error
	if a.pods, err = pods.New(client, own, c.NodeName); err != nil {
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
		a.tunnel.metrics, a.tunnel.connections = a.registry, a.newConnections().Open
		a.captures = capture.NewServer(captured{c, ovs}.find, captureBackend(c))
		a.tunnel.captures, a.tunnel.probes = a.captures.Open, a.newProbes().Open
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
	a.crypt = encryption.New(keeper, a.config.Encryption, a.ovs, a.health, a.rounds, a.node.windowsNodes)
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
func (a *agent) warn(reason *reasons.Event, message string) {
	a.events.warn(nodeReference(a.config.NodeName), reason, message)
}

// run serves until ctx ends or something fails that no waiting heals.
func (a *agent) run(ctx context.Context, listener net.Listener, tools *web) error {
	defer listener.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tools.answer(a.probes())
	var parts sync.WaitGroup
	part := func(name string, run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	parts.Go(func() { a.pods.Run(ctx) })
	part("pod networks", a.watchNetworks)
	parts.Go(func() { a.node.informer.RunWithContext(ctx) })
	a.listening.Store(true)
	part("cni", func(ctx context.Context) error {
		return cni.Serve(ctx, listener, a.attacher, a.attacher.ObserveRequest)
	})
	part("metrics", tools.wait)
	defer a.events.start(a.node.client)()
	part("platform", a.watchPlatform)
	part("open vswitch", a.watchDatabase)
	if a.tunnel != nil {
		part("tunnel", a.tunnel.serve)
		parts.Go(func() { a.captures.Run(ctx) })
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
	part("upcalls", a.watchUpcalls)
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
	part("condition", a.tellCondition)
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
		err := ovncontroller.Status(ctx, a.config)
		a.health.Set(health.Controller, err)
		if err == nil {
			signal.Sleep(ctx, controllerProbe)
		} else {
			signal.Sleep(ctx, controllerAwait)
		}
	}
	return nil
}
