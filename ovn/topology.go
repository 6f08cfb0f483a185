package ovn

import (
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Priorities of the cluster router's policies.
const (
	policyHostToItself   = 1005
	policyOwnHost        = 1004 // as ovn-kubernetes has it
	policyUnknownService = 100
)

// topologyChange is what exists once: the cluster's router, the switch that joins it with the gateway
// routers, and the groups of load balancers: that of every node's switch, that of every node's gateway
// router, and for both one of Linux nodes.
func topologyChange(s *settings.Settings, zones map[string][]string) ovsdb.Change {
	r := newRows(northbound.ClusterOwner)
	r.LogicalRouter("cluster", "cluster", nil)
	r.LogicalSwitch("join", "join")
	for _, key := range []string{"cluster", "linux", "gateways", "linux-gateways"} {
		r.Add(nb.LoadBalancerGroupTable, key, &nb.LoadBalancerGroup{Name: "weft-" + key})
	}
	r.zoneGroups(zones)
	r.portGroups()
	r.Link("join", northbound.ClusterRouterID, northbound.JoinSwitchID, northbound.RouterPort("rtoj-cluster", s.JoinAddresses(0)), "jtor-cluster", nil)
	for _, services := range s.Services {
		// A ClusterIP has become an endpoint's address before its packet comes to the router.
		// What still has one belongs to no Service and must not leave the cluster.
		r.Policy(northbound.ClusterRouterID, "unknown service/"+services.String(), &nb.LogicalRouterPolicy{
			Priority: policyUnknownService, Action: nb.LogicalRouterPolicyActionDrop, Match: northbound.Match("dst", services)})
	}
	for _, pods := range s.Pods {
		// The same holds for what means something on one node only, and each time another one.
		ipv4 := pods.Addr().Is4()
		own := northbound.AddressSet(slices.Concat(contract.HostAliases[:], contract.HostClients[:], contract.HostVIPs[:]), ipv4)
		r.Policy(northbound.ClusterRouterID, "node's own/"+northbound.IPWord(ipv4), &nb.LogicalRouterPolicy{
			Priority: policyUnknownService, Action: nb.LogicalRouterPolicyActionDrop, Match: northbound.IPWord(ipv4) + ".dst == " + own})
	}
	return r.Change
}
