package pods

import (
	"iter"
	"maps"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policies"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Part is what is known of the pods that want a port: their addresses, and their ports on their nodes' hosts.
type Part struct {
	part.Immediate
	*part.Outbox
	settings  *settings.Settings
	around    Surroundings
	places    Nodes
	services  Services
	claims    Claims
	policies  Policies
	recorded  map[types.UID][]netip.Addr // addresses of earlier terms, as far as no pod has claimed them yet
	beginning bool

	all        map[string]*Pod
	nodes      map[string]*nodePods       // that have pods, or subnets
	namespaces map[string]map[string]*Pod // the pods of each, by key
	dirty      map[string]struct{}
	hostPorted map[numberedPort]map[string]struct{} // pods, by key
	untold     map[string]struct{}                  // nodes whose PodNetworks may have to be written
	held       map[netip.Addr]heldAddress           // addresses of pods that have ended, and are not free yet
}

// New knows of no pod yet.
func New(o *part.Outbox, s *settings.Settings, around Surroundings, nodes Nodes, services Services,
	claims Claims, policies Policies) Part {
	return Part{Outbox: o, settings: s, around: around, places: nodes, services: services, claims: claims,
		policies: policies, all: map[string]*Pod{}, nodes: map[string]*nodePods{},
		namespaces: map[string]map[string]*Pod{},
		dirty:      map[string]struct{}{},
		hostPorted: map[numberedPort]map[string]struct{}{},
		untold:     map[string]struct{}{}, held: map[netip.Addr]heldAddress{}}
}

// Take is part of [part.Part].
func (b *Part) Take(batch *part.Batch) { b.update(batch.Looks(objects.PodKind), batch) }

// Dirty is part of [part.Part].
func (b *Part) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return func(yield func(part.Stage, ovsdb.Owner) bool) {
		for _, name := range part.Among(all, b.all, b.dirty) {
			at := part.NewPorts
			if p := b.all[name]; p == nil || p.there {
				at = part.Ports
			}
			if !yield(at, northbound.PodOwner(name)) {
				return
			}
		}
	}
}

// Change is part of [part.Part].
func (b *Part) Change(owner ovsdb.Owner) part.Outcome {
	_, name := part.Split(owner)
	p := b.all[name]
	if p == nil || len(p.addresses) == 0 || b.policies.Lacks(p.object.Namespace) {
		return part.Rows(ovsdb.Change{Owner: owner})
	}
	taken := func(wanted objects.Claim) bool { return b.keptFrom(p, wanted) }
	change := podChange(b.settings, p.object, p.addresses, p.node.Node, taken)
	egress.AddTo(p, &change)
	policies.AddTo(p, &change)
	return part.Outcome{Change: change, Then: func() { p.there = true }}
}

// Clean is part of [part.Part].
func (b *Part) Clean() { part.Empty(&b.dirty) }

// index keeps the pods of each namespace.
func (b *Part) index(name string, p *Pod) {
	pods := b.namespaces[p.object.Namespace]
	if pods == nil {
		pods = map[string]*Pod{}
		b.namespaces[p.object.Namespace] = pods
	}
	pods[name] = p
}

func (b *Part) unindex(name string, p *Pod) {
	pods := b.namespaces[p.object.Namespace]
	if delete(pods, name); len(pods) == 0 {
		delete(b.namespaces, p.object.Namespace)
	}
}

// At is a pod that wants a port, by key, nil for none.
func (b *Part) At(key string) *Pod { return b.all[key] }

// All are the pods that want a port, by key.
func (b *Part) All() iter.Seq2[string, *Pod] { return maps.All(b.all) }

// Known is how many pods want a port.
func (b *Part) Known() int { return len(b.all) }

// touched are the pods that are there of those whose rows are made again, by key.
func (b *Part) touched() iter.Seq2[string, *Pod] {
	return func(yield func(string, *Pod) bool) {
		for key := range b.dirty {
			if p := b.all[key]; p != nil && !yield(key, p) {
				return
			}
		}
	}
}

// WantsHostPort says whether a pod wants a port of its node's host.
func (b *Part) WantsHostPort(protocol objects.Protocol, port uint16) bool {
	return len(b.hostPorted[numberedPort{port, protocol}]) > 0
}

// Touch has a pod's rows made again.
func (b *Part) Touch(key string) { b.dirty[key] = struct{}{} }

// Begin takes in what addresses earlier terms have given, before the first batch. [Part.Begun] ends it.
func (b *Part) Begin(recorded map[types.UID][]netip.Addr) {
	b.recorded, b.beginning = recorded, true
}

// Begun says that all pods are known that were there at the beginning. Those that come later have had no address.
func (b *Part) Begun() { b.beginning = false }
