package ovn

import (
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
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
func topologyChange(s *settings, zones map[string][]string) ovsdb.Change {
	r := newRows(clusterOwner)
	r.logicalRouter("cluster", "cluster", nil)
	r.logicalSwitch("join", "join")
	for _, key := range []string{"cluster", "linux", "gateways", "linux-gateways"} {
		r.add(nb.LoadBalancerGroupTable, key, &nb.LoadBalancerGroup{Name: "weft-" + key})
	}
	r.zoneGroups(zones)
	r.portGroups()
	r.link("join", clusterRouterID, joinSwitchID, routerPort("rtoj-cluster", s.joinAddresses(0)), "jtor-cluster", nil)
	for _, services := range s.services {
		// A ClusterIP has become an endpoint's address before its packet comes to the router.
		// What still has one belongs to no Service and must not leave the cluster.
		r.policy(clusterRouterID, "unknown service/"+services.String(), &nb.LogicalRouterPolicy{
			Priority: policyUnknownService, Action: nb.LogicalRouterPolicyActionDrop, Match: match("dst", services)})
	}
	for _, pods := range s.pods {
		// The same holds for what means something on one node only, and each time another one.
		ipv4 := pods.Addr().Is4()
		own := addressSet(slices.Concat(contract.HostAliases[:], contract.HostClients[:], contract.HostVIPs[:]), ipv4)
		r.policy(clusterRouterID, "node's own/"+ipWord(ipv4), &nb.LogicalRouterPolicy{
			Priority: policyUnknownService, Action: nb.LogicalRouterPolicyActionDrop, Match: ipWord(ipv4) + ".dst == " + own})
	}
	return r.Change
}
