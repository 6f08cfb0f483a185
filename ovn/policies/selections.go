package policies

import (
	"cmp"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// lingering ends the time in which the sets of a selection linger.
var lingering = part.NewSignal("Pods", part.Patience)

// Selections are what is known of whom policies select. They are a part of their own.
//
// Policies name pods by selections. A selection that is a policy's subject is a port group, one that is a rule's peer a
// pair of address sets; pods join both together with their ports, in one transaction. So a policy costs rows by its
// rules, and a pod joins as many sets as select it.
type Selections struct {
	*part.Outbox
	settings   *settings.Settings
	pods       Pods
	namespaces Namespaces

	all map[string]*selectionState // by their texts
	// candidates are the selections that a namespace's pods may be in, as far as somebody asked.
	candidates map[string][]*selectionState
	// emptied are selections that may have lost the last pod with some named port.
	emptied map[*selectionState]struct{}
	dirty   map[string]struct{}
	// dirtyNumbers are policies that have other numbers behind a port's name.
	dirtyNumbers map[objects.Key]struct{}
}

// NewSelections are none.
func NewSelections(o *part.Outbox, s *settings.Settings, pods Pods, namespaces Namespaces) *Selections {
	return &Selections{
		Outbox: o, settings: s, pods: pods, namespaces: namespaces,
		all: map[string]*selectionState{}, candidates: map[string][]*selectionState{},
		emptied: map[*selectionState]struct{}{},
		dirty:   map[string]struct{}{}, dirtyNumbers: map[objects.Key]struct{}{},
	}
}

// Take is part of [part.Part].
func (b *Selections) Take(batch *part.Batch) {
	for _, text := range batch.Signals(lingering) {
		b.settleUse(text)
	}
	for _, text := range batch.Again("Pods") {
		if b.dirty[text] = struct{}{}; b.all[text] != nil {
			b.touch(b.all[text])
		}
	}
}

// Reconcile is part of [part.Part]: it decides anew for the pods that were touched.
func (b *Selections) Reconcile() {
	for _, p := range b.pods.Touched() {
		b.selectPod(p)
	}
	b.lingerNumbers()
}

// Dirty is part of [part.Part].
func (b *Selections) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, b.all, b.dirty, part.Sets, northbound.SelectionOwner)
}

// Clean is part of [part.Part].
func (b *Selections) Clean() {
	part.Empty(&b.dirty)
	part.Empty(&b.dirtyNumbers)
}

// Size is how many selections there are, and how many pairs of one with the name of a port.
func (b *Selections) Size() (selections, namedPorts int) {
	for _, s := range b.all {
		namedPorts += len(s.ports)
	}
	return len(b.all), namedPorts
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

// usage finds the count of a use; a named port that nobody has asked for is looked for among the pods.
func (s *selectionState) usage(u use) *usage {
	group, set := &s.group, &s.set
	if u.port != "" {
		n := s.ports[u.port]
		if n == nil {
			n = &namedPortState{numbers: map[objects.PortNumber]*numberState{}, users: map[*policyState]int{}}
			s.ports[u.port] = n
		}
		group, set = &n.group, &n.set
	}
	if u.group {
		return group
	}
	return set
}

// take counts a policy as a user of a selection's set.
func (b *Selections) take(p *policyState, u use) {
	s := b.all[u.selection.String()]
	if s == nil {
		s = b.add(u.selection)
	}
	count := s.usage(u)
	if u.port != "" {
		s.ports[u.port].users[p]++
	}
	count.users++
	if count.users == 1 && !count.lingering {
		b.touch(s)
	}
}

// drop ends a policy's use of a selection's set. The rows stay for now.
func (b *Selections) drop(p *policyState, u use) {
	s := b.all[u.selection.String()]
	count := s.usage(u)
	if u.port != "" {
		users := s.ports[u.port].users
		if users[p]--; users[p] == 0 {
			delete(users, p)
		}
	}
	if count.users--; count.users == 0 {
		count.lingering = true
		b.Expect(part.Signal{What: lingering, Name: s.text})
	}
}

// NamespaceChanged has a namespace's pods looked at again, since its labels have changed.
func (b *Selections) NamespaceChanged(namespace string) {
	delete(b.candidates, namespace)
	if len(b.all) == 0 {
		return
	}
	for name := range b.pods.In(namespace) {
		b.pods.Touch(name)
	}
}

// within says whether a namespace is a selection's.
func (s *selectionState) within(namespace string, labelsOf func(string) (objects.LabelSet, bool)) bool {
	if s.namespaces == nil {
		return s.Namespace == namespace
	}
	set, known := labelsOf(namespace)
	return known && s.namespaces.Matches(set)
}

// add begins to keep a selection.
func (b *Selections) add(selection policy.Selection) *selectionState {
	s := &selectionState{Selection: selection, text: selection.String(), ports: map[string]*namedPortState{}}
	s.namespaces, s.pods = selection.Selectors()
	b.all[s.text] = s
	b.forgetCandidates(s)
	return s
}

// forgetCandidates has those of a selection's namespaces looked for anew.
func (b *Selections) forgetCandidates(s *selectionState) {
	if s.namespaces == nil {
		delete(b.candidates, s.Namespace)
	} else {
		clear(b.candidates)
	}
}

// settleUse drops what nobody has come to need again of a selection.
func (b *Selections) settleUse(text string) {
	b.dirty[text] = struct{}{}
	s := b.all[text]
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
	b.touch(s)
	if !s.group.live() && !s.set.live() && len(s.ports) == 0 {
		delete(b.all, text)
		b.forgetCandidates(s)
	}
}

// touch has a selection's rows and its pods looked at again.
func (b *Selections) touch(s *selectionState) {
	b.dirty[s.text] = struct{}{}
	for namespace := range b.namespacesOf(s) {
		if !s.within(namespace, b.namespaces.Labels) {
			continue
		}
		for name, p := range b.pods.In(namespace) {
			if s.pods.Matches(p.Object().Labels) {
				b.pods.Touch(name)
			}
		}
	}
}

// namespacesOf are those with pods that may be a selection's.
func (b *Selections) namespacesOf(s *selectionState) iter.Seq[string] {
	if s.namespaces == nil {
		return func(yield func(string) bool) { yield(s.Namespace) }
	}
	return b.pods.Namespaces()
}

// candidatesOf are the selections that a namespace's pods may be in, in the order of their names.
func (b *Selections) candidatesOf(namespace string) []*selectionState {
	list, known := b.candidates[namespace]
	if known {
		return list
	}
	for _, s := range b.all {
		if s.within(namespace, b.namespaces.Labels) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *selectionState) int { return cmp.Compare(a.text, b.text) })
	if _, there := b.namespaces.Labels(namespace); there { // nobody tells of the end of one that is gone
		b.candidates[namespace] = list
	}
	return list
}

// selectPod finds the selections that a pod is in, and counts its named ports there.
func (b *Selections) selectPod(p Pod) {
	b.Leave(p)
	in := p.Selected()
	in.by = in.by[:0]
	for _, s := range b.candidatesOf(p.Object().Namespace) {
		if s.pods.Matches(p.Object().Labels) {
			in.by = append(in.by, s)
			b.countPorts(p, s)
		}
	}
}

// Change is part of [part.Part]. The rows are filled by pods.
func (b *Selections) Change(owner ovsdb.Owner) part.Outcome {
	_, text := part.Split(owner)
	r, s := northbound.NewBuilder(owner), b.all[text]
	if s == nil {
		return part.Rows(r.Change)
	}
	s.each(func(set, group usage, port string, number objects.PortNumber) {
		if group.live() {
			r.Add(nb.PortGroupTable, groupKey(port, number), &nb.PortGroup{Name: groupName(s.Selection, port, number)})
		}
		if set.live() {
			for _, ipv4 := range b.settings.Families() {
				r.Add(nb.AddressSetTable, setKey(northbound.IPWord(ipv4), port, number),
					&nb.AddressSet{Name: addressesName(s.Selection, ipv4, port, number)})
			}
		}
	})
	return part.Rows(r.Change)
}
