package ovn

import (
	"math"
	"strings"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// Owners of rows.
const (
	clusterOwner ovsdb.Owner = "Cluster"
	gatewayOwner ovsdb.Owner = "Gateway/shared"
)

func nodeOwner(name string) ovsdb.Owner { return ovsdb.Owner("Node/" + name) }

func podOwner(key string) ovsdb.Owner { return ovsdb.Owner("Pod/" + key) }

func serviceOwner(key string) ovsdb.Owner { return ovsdb.Owner("Service/" + key) }

func switchID(node string) string { return ovsdb.ID(nb.LogicalSwitchTable, nodeOwner(node), "switch") }

func gatewayID(node string) string {
	return ovsdb.ID(nb.LogicalRouterTable, nodeOwner(node), "gateway")
}

func nodeSwitchPort(node string) string { return "stor-" + node }

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

// Ports of every node by what they are. A Port_Group's ACLs hold for all packets on the switches of its
// ports, whichever port they come in by.
var (
	// edgesGroup has a port of each switch on which packets for a Service come into OVN: the nodes', and
	// those between their gateway routers and the world.
	edgesGroup   = "weft_edges"
	edgesGroupID = ovsdb.ID(nb.PortGroupTable, clusterOwner, "edges")
	// hostsGroup has the nodes' hosts.
	hostsGroup   = "weft_hosts"
	hostsGroupID = ovsdb.ID(nb.PortGroupTable, clusterOwner, "hosts")
	// outsideGroup has the ports between all gateway routers and the world: the nodes', the shared one and those
	// of egress addresses.
	outsideGroup   = "weft_outside"
	outsideGroupID = ovsdb.ID(nb.PortGroupTable, clusterOwner, "outside")
)

// hairpinAddresses stand in for a client that its Service has sent back to itself. They are fixed, so
// that a policy can admit them, and the same as ovn-kubernetes'.
var hairpinAddresses = [2]string{"169.254.169.5", "fd69::5"}

// shownName are the characters that lb-list shows of a load balancer's name.
const shownName = 16

// balancerName is a load balancer's: the name of the object that it serves, where it serves, the
// object's namespace and the protocol. What ovn-nbctl lb-list shows of it tells one object from another: a
// long name's middle gives way to a tilde, which no object's name has, and the whole name comes after the
// namespace. Nothing finds a row by its name.
func balancerName(namespace, name, where string, kind protocol) string {
	whole := []string{name, where, namespace, string(kind)}
	if len(name) > shownName {
		whole = []string{name[:shownName/2] + "~" + name[len(name)-shownName/2+1:], where, namespace, name, string(kind)}
	}
	return strings.Join(whole, "/")
}

// policiesOwner has what all policies share.
const policiesOwner ovsdb.Owner = "Policies/common"

// egressNodesOwner has what all EgressIPs share.
const egressNodesOwner ovsdb.Owner = "Egress/nodes"

// livenessOwner has what shows which nodes live, long before Kubernetes knows: a router that forwards nothing,
// with a port for each node that may announce addresses. The port is on the node's chassis as long as the
// node lives; watchers see by BFD when it does not, and one of them takes the port: if two are left that see
// each other, since one alone cannot tell that it is not itself cut off. It is there only while there are
// AddressPools.
const livenessOwner ovsdb.Owner = "Alive/nodes"

func selectionOwner(text string) ovsdb.Owner { return ovsdb.Owner("Pods/" + text) }

func nodeSetOwner(nodes policy.Nodes) ovsdb.Owner { return ovsdb.Owner("Nodes/" + string(nodes)) }

func policyOwner(k objectKey) ovsdb.Owner { return ovsdb.Owner(k.kind.String() + "/" + k.name) }

func egressOwner(name string) ovsdb.Owner { return ovsdb.Owner("EgressIP/" + name) }

func domainOwner(name string) ovsdb.Owner { return ovsdb.Owner("DomainName/" + name) }

func flushOwner(service string) ovsdb.Owner { return ovsdb.Owner("Flush/" + service) }

func serviceCIDROwner(name string) ovsdb.Owner {
	return ovsdb.Owner(serviceCIDRKind.String() + "/" + name)
}

// maxPriority is OVN's in a group of chassis.
const maxPriority = math.MaxInt16

func ipWord(ipv4 bool) string {
	if ipv4 {
		return "ip4"
	}
	return "ip6"
}

func digit(ipv4 bool) string {
	if ipv4 {
		return "4"
	}
	return "6"
}
