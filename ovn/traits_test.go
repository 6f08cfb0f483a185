package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
)

// TestWhatANodesTraitsHaveLookedAt: labels that nobody selects by, and facts that are nobody else's, have nothing
// looked at but the node. A label has the EgressIPs and the Services of AddressPools looked at which select by it, and
// no others.
func TestWhatANodesTraitsHaveLookedAt(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { ovntest.Dual(c); withBalancers(c) })
	for i := range 4 {
		s.do(s.egressNode(1 + i))
	}
	racked, other := s.addressPool("racked", "203.0.113.64/32"), s.addressPool("other", "203.0.113.65/32")
	racked.Nodes = must(parseSelector("rack=1"))
	b := s.egressIP("b", "", "203.0.113.21")
	b.Nodes = must(parseSelector("rack=1"))
	s.do(racked, other, s.egressIP("a", "", "203.0.113.20"), b, s.balanced("first"), s.balanced("second"))
	s.wantEgress("b", "False", "NoNode")
	s.problems = nil
	vip := map[string]netip.Addr{"first": netip.MustParseAddr(s.external("first")),
		"second": netip.MustParseAddr(s.external("second"))}
	inRack := map[bool]string{true: "first", false: "second"}[vip["first"] == netip.MustParseAddr("203.0.113.64")]
	// touched is what a change of a node has looked at.
	touched := func(name string, edit func(*objects.Node)) string {
		t.Helper()
		after := *s.objects[objects.Key{Kind: objects.NodeKind, Name: name}].(*objects.Node)
		edit(&after)
		looks := s.looks()
		s.c.update(s.put(&after), s.Get)
		seen := strings.Fields(looks())
		for _, change := range s.c.takeChanges() {
			seen = append(seen, string(change.Owner))
		}
		slices.Sort(seen)
		s.touch(s.absorb(s.c))
		return strings.Join(seen, " ")
	}
	labels := func(pairs ...string) func(*objects.Node) {
		return func(n *objects.Node) {
			n.Labels = objects.NewLabelSet(labelMap(append(pairs, v1alpha1.EgressLabel+"=")))
		}
	}
	s.want("a label of nobody's interest", touched("e1", labels("feature=1")), "Node/e1")
	s.want("facts of nobody else's", touched("e1", func(n *objects.Node) {
		n.Facts = ovntest.EditFacts(1, true, func(f *contract.NodeFacts) { f.MTU = 1400 })
	}), "Node/e1")
	s.want("the label of one", touched("e1", labels("rack=1")), "EgressIP/b Node/e1 Service/default/"+inRack+" b")
	s.wantEgress("b", "True", "Carried")
	if node, _ := s.c.pools.Announcer(vip[inRack]); node != "e1" {
		t.Errorf("%q announces what e1 alone may", node)
	}
	s.want("another value of it", touched("e1", labels("rack=2")), "EgressIP/b Node/e1 Service/default/"+inRack)
	s.wantEgress("b", "False", "NoNode")
	announcer, _ := s.c.pools.Announcer(vip[map[bool]string{true: "second", false: "first"}[inRack == "first"]])
	got := touched(announcer, labels(corev1.LabelNodeExcludeBalancers+"="))
	if !strings.Contains(got, "Service/default/") || strings.Contains(got, "EgressIP") ||
		strings.Contains(got, "AddressPools") {
		t.Errorf("a node that is to announce no more has %s looked at", got)
	}
	s.want("what it carried", fmt.Sprint(len(s.c.pools.AnnouncedBy(announcer))), "0")
	got = touched("e1", func(n *objects.Node) { n.Facts = ovntest.Facts(9, true) })
	for _, word := range []string{"AddressPools", "a", "Alive/nodes", "Egress/nodes"} {
		if !slices.Contains(strings.Fields(got), word) {
			t.Errorf("another gateway has %s looked at, and not %s", got, word)
		}
	}
	s.wantReasons()
}
