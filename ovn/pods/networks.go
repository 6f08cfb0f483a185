package pods

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// told is what a node's agent can read, and is about to read, in the node's PodNetworks.
type told struct {
	object *objects.PodNetworks // as the API server has it, nil where there is none
	noted  *part.Networks       // what was asked for last, nil once the object is that
	reads  bool                 // the agent says that it reads the object
	// granted is true if the right to read the object was asked for since the agent has last said that it reads.
	granted bool
	// tidied says that lines of pods that are gone are to be taken away. expects says that a signal will come for it,
	// and doubted that one will come to look whether the object is what was asked for.
	tidied, expects, doubted bool
}

// Signals about the PodNetworks of a node: tidy asks that lines of pods that are gone be taken away, which do no harm
// and mostly go with the next write, and doubt for a look at whether the object is what was asked for.
var (
	tidy  = part.NewSignal("tidy PodNetworks of Node", part.Patience)
	doubt = part.NewSignal("look at PodNetworks of Node", part.Patience/2)
)

// Networks is the part that takes in the objects PodNetworks. It takes before nodes, whose agents are told whether
// there are any.
func (b *Part) Networks() part.Part { return networks{of: b} }

type networks struct {
	part.Immediate
	part.Rowless
	of *Part
}

// Take is part of [part.Part].
func (n networks) Take(batch *part.Batch) {
	for _, key := range batch.Names(objects.PodNetworksKind) {
		_, name, _ := strings.Cut(key, "/")
		n.of.takeNetworks(n.of.node(name), part.Object[objects.PodNetworks](batch, objects.PodNetworksKind, key))
	}
	for _, name := range batch.Signals(tidy) {
		if at := n.of.nodes[name]; at != nil {
			at.told.expects, at.told.tidied = false, true
			n.of.untold[name] = struct{}{}
		}
	}
	for _, name := range batch.Signals(doubt) {
		if at := n.of.nodes[name]; at != nil {
			at.told.doubted, at.told.noted = false, nil
			n.of.untold[name] = struct{}{}
		}
	}
}

func (b *Part) takeNetworks(n *nodePods, object *objects.PodNetworks) {
	t := &n.told
	before := t.object
	t.object = object
	b.untold[n.Name] = struct{}{}
	switch {
	case object == nil:
		t.noted, t.granted = nil, false
	case t.noted == nil:
	case before != nil && before.UID != object.UID, t.says(t.noted):
		t.noted = nil
	}
	if (before == nil) != (object == nil) {
		b.places.NoteNode(n.Name)
	}
}

// byObject says whether a node's agent reads the addresses of its pods from the node's PodNetworks.
func (b *Part) byObject(n *nodePods) bool { return b.settings.PodNetworks && n.Facts.PodNetworks }

// HasNetworks says whether a node has PodNetworks, or gets one.
func (b *Part) HasNetworks(node string) bool {
	n := b.nodes[node]
	return b.settings.PodNetworks || n != nil && n.told.object != nil
}

// NodeChanged takes in whether a node's agent says that it reads PodNetworks. Where it does not any more, its pods need
// annotations.
func (b *Part) NodeChanged(at *topology.Node) {
	if !b.HasNetworks(at.Name) {
		return
	}
	n := b.node(at.Name)
	if n.told.reads != at.Facts.PodNetworks {
		n.told.reads, n.told.granted = at.Facts.PodNetworks, false
		b.TouchOn(at.Name)
	}
	b.untold[at.Name] = struct{}{}
}

// touchNetworks has a node told of a pod.
func (b *Part) touchNetworks(n *nodePods) {
	if b.HasNetworks(n.Name) {
		b.untold[n.Name] = struct{}{}
	}
}

// leaveNetworks is told that a pod of a node has gone.
func (b *Part) leaveNetworks(n *nodePods) {
	if n.told.object != nil && !n.told.expects {
		n.told.expects = true
		b.Expect(part.Signal{What: tidy, Name: n.Name})
	}
}

// NoteNetworks has the PodNetworks of nodes written that are not what they must be. An agent is told of a pod once the
// Northbound has its port; lacks says which rows of a node's pods the Northbound does not have.
func (b *Part) NoteNetworks(lacks func(node string, owner ovsdb.Owner) bool) {
	untold := b.untold
	b.untold = map[string]struct{}{}
	for name := range untold {
		n := b.node(name)
		if n.Object != nil {
			b.noteNetworks(n, lacks)
		} else if n.told.object == nil {
			n.told = told{}
		}
		b.forget(n) // the object of a Node that is gone goes with it
	}
}

func (b *Part) noteNetworks(n *nodePods, lacks func(node string, owner ovsdb.Owner) bool) {
	t := &n.told
	if !b.HasNetworks(n.Name) {
		return
	}
	wanted := part.Networks{Node: objects.ReferenceTo(objects.NodeKind, &n.Object.ObjectMeta)}
	annotated := true
	for key, p := range n.pods {
		switch {
		case len(p.addresses) == 0:
		case !p.there || lacks(n.Name, northbound.PodOwner(key)): // it is looked at again
			b.untold[n.Name] = struct{}{}
		default:
			wanted.Pods = append(wanted.Pods, contract.PodAddresses{Pod: key, UID: string(p.object.UID),
				Addresses: p.addresses})
			annotated = annotated && p.object.Network == Annotation(p.object.UID, p.addresses)
		}
	}
	foreign := t.object != nil && t.object.Node != wanted.Node.UID // the Node was made anew
	switch {
	case !b.settings.PodNetworks && annotated: // which the agent reads from here on
		wanted.Gone, wanted.Pods = true, nil
	case b.settings.PodNetworks && (!t.reads || foreign) && !t.granted:
		wanted.Grant = true
	}
	if !wanted.Grant && t.has(&wanted, foreign) {
		return
	}
	t.noted, t.granted, t.tidied = &wanted, t.granted || wanted.Grant, false
	b.Note(part.WriteNetworks(t.object, wanted))
	if !t.doubted {
		t.doubted = true
		b.Expect(part.Signal{What: doubt, Name: n.Name})
	}
}

// has says whether the object is what is wanted, or was asked to be.
func (t *told) has(wanted *part.Networks, foreign bool) bool {
	switch {
	case t.noted != nil:
		return t.noted.Gone == wanted.Gone && same(t.noted.Pods, wanted.Pods)
	case wanted.Gone || t.object == nil || foreign || t.object.Wrong:
		return false
	}
	return t.says(wanted)
}

// says says whether the object has the lines that are wanted, and no others where those are to be taken away.
func (t *told) says(wanted *part.Networks) bool {
	for _, p := range wanted.Pods {
		if !t.object.Lines[types.UID(p.UID)].Equal(p) {
			return false
		}
	}
	return !wanted.Gone && (!t.tidied || len(t.object.Lines) == len(wanted.Pods))
}

// same says whether two lists have the same lines, in whatever order.
func same(a, b []contract.PodAddresses) bool {
	byUID := func(list []contract.PodAddresses) map[string]contract.PodAddresses {
		lines := make(map[string]contract.PodAddresses, len(list))
		for _, p := range list {
			lines[p.UID] = p
		}
		return lines
	}
	return len(a) == len(b) && maps.EqualFunc(byUID(a), byUID(b), contract.PodAddresses.Equal)
}
