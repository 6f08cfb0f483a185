package ovn

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// Owners of rows.
const (
	clusterOwner ovsdb.Owner = "Cluster"
	gatewayOwner ovsdb.Owner = "Gateway/shared"
)

func nodeOwner(name string) ovsdb.Owner   { return ovsdb.Owner("Node/" + name) }
func podOwner(key string) ovsdb.Owner     { return ovsdb.Owner("Pod/" + key) }
func serviceOwner(key string) ovsdb.Owner { return ovsdb.Owner("Service/" + key) }
func switchID(node string) string         { return ovsdb.ID(nb.LogicalSwitchTable, nodeOwner(node), "switch") }
func gatewayID(node string) string {
	return ovsdb.ID(nb.LogicalRouterTable, nodeOwner(node), "gateway")
}
func nodeSwitchPort(node string) string    { return "stor-" + node }
func clusterRouterPort(node string) string { return "rtos-" + node }

// What all nodes share.
var (
	clusterRouterID = ovsdb.ID(nb.LogicalRouterTable, clusterOwner, "cluster")
	joinSwitchID    = ovsdb.ID(nb.LogicalSwitchTable, clusterOwner, "join")
	clusterGroupID  = ovsdb.ID(nb.LoadBalancerGroupTable, clusterOwner, "cluster")
	linuxGroupID    = ovsdb.ID(nb.LoadBalancerGroupTable, clusterOwner, "linux")

	gatewaysGroupID      = ovsdb.ID(nb.LoadBalancerGroupTable, clusterOwner, "gateways")
	linuxGatewaysGroupID = ovsdb.ID(nb.LoadBalancerGroupTable, clusterOwner, "linux-gateways")
)

// clientPorts is the first port that systems give to a client that asks for none.
const clientPorts = 1 << 15

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

// joinAddresses are a router's on the join switch: the cluster's router is number 0, the gateway
// router of a node has the node's ID, and the shared gateway the number after the largest ID.
func (s *settings) joinAddresses(number int) []netip.Prefix {
	list := make([]netip.Prefix, len(s.joins))
	for i, j := range s.joins {
		list[i] = netip.PrefixFrom(JoinAddress(j, number), j.Bits())
	}
	return list
}

// JoinAddress is that of a router by its number. Endpoints see it as the client of what a gateway router balances,
// but for Services with externalTrafficPolicy: Local.
func JoinAddress(join netip.Prefix, number int) netip.Addr { return nth(join, uint64(1+number)) }

// maxNodeID is the largest node ID that has an address in every join range.
func (s *settings) maxNodeID() int {
	most := maxPool
	for _, j := range s.joins {
		if b := hostBits(j); b < 16 {
			most = min(most, 1<<b)
		}
	}
	return most - 4 // network, cluster router, shared gateway, broadcast
}

// routerPort is a router port whose hardware address follows from its addresses.
func routerPort(name string, addresses []netip.Prefix) *nb.LogicalRouterPort {
	return &nb.LogicalRouterPort{Name: name, MAC: contract.MAC(contract.Addrs(addresses)...).String(), Networks: texts(addresses)}
}

// match is an OVN match of one side ("src" or "dst") of an IP packet.
func match(side string, p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip4." + side + " == " + p.String()
	}
	return "ip6." + side + " == " + p.String()
}

func texts[T interface{ String() string }](list []T) []string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return words
}
