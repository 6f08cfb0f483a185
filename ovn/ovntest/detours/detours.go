package detours

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// Part is what is known of Detours.
type Part struct {
	*part.Outbox
	nodes    Nodes
	all      map[string]*known
	dirty    map[string]struct{}       // their rows may be others
	unsaid   map[string]struct{}       // their statuses may be others
	networks map[string][]netip.Prefix // of the gateways of nodes, which routes follow from
}

// known is a Detour that there is.
type known struct {
	*Detour
	noted part.Body // the status that was asked for last
}

// New knows of no Detour yet.
func New(o *part.Outbox, nodes Nodes) *Part {
	return &Part{Outbox: o, nodes: nodes, all: map[string]*known{}, dirty: map[string]struct{}{},
		unsaid: map[string]struct{}{}, networks: map[string][]netip.Prefix{}}
}

// UpdateNode has the Detours looked at again if a node's gateway has other networks than before. The cluster calls it
// for each node that has changed.
func (p *Part) UpdateNode(n *topology.Node) {
	now := networks(n)
	if slices.Equal(p.networks[n.Name], now) {
		return
	}
	if p.networks[n.Name] = now; len(now) == 0 {
		delete(p.networks, n.Name)
	}
	for name := range p.all {
		p.touch(name)
	}
}

func (p *Part) touch(name string) { p.dirty[name], p.unsaid[name] = struct{}{}, struct{}{} }

// Take is part of [part.Part].
func (p *Part) Take(batch *part.Batch) {
	for _, name := range batch.Looks(Kind) {
		p.touch(name)
		now := part.Object[Detour](batch, Kind, name)
		if now == nil { // it is gone
			delete(p.all, name)
			p.Tell(owner(name))
			continue
		}
		before := p.all[name]
		p.all[name] = &known{Detour: now}
		// A status that was asked for may still be on its way, but not to another object, and not if another writer has
		// changed it.
		if before != nil && before.UID == now.UID && before.Status == now.Status {
			p.all[name].noted = before.noted
		}
		if now.Wrong == "" {
			p.Tell(owner(name))
		} else {
			p.Tell(owner(name), objects.Problemf(Kind, &now.ObjectMeta, badSpec, "%s", now.Wrong))
		}
	}
}

// Reconcile is part of [part.Part]. All parts have taken, so the number of nodes with the route is known.
func (p *Part) Reconcile() {
	for _, name := range part.Among(false, p.all, p.unsaid) {
		if d := p.all[name]; d != nil {
			p.NoteStatus(Kind, &d.Custom, p.status(d.Detour), &d.noted)
		}
	}
	part.Empty(&p.unsaid)
}

// Dirty is part of [part.Part]. Nobody waits for the rows, so their stage is Common. Where a node's router is not there
// yet, the change is tried again.
func (p *Part) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, p.all, p.dirty, part.Common, owner)
}

// Change is part of [part.Part]. A Detour that is gone or wrong has no rows.
func (p *Part) Change(owner ovsdb.Owner) part.Outcome {
	r := northbound.NewBuilder(owner)
	_, name := part.Split(owner)
	if d := p.all[name]; d != nil {
		for n := range p.on(d.Detour) {
			r.Route(northbound.GatewayID(n.Name), n.Name, &nb.LogicalRouterStaticRoute{IPPrefix: d.Prefix.String(),
				Nexthop: d.NextHop.String()})
		}
	}
	return part.Rows(r.Change)
}

// Clean is part of [part.Part].
func (p *Part) Clean() { part.Empty(&p.dirty) }

func owner(name string) ovsdb.Owner { return ovsdb.Owner("Detour/" + name) }

// on are the nodes that have a Detour's route.
func (p *Part) on(d *Detour) iter.Seq[*topology.Node] {
	return func(yield func(*topology.Node) bool) {
		if d.Wrong != "" {
			return
		}
		for n := range p.nodes.Placed() {
			reached := func(network netip.Prefix) bool { return network.Contains(d.NextHop) }
			if slices.ContainsFunc(networks(n), reached) && !yield(n) {
				return
			}
		}
	}
}

// networks are those of a node's gateway, if the node has one.
func networks(n *topology.Node) []netip.Prefix {
	if n.Object == nil || !n.Placed || n.Facts.Gateway == nil {
		return nil
	}
	return n.Facts.Gateway.Addresses
}
