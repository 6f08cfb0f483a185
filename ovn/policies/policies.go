package policies

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/weftnet/weft/ovn/domains"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Kinds are the kinds of network policies.
var Kinds = []*objects.Kind{
	objects.NetworkPolicyKind, objects.ClusterPolicyKind, objects.AdminPolicyKind, objects.BaselinePolicyKind,
}

// Part is what is known of network policies.
type Part struct {
	part.Immediate
	*part.Outbox
	settings   *settings.Settings
	clock      *part.Clock
	nodes      Nodes
	pods       Pods
	namespaces Namespaces
	domains    *domains.Part
	selections *Selections
	nodeSets   *NodeSets

	all map[objects.Key]*policyState
	// ranks are the policies of one tier and priority, the oldest first.
	ranks   map[rank][]*policyState
	logging map[string]string // contract.ACLLoggingAnnotation by namespace

	dirty       map[objects.Key]struct{}
	dirtyCommon bool
	// unwritten are the statuses of policies whose rows are on their way.
	unwritten map[ovsdb.Owner]unwrittenStatus
}

// New is a part without policies, which makes use of the parts of what they name.
func New(
	o *part.Outbox, s *settings.Settings, t *part.Clock, nodes Nodes, pods Pods, namespaces Namespaces,
	domains *domains.Part, selections *Selections, nodeSets *NodeSets,
) *Part {
	return &Part{
		Outbox: o, settings: s, clock: t, nodes: nodes, pods: pods, namespaces: namespaces, domains: domains,
		selections: selections, nodeSets: nodeSets,
		all: map[objects.Key]*policyState{}, ranks: map[rank][]*policyState{}, logging: map[string]string{},
		dirty: map[objects.Key]struct{}{}, unwritten: map[ovsdb.Owner]unwrittenStatus{},
	}
}

// Take is part of [part.Part]. The pods that policies select are looked at again.
func (b *Part) Take(batch *part.Batch) {
	for _, kind := range Kinds {
		for _, name := range batch.Names(kind) {
			b.update(objects.Key{Kind: kind, Name: name}, part.Object[objects.PolicyObject](batch, kind, name))
		}
		for _, name := range batch.Again(kind.String()) {
			k := objects.Key{Kind: kind, Name: name}
			b.dirty[k] = struct{}{}
			b.all[k].forgetNote()
		}
	}
	b.dirtyCommon = b.dirtyCommon || batch.AsksFor(northbound.PoliciesOwner)
}

// Dirty is part of [part.Part]: what all policies share, those that there are, those that are gone, and those that
// have other numbers behind their ports' names and are the same otherwise.
func (b *Part) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return func(yield func(part.Stage, ovsdb.Owner) bool) {
		if (all && len(b.all) > 0 || b.dirtyCommon) && !yield(part.Policies, northbound.PoliciesOwner) {
			return
		}
		keys := maps.Keys(b.dirty)
		if all {
			keys = maps.Keys(b.all)
		}
		for _, k := range slices.SortedFunc(keys, compareKeys) {
			at := part.Policies
			if b.all[k] == nil {
				at = part.NoPolicies
			}
			if !yield(at, northbound.PolicyOwner(k)) {
				return
			}
		}
		for _, k := range slices.SortedFunc(maps.Keys(b.selections.dirtyNumbers), compareKeys) {
			if _, more := b.dirty[k]; !all && !more && b.all[k] != nil && !yield(part.Numbers, northbound.PolicyOwner(k)) {
				return
			}
		}
	}
}

func compareKeys(a, b objects.Key) int {
	return cmp.Or(cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)),
		cmp.Compare(a.Name, b.Name))
}

// Change is part of [part.Part].
func (b *Part) Change(owner ovsdb.Owner) part.Outcome {
	word, name := part.Split(owner)
	for _, kind := range Kinds {
		if kind.String() == word {
			return b.change(objects.Key{Kind: kind, Name: name})
		}
	}
	return part.Rows(b.commonChange())
}

// Clean is part of [part.Part].
func (b *Part) Clean() {
	part.Empty(&b.dirty)
	b.dirtyCommon = false
}

// rank is where ClusterNetworkPolicies stand in the order.
type rank struct {
	tier     policy.Tier
	priority int
}

// policyState is a policy and what it uses.
type policyState struct {
	key    objects.Key
	object *objects.PolicyObject
	uses   []use
	note   part.Patch // with the status that was asked for last, if any was
}

// use is what a policy needs of a set: the port group or the address sets of a selection, or those of the
// pods in it that have a named port; or a set of nodes; or a domain name's.
type use struct {
	selection policy.Selection
	group     bool
	port      string
	domain    string
	ofNodes   bool // it is those of nodes
	nodes     policy.Nodes
}

// update takes in a policy.
func (b *Part) update(k objects.Key, object *objects.PolicyObject) {
	p := b.all[k]
	if p == nil {
		if object == nil {
			return
		}
		p = &policyState{key: k}
		b.all[k] = p
		if len(b.all) == 1 {
			b.touchAll()
		}
	}
	if p.object != nil && object != nil && object.UID == p.object.UID && object.Generation == p.object.Generation {
		again := p.object.Logging == object.Logging && b.noteAgain(p, object)
		if p.object = object; !again {
			p.forgetNote() // somebody has changed the status, or it was written
			b.dirty[k] = struct{}{}
		}
		return
	}
	b.dirty[k] = struct{}{}
	b.unrankPolicy(p)
	p.object = object
	uses := usesOf(object)
	for _, u := range uses {
		b.take(p, u)
	}
	for _, u := range p.uses {
		b.drop(p, u)
	}
	p.uses = uses
	if object == nil {
		if delete(b.all, k); len(b.all) == 0 {
			b.touchAll()
		}
		return
	}
	b.rankPolicy(p)
}

// Any says whether there are policies.
func (b *Part) Any() bool { return len(b.all) > 0 }

// touchAll has all looked at again that depends on whether there is any policy.
func (b *Part) touchAll() {
	b.dirtyCommon = true
	for name := range b.nodes.All() {
		b.nodes.Touch(name)
	}
}

// rankPolicy puts a cluster-wide policy among those of its priority, whose rows depend on it.
func (b *Part) rankPolicy(p *policyState) {
	if r, ok := p.rank(); ok {
		list := append(b.ranks[r], p)
		slices.SortFunc(list, func(a, b *policyState) int {
			return cmp.Or(objects.Older(&a.object.ObjectMeta, &b.object.ObjectMeta), cmp.Compare(a.key.Name, b.key.Name))
		})
		b.ranks[r] = list
		b.touchRank(list)
	}
}

func (b *Part) unrankPolicy(p *policyState) {
	if r, ok := p.rank(); ok {
		list := slices.DeleteFunc(b.ranks[r], func(o *policyState) bool { return o == p })
		b.ranks[r] = list
		if len(list) == 0 {
			delete(b.ranks, r)
		}
		b.touchRank(list)
	}
}

func (b *Part) touchRank(list []*policyState) {
	for _, p := range list {
		b.dirty[p.key] = struct{}{}
	}
}

func (p *policyState) rank() (rank, bool) {
	if p.object == nil || p.object.Policy == nil || p.object.Policy.Tier == policy.Tenant {
		return rank{}, false
	}
	return rank{p.object.Policy.Tier, p.object.Policy.Priority}, true
}

// usesOf are all that a policy's rows refer to, each once.
func usesOf(o *objects.PolicyObject) []use {
	if o == nil || o.Policy == nil {
		return nil
	}
	var list []use
	seen := map[use]bool{}
	add := func(u use) {
		if !seen[u] {
			seen[u] = true
			list = append(list, u)
		}
	}
	add(use{selection: o.Policy.Subject, group: true})
	for i := range o.Policy.Rules {
		rule := &o.Policy.Rules[i]
		if rule.Nothing() {
			continue
		}
		for _, peer := range rule.Peers {
			switch {
			case peer.Pods != nil:
				add(use{selection: *peer.Pods})
			case peer.Nodes != nil:
				add(use{ofNodes: true, nodes: *peer.Nodes})
			case peer.Domain != "":
				add(use{domain: peer.Domain})
			}
		}
		for _, port := range rule.Ports {
			if port.Name == "" {
				continue
			}
			if rule.Direction == policy.Ingress {
				add(use{selection: o.Policy.Subject, group: true, port: port.Name})
				continue
			}
			for _, s := range namedAmong(rule) {
				add(use{selection: s, port: port.Name})
			}
		}
	}
	return list
}

// take counts a policy as a user of a set.
func (b *Part) take(p *policyState, u use) {
	switch {
	case u.domain != "":
		b.domains.Use(u.domain, 1)
	case u.ofNodes:
		b.nodeSets.take(u.nodes)
	default:
		b.selections.take(p, u)
	}
}

// drop ends a use. The rows stay for now.
func (b *Part) drop(p *policyState, u use) {
	switch {
	case u.domain != "":
		b.domains.Use(u.domain, -1)
	case u.ofNodes:
		b.nodeSets.drop(u.nodes)
	default:
		b.selections.drop(p, u)
	}
}

// Lacks says of a namespace that nothing is known of it yet, and that it might matter: a pod that comes
// before its namespace waits, so that no policy misses it.
func (b *Part) Lacks(namespace string) bool {
	_, known := b.namespaces.Labels(namespace)
	return !known && len(b.ranks) > 0
}

// NoteLogging takes in how the connections are logged that a namespace's policies decide.
func (b *Part) NoteLogging(name string, object *objects.Namespace) {
	text := ""
	if object != nil {
		text = object.Logging
	}
	if b.logging[name] == text {
		return
	}
	if b.logging[name] = text; text == "" {
		delete(b.logging, name)
	}
	for k, p := range b.all {
		if k.Kind == objects.NetworkPolicyKind && p.object.Namespace == name {
			b.dirty[k] = struct{}{}
		}
	}
	if object != nil {
		b.Tell(ovsdb.Owner(objects.NamespaceKind.String()+"/"+name), loggingProblems(objects.NamespaceKind,
			&object.ObjectMeta, text)...)
	}
}

// WindowsChanged has the rows made again that depend on whether there is a Windows node: the log's meter, and what
// the owners of policies about SCTP are told.
func (b *Part) WindowsChanged() {
	b.dirtyCommon = true
	for k, p := range b.all {
		if p.asksSCTP() {
			b.dirty[k] = struct{}{}
		}
	}
}
