package ovn

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

// sharers is what the gateway that nodes share sees of nodes.
type sharers interface {
	// at is what is known of a node, nil for nothing.
	at(name string) *placement
}

// gatewayBook is what is known of the gateway that nodes share.
type gatewayBook struct {
	part.Immediate
	settings *settings.Settings
	nodes    sharers
	members  map[string]member   // nodes that carry it
	sharers  map[string]struct{} // nodes that use it
	dirty    bool
}

func newGatewayBook(s *settings.Settings, nodes sharers) gatewayBook {
	return gatewayBook{settings: s, nodes: nodes, members: map[string]member{}, sharers: map[string]struct{}{}}
}

// Take is part of [part.Part].
func (b *gatewayBook) Take(batch *part.Batch) {
	b.dirty = b.dirty || batch.AsksFor(northbound.GatewayOwner)
}

// Dirty is part of [part.Part].
func (b *gatewayBook) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Once(all || b.dirty, part.Common, northbound.GatewayOwner)
}

// Change is part of [part.Part].
func (b *gatewayBook) Change(ovsdb.Owner) part.Outcome {
	return part.Rows(gatewayChange(b.settings, b.placements()))
}

// Clean is part of [part.Part].
func (b *gatewayBook) Clean() { b.dirty = false }

// sharedSuffix is what the shared gateway's names end with, where a node's gateway has the node's name. No
// node and no namespace has an @ in its name.
const sharedSuffix = "@shared"

// gatewayChange is the gateway that nodes without one of their own share: a router that is on all
// nodes, whose port to the outside is on one of its members at a time, the first that lives. With more
// than one of them OVN watches their tunnels by BFD, and the port moves when a member is lost. A member
// that comes back takes its place again.
func gatewayChange(s *settings.Settings, members []*placement) ovsdb.Change {
	r := newRows(northbound.GatewayOwner)
	if s.Shared == nil || len(members) == 0 {
		return r.Change
	}
	group := r.Add(nb.HAChassisGroupTable, "gateway", &nb.HAChassisGroup{Name: "gw" + sharedSuffix})
	for i, n := range members {
		r.Member(nb.HAChassisGroupTable, group, "ha_chassis", r.Add(nb.HAChassisTable, n.name, &nb.HAChassis{
			ChassisName: n.chassis(), Priority: max(northbound.MaxPriority-i, 0)}))
	}
	id := r.gatewayRouter(s, s.Shared, s.Shared.Network, sharedSuffix, s.JoinAddresses(s.SharedNumber()),
		nb.LogicalRouterPort{HaChassisGroup: &group}, nil)
	northbound.Model[nb.LogicalRouter](r.Builder, "gateway").ExternalIDs = map[string]string{podsLeave: waysOut(s.Shared)}
	for _, pods := range s.Pods {
		if address := ipam.Family(s.Shared.Addresses, pods.Addr()); address != nil {
			r.snat(id, pods, address.Addr())
		}
	}
	return r.Change
}

// sharedEgress leads what comes from the node's switch, and is for nobody within, to the shared gateway.
func (r *rows) sharedEgress(s *settings.Settings, n *placement) {
	for _, join := range s.JoinAddresses(s.SharedNumber()) {
		if ipam.Family(n.subnets, join.Addr()) != nil && ipam.Family(s.Shared.Addresses, join.Addr()) != nil {
			r.egress(n.name, join.Addr())
			r.hostToItself(n, n.facts.Addresses, *ipam.Family(n.subnets, join.Addr()), join.Addr())
		}
	}
}

// member is a node that carries the shared gateway, as far as the gateway's rows depend on it.
type member struct {
	chassis string
	uid     types.UID // and hence its age
}

// update takes in whether a node carries the shared gateway, and whether it uses it.
func (b *gatewayBook) update(n *placement) {
	if n.placed && n.facts.SharedGateway && n.facts.Gateway == nil {
		b.sharers[n.name] = struct{}{}
	} else {
		delete(b.sharers, n.name)
	}
	now := member{}
	if n.placed && b.refuse(n) == "" {
		now = member{n.chassis(), n.object.UID}
	}
	if b.members[n.name] == now {
		return
	}
	b.dirty = true
	b.members[n.name] = now
	if now == (member{}) {
		delete(b.members, n.name)
	}
}

// refuse says why a node does not carry the shared gateway, "" if it does.
func (b *gatewayBook) refuse(n *placement) string {
	switch {
	case n.object.Gateway == "" || n.object.Gateway == "false":
		return "it has no label " + objects.GatewayLabel
	case n.object.Gateway != "true":
		return fmt.Sprintf("label %s is %q; leave it empty, or remove it", objects.GatewayLabel,
			objects.Quoted(n.object.Gateway))
	case b.settings.Shared == nil:
		return fmt.Sprintf("it has the label %s, but the controller has no shared-gateway-addresses; set them, or remove "+
			"the label", objects.GatewayLabel)
	case n.windows():
		return fmt.Sprintf("it has the label %s, but runs Windows, whose datapath lacks what a gateway for other nodes "+
			"needs (%s); label Linux nodes", objects.GatewayLabel, capability.ClonedPackets.Feature)
	case n.facts.Chassis == "":
		return fmt.Sprintf("it has the label %s, but its agent has not said its chassis' name yet", objects.GatewayLabel)
	case n.facts.Gateway == nil:
		return fmt.Sprintf("it has the label %s, but its agent says nothing of a gateway on the node; set "+
			"gateway-interface and gateway-addresses for the agent, or remove the label", objects.GatewayLabel)
	case n.facts.Gateway.Network != b.settings.Shared.Network:
		return fmt.Sprintf("it has the label %s, but its gateway is on network %q and the shared one on "+
			"shared-gateway-network %q; make the two the same, or remove the label",
			objects.GatewayLabel, objects.Quoted(n.facts.Gateway.Network), b.settings.Shared.Network)
	case n.outside == "":
		_, why := n.outsideOf(b.settings)
		return fmt.Sprintf("it has the label %s, but %s", objects.GatewayLabel, why)
	}
	return ""
}

// problems are those of a node with the shared gateway.
func (b *gatewayBook) problems(n *placement) []objects.Problem {
	var found []objects.Problem
	if n.object.Gateway != "" && n.object.Gateway != "false" {
		if why := b.refuse(n); why != "" && n.facts.Chassis != "" {
			found = append(found, objects.Problemf(objects.NodeKind, &n.object.ObjectMeta, "NotAGatewayNode",
				"the node does not carry the shared gateway: %s", why))
		}
	}
	if _, ok := b.sharers[n.name]; !ok {
		return found
	}
	switch {
	case b.settings.Shared == nil:
		found = append(found, objects.Problemf(objects.NodeKind, &n.object.ObjectMeta, "NoSharedGateway",
			"its pods shall leave by the shared gateway (gateway: shared), but the controller has no "+
				"shared-gateway-addresses: they reach pods and their node, and nothing else, nor an API server outside; set "+
				"shared-gateway-addresses and shared-gateway-next-hops for the controller, or gateway: local for the node's agent"))
	case len(b.members) == 0:
		found = append(found, objects.Problemf(objects.NodeKind, &n.object.ObjectMeta, "NoSharedGateway",
			"its pods shall leave by the shared gateway (gateway: shared), but no node carries it: they reach pods and their "+
				"node, and nothing else, nor an API server outside; label Linux nodes that have a gateway with %s=",
			objects.GatewayLabel))
	}
	return found
}

// placements are those of the nodes that carry the shared gateway, the oldest first: who comes later does
// not take the connections of who is there.
func (b *gatewayBook) placements() []*placement {
	members := make([]*placement, 0, len(b.members))
	for name := range maps.Keys(b.members) {
		members = append(members, b.nodes.at(name))
	}
	slices.SortFunc(members, byAge)
	return members
}

// exists says whether there is a shared gateway.
func (b *gatewayBook) exists() bool { return b.settings.Shared != nil && len(b.members) > 0 }
