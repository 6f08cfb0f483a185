package ovn

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/ovn/claims"
	"github.com/weftnet/weft/ovn/flushes"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// serviceBook is what is known of Services and their EndpointSlices.
type serviceBook struct {
	part.Immediate
	*part.Outbox
	settings *settings.Settings
	around   surroundings
	nodes    nodeView
	pods     podView
	claims   *claims.Arbiter
	flushes  *flushes.Part

	all     map[string]*serviceState
	sliceOf map[string]string // slice → Service, by key
	dirty   map[string]struct{}

	ports       nodePorts
	nodePortsOf map[string]nodePort // by node that has a switch

	perNode map[string]struct{} // Services of which each node has rows of its own
	outward map[string]struct{} // Services that have endpoints that may be hosts: their rows depend on those
	hinted  map[string]struct{} // Services that have endpoints with hints: their rows depend on zones, too
	sctp    map[string]struct{} // Services with that protocol: their rows depend on which nodes' datapaths track it
}

func newServiceBook(o *part.Outbox, s *settings.Settings, around surroundings, nodes nodeView, pods podView,
	claims *claims.Arbiter, flushes *flushes.Part) serviceBook {
	return serviceBook{
		Outbox: o, settings: s, around: around, nodes: nodes, pods: pods, claims: claims, flushes: flushes,
		all: map[string]*serviceState{}, sliceOf: map[string]string{}, dirty: map[string]struct{}{},
		ports: newNodePorts(), nodePortsOf: map[string]nodePort{},
		perNode: map[string]struct{}{}, outward: map[string]struct{}{}, hinted: map[string]struct{}{},
		sctp: map[string]struct{}{},
	}
}

// Take is part of [part.Part]: it takes in Services after their slices.
func (b *serviceBook) Take(batch *part.Batch) {
	for _, name := range batch.Names(objects.SliceKind) {
		b.updateSlice(name, part.Object[objects.EndpointSlice](batch, objects.SliceKind, name))
	}
	for _, name := range batch.Looks(objects.ServiceKind) {
		b.update(name, part.Object[objects.Service](batch, objects.ServiceKind, name))
	}
}

// Dirty is part of [part.Part].
func (b *serviceBook) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, b.all, b.dirty, part.Balancers, northbound.ServiceOwner)
}

// Clean is part of [part.Part].
func (b *serviceBook) Clean() { part.Empty(&b.dirty) }

// serviceState is a Service, or nil, and its slices; either may come first.
type serviceState struct {
	object *objects.Service
	slices []*objects.EndpointSlice // sorted by name
}

// updateHinted takes in whether a Service has endpoints with hints.
func (b *serviceBook) updateHinted(name string, state *serviceState) {
	if slices.ContainsFunc(state.slices, func(s *objects.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e objects.Endpoint) bool { return e.Zones != "" || e.Nodes != "" })
	}) {
		b.hinted[name] = struct{}{}
	} else {
		delete(b.hinted, name)
	}
}

// touchPlaced has the Services looked at again of which nodes have rows of their own: for those that come to have
// a switch or a gateway router, or have one no more.
func (b *serviceBook) touchPlaced() {
	b.touchAll(b.perNode)
	b.touchAll(b.hinted)
}

// touchAll has the rows of some Services made again.
func (b *serviceBook) touchAll(names map[string]struct{}) {
	for name := range names {
		b.dirty[name] = struct{}{}
	}
}

// update takes in a Service.
func (b *serviceBook) update(name string, object *objects.Service) {
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
	b.around.serviceChanged(name, object)
	b.forget(name)
}

func (b *serviceBook) updateSlice(name string, object *objects.EndpointSlice) {
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
func (b *serviceBook) followSlices(name string, state *serviceState) {
	b.updateHinted(name, state)
	b.updateOutward(name, state)
	b.around.slicesChanged(name)
	if name == apiServer {
		b.updateAPIServers(state)
	}
}

// state is what is known of a Service, or will be.
func (b *serviceBook) state(name string) *serviceState {
	state := b.all[name]
	if state == nil {
		state = &serviceState{}
		b.all[name] = state
	}
	return state
}

// forget drops a Service's state once neither it nor a slice of it is left.
func (b *serviceBook) forget(name string) {
	if s := b.all[name]; s != nil && s.object == nil && len(s.slices) == 0 {
		delete(b.all, name)
	}
}

// Change is part of [part.Part].
func (b *serviceBook) Change(owner ovsdb.Owner) part.Outcome {
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
func (b *serviceBook) nodeSet() *loadbalancer.Nodes {
	on := b.around.placements()
	on.Gateways, on.Hosts, on.Widths, on.Own = b.ports.names, b.ports.hosts, b.ports.widths, b.ports.own
	on.Balanced, on.Pods = b.claims.Balanced, b.settings.Pods
	return on
}

// Service is a Service by key, nil for none.
func (b *serviceBook) Service(key string) *objects.Service {
	if s := b.all[key]; s != nil {
		return s.object
	}
	return nil
}

// Touch has a Service's rows made again.
func (b *serviceBook) Touch(key string) { b.dirty[key] = struct{}{} }

// Touched are the Services whose rows are made again.
func (b *serviceBook) Touched() iter.Seq[string] { return maps.Keys(b.dirty) }

// touchEvery has the rows of all Services made again.
func (b *serviceBook) touchEvery() {
	for name := range b.all {
		b.dirty[name] = struct{}{}
	}
}

// SlicesOf is part of [domains.Services].
func (b *serviceBook) SlicesOf(key string) []*objects.EndpointSlice {
	if s := b.all[key]; s != nil {
		return s.slices
	}
	return nil
}

// updateClaims takes in what a Service wants outside, and has everybody looked at again for whom it makes
// a difference: other Services, pods with host ports, and sticky Services with such endpoints.
func (b *serviceBook) updateClaims(name string, object *objects.Service) {
	touched, changed := b.claims.Update(name, object)
	b.touchAll(touched)
	if len(changed) == 0 {
		return
	}
	b.TouchSticky()
	b.pods.TouchHostPorts(changed)
	b.touchNodePorts(changed)
}

// touchNodePorts has the Services looked at again that want NodePorts among the claims at nodes' own addresses.
func (b *serviceBook) touchNodePorts(claims []objects.Claim) {
	for _, one := range claims {
		if one.Addr.IsValid() {
			continue
		}
		for addr := range b.ports.nodes {
			for rival := range b.claims.Wanting(objects.Claim{Addr: addr, Port: one.Port, Protocol: one.Protocol}) {
				b.dirty[rival] = struct{}{}
			}
		}
	}
}

// touchClaims has the Services looked at again that want something of an address.
func (b *serviceBook) touchClaims(addr netip.Addr) {
	for name := range b.claims.WantingAt(addr) {
		b.dirty[name] = struct{}{}
	}
}

// updateHosts takes in a node's addresses and who listens there, and has the Services looked at again that want
// what has come or gone.
func (b *serviceBook) updateHosts(n *topology.Node) {
	touched, heard := b.claims.UpdateHosts(n)
	for _, addr := range touched {
		b.touchClaims(addr)
		// what a Service has no more may be a pod's, on another node with this address
		if !heard || len(n.Facts.Listeners) > 0 {
			for name := range b.claims.WantingAt(addr) {
				b.pods.TouchHostPorts(b.claims.Claims(name))
			}
		}
	}
}

// TouchSticky has the sticky Services looked at again whose rows depend on what is balanced.
func (b *serviceBook) TouchSticky() {
	for name := range b.outward {
		if s := b.all[name]; s != nil && s.object != nil && s.object.ClientIP {
			b.dirty[name] = struct{}{}
		}
	}
}
