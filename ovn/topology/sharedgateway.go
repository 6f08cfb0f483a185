package topology

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Nodes is what the gateway that nodes share sees of nodes.
type Nodes interface {
	// At is what is known of a node, nil for nothing.
	At(name string) *Node
}

// SharedGateway is what is known of the gateway that nodes share.
type SharedGateway struct {
	part.Immediate
	settings *settings.Settings
	nodes    Nodes
	members  map[string]Member   // nodes that carry it
	sharers  map[string]struct{} // nodes that use it
	dirty    bool
}

// NewSharedGateway has no node yet.
func NewSharedGateway(s *settings.Settings, nodes Nodes) SharedGateway {
	return SharedGateway{settings: s, nodes: nodes, members: map[string]Member{}, sharers: map[string]struct{}{}}
}

// Take is part of [part.Part].
func (b *SharedGateway) Take(batch *part.Batch) {
	b.dirty = b.dirty || batch.AsksFor(northbound.GatewayOwner)
}

// Dirty is part of [part.Part].
func (b *SharedGateway) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Once(all || b.dirty, part.Common, northbound.GatewayOwner)
}

// Change is part of [part.Part].
func (b *SharedGateway) Change(ovsdb.Owner) part.Outcome {
	return part.Rows(gatewayChange(b.settings, b.placements()))
}

// Clean is part of [part.Part].
func (b *SharedGateway) Clean() { b.dirty = false }

// sharedSuffix is what the shared gateway's names end with, where a node's gateway has the node's name. No
// node and no namespace has an @ in its name.
const sharedSuffix = "@shared"

// gatewayChange is the gateway that nodes without one of their own share: a router that is on all
// nodes, whose port to the outside is on one of its members at a time, the first that lives. With more
// than one of them OVN watches their tunnels by BFD, and the port moves when a member is lost. A member
// that comes back takes its place again.
func gatewayChange(s *settings.Settings, members []*Node) ovsdb.Change {
	r := NewRows(northbound.GatewayOwner)
	if s.Shared == nil || len(members) == 0 {
		return r.Change
	}
	group := r.Add(nb.HAChassisGroupTable, "gateway", &nb.HAChassisGroup{Name: "gw" + sharedSuffix})
	for i, n := range members {
		r.Member(nb.HAChassisGroupTable, group, "ha_chassis", r.Add(nb.HAChassisTable, n.Name, &nb.HAChassis{
			ChassisName: n.Chassis(), Priority: max(northbound.MaxPriority-i, 0)}))
	}
	id := r.gatewayRouter(s, s.Shared, s.Shared.Network, sharedSuffix, s.JoinAddresses(s.SharedNumber()),
		nb.LogicalRouterPort{HaChassisGroup: &group}, nil)
	northbound.Model[nb.LogicalRouter](r.Builder, "gateway").ExternalIDs = map[string]string{
		podsLeave: waysOut(s, s.Shared)}
	for _, pods := range s.Pods {
		if address := ipam.Family(s.Shared.Addresses, pods.Addr()); address != nil {
			r.Snat(id, pods, address.Addr())
		}
	}
	return r.Change
}

// sharedEgress leads what comes from the node's switch, and is for nobody within, to the shared gateway.
func (r *Rows) sharedEgress(s *settings.Settings, n *Node) {
	for _, join := range s.JoinAddresses(s.SharedNumber()) {
		if ipam.Family(n.Subnets, join.Addr()) != nil && ipam.Family(s.Shared.Addresses, join.Addr()) != nil {
			r.egress(n.Name, join.Addr())
			r.hostToItself(n, n.Facts.Addresses, *ipam.Family(n.Subnets, join.Addr()), join.Addr())
		}
	}
}

// Member is a node that carries the shared gateway, as far as the gateway's rows depend on it.
type Member struct {
	Chassis string
	uid     types.UID // and hence its age
}

// MemberOf is a node as a member.
func MemberOf(n *Node) Member { return Member{n.Chassis(), n.Object.UID} }

// Update takes in whether a node carries the shared gateway, and whether it uses it.
func (b *SharedGateway) Update(n *Node) {
	if n.Placed && n.Facts.SharedGateway && n.Facts.Gateway == nil {
		b.sharers[n.Name] = struct{}{}
	} else {
		delete(b.sharers, n.Name)
	}
	now := Member{}
	if n.Placed && b.refuse(n) == "" {
		now = MemberOf(n)
	}
	if b.members[n.Name] == now {
		return
	}
	b.dirty = true
	b.members[n.Name] = now
	if now == (Member{}) {
		delete(b.members, n.Name)
	}
}

// refuse says why a node does not carry the shared gateway, "" if it does.
func (b *SharedGateway) refuse(n *Node) string {
	switch {
	case n.Object.Gateway == "" || n.Object.Gateway == "false":
		return "it has no label " + objects.GatewayLabel
	case n.Object.Gateway != "true":
		return fmt.Sprintf("label %s is %q; leave it empty, or remove it", objects.GatewayLabel,
			objects.Quoted(n.Object.Gateway))
	case b.settings.Shared == nil:
		return fmt.Sprintf("it has the label %s, but the controller has no shared-gateway-addresses; set them, or remove "+
			"the label", objects.GatewayLabel)
	case n.Windows():
		return fmt.Sprintf("it has the label %s, but runs Windows, whose datapath lacks what a gateway for other nodes "+
			"needs (%s); label Linux nodes", objects.GatewayLabel, capability.ClonedPackets.Feature)
	case n.Facts.Chassis == "":
		return fmt.Sprintf("it has the label %s, but its agent has not said its chassis' name yet", objects.GatewayLabel)
	case n.Facts.Gateway == nil:
		return fmt.Sprintf("it has the label %s, but its agent says nothing of a gateway on the node; give "+
			"the node one by the agent's key gateway, or remove the label", objects.GatewayLabel)
	case n.Facts.Gateway.Network != b.settings.Shared.Network:
		return fmt.Sprintf("it has the label %s, but its gateway is on network %q and the shared one on "+
			"shared-gateway-network %q; make the two the same, or remove the label",
			objects.GatewayLabel, objects.Quoted(n.Facts.Gateway.Network), b.settings.Shared.Network)
	case n.Outside == "":
		_, why := n.OutsideOf(b.settings)
		return fmt.Sprintf("it has the label %s, but %s", objects.GatewayLabel, why)
	}
	return ""
}

// Problems are those of a node with the shared gateway.
func (b *SharedGateway) Problems(n *Node) []objects.Problem {
	var found []objects.Problem
	if n.Object.Gateway != "" && n.Object.Gateway != "false" {
		if why := b.refuse(n); why != "" && n.Facts.Chassis != "" {
			found = append(found, objects.Problemf(objects.NodeKind, &n.Object.ObjectMeta, notAGatewayNode,
				"the node does not carry the shared gateway: %s", why))
		}
	}
	if _, ok := b.sharers[n.Name]; !ok {
		return found
	}
	switch {
	case b.settings.Shared == nil:
		found = append(found, objects.Problemf(objects.NodeKind, &n.Object.ObjectMeta, noSharedGateway,
			"its pods leave by the shared gateway (gateway: shared), but the controller has no "+
				"shared-gateway-addresses: they reach pods and their node, and nothing else, nor an API server outside; set "+
				"shared-gateway-addresses and shared-gateway-next-hops for the controller, or gateway: local for the node's agent"))
	case len(b.members) == 0:
		found = append(found, objects.Problemf(objects.NodeKind, &n.Object.ObjectMeta, noSharedGateway,
			"its pods leave by the shared gateway (gateway: shared), but no node carries it: they reach pods and their "+
				"node, and nothing else, nor an API server outside; label Linux nodes that have a gateway with %s=",
			objects.GatewayLabel))
	}
	return found
}

// placements are those of the nodes that carry the shared gateway, the oldest first: who comes later does
// not take the connections of who is there.
func (b *SharedGateway) placements() []*Node {
	members := make([]*Node, 0, len(b.members))
	for name := range maps.Keys(b.members) {
		members = append(members, b.nodes.At(name))
	}
	slices.SortFunc(members, ByAge)
	return members
}

// Exists says whether there is a shared gateway.
func (b *SharedGateway) Exists() bool { return b.settings.Shared != nil && len(b.members) > 0 }

// Sharing are the nodes that use the shared gateway, in order.
func (b *SharedGateway) Sharing() []string { return slices.Sorted(maps.Keys(b.sharers)) }
