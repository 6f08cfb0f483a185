package ovn

import (
	"cmp"
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
	all        map[objectKey]*policyState
	selections map[string]*selectionState // by their texts
	// candidates are the selections that a namespace's pods may be in, as far as somebody asked.
	candidates map[string][]*selectionState
	nodeSets   map[policy.Nodes]*nodeSetState
	// ranks are the policies of one tier and priority, the oldest first.
	ranks map[rank][]*policyState
	// byNamespace are the pods of each, by key.
	byNamespace map[string]map[string]*podState
	logging     map[string]string // contract.ACLLoggingAnnotation by namespace

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

func newPolicyBook() policyBook {
	return policyBook{
		all: map[objectKey]*policyState{}, selections: map[string]*selectionState{}, candidates: map[string][]*selectionState{},
		nodeSets: map[policy.Nodes]*nodeSetState{}, ranks: map[rank][]*policyState{}, byNamespace: map[string]map[string]*podState{}, logging: map[string]string{},
		emptied: map[*selectionState]struct{}{}, dirty: map[objectKey]struct{}{}, dirtyNumbers: map[objectKey]struct{}{}, dirtySelections: map[string]struct{}{}, dirtyNodeSets: map[policy.Nodes]struct{}{},
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

// updatePolicies takes in policies of a kind. The pods that they select are looked at again.
func (c *cluster) updatePolicies(k kind, names []string, get lookup) {
	for _, name := range names {
		object, _ := get(objectKey{k, name}).(*policyObject)
		c.updatePolicy(objectKey{k, name}, object)
	}
}

func (c *cluster) updatePolicy(k objectKey, object *policyObject) {
	book := &c.policies
	p := book.all[k]
	if p == nil {
		if object == nil {
			return
		}
		p = &policyState{key: k}
		book.all[k] = p
		if len(book.all) == 1 {
			c.touchCommon()
		}
	}
	if p.object != nil && object != nil && object.UID == p.object.UID && object.Generation == p.object.Generation {
		again := p.object.logging == object.logging && c.noteAgain(p, object)
		if p.object = object; !again {
			p.note = "" // somebody has changed the status, or it was written
			book.dirty[k] = struct{}{}
		}
		return
	}
	book.dirty[k] = struct{}{}
	c.unrankPolicy(p)
	p.object = object
	uses := usesOf(object)
	for _, u := range uses {
		c.take(p, u)
	}
	for _, u := range p.uses {
		c.drop(p, u)
	}
	p.uses = uses
	if object == nil {
		if delete(book.all, k); len(book.all) == 0 {
			c.touchCommon()
		}
		return
	}
	c.rankPolicy(p)
}

// touchCommon has all looked at again that depends on whether there is any policy.
func (c *cluster) touchCommon() {
	c.policies.dirtyCommon = true
	for _, name := range c.nodeNames {
		c.dirtyNodes[name] = struct{}{}
	}
}

// rankPolicy puts a cluster-wide policy among those of its priority, whose rows depend on it.
func (c *cluster) rankPolicy(p *policyState) {
	if r, ok := p.rank(); ok {
		list := append(c.policies.ranks[r], p)
		slices.SortFunc(list, func(a, b *policyState) int {
			return cmp.Or(older(&a.object.ObjectMeta, &b.object.ObjectMeta), cmp.Compare(a.key.name, b.key.name))
		})
		c.policies.ranks[r] = list
		c.touchRank(list)
	}
}

func (c *cluster) unrankPolicy(p *policyState) {
	if r, ok := p.rank(); ok {
		list := slices.DeleteFunc(c.policies.ranks[r], func(o *policyState) bool { return o == p })
		c.policies.ranks[r] = list
		if len(list) == 0 {
			delete(c.policies.ranks, r)
		}
		c.touchRank(list)
	}
}

func (c *cluster) touchRank(list []*policyState) {
	for _, p := range list {
		c.policies.dirty[p.key] = struct{}{}
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
func (c *cluster) take(p *policyState, u use) {
	switch {
	case u.domain != "":
		c.domainUsed(u.domain, 1)
		return
	case u.ofNodes:
		c.takeNodes(u.nodes)
		return
	}
	s := c.policies.selections[u.selection.String()]
	if s == nil {
		s = c.addSelection(u.selection)
	}
	count := s.usage(u)
	if u.port != "" {
		s.ports[u.port].users[p]++
	}
	count.users++
	if count.users == 1 && !count.lingering {
		c.touchSelection(s)
	}
}

// drop ends a use. The rows stay for now.
func (c *cluster) drop(p *policyState, u use) {
	switch {
	case u.domain != "":
		c.domainUsed(u.domain, -1)
		return
	case u.ofNodes:
		c.dropNodes(u.nodes)
		return
	}
	s := c.policies.selections[u.selection.String()]
	count := s.usage(u)
	if u.port != "" {
		users := s.ports[u.port].users
		if users[p]--; users[p] == 0 {
			delete(users, p)
		}
	}
	if count.users--; count.users == 0 {
		count.lingering = true
		c.expected = append(c.expected, objectKey{selectionKind, u.selection.String()})
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
func (c *cluster) addSelection(selection policy.Selection) *selectionState {
	s := &selectionState{Selection: selection, text: selection.String(), ports: map[string]*namedPortState{}}
	s.namespaces, s.pods = selection.Selectors()
	c.policies.selections[s.text] = s
	c.policies.forgetCandidates(s)
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
func (c *cluster) settleSelection(text string) {
	c.policies.dirtySelections[text] = struct{}{}
	s := c.policies.selections[text]
	if s == nil {
		return
	}
	s.group.lingering, s.set.lingering = false, false
	for port, n := range s.ports {
		n.group.lingering, n.set.lingering = false, false
		c.settleNumbers(s, n)
		if !n.group.live() && !n.set.live() {
			delete(s.ports, port)
		}
	}
	c.touchSelection(s)
	if !s.group.live() && !s.set.live() && len(s.ports) == 0 {
		delete(c.policies.selections, text)
		c.policies.forgetCandidates(s)
	}
}

// touchSelection has a selection's rows and its pods looked at again.
func (c *cluster) touchSelection(s *selectionState) {
	c.policies.dirtySelections[s.text] = struct{}{}
	for namespace, pods := range c.podsIn(s) {
		if !s.within(namespace, c.egress.namespaces) {
			continue
		}
		for name, p := range pods {
			if s.pods.Matches(p.object.labels) {
				c.dirtyPods[name] = struct{}{}
			}
		}
	}
}

// podsIn are the pods of the namespaces that may be a selection's.
func (c *cluster) podsIn(s *selectionState) map[string]map[string]*podState {
	if s.namespaces == nil {
		return map[string]map[string]*podState{s.Namespace: c.policies.byNamespace[s.Namespace]}
	}
	return c.policies.byNamespace
}

// within says whether a namespace is a selection's.
func (s *selectionState) within(namespace string, all map[string]labelSet) bool {
	if s.namespaces == nil {
		return s.Namespace == namespace
	}
	set, known := all[namespace]
	return known && s.namespaces.Matches(set)
}

// candidatesOf are the selections that a namespace's pods may be in, in the order of their names.
func (c *cluster) candidatesOf(namespace string) []*selectionState {
	list, known := c.policies.candidates[namespace]
	if known {
		return list
	}
	for _, s := range c.policies.selections {
		if s.within(namespace, c.egress.namespaces) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *selectionState) int { return cmp.Compare(a.text, b.text) })
	c.policies.candidates[namespace] = list
	return list
}

// selectPod finds the selections that a pod is in, and counts its named ports there.
func (c *cluster) selectPod(p *podState) {
	c.uncountPorts(p)
	p.selections = p.selections[:0]
	for _, s := range c.candidatesOf(p.object.Namespace) {
		if s.pods.Matches(p.object.labels) {
			p.selections = append(p.selections, s)
			c.countPorts(p, s)
		}
	}
}

// settlePolicies decides anew for every pod that was touched.
func (c *cluster) settlePolicies() {
	for name := range c.dirtyPods {
		if p := c.pods[name]; p != nil {
			c.selectPod(p)
		}
	}
	c.lingerNumbers()
}

// indexPod keeps the pods of each namespace.
func (c *cluster) indexPod(name string, p *podState) {
	pods := c.policies.byNamespace[p.object.Namespace]
	if pods == nil {
		pods = map[string]*podState{}
		c.policies.byNamespace[p.object.Namespace] = pods
	}
	pods[name] = p
}

func (c *cluster) forgetPod(name string, p *podState) {
	c.uncountPorts(p)
	pods := c.policies.byNamespace[p.object.Namespace]
	if delete(pods, name); len(pods) == 0 {
		delete(c.policies.byNamespace, p.object.Namespace)
	}
}

// lookAtPoliciesOf has a namespace's pods looked at again, since its labels have changed.
func (c *cluster) lookAtPoliciesOf(namespace string) {
	delete(c.policies.candidates, namespace)
	if len(c.policies.selections) == 0 {
		return
	}
	for name := range c.policies.byNamespace[namespace] {
		c.dirtyPods[name] = struct{}{}
	}
}

// unknown says of a namespace that nothing is known of it yet, and that it might matter: a pod that comes
// before its namespace waits, so that no policy misses it.
func (c *cluster) unknown(namespace string) bool {
	_, known := c.egress.namespaces[namespace]
	return !known && len(c.policies.ranks) > 0
}

func (b *policyBook) clean() {
	empty(&b.dirty)
	empty(&b.dirtyNumbers)
	empty(&b.dirtySelections)
	empty(&b.dirtyNodeSets)
	b.dirtyCommon = false
}

// noteLogging takes in how the connections are logged that a namespace's policies decide.
func (c *cluster) noteLogging(name string, object *namespace) {
	text := ""
	if object != nil {
		text = object.logging
	}
	if c.policies.logging[name] == text {
		return
	}
	if c.policies.logging[name] = text; text == "" {
		delete(c.policies.logging, name)
	}
	for k, p := range c.policies.all {
		if k.kind == networkPolicyKind && p.object.Namespace == name {
			c.policies.dirty[k] = struct{}{}
		}
	}
	if object != nil {
		c.tell(ovsdb.Owner(namespaceKind.String()+"/"+name), loggingProblems(namespaceKind, &object.ObjectMeta, text)...)
	}
}
