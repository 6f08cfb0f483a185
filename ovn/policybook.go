package ovn

import (
	"cmp"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// policyBook is what is known of network policies, and of whom they select.
//
// Policies name pods by selections. A selection that is a policy's subject is a port group, one that is a
// rule's peer a pair of address sets; pods join both together with their ports, in one transaction. So a
// policy costs rows by its rules, and a pod joins as many sets as select it.
type policyBook struct {
	*outbox
	settings   *settings
	clock      *clock
	nodes      nodeView
	pods       podView
	namespaces namespaceView
	domains    domainView

	all        map[objectKey]*policyState
	selections map[string]*selectionState // by their texts
	// candidates are the selections that a namespace's pods may be in, as far as somebody asked.
	candidates map[string][]*selectionState
	nodeSets   map[policy.Nodes]*nodeSetState
	// ranks are the policies of one tier and priority, the oldest first.
	ranks   map[rank][]*policyState
	logging map[string]string // contract.ACLLoggingAnnotation by namespace

	// emptied are selections that may have lost the last pod with some named port.
	emptied map[*selectionState]struct{}

	dirty map[objectKey]struct{}
	// dirtyNumbers are policies that have other numbers behind a port's name.
	dirtyNumbers    map[objectKey]struct{}
	dirtySelections map[string]struct{}
	dirtyNodeSets   map[policy.Nodes]struct{}
	dirtyCommon     bool
	// unwritten are the statuses of policies whose rows are on their way.
	unwritten map[ovsdb.Owner]annotation
}

func newPolicyBook(
	o *outbox, s *settings, t *clock, nodes nodeView, pods podView, namespaces namespaceView, domains domainView,
) policyBook {
	return policyBook{
		outbox: o, settings: s, clock: t, nodes: nodes, pods: pods, namespaces: namespaces, domains: domains,
		all: map[objectKey]*policyState{}, selections: map[string]*selectionState{}, candidates: map[string][]*selectionState{},
		nodeSets: map[policy.Nodes]*nodeSetState{}, ranks: map[rank][]*policyState{}, logging: map[string]string{},
		emptied: map[*selectionState]struct{}{}, dirty: map[objectKey]struct{}{}, dirtyNumbers: map[objectKey]struct{}{},
		dirtySelections: map[string]struct{}{}, dirtyNodeSets: map[policy.Nodes]struct{}{},
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
	key    objectKey
	object *policyObject
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

// usage counts who needs a set. One that nobody needs any more lingers for a while: when many rows change,
// pods leave a policy's former subject only after the policy has left it.
type usage struct {
	users     int
	lingering bool
}

func (u usage) live() bool { return u.users > 0 || u.lingering }

// selectionState is a selection that some policy uses.
type selectionState struct {
	policy.Selection
	text             string
	namespaces, pods labels.Selector // namespaces is nil where the selection has but one
	group, set       usage
	ports            map[string]*namedPortState
}

func compareContainerPorts(a, b containerPort) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.number, b.number))
}

// update takes in policies of a kind. The pods that they select are looked at again.
func (b *policyBook) update(k kind, names []string, get lookup) {
	for _, name := range names {
		object, _ := get(objectKey{k, name}).(*policyObject)
		b.updateOne(objectKey{k, name}, object)
	}
}

func (b *policyBook) updateOne(k objectKey, object *policyObject) {
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
		again := p.object.logging == object.logging && b.noteAgain(p, object)
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
			return cmp.Or(older(&a.object.ObjectMeta, &b.object.ObjectMeta), cmp.Compare(a.key.name, b.key.name))
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
	if p.object == nil || p.object.policy == nil || p.object.policy.Tier == policy.Tenant {
		return rank{}, false
	}
	return rank{p.object.policy.Tier, p.object.policy.Priority}, true
}

// usesOf are all that a policy's rows refer to, each once.
func usesOf(o *policyObject) []use {
	if o == nil || o.policy == nil {
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
	add(use{selection: o.policy.Subject, group: true})
	for i := range o.policy.Rules {
		rule := &o.policy.Rules[i]
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
				add(use{selection: o.policy.Subject, group: true, port: port.Name})
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
	s := b.selections[u.selection.String()]
	if s == nil {
		s = b.addSelection(u.selection)
	}
	count := s.usage(u)
	if u.port != "" {
		s.ports[u.port].users[p]++
	}
	count.users++
	if count.users == 1 && !count.lingering {
		b.touchSelection(s)
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
	s := b.selections[u.selection.String()]
	count := s.usage(u)
	if u.port != "" {
		users := s.ports[u.port].users
		if users[p]--; users[p] == 0 {
			delete(users, p)
		}
	}
	if count.users--; count.users == 0 {
		count.lingering = true
		b.expect(objectKey{selectionKind, u.selection.String()})
	}
}

// usage finds the count of a use; a named port that nobody has asked for is looked for among the pods.
func (s *selectionState) usage(u use) *usage {
	group, set := &s.group, &s.set
	if u.port != "" {
		n := s.ports[u.port]
		if n == nil {
			n = &namedPortState{numbers: map[portNumber]*numberState{}, users: map[*policyState]int{}}
			s.ports[u.port] = n
		}
		group, set = &n.group, &n.set
	}
	if u.group {
		return group
	}
	return set
}

// addSelection begins to keep a selection.
func (b *policyBook) addSelection(selection policy.Selection) *selectionState {
	s := &selectionState{Selection: selection, text: selection.String(), ports: map[string]*namedPortState{}}
	s.namespaces, s.pods = selection.Selectors()
	b.selections[s.text] = s
	b.forgetCandidates(s)
	return s
}

// forgetCandidates has those of a selection's namespaces looked for anew.
func (b *policyBook) forgetCandidates(s *selectionState) {
	if s.namespaces == nil {
		delete(b.candidates, s.Namespace)
	} else {
		clear(b.candidates)
	}
}

// settleSelection drops what nobody has come to need again.
func (b *policyBook) settleSelection(text string) {
	b.dirtySelections[text] = struct{}{}
	s := b.selections[text]
	if s == nil {
		return
	}
	s.group.lingering, s.set.lingering = false, false
	for port, n := range s.ports {
		n.group.lingering, n.set.lingering = false, false
		b.settleNumbers(s, n)
		if !n.group.live() && !n.set.live() {
			delete(s.ports, port)
		}
	}
	b.touchSelection(s)
	if !s.group.live() && !s.set.live() && len(s.ports) == 0 {
		delete(b.selections, text)
		b.forgetCandidates(s)
	}
}

// touchSelection has a selection's rows and its pods looked at again.
func (b *policyBook) touchSelection(s *selectionState) {
	b.dirtySelections[s.text] = struct{}{}
	for namespace, pods := range b.podsIn(s) {
		if !s.within(namespace, b.namespaces.labels) {
			continue
		}
		for name, p := range pods {
			if s.pods.Matches(p.object.labels) {
				b.pods.touch(name)
			}
		}
	}
}

// podsIn are the pods of the namespaces that may be a selection's.
func (b *policyBook) podsIn(s *selectionState) map[string]map[string]*podState {
	if s.namespaces == nil {
		return map[string]map[string]*podState{s.Namespace: b.pods.in(s.Namespace)}
	}
	return b.pods.byNamespace()
}

// within says whether a namespace is a selection's.
func (s *selectionState) within(namespace string, labelsOf func(string) (labelSet, bool)) bool {
	if s.namespaces == nil {
		return s.Namespace == namespace
	}
	set, known := labelsOf(namespace)
	return known && s.namespaces.Matches(set)
}

// candidatesOf are the selections that a namespace's pods may be in, in the order of their names.
func (b *policyBook) candidatesOf(namespace string) []*selectionState {
	list, known := b.candidates[namespace]
	if known {
		return list
	}
	for _, s := range b.selections {
		if s.within(namespace, b.namespaces.labels) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *selectionState) int { return cmp.Compare(a.text, b.text) })
	b.candidates[namespace] = list
	return list
}

// selectPod finds the selections that a pod is in, and counts its named ports there.
func (b *policyBook) selectPod(p *podState) {
	b.uncountPorts(p)
	p.selections = p.selections[:0]
	for _, s := range b.candidatesOf(p.object.Namespace) {
		if s.pods.Matches(p.object.labels) {
			p.selections = append(p.selections, s)
			b.countPorts(p, s)
		}
	}
}

// settle decides anew for the pods that were touched.
func (b *policyBook) settle(touched iter.Seq2[string, *podState]) {
	for _, p := range touched {
		b.selectPod(p)
	}
	b.lingerNumbers()
}

// lookAt has a namespace's pods looked at again, since its labels have changed.
func (b *policyBook) lookAt(namespace string) {
	delete(b.candidates, namespace)
	if len(b.selections) == 0 {
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
	empty(&b.dirtyNumbers)
	empty(&b.dirtySelections)
	empty(&b.dirtyNodeSets)
	b.dirtyCommon = false
}

// noteLogging takes in how the connections are logged that a namespace's policies decide.
func (b *policyBook) noteLogging(name string, object *namespace) {
	text := ""
	if object != nil {
		text = object.logging
	}
	if b.logging[name] == text {
		return
	}
	if b.logging[name] = text; text == "" {
		delete(b.logging, name)
	}
	for k, p := range b.all {
		if k.kind == networkPolicyKind && p.object.Namespace == name {
			b.dirty[k] = struct{}{}
		}
	}
	if object != nil {
		b.tell(ovsdb.Owner(namespaceKind.String()+"/"+name), loggingProblems(namespaceKind, &object.ObjectMeta, text)...)
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
