package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/version"
	"github.com/weftnet/weft/node/gateway"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/pods"
	"github.com/weftnet/weft/ovsdb"
)

// reconciler looks at the node as a whole: it tells the cluster what the node is like, and keeps the management port.
type reconciler struct {
	config   nodeconfig.Config
	platform platform.Platform
	ovs      *openvswitch.Database
	node     *ownNode
	pods     *pods.Watcher
	health   *health.Tracker
	rounds   *health.Rounds
	gateway  *gateway.Gateway
	services *services

	switchVersion switchVersion

	// attention is given when something may have changed and the node is to be looked at again.
	attention signal.Signal

	mu      sync.Mutex
	subnets []netip.Prefix
	podMTU  int
}

// enqueue asks for the node to be looked at soon.
func (r *reconciler) enqueue() { r.attention.Set() }

// reconcile looks at the node whenever something may have changed and puts right what is not as it
// must be. Nothing is remembered between looks, so a start, a repair and a new setting are one.
func (r *reconciler) reconcile(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), r.node.informer.HasSynced, r.pods.Informer.HasSynced) {
		return nil
	}
	tick := time.NewTicker(resync)
	defer tick.Stop()
	for {
		r.rounds.Do("node", func() { r.reconcileOnce(ctx) })
		signal.Sleep(ctx, debounce)
		select {
		case <-r.attention:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *reconciler) reconcileOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTime)
	defer cancel()
	// Bridges do not go away with the connection; that has a condition of its own.
	if err := r.gateway.ReconcileBridges(ctx); !errors.Is(err, ovsdb.ErrDisconnected) {
		r.health.Set(health.Bridges, err)
	}
	facts, err := r.publishFacts(ctx)
	r.health.Set(health.Facts, err)
	known := err == nil
	network, err := r.node.network()
	r.health.Set(health.Network, err)
	if err == nil {
		r.pods.KeepsNetworks(network.PodNetworks, r.node.facts().PodNetworks)
		r.setSubnets(network.PodCIDRs)
		r.gateway.ObserveNetwork(network)
		r.gateway.BoundConnections(ctx, network)
		r.health.Set(health.Management, r.reconcileManagement(ctx, network))
	}
	if known && err == nil {
		r.services.report(facts, network)
		r.gateway.FactsPublished()
	}
	if len(r.health.Problems()) > 0 {
		return
	}
	if err := writeConflist(r.config); err != nil {
		slog.ErrorContext(ctx, "the container runtime does not know of weft", "error", err)
	}
}

func (r *reconciler) publishFacts(ctx context.Context) (contract.NodeFacts, error) {
	facts, err := r.facts(ctx)
	if err != nil {
		return facts, err
	}
	r.mu.Lock()
	r.podMTU = facts.MTU
	r.mu.Unlock()
	return facts, r.node.publish(ctx, facts)
}

func (r *reconciler) facts(ctx context.Context) (contract.NodeFacts, error) {
	root, err := r.ovs.Root()
	if err != nil {
		return contract.NodeFacts{}, err
	}
	facts := contract.NodeFacts{Chassis: root.ExternalIDs["system-id"], Version: version.Version(),
		OpenVSwitch:   r.switchVersion.of(ctx, r.config, root),
		TunnelAddress: r.config.EncapAddress,
		SharedGateway: r.config.GatewayMode() == nodeconfig.GatewayShared}
	if runtime.GOOS != contract.Linux {
		facts.OS = runtime.GOOS
	}
	if r.config.Chassis == nodeconfig.ChassisHosted {
		facts.Hosted = &contract.Hosted{Address: r.config.TunnelEnd()}
	}
	if r.config.ServesTunnel() {
		facts.Counters = r.config.TunnelEnd()
	}
	if err := r.gateway.UplinkReady(); err != nil {
		return facts, err
	}
	if facts.Chassis == "" {
		return facts, errors.New("the chassis has no system-id yet")
	}
	uplink, err := r.uplinkMTU()
	if err != nil {
		return facts, err
	}
	facts.MTU = nodeconfig.PodMTU(uplink, r.config.EncapAddress, r.config.Encrypts())
	if facts.Addresses, err = r.platform.HostAddresses(platform.ManagementDevice); err != nil {
		return facts, err
	}
	facts.Listeners = r.services.listeners()
	facts.PodNetworks = r.pods.ReadsNetworks(r.node.facts().PodNetworks)
	facts.Gateway, err = r.gateway.Facts()
	return facts, err
}

// watchNetworks has the cluster told whether the agent reads PodNetworks.
func (r *reconciler) watchNetworks(ctx context.Context) error {
	said := false
	for {
		changed := r.pods.Changes()
		if reads := r.pods.ReadsNetworks(said); reads != said {
			said = reads
			r.enqueue()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// uplinkMTU is that of the key, or else of the uplink's interface.
func (r *reconciler) uplinkMTU() (int, error) {
	has, err := r.platform.UplinkMTU(r.config.EncapAddress)
	if set := r.config.UplinkMTU; set != 0 {
		if err == nil {
			r.health.Note(health.UplinkMTU, uplinkMTUTooLarge, tooLarge(set, has, r.config.EncapAddress))
		}
		return set, nil
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("encap-address: %w", err)
	case has < nodeconfig.MinUplinkMTU:
		return 0, fmt.Errorf("encap-address: the interface of %v has an MTU of %d bytes, less than the %d that pods need; "+
			"raise it, or set uplink-mtu", r.config.EncapAddress, has, nodeconfig.MinUplinkMTU)
	}
	return has, nil
}

// tooLarge says that an interface does not carry what the key asks of it.
func tooLarge(set, has int, address netip.Addr) error {
	if set <= has {
		return nil
	}
	return fmt.Errorf("uplink-mtu: %d is more than the %d bytes that the interface of %v carries: large packets to other "+
		"nodes are lost; raise the MTU of the interface, or lower the key and replace the node's pods", set, has, address)
}

func (r *reconciler) reconcileManagement(ctx context.Context, network contract.NodeNetwork) error {
	m := management(network, r.mtu())
	vips, all := r.services.Routes()
	m.Routes, m.Partial = append(m.Routes, vipRoutes(network, vips)...), !all
	operations, err := r.ovs.ManagementPort(r.config, m)
	if err != nil {
		return err
	}
	if err := r.ovs.Apply(ctx, operations); err != nil {
		return fmt.Errorf("make the management port: %w", err)
	}
	if m.MTU == 0 {
		return errors.New("the MTU of the tunnels is not known yet: see the condition node-facts")
	}
	if err := r.platform.EnsureManagement(m); err != nil {
		return err
	}
	if len(vips) > 0 { // the host's own stand-in is one of them
		r.services.managed.Store(true)
	}
	// This port's flows are also the proof that ovn-controller reaches br-int and not only the
	// Southbound.
	device := r.ovs.Device(m.Device)
	if device == nil || device.ExternalIDs[openvswitch.InstalledKey] != "true" {
		return fmt.Errorf("ovn-controller has not installed the flows of logical port %s yet: see its log, and whether "+
			"the Northbound has the port", contract.ManagementPort(r.config.NodeName))
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

func (r *reconciler) setSubnets(subnets []netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.subnets, subnets) {
		r.gateway.EnqueueUplink()
		r.pods.Wake()
	}
	r.subnets = subnets
}

func (r *reconciler) podSubnets() []netip.Prefix {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.subnets
}

func (r *reconciler) mtu() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.podMTU
}
