package services

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/weftnet/weft/ovn/claims"
	"github.com/weftnet/weft/ovn/flushes"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Part is what is known of Services and their EndpointSlices.
type Part struct {
	part.Immediate
	*part.Outbox
	settings *settings.Settings
	around   Surroundings
	nodes    Nodes
	pods     Pods
	claims   *claims.Arbiter
	flushes  *flushes.Part
	pending  *Pending

	all     map[string]*service
	sliceOf map[string]string // slice → Service, by key
	dirty   map[string]struct{}

	ports       nodePorts
	nodePortsOf map[string]nodePort // by node that has a switch

	perNode map[string]struct{} // Services of which each node has rows of its own
	outward map[string]struct{} // Services that have endpoints that may be hosts: their rows depend on those
	hinted  map[string]struct{} // Services that have endpoints with hints: their rows depend on zones, too
	sctp    map[string]struct{} // Services with that protocol: their rows depend on which nodes' datapaths track it
}

// New knows of no Service yet.
func New(o *part.Outbox, s *settings.Settings, around Surroundings, nodes Nodes, pods Pods, claims *claims.Arbiter,
	flushes *flushes.Part, pending *Pending) Part {
	return Part{
		Outbox: o, settings: s, around: around, nodes: nodes, pods: pods, claims: claims, flushes: flushes, pending: pending,
		all: map[string]*service{}, sliceOf: map[string]string{}, dirty: map[string]struct{}{},
		ports: newNodePorts(), nodePortsOf: map[string]nodePort{},
		perNode: map[string]struct{}{}, outward: map[string]struct{}{}, hinted: map[string]struct{}{},
		sctp: map[string]struct{}{},
	}
}

// Take is part of [part.Part]: it takes in Services after their slices.
func (b *Part) Take(batch *part.Batch) {
	for _, name := range batch.Names(objects.SliceKind) {
		b.updateSlice(name, part.Object[objects.EndpointSlice](batch, objects.SliceKind, name))
	}
	for _, name := range batch.Looks(objects.ServiceKind) {
		b.update(name, part.Object[objects.Service](batch, objects.ServiceKind, name))
	}
}

// Dirty is part of [part.Part].
func (b *Part) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, b.all, b.dirty, part.Balancers, northbound.ServiceOwner)
}

// Clean is part of [part.Part].
func (b *Part) Clean() { part.Empty(&b.dirty) }

// service is a Service, or nil, and its slices; either may come first.
type service struct {
	object *objects.Service
	slices []*objects.EndpointSlice // sorted by name
}

// updateHinted takes in whether a Service has endpoints with hints.
func (b *Part) updateHinted(name string, state *service) {
	if slices.ContainsFunc(state.slices, func(s *objects.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e objects.Endpoint) bool { return e.Zones != "" || e.Nodes != "" })
	}) {
		b.hinted[name] = struct{}{}
	} else {
		delete(b.hinted, name)
	}
}

// PlacementsChanged has the Services looked at again of which nodes have rows of their own: for those that come to have
// a switch or a gateway router, or have one no more.
func (b *Part) PlacementsChanged() {
	b.touchAll(b.perNode)
	b.touchAll(b.hinted)
}

// ZonesChanged has the Services looked at again whose rows depend on the zones that nodes are in.
func (b *Part) ZonesChanged() { b.touchAll(b.hinted) }

// DatapathsChanged has the Services looked at again whose rows depend on what nodes' datapaths cannot do.
func (b *Part) DatapathsChanged() { b.touchAll(b.sctp) }

// touchAll has the rows of some Services made again.
func (b *Part) touchAll(names map[string]struct{}) {
	for name := range names {
		b.dirty[name] = struct{}{}
	}
}

// update takes in a Service.
func (b *Part) update(name string, object *objects.Service) {
	state := b.state(name)
	state.object = object
	delete(b.perNode, name)
	if object != nil && (object.InternalLocal || object.ExternalLocal || object.ClientIP && len(object.NodePorts) > 0) {
		b.perNode[name] = struct{}{}
	}
	delete(b.sctp, name)
	if object != nil && !object.Ignored && object.Uses("sctp") {
		b.sctp[name] = struct{}{}
	}
	b.dirty[name] = struct{}{}
	b.updateClaims(name, object)
	b.pending.update(name, object)
	b.forget(name)
}

func (b *Part) updateSlice(name string, object *objects.EndpointSlice) {
	if before, ok := b.sliceOf[name]; ok {
		state := b.all[before]
		state.slices = slices.DeleteFunc(state.slices, func(s *objects.EndpointSlice) bool {
			return objects.FullName(s.Namespace, s.Name) == name
		})
		delete(b.sliceOf, name)
		b.dirty[before] = struct{}{}
		b.followSlices(before, state)
		b.forget(before)
	}
	if object == nil || object.Ignored {
		return
	}
	owner := objects.FullName(object.Namespace, object.Service)
	state := b.state(owner)
	i, _ := slices.BinarySearchFunc(state.slices, object, func(a, b *objects.EndpointSlice) int {
		return cmp.Compare(a.Name, b.Name)
	})
	state.slices = slices.Insert(state.slices, i, object)
	b.sliceOf[name] = owner
	b.followSlices(owner, state)
	b.dirty[owner] = struct{}{}
}

// followSlices takes in what other rows follow from of a Service's slices.
func (b *Part) followSlices(name string, state *service) {
	b.updateHinted(name, state)
	b.updateOutward(name, state)
	b.around.SlicesChanged(name)
	if name == apiServer {
		b.updateAPIServers(state)
	}
}

// state is what is known of a Service, or will be.
func (b *Part) state(name string) *service {
	state := b.all[name]
	if state == nil {
		state = &service{}
		b.all[name] = state
	}
	return state
}

// forget drops a Service's state once neither it nor a slice of it is left.
func (b *Part) forget(name string) {
	if s := b.all[name]; s != nil && s.object == nil && len(s.slices) == 0 {
		delete(b.all, name)
	}
}

// Change is part of [part.Part].
func (b *Part) Change(owner ovsdb.Owner) part.Outcome {
	_, name := part.Split(owner)
	s := b.all[name]
	if s == nil || s.object == nil || s.object.Ignored {
		return part.Outcome{Change: ovsdb.Change{Owner: owner}, Then: func() {
			var found []objects.Problem
			if s != nil && s.object != nil {
				found = loadbalancer.AddressProblems(s.object) // it may be ignored for these
			}
			b.Tell(owner, found...)
			b.claims.Told(name, nil)
			b.flushes.Follow(name, nil)
		}}
	}
	on := b.nodeSet()
	object, found := b.claims.Arbitrate(name, s.object)
	change, to := loadbalancer.Rows(object, s.slices, on)
	return part.Outcome{Change: change, Then: func() {
		b.claims.Told(name, object.Rejected)
		b.Tell(owner, slices.Concat(found, loadbalancer.Problems(object, s.slices, to, on))...)
		b.flushes.Follow(name, flushes.PathsOf(change.Rows))
	}}
}

// nodeSet are the nodes as Services' rows depend on them.
func (b *Part) nodeSet() *loadbalancer.Nodes {
	on := b.around.Placements()
	on.Gateways, on.Hosts, on.Widths, on.Own = b.ports.names, b.ports.hosts, b.ports.widths, b.ports.own
	on.Balanced, on.Pods = b.claims.Balanced, b.settings.Pods
	return on
}

// Service is a Service by key, nil for none.
func (b *Part) Service(key string) *objects.Service {
	if s := b.all[key]; s != nil {
		return s.object
	}
	return nil
}

// Touch has a Service's rows made again.
func (b *Part) Touch(key string) { b.dirty[key] = struct{}{} }

// Touched are the Services whose rows are made again.
func (b *Part) Touched() iter.Seq[string] { return maps.Keys(b.dirty) }

// Known is how many there are.
func (b *Part) Known() int { return len(b.all) }

// TouchEvery has the rows of all Services made again.
func (b *Part) TouchEvery() {
	for name := range b.all {
		b.dirty[name] = struct{}{}
	}
}

// SlicesOf is part of [domains.Services].
func (b *Part) SlicesOf(key string) []*objects.EndpointSlice {
	if s := b.all[key]; s != nil {
		return s.slices
	}
	return nil
}
