package egress

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/models/rendezvous"
	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// planOf decides which nodes carry an EgressIP's addresses, or says why none does.
func (b *Part) planOf(e *state, taken map[netip.Addr]string) plan {
	refuse := func(reason *reasons.Condition, format string, args ...any) plan {
		return plan{reason: reason, message: fmt.Sprintf(format, args...)}
	}
	o := e.object
	e.standing = nil
	if o.Wrong != "" {
		return refuse(badSpec, "%s; it selects no pod until then", o.Wrong)
	}
	for _, addr := range o.Addresses {
		if key, in, ok := b.settings.ClusterRange(func(p netip.Prefix) bool { return p.Contains(addr) }); ok {
			return refuse(addressInCluster,
				"spec.addresses: %s is in %s %s; give a free address of the nodes' external subnet", addr, key, in)
		}
		if whose, ok := taken[addr]; ok {
			return refuse(addressTaken, "spec.addresses: %s already belongs to %s; give another address", addr, whose)
		}
		if ipam.Family(b.settings.Pods, addr) == nil {
			return refuse(noSuchFamily, "spec.addresses: pods have no address of the family of %s (pod-cidrs %s); remove it",
				addr, ipam.Join(b.settings.Pods))
		}
	}
	nodes, why := b.candidatesFor(o)
	if len(nodes) == 0 {
		return refuse(noNode, "%s", why)
	}
	nodes, why = b.onNetwork(o, nodes)
	if len(nodes) == 0 {
		return refuse(addressNotInNetwork, "%s", why)
	}
	if !b.takeNumber(e) {
		return refuse(noNumber, "all %d numbers that join-cidrs %s has room for are taken; remove unused Nodes or "+
			"EgressIPs, or make join-cidrs larger", b.ids.Size, ipam.Join(b.settings.Joins))
	}
	e.standing = nodes
	return b.choose(e)
}

// choose is the plan with the nodes that are preferred of those which stand for an EgressIP, of which there is one at
// least. Subnets and next hops are those of the first.
func (b *Part) choose(e *state) (plan plan) {
	nodes := prefer(e.object.Name, slices.Clone(e.standing), MaxHosting)
	first := nodes[0].Facts.Gateway
	plan.gateway = contract.Gateway{Network: nodes[0].Outside, MAC: routerMAC(e.object.Addresses).String()}
	for _, addr := range e.object.Addresses {
		on := ipam.Family(first.Addresses, addr)
		plan.gateway.Addresses = append(plan.gateway.Addresses, netip.PrefixFrom(addr, on.Bits()))
		for _, next := range first.NextHops {
			if next.Is4() == addr.Is4() && (on.Contains(next) || next.IsLinkLocalUnicast()) {
				plan.gateway.NextHops = append(plan.gateway.NextHops, next)
			}
		}
	}
	for _, n := range nodes {
		plan.members = append(plan.members, topology.MemberOf(n))
		plan.names = append(plan.names, n.Name)
	}
	able := "1 node is ready to carry the addresses"
	if n := len(plan.members); n > 1 {
		able = fmt.Sprintf("%d nodes are ready to carry the addresses, one at a time", n)
	}
	plan.reason, plan.message = carried, fmt.Sprintf("%s, on the network %s", able, plan.gateway.Network)
	for _, address := range plan.gateway.Addresses {
		if !slices.ContainsFunc(plan.gateway.NextHops, func(n netip.Addr) bool { return n.Is4() == address.Addr().Is4() }) {
			plan.message += fmt.Sprintf("; Node %s has no next hop for %s, so it reaches only its subnet; set "+
				"gateway-next-hops of the node's agent", plan.names[0], address.Addr())
		}
	}
	return plan
}

// routerMAC is the hardware address of the router with an EgressIP's addresses, as [contract.MAC] has it of an IPv4
// address. In IPv6, two addresses of one network may have the same end. So what follows 0a:58 is a hash of all of an
// address (FNV-1a).
func routerMAC(addresses []netip.Addr) net.HardwareAddr {
	if slices.ContainsFunc(addresses, netip.Addr.Is4) {
		return contract.MAC(addresses...)
	}
	h := fnv.New32a()
	h.Write(addresses[0].AsSlice())
	return h.Sum(net.HardwareAddr{0x0a, 0x58})
}

// candidatesFor are the nodes that an EgressIP selects and that can host addresses at all, the oldest first.
func (b *Part) candidatesFor(o *objects.EgressIP) (nodes []*topology.Node, why string) {
	selected, excuse := 0, ""
	for n := range b.nodes.Placed() {
		if !o.Nodes.Matches(n.Object.Labels) {
			continue
		}
		selected++
		switch g := n.Facts.Gateway; {
		case n.Windows():
			excuse = fmt.Sprintf("Node %s runs Windows, whose datapath lacks what a gateway for other nodes needs (%s)", n.Name,
				capability.ClonedPackets.Feature)
		case n.Facts.Chassis == "":
			excuse = fmt.Sprintf("Node %s's agent has not said its chassis' name yet", n.Name)
		case g == nil:
			excuse = fmt.Sprintf("Node %s has no gateway of its own (gateway: local for its agent)", n.Name)
		case n.Outside == "":
			excuse = fmt.Sprintf("no administrator has granted Node %s the network %q of its gateway (label %s; an Event on "+
				"the Node says more)", n.Name, objects.Quoted(g.Network), topology.NetworkLabel)
		case o.Network != "" && n.Outside != o.Network:
			excuse = fmt.Sprintf("the gateway of Node %s is on network %q and spec.network is %q", n.Name,
				objects.Quoted(g.Network), o.Network)
		default:
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, topology.ByAge)
	switch {
	case len(nodes) > 0:
		return nodes, ""
	case selected == 0:
		return nil, fmt.Sprintf("spec.nodeSelector: no node matches %q; label Linux nodes that have a gateway, like "+
			"kubectl label node NAME weft.net/egress=", objects.Quoted(o.Nodes.String()))
	}
	return nil, fmt.Sprintf("spec.nodeSelector: none of the %d nodes that match can carry the addresses: %s; select "+
		"Linux nodes with a gateway", selected, excuse)
}

// onNetwork keeps the nodes of the one network that has the addresses, or says why there are none.
func (b *Part) onNetwork(o *objects.EgressIP, nodes []*topology.Node) (on []*topology.Node, why string) {
	subnets := map[string]struct{}{}
	lacking := netip.Addr{}
	nodes = slices.DeleteFunc(nodes, func(n *topology.Node) bool {
		for _, addr := range o.Addresses {
			if on := ipam.Family(n.Facts.Gateway.Addresses, addr); on == nil || !on.Contains(addr) {
				lacking = addr
				if on != nil {
					subnets[on.Masked().String()] = struct{}{}
				}
				return true
			}
		}
		return false
	})
	if len(nodes) == 0 {
		known := "no subnet of its family"
		if len(subnets) > 0 {
			known = strings.Join(slices.Sorted(maps.Keys(subnets)), ", ")
		}
		return nil, fmt.Sprintf("spec.addresses: %s is not in the network of any selected node's gateway (%s); give a free "+
			"address there, or select other nodes", lacking, objects.Quoted(known))
	}
	network := topology.NetworkOf(b.settings, o.Network, nodes)
	return slices.DeleteFunc(nodes, func(n *topology.Node) bool { return n.Outside != network }), ""
}

// prefer orders nodes by how much each is preferred for something, so that many things spread, and keeps
// at most a number of them. A node that is not ready is kept when there are no others.
func prefer(what string, nodes []*topology.Node, most int) []*topology.Node {
	rank := make(map[*topology.Node]uint64, len(nodes))
	for _, n := range nodes {
		rank[n] = rendezvous.ForRows(what, n.Name)
	}
	byRank := func(a, b *topology.Node) int {
		return cmp.Or(cmp.Compare(rank[b], rank[a]), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(nodes, func(a, b *topology.Node) int {
		if a.Object.Ready != b.Object.Ready {
			if a.Object.Ready {
				return -1
			}
			return 1
		}
		return byRank(a, b)
	})
	nodes = nodes[:min(most, len(nodes))]
	slices.SortFunc(nodes, byRank)
	return nodes
}
