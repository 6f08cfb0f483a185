package northbound

import (
	"crypto/sha256"
	"encoding/base32"
	"math"
	"strings"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// Owners of rows.
const (
	ClusterOwner ovsdb.Owner = "Cluster"
	GatewayOwner ovsdb.Owner = "Gateway/shared"
)

func NodeOwner(name string) ovsdb.Owner { return ovsdb.Owner("Node/" + name) }

func PodOwner(key string) ovsdb.Owner { return ovsdb.Owner("Pod/" + key) }

func ServiceOwner(key string) ovsdb.Owner { return ovsdb.Owner("Service/" + key) }

func SwitchID(node string) string { return ovsdb.ID(nb.LogicalSwitchTable, NodeOwner(node), "switch") }

func GatewayID(node string) string {
	return ovsdb.ID(nb.LogicalRouterTable, NodeOwner(node), "gateway")
}

func NodeSwitchPort(node string) string { return "stor-" + node }

func ClusterRouterPort(node string) string { return "rtos-" + node }

// What all nodes share.
var (
	ClusterRouterID = ovsdb.ID(nb.LogicalRouterTable, ClusterOwner, "cluster")
	JoinSwitchID    = ovsdb.ID(nb.LogicalSwitchTable, ClusterOwner, "join")
	ClusterGroupID  = ovsdb.ID(nb.LoadBalancerGroupTable, ClusterOwner, "cluster")
	LinuxGroupID    = ovsdb.ID(nb.LoadBalancerGroupTable, ClusterOwner, "linux")

	GatewaysGroupID      = ovsdb.ID(nb.LoadBalancerGroupTable, ClusterOwner, "gateways")
	LinuxGatewaysGroupID = ovsdb.ID(nb.LoadBalancerGroupTable, ClusterOwner, "linux-gateways")
)

// GatewaysSet is the address set of nodes' gateway routers: those of a family that they have outside.
func GatewaysSet(ipv4 bool) string { return "weft_gateways_" + IPWord(ipv4) }

// GatewaysKey is the key of its row, which is the cluster's.
func GatewaysKey(ipv4 bool) string { return "gateways/" + IPWord(ipv4) }

// ClientPorts is the first port that systems give to a client that asks for none.
const ClientPorts = 1 << 15

// Ports of every node by what they are. A Port_Group's ACLs hold for all packets on the switches of its
// ports, whichever port they come in by.
var (
	// EdgesGroup has a port of each switch on which packets for a Service come into OVN: the nodes', and
	// those between their gateway routers and the world.
	EdgesGroup   = "weft_edges"
	EdgesGroupID = ovsdb.ID(nb.PortGroupTable, ClusterOwner, "edges")
	// HostsGroup has the nodes' hosts.
	HostsGroup   = "weft_hosts"
	HostsGroupID = ovsdb.ID(nb.PortGroupTable, ClusterOwner, "hosts")
	// OutsideGroup has the ports between all gateway routers and the world: the nodes', the shared one and those
	// of egress addresses.
	OutsideGroup   = "weft_outside"
	OutsideGroupID = ovsdb.ID(nb.PortGroupTable, ClusterOwner, "outside")
)

// HairpinAddresses stand in for a client that its Service has sent back to itself. They are fixed, so
// that a policy can admit them, and the same as ovn-kubernetes'.
var HairpinAddresses = [2]string{"169.254.169.5", "fd69::5"}

// ShownName are the characters that lb-list shows of a load balancer's name.
const ShownName = 16

// LoadBalancerName is a load balancer's: the name of the object that it serves, where it serves, the
// object's namespace and the protocol. What ovn-nbctl lb-list shows of it tells one object from another: a
// long name's middle gives way to a tilde, which no object's name has, and the whole name comes after the
// namespace. Nothing finds a row by its name.
func LoadBalancerName(namespace, name, where string, kind objects.Protocol) string {
	whole := []string{name, where, namespace, string(kind)}
	if len(name) > ShownName {
		whole = []string{name[:ShownName/2] + "~" + name[len(name)-ShownName/2+1:], where, namespace, name,
			string(kind)}
	}
	return strings.Join(whole, "/")
}

// PoliciesOwner has what all policies share.
const PoliciesOwner ovsdb.Owner = "Policies/common"

// EgressNodesOwner has what all EgressIPs share.
const EgressNodesOwner ovsdb.Owner = "Egress/nodes"

// LivenessOwner has what shows which nodes live, long before Kubernetes knows: a router that forwards nothing,
// with a port for each node that may announce addresses. The port is on the node's chassis as long as the
// node lives; watchers see by BFD when it does not, and one of them takes the port: if two are left that see
// each other, since one alone cannot tell that it is not itself cut off. It is there only while there are
// AddressPools.
const LivenessOwner ovsdb.Owner = "Alive/nodes"

func SelectionOwner(text string) ovsdb.Owner { return ovsdb.Owner("Pods/" + text) }

// SelectionOf is the text of the selection that an owner of rows is; ok is false of another owner.
func SelectionOf(owner ovsdb.Owner) (text string, ok bool) {
	return strings.CutPrefix(string(owner), string(SelectionOwner("")))
}

func NodeSetOwner(nodes policy.Nodes) ovsdb.Owner { return ovsdb.Owner("Nodes/" + string(nodes)) }

func PolicyOwner(k objects.Key) ovsdb.Owner { return ovsdb.Owner(k.Kind.String() + "/" + k.Name) }

func EgressOwner(name string) ovsdb.Owner { return ovsdb.Owner("EgressIP/" + name) }

func DomainOwner(name string) ovsdb.Owner { return ovsdb.Owner("DomainName/" + name) }

func FlushOwner(service string) ovsdb.Owner { return ovsdb.Owner("Flush/" + service) }

func ServiceCIDROwner(name string) ovsdb.Owner {
	return ovsdb.Owner(objects.ServiceCIDRKind.String() + "/" + name)
}

// MaxPriority is OVN's in a group of chassis.
const MaxPriority = math.MaxInt16

func IPWord(ipv4 bool) string {
	if ipv4 {
		return "ip4"
	}
	return "ip6"
}

func IPVersion(ipv4 bool) string {
	if ipv4 {
		return "4"
	}
	return "6"
}

// Distinct is a name for what OVN's names cannot spell: as much of it as is readable, and a hash, which
// nobody finds another text for: users write selectors, and OVN wants names that are unique.
func Distinct(readable, of string) string {
	word := strings.Trim(strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' {
			return c
		}
		return '_'
	}, readable), "_")
	if len(word) > maxReadable {
		word = word[:maxReadable]
	}
	sum := sha256.Sum256([]byte(of))
	return word + "_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// maxReadable bounds what of a set's name is for people.
const maxReadable = 40
