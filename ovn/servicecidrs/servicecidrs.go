// Package servicecidrs is the part that knows the ranges that ClusterIPs come from: those that the controller was
// started with, and those that the API server has as ServiceCIDRs.
//
// Of packages below ovn it imports part, objects, settings, ipam, northbound and topology.
package servicecidrs

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
)

// Part is what is known of the ranges that ClusterIPs come from.
type Part struct {
	part.Immediate
	part.Rowless
	*part.Outbox
	settings *settings.Settings
	around   Surroundings
	nodes    Nodes

	given      []netip.Prefix // the ranges that it was started with
	all        map[string]*objects.ServiceCIDR
	occupants  occupants
	reoccupied bool // the ranges are to be settled again
}

// Nodes are what the part sees of nodes.
type Nodes interface {
	// Placed are the nodes that have a switch, in the order of their names.
	Placed() iter.Seq[*topology.Node]
}

// Surroundings is what the part sees of all others.
type Surroundings interface {
	// RangesChanged is told of other ranges of ClusterIPs. They are in the settings.
	RangesChanged()
}

// New knows of no ServiceCIDR yet.
func New(o *part.Outbox, s *settings.Settings, around Surroundings, nodes Nodes) *Part {
	return &Part{Outbox: o, settings: s, around: around, nodes: nodes, given: s.Services,
		all: map[string]*objects.ServiceCIDR{}}
}

// Take is part of [part.Part]. What others take in after it has the ranges as they are now.
func (b *Part) Take(batch *part.Batch) {
	b.update(batch.Names(objects.ServiceCIDRKind), batch)
	b.settleRanges()
}

// occupants are the nodes that have addresses of a ServiceCIDR's range, and which.
type occupants map[netip.Prefix]map[string]string

// update takes in the ranges that the API server has.
func (b *Part) update(names []string, batch *part.Batch) {
	for _, name := range names {
		object := part.Object[objects.ServiceCIDR](batch, objects.ServiceCIDRKind, name)
		if object == nil {
			delete(b.all, name)
			b.Tell(northbound.ServiceCIDROwner(name))
			continue
		}
		b.all[name] = object
	}
	if len(names) == 0 {
		return
	}
	b.reoccupied = true
	before := b.occupants
	b.occupants = occupants{}
	for _, o := range b.all {
		for _, p := range o.Ranges {
			if b.occupants[p] = before[p]; b.occupants[p] == nil {
				b.occupants[p] = map[string]string{}
				for n := range b.nodes.Placed() {
					b.occupy(n, p)
				}
			}
		}
	}
}

// UpdateOccupants takes in what a node has of the ranges of ServiceCIDRs.
func (b *Part) UpdateOccupants(n *topology.Node) {
	for p := range b.occupants {
		b.reoccupied = b.occupy(n, p) || b.reoccupied
	}
}

// occupy takes in what a node has of a range, and says whether that is something else than before.
func (b *Part) occupy(n *topology.Node, p netip.Prefix) (changed bool) {
	before, now := b.occupants[p][n.Name], occupies(n, p)
	if b.occupants[p][n.Name] = now; now == "" {
		delete(b.occupants[p], n.Name)
	}
	return before != now
}

// occupies is what a node has of a range, "" for nothing.
func occupies(n *topology.Node, p netip.Prefix) string {
	if !n.Placed {
		return ""
	}
	for _, addr := range n.Facts.Addresses {
		if p.Contains(addr) {
			return "address " + addr.String() + " of Node " + n.Name
		}
	}
	if n.Facts.Gateway == nil {
		return ""
	}
	for _, own := range n.Facts.Gateway.Addresses {
		if own.Masked().Overlaps(p) {
			return "the network of gateway address " + own.String() + " of Node " + n.Name
		}
	}
	return ""
}

// settleRanges brings the ranges of ClusterIPs up to date: those that the controller was started with,
// and those that the API server has, except for what something else in the cluster has. All nodes' hosts
// route them into OVN, which drops what is for no Service of them.
func (b *Part) settleRanges() {
	if !b.reoccupied {
		return
	}
	b.reoccupied = false
	all := slices.Clone(b.given)
	for _, o := range slices.SortedFunc(maps.Values(b.all), func(a, b *objects.ServiceCIDR) int {
		return cmp.Compare(a.Name, b.Name)
	}) {
		var found []objects.Problem
		complain := func(format string, args ...any) {
			found = append(found, objects.Problemf(objects.ServiceCIDRKind, &o.ObjectMeta, badServiceCIDR,
				"%s; its Services have no network until then", fmt.Sprintf(format, args...)))
		}
		for _, text := range o.Bad {
			complain("%s; create the ServiceCIDR anew", text)
		}
		for _, p := range o.Ranges {
			switch what := b.occupied(p); {
			case ipam.Family(b.settings.Pods, p.Addr()) == nil:
				complain("spec.cidrs: pods have no address of the family of %s (pod-cidrs %s); delete the ServiceCIDR, or give "+
					"weft a pod range of that family", p, ipam.Join(b.settings.Pods))
			case what != "":
				complain("spec.cidrs: %s overlaps with %s, which would be cut off; create a ServiceCIDR with another range in "+
					"its place", p, what)
			default:
				all = append(all, p)
			}
		}
		b.Tell(northbound.ServiceCIDROwner(o.Name), found...)
	}
	if all = ipam.Disjoint(all); slices.Equal(all, b.settings.Services) {
		return
	}
	b.settings.Services = all
	b.around.RangesChanged()
}

// occupied is what else in the cluster has addresses of a range, "" if nothing has.
func (b *Part) occupied(p netip.Prefix) string {
	for _, own := range b.settings.Pods {
		if own.Overlaps(p) {
			return "pod-cidrs " + own.String()
		}
	}
	for _, own := range b.settings.Joins {
		if own.Overlaps(p) {
			return "join-cidrs " + own.String()
		}
	}
	for _, own := range contract.OwnRanges {
		if own.Overlaps(p) {
			return "weft's range " + own.String()
		}
	}
	if g := b.settings.Shared; g != nil {
		for _, own := range g.Addresses {
			if own.Masked().Overlaps(p) {
				return "shared-gateway-addresses " + own.String()
			}
		}
	}
	if nodes := b.occupants[p]; len(nodes) > 0 {
		return nodes[slices.Min(slices.Collect(maps.Keys(nodes)))]
	}
	return ""
}
