package node

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/hostservice"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/pods"
)

// services are what the node's host answers for, and how its own connections find Services.
type services struct {
	*hostservice.Watcher
	config    nodeconfig.Config
	node      *ownNode
	pods      *pods.Watcher
	apiServer *apiServer
	// podSubnets are the node's.
	podSubnets func() []netip.Prefix
	// enqueueNode has the node looked at again.
	enqueueNode func()

	managed atomic.Bool // the management port has been set up once
}

func (a *agent) newServices(client kubernetes.Interface) (*services, error) {
	watcher, err := hostservice.New(hostservice.Config{
		Client: client, Node: a.config.NodeName, Report: a.events.warn,
		// Flows outlive what made them: a node whose Southbound is away serves as before.
		Sound: func() bool {
			lasting := a.health.Lasting()
			return lasting[health.Database] == nil && lasting[health.Bridges] == nil
		},
		DaemonsFile: daemonsFile.In(a.config.DataFolder()),
	})
	if err != nil {
		return nil, err
	}
	a.registry.MustRegister(watcher.Collectors()...)
	return &services{
		Watcher: watcher, config: a.config, node: a.node, pods: a.pods, apiServer: &apiServer{},
		podSubnets: a.podSubnets, enqueueNode: a.enqueue,
	}, nil
}

// watch tells of the node's host ports, and has routes and flows follow the Services.
func (s *services) watch(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), s.pods.Informer.HasSynced) {
		return nil
	}
	for {
		pods, services := s.pods.Changes(), s.Changed()
		s.SetPods(s.pods.HostPorts(s.podSubnets()))
		select {
		case <-pods:
			signal.Sleep(ctx, debounce) // many pods at once
		case <-services:
			s.enqueueNode()
		case <-ctx.Done():
			return nil
		}
	}
}

// report says what the host is like.
func (s *services) report(facts contract.NodeFacts, network contract.NodeNetwork) {
	host := hostservice.Host{
		Addresses: facts.Addresses, Network: network, Management: s.managed.Load(),
		Router: facts.Gateway != nil, SCTP: runtime.GOOS != contract.Windows,
		Reserved: s.reserved(facts),
	}
	if facts.Gateway != nil && !facts.Gateway.HostAddresses {
		host.Routers = contract.Addrs(facts.Gateway.Addresses)
	}
	// With the host all is known: no host port may be missing then.
	s.SetPods(s.pods.HostPorts(s.podSubnets()))
	s.SetHost(host)
}

// listeners are where daemons of the host listen. An agent that has just begun leaves what the Node says of them.
func (s *services) listeners() contract.Listeners {
	list, known := s.Listeners()
	if !known {
		return s.node.facts().Listeners
	}
	return list
}

// reserved are addresses that no Service may take from the node's own connections.
func (s *services) reserved(facts contract.NodeFacts) []netip.Addr {
	reserved := []netip.Addr{s.config.EncapAddress}
	if facts.Gateway != nil {
		reserved = slices.Concat(reserved, contract.Addrs(facts.Gateway.Addresses), facts.Gateway.NextHops)
	}
	for remote := range strings.SplitSeq(s.config.OVNSouthbound, ",") {
		if method, end, ok := strings.Cut(remote, ":"); ok && method != "unix" {
			reserved = append(reserved, parseHosts(end)...) // a name's addresses are not known here
		}
	}
	reserved = append(reserved, s.apiServer.addresses()...)
	slices.SortFunc(reserved, netip.Addr.Compare)
	return slices.Compact(reserved)
}

// vipRoutes lead to virtual addresses through the management port. The next hop is the cluster's router, which
// has no part in it: the load balancer of the node's switch takes the packets first.
func vipRoutes(network contract.NodeNetwork, vips []netip.Addr) []platform.Route {
	var routes []platform.Route
	for _, vip := range vips {
		for _, subnet := range network.PodCIDRs {
			if source := contract.ManagementAddress(subnet); source.Is4() == vip.Is4() {
				routes = append(routes, platform.Route{Destination: netip.PrefixFrom(vip, vip.BitLen()),
					NextHop: contract.GatewayAddress(subnet), Source: source})
				break
			}
		}
	}
	return routes
}
