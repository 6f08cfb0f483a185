package ovn

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// selectionBook is what is known of whom policies select.
type selectionBook struct {
	*outbox
	settings   *settings.Settings
	pods       podView
	namespaces namespaceView

	all map[string]*selectionState // by their texts
	// candidates are the selections that a namespace's pods may be in, as far as somebody asked.
	candidates map[string][]*selectionState
	// emptied are selections that may have lost the last pod with some named port.
	emptied map[*selectionState]struct{}
	dirty   map[string]struct{}
	// dirtyNumbers are policies that have other numbers behind a port's name.
	dirtyNumbers map[objects.Key]struct{}
}

func newSelectionBook(o *outbox, s *settings.Settings, pods podView, namespaces namespaceView) selectionBook {
	return selectionBook{
		outbox: o, settings: s, pods: pods, namespaces: namespaces,
		all: map[string]*selectionState{}, candidates: map[string][]*selectionState{}, emptied: map[*selectionState]struct{}{},
		dirty: map[string]struct{}{}, dirtyNumbers: map[objects.Key]struct{}{},
	}
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

// within says whether a namespace is a selection's.
func (s *selectionState) within(namespace string, labelsOf func(string) (objects.LabelSet, bool)) bool {
	if s.namespaces == nil {
		return s.Namespace == namespace
	}
	set, known := labelsOf(namespace)
	return known && s.namespaces.Matches(set)
}

// add begins to keep a selection.
func (b *selectionBook) add(selection policy.Selection) *selectionState {
	s := &selectionState{Selection: selection, text: selection.String(), ports: map[string]*namedPortState{}}
	s.namespaces, s.pods = selection.Selectors()
	b.all[s.text] = s
	b.forgetCandidates(s)
	return s
}

// forgetCandidates has those of a selection's namespaces looked for anew.
func (b *selectionBook) forgetCandidates(s *selectionState) {
	if s.namespaces == nil {
		delete(b.candidates, s.Namespace)
	} else {
		clear(b.candidates)
	}
}

// settle drops what nobody has come to need again.
func (b *selectionBook) settle(text string) {
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
func (b *selectionBook) touch(s *selectionState) {
	b.dirty[s.text] = struct{}{}
	for namespace, pods := range b.podsIn(s) {
		if !s.within(namespace, b.namespaces.labels) {
			continue
		}
		for name, p := range pods {
			if s.pods.Matches(p.object.Labels) {
				b.pods.touch(name)
			}
		}
	}
}

// podsIn are the pods of the namespaces that may be a selection's.
func (b *selectionBook) podsIn(s *selectionState) map[string]map[string]*podState {
	if s.namespaces == nil {
		return map[string]map[string]*podState{s.Namespace: b.pods.in(s.Namespace)}
	}
	return b.pods.byNamespace()
}

// candidatesOf are the selections that a namespace's pods may be in, in the order of their names.
func (b *selectionBook) candidatesOf(namespace string) []*selectionState {
	list, known := b.candidates[namespace]
	if known {
		return list
	}
	for _, s := range b.all {
		if s.within(namespace, b.namespaces.labels) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *selectionState) int { return cmp.Compare(a.text, b.text) })
	b.candidates[namespace] = list
	return list
}

// selectPod finds the selections that a pod is in, and counts its named ports there.
func (b *selectionBook) selectPod(p *podState) {
	b.uncountPorts(p)
	p.selections = p.selections[:0]
	for _, s := range b.candidatesOf(p.object.Namespace) {
		if s.pods.Matches(p.object.Labels) {
			p.selections = append(p.selections, s)
			b.countPorts(p, s)
		}
	}
}

// change is a selection's rows, which its pods fill.
func (b *selectionBook) change(text string) ovsdb.Change {
	r := newRows(northbound.SelectionOwner(text))
	s := b.all[text]
	if s == nil {
		return r.Change
	}
	s.each(func(set, group usage, port string, number objects.PortNumber) {
		if group.live() {
			r.Add(nb.PortGroupTable, groupKey(port, number), &nb.PortGroup{Name: groupName(s.Selection, port, number)})
		}
		if set.live() {
			for _, ipv4 := range b.settings.Families() {
				r.Add(nb.AddressSetTable, setKey(northbound.IPWord(ipv4), port, number), &nb.AddressSet{Name: addressesName(s.Selection, ipv4, port, number)})
			}
		}
	})
	return r.Change
}
