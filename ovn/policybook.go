package ovn

import (
	"cmp"
	"iter"
	"slices"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// policyBook is what is known of network policies.
//
// Policies name pods by selections. A selection that is a policy's subject is a port group, one that is a
// rule's peer a pair of address sets; pods join both together with their ports, in one transaction. So a
// policy costs rows by its rules, and a pod joins as many sets as select it.
type policyBook struct {
	*outbox
	settings   *settings.Settings
	clock      *clock
	nodes      nodeView
	pods       podView
	namespaces namespaceView
	domains    domainView

	all        map[objects.Key]*policyState
	selections selectionBook
	nodeSets   map[policy.Nodes]*nodeSetState
	// ranks are the policies of one tier and priority, the oldest first.
	ranks   map[rank][]*policyState
	logging map[string]string // contract.ACLLoggingAnnotation by namespace

	dirty         map[objects.Key]struct{}
	dirtyNodeSets map[policy.Nodes]struct{}
	dirtyCommon   bool
	// unwritten are the statuses of policies whose rows are on their way.
	unwritten map[ovsdb.Owner]annotation
}

func newPolicyBook(
	o *outbox, s *settings.Settings, t *clock, nodes nodeView, pods podView, namespaces namespaceView, domains domainView,
) policyBook {
	return policyBook{
		outbox: o, settings: s, clock: t, nodes: nodes, pods: pods, namespaces: namespaces, domains: domains,
		all: map[objects.Key]*policyState{}, selections: newSelectionBook(o, s, pods, namespaces),
		nodeSets: map[policy.Nodes]*nodeSetState{}, ranks: map[rank][]*policyState{}, logging: map[string]string{},
		dirty: map[objects.Key]struct{}{}, dirtyNodeSets: map[policy.Nodes]struct{}{},
		unwritten: map[ovsdb.Owner]annotation{},
	}
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
	// acls and refused are of its rows when they were last made: how many there are, and how many are beyond its named ports' bound.
	acls, refused int
	note          string // status that was asked for last
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

// update takes in policies of a kind. The pods that they select are looked at again.
func (b *policyBook) update(k objects.Kind, names []string, get lookup) {
	for _, name := range names {
		object, _ := get(objects.Key{Kind: k, Name: name}).(*objects.PolicyObject)
		b.updateOne(objects.Key{Kind: k, Name: name}, object)
	}
}

func (b *policyBook) updateOne(k objects.Key, object *objects.PolicyObject) {
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
			p.note = "" // somebody has changed the status, or it was written
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

// touchAll has all looked at again that depends on whether there is any policy.
func (b *policyBook) touchAll() {
	b.dirtyCommon = true
	for n := range b.nodes.placed() {
		b.nodes.touch(n.name)
	}
}

// rankPolicy puts a cluster-wide policy among those of its priority, whose rows depend on it.
func (b *policyBook) rankPolicy(p *policyState) {
	if r, ok := p.rank(); ok {
		list := append(b.ranks[r], p)
		slices.SortFunc(list, func(a, b *policyState) int {
			return cmp.Or(Older(&a.object.ObjectMeta, &b.object.ObjectMeta), cmp.Compare(a.key.Name, b.key.Name))
		})
		b.ranks[r] = list
		b.touchRank(list)
	}
}

func (b *policyBook) unrankPolicy(p *policyState) {
	if r, ok := p.rank(); ok {
		list := slices.DeleteFunc(b.ranks[r], func(o *policyState) bool { return o == p })
		b.ranks[r] = list
		if len(list) == 0 {
			delete(b.ranks, r)
		}
		b.touchRank(list)
	}
}

func (b *policyBook) touchRank(list []*policyState) {
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

// take counts a policy as a user.
func (b *policyBook) take(p *policyState, u use) {
	switch {
	case u.domain != "":
		b.domains.use(u.domain, 1)
		return
	case u.ofNodes:
		b.takeNodes(u.nodes)
		return
	}
	s := b.selections.all[u.selection.String()]
	if s == nil {
		s = b.selections.add(u.selection)
	}
	count := s.usage(u)
	if u.port != "" {
		s.ports[u.port].users[p]++
	}
	count.users++
	if count.users == 1 && !count.lingering {
		b.selections.touch(s)
	}
}

// drop ends a use. The rows stay for now.
func (b *policyBook) drop(p *policyState, u use) {
	switch {
	case u.domain != "":
		b.domains.use(u.domain, -1)
		return
	case u.ofNodes:
		b.dropNodes(u.nodes)
		return
	}
	s := b.selections.all[u.selection.String()]
	count := s.usage(u)
	if u.port != "" {
		users := s.ports[u.port].users
		if users[p]--; users[p] == 0 {
			delete(users, p)
		}
	}
	if count.users--; count.users == 0 {
		count.lingering = true
		b.expect(signal{selectionSignal, u.selection.String()})
	}
}

// settle decides anew for the pods that were touched.
func (b *policyBook) settle(touched iter.Seq2[string, *podState]) {
	for _, p := range touched {
		b.selections.selectPod(p)
	}
	b.selections.lingerNumbers()
}

// lookAt has a namespace's pods looked at again, since its labels have changed.
func (b *policyBook) lookAt(namespace string) {
	delete(b.selections.candidates, namespace)
	if len(b.selections.all) == 0 {
		return
	}
	for name := range b.pods.in(namespace) {
		b.pods.touch(name)
	}
}

// lacks says of a namespace that nothing is known of it yet, and that it might matter: a pod that comes
// before its namespace waits, so that no policy misses it.
func (b *policyBook) lacks(namespace string) bool {
	_, known := b.namespaces.labels(namespace)
	return !known && len(b.ranks) > 0
}

func (b *policyBook) clean() {
	empty(&b.dirty)
	empty(&b.selections.dirtyNumbers)
	empty(&b.selections.dirty)
	empty(&b.dirtyNodeSets)
	b.dirtyCommon = false
}

// noteLogging takes in how the connections are logged that a namespace's policies decide.
func (b *policyBook) noteLogging(name string, object *objects.Namespace) {
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
		b.tell(ovsdb.Owner(objects.NamespaceKind.String()+"/"+name), loggingProblems(objects.NamespaceKind, &object.ObjectMeta, text)...)
	}
}

// windowsChanged has the rows made again that depend on whether there is a Windows node: the log's meter, and what
// the owners of policies about SCTP are told.
func (b *policyBook) windowsChanged() {
	b.dirtyCommon = true
	for k, p := range b.all {
		if p.asksSCTP() {
			b.dirty[k] = struct{}{}
		}
	}
}
