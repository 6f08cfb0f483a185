package topology

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/objects"
)

// Node is what is decided of a node. All that its rows follow from is in it, and all that others see of a node.
// A node may be known before it is there, and after.
type Node struct {
	Name    string
	Object  *objects.Node  // nil while it is not there
	Placed  bool           // it has an ID and subnets, hence a switch
	ID      int            // its number on the join switch
	Subnets []netip.Prefix // at most one a family, IPv4 first
	Facts   contract.NodeFacts
	OS      string       // [contract.Linux] or [contract.Windows]
	Tunnels []netip.Addr // where its tunnels may end, sorted
	Outside string       // the network outside that its gateway is on, "" where nobody has granted it: see OutsideOf
	Zone    string       // whose Northbound it has ([contract.ZoneLabel]), "" in a cluster without zones
}

// topologyZone is the zone in Kubernetes' topology of a node that has a switch, "" for none.
func (n *Node) topologyZone() string {
	if n.Object == nil || !n.Placed {
		return ""
	}
	return n.Object.Zone
}

// Windows says whether the node's chassis has the Hyper-V datapath: see capability.Limits.
func (n *Node) Windows() bool { return n.OS == contract.Windows }

// Chassis is where the node's ports may be bound. Before the node's agent has said its chassis' name
// the node's own stands in: OVN also compares it with the chassis' host name.
func (n *Node) Chassis() string {
	if n.Facts.Chassis != "" {
		return n.Facts.Chassis
	}
	return n.Name
}

// TemplateVariables are the node's, by name.
func (n *Node) TemplateVariables() map[string]string {
	variables := map[string]string{}
	for _, vip := range contract.HostVIPs {
		variables[loadbalancer.HostVariable(vip.Is4())] = vip.String()
	}
	for _, ipv4 := range []bool{true, false} {
		for i, addr := range n.NodePortAddresses(ipv4) {
			variables[loadbalancer.NodePortVariable(ipv4, i)] = addr.String()
		}
	}
	return variables
}

// MaxNodePortAddresses bounds what a node with very many addresses costs every NodePort in the cluster.
const MaxNodePortAddresses = 16

// NodePortAddresses are those of a family that the node's NodePorts have: its gateway's and its host's,
// sorted.
func (n *Node) NodePortAddresses(ipv4 bool) []netip.Addr {
	var all []netip.Addr
	take := func(addrs []netip.Addr) {
		for _, a := range addrs {
			if a.Is4() == ipv4 && len(all) < MaxNodePortAddresses && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	if g := n.Facts.Gateway; g != nil {
		take(contract.Addrs(g.Addresses))
	}
	take(n.Facts.Addresses)
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// Listens says whether a daemon of a node listens at an address of its host. A gateway router with addresses of its own
// is not the host.
func (n *Node) Listens(protocol string, at netip.AddrPort) bool {
	return n.Facts.Listeners.Have(protocol, at) && n.Object != nil && slices.Contains(n.HostAddresses(), at.Addr())
}

// HostAddresses are those that a node's host has by its status and its agent's facts.
func (n *Node) HostAddresses() []netip.Addr {
	list := slices.Concat(n.Object.Addresses, n.Facts.Addresses)
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// PolicyAddresses are all by which a node's host is known to policies: those, and what it has among the pods.
func (n *Node) PolicyAddresses() []netip.Addr {
	list := n.HostAddresses()
	for _, subnet := range n.Subnets {
		list = append(list, contract.ManagementAddress(subnet))
	}
	return list
}

// ByAge orders nodes, the oldest first.
func ByAge(a, b *Node) int {
	return cmp.Or(objects.Older(&a.Object.ObjectMeta, &b.Object.ObjectMeta), cmp.Compare(a.Name, b.Name))
}
