package ovn

import (
	"iter"
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

// podBook is what is known of the pods that want a port: their addresses, and their ports on their nodes' hosts.
type podBook struct {
	part.Immediate
	*part.Outbox
	settings  *settings.Settings
	around    surroundings
	places    nodeView
	services  serviceView
	claims    claimView
	policies  policyView
	recorded  map[types.UID][]netip.Addr // addresses of earlier terms, as far as no pod has claimed them yet
	beginning bool

	all        map[string]*podState
	nodes      map[string]*nodePods            // that have pods, or subnets
	namespaces map[string]map[string]*podState // the pods of each, by key
	dirty      map[string]struct{}
	hostPorted map[numberedPort]map[string]struct{} // pods, by key
}

func newPodBook(o *part.Outbox, s *settings.Settings, around surroundings, nodes nodeView, services serviceView,
	claims claimView, policies policyView) podBook {
	return podBook{Outbox: o, settings: s, around: around, places: nodes, services: services, claims: claims,
		policies: policies, all: map[string]*podState{}, nodes: map[string]*nodePods{},
		namespaces: map[string]map[string]*podState{},
		dirty:      map[string]struct{}{},
		hostPorted: map[numberedPort]map[string]struct{}{}}
}

// Take is part of [part.Part].
func (b *podBook) Take(batch *part.Batch) { b.update(batch.Looks(objects.PodKind), batch) }

// Dirty is part of [part.Part].
func (b *podBook) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
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
func (b *podBook) Change(owner ovsdb.Owner) part.Outcome {
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
func (b *podBook) Clean() { part.Empty(&b.dirty) }

// index keeps the pods of each namespace.
func (b *podBook) index(name string, p *podState) {
	pods := b.namespaces[p.object.Namespace]
	if pods == nil {
		pods = map[string]*podState{}
		b.namespaces[p.object.Namespace] = pods
	}
	pods[name] = p
}

func (b *podBook) unindex(name string, p *podState) {
	pods := b.namespaces[p.object.Namespace]
	if delete(pods, name); len(pods) == 0 {
		delete(b.namespaces, p.object.Namespace)
	}
}

// touched are the pods that are there of those whose rows are made again, by key.
func (b *podBook) touched() iter.Seq2[string, *podState] {
	return func(yield func(string, *podState) bool) {
		for key := range b.dirty {
			if p := b.all[key]; p != nil && !yield(key, p) {
				return
			}
		}
	}
}

func (b *podBook) everyone() map[string]*podState { return b.all }

func (b *podBook) in(namespace string) map[string]*podState { return b.namespaces[namespace] }

func (b *podBook) wantsHostPort(port numberedPort) bool { return len(b.hostPorted[port]) > 0 }

func (b *podBook) touch(key string) { b.dirty[key] = struct{}{} }
