package ovn

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/services"
)

// placement is what is decided of a node. All that its rows follow from is in it, and all that others see of a node.
// A node may be known before it is there, and after.
type placement struct {
	name    string
	object  *objects.Node  // nil while it is not there
	placed  bool           // it has an ID and subnets, hence a switch
	id      int            // its number on the join switch
	subnets []netip.Prefix // at most one a family, IPv4 first
	facts   contract.NodeFacts
	os      string       // [contract.Linux] or [contract.Windows]
	tunnels []netip.Addr // where its tunnels may end, sorted
	outside string       // the network outside that its gateway is on, "" where nobody has granted it: see outsideOf
}

// zone is the zone of a node that has a switch, "" for none.
func (n *placement) zone() string {
	if n.object == nil || !n.placed {
		return ""
	}
	return n.object.Zone
}

// windows says whether the node's chassis has the Hyper-V datapath: see capability.Limits.
func (n *placement) windows() bool { return n.os == contract.Windows }

// chassis is where the node's ports may be bound. Before the node's agent has said its chassis' name
// the node's own stands in: OVN also compares it with the chassis' host name.
func (n *placement) chassis() string {
	if n.facts.Chassis != "" {
		return n.facts.Chassis
	}
	return n.name
}

// variables are the node's, by name.
func (n *placement) variables() map[string]string {
	variables := map[string]string{}
	for _, vip := range contract.HostVIPs {
		variables[services.HostVariable(vip.Is4())] = vip.String()
	}
	for _, ipv4 := range []bool{true, false} {
		for i, addr := range n.nodePortAddresses(ipv4) {
			variables[services.NodePortVariable(ipv4, i)] = addr.String()
		}
	}
	return variables
}

// maxNodePortAddresses bounds what a node with very many addresses costs every NodePort in the cluster.
const maxNodePortAddresses = 16

// nodePortAddresses are those of a family that the node's NodePorts have: its gateway's and its host's,
// sorted.
func (n *placement) nodePortAddresses(ipv4 bool) []netip.Addr {
	var all []netip.Addr
	take := func(addrs []netip.Addr) {
		for _, a := range addrs {
			if a.Is4() == ipv4 && len(all) < maxNodePortAddresses && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	if g := n.facts.Gateway; g != nil {
		take(contract.Addrs(g.Addresses))
	}
	take(n.facts.Addresses)
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// listens says whether a daemon of a node listens at an address of its host. A gateway router with addresses of its own
// is not the host.
func (n *placement) listens(protocol string, at netip.AddrPort) bool {
	return n.facts.Listeners.Have(protocol, at) && n.object != nil && slices.Contains(n.hostAddresses(), at.Addr())
}

// hostAddresses are those that a node's host has by its status and its agent's facts.
func (n *placement) hostAddresses() []netip.Addr {
	list := slices.Concat(n.object.Addresses, n.facts.Addresses)
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// policyAddresses are all by which a node's host is known to policies: those, and what it has among the pods.
func (n *placement) policyAddresses() []netip.Addr {
	list := n.hostAddresses()
	for _, subnet := range n.subnets {
		list = append(list, contract.ManagementAddress(subnet))
	}
	return list
}

// byAge orders nodes, the oldest first.
func byAge(a, b *placement) int {
	return cmp.Or(objects.Older(&a.object.ObjectMeta, &b.object.ObjectMeta), cmp.Compare(a.name, b.name))
}

// rendezvous is how much a node is preferred for something, among others.
func rendezvous(what, node string) uint64 {
	sum := sha256.Sum256([]byte(what + "\x00" + node))
	return binary.BigEndian.Uint64(sum[:])
}
