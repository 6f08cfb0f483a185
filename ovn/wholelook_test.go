package ovn

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/test/cases"
)

// TestALookAtAllFindsNothingNew plays the random lives of addresses, with pools and EgressIPs that select nodes by
// labels, and more that change of nodes, and after each step has everything looked at again. No row, status or Event
// follows from that: what an event makes a difference to was looked at with it.
func TestALookAtAllFindsNothingNew(t *testing.T) {
	for seed := range cases.Of(*lives) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			l := &selectiveLife{newAddressLife(t, 1000+seed)}
			for range 80 {
				what, keys := l.selectiveEvent()
				l.told = append(l.told, what)
				for l.play(keys); l.random.IntN(4) > 0; {
					l.told = append(l.told, "annotations are written")
					if keys = l.w.absorb(l.c); len(keys) == 0 {
						break
					}
					l.play(keys)
				}
			}
		})
	}
}

// selectiveLife is a life of addresses in which nodes are selected.
type selectiveLife struct{ *addressLife }

// play makes an event's changes, and looks at everything again.
func (l *selectiveLife) play(keys []part.Event) {
	l.t.Helper()
	l.c.update(keys, l.w.Get)
	l.c.update(l.c.TakeExpected(), l.w.Get) // what is put off is due at once
	l.take(l.rows, l.c.takeChanges())
	l.northd()
	notes, problems := l.c.TakeNotes(), l.c.TakeProblems()
	l.oneList() // which has all Services judged again, too

	l.c.egress.Replan()
	within(reflect.ValueOf(l.c.nodes), "vacated").SetBool(true)
	l.c.pools.Recheck()
	within(reflect.ValueOf(l.c.serviceCIDRs), "reoccupied").SetBool(true)
	l.c.update([]part.Event{objects.Key{Kind: objects.NodeKind, Name: "nobody"}}, l.w.Get)
	l.take(l.rows, slices.DeleteFunc(l.c.takeChanges(), func(change ovsdb.Change) bool {
		if before, now := rowsText(l.rows[change.Owner]), rowsText(change); before != now {
			l.t.Errorf("after %s a look at all has other rows of %s:\n%s", l.told[len(l.told)-1], change.Owner,
				diff(before, now))
		}
		return false
	}))
	if found := l.c.TakeProblems(); len(found) > 0 {
		l.t.Errorf("after %s a look at all tells %v", l.told[len(l.told)-1], found)
	}
	noted := func(p part.Patch) bool { return slices.ContainsFunc(notes, p.Equal) }
	if found := slices.DeleteFunc(l.c.TakeNotes(), noted); len(found) > 0 {
		l.t.Errorf("after %s a look at all notes %v", l.told[len(l.told)-1], found)
	}
	if l.t.Failed() {
		l.t.FailNow()
	}
	l.c.Notes, l.c.Problems = notes, problems
}

// selectiveEvent is an event of an address's life, or of what selects nodes.
func (l *selectiveLife) selectiveEvent() (what string, keys []part.Event) {
	w, n := l.w, l.random.IntN
	defer func() { what = fmt.Sprintf("%s %v", what, keys) }()
	selector := must(parseSelector([]string{"", "rack=1", "rack!=1", "rack in (1,2)"}[n(4)]))
	switch n(6) {
	case 0:
		k := objects.Key{Kind: objects.PoolKind, Name: fmt.Sprint("a", n(3))}
		if before, ok := w.objects[k].(*objects.AddressPool); ok {
			after := *before
			after.Nodes, after.Generation = selector, before.Generation+1
			return fmt.Sprintf("pool selects %v", selector), w.put(&after)
		}
	case 1:
		k := objects.Key{Kind: objects.EgressKind, Name: fmt.Sprint("e", n(3))}
		if before, ok := w.objects[k].(*objects.EgressIP); ok {
			after := *before
			after.Nodes, after.Generation = selector, before.Generation+1
			return fmt.Sprintf("EgressIP selects %v", selector), w.put(&after)
		}
	case 2, 3:
		number := n(4)
		if before, ok := w.objects[objects.Key{Kind: objects.NodeKind, Name: fmt.Sprint("n", number)}].(*objects.Node); ok {
			after := *before
			set := labelMap([][]string{{"weft.net/egress="}, {"rack=1"}, {"rack=2", "weft.net/egress="},
				{corev1.LabelNodeExcludeBalancers + "=", "rack=1"}, {topology.NetworkLabel + "=other"}, {"feature=1"}}[n(6)])
			after.Labels = objects.NewLabelSet(set)
			if n(4) == 0 {
				after.Facts = ovntest.EditFacts(1+number, true, func(f *contract.NodeFacts) {
					f.MTU = 1400 + n(3)
					if n(2) == 0 { // as a copied machine's
						f.Chassis = fmt.Sprint("chassis-", 1+n(4))
					}
				})
			}
			return fmt.Sprintf("node has labels %v", set), w.put(&after)
		}
	case 4:
		return "ServiceCIDR", l.toggle(objects.Key{Kind: objects.ServiceCIDRKind, Name: "more"},
			w.serviceCIDR("more", []string{"203.0.113.0/29", "10.98.0.0/24", "192.0.2.0/24"}[n(3)]))
	}
	return l.event()
}
