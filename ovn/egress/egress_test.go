package egress

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// pod is one that has an address.
type pod struct {
	ovntest.Pod
	leaving Leaving
}

func (p *pod) Leaving() *Leaving { return &p.leaving }

// cluster is all that the part sees.
type cluster struct {
	ovntest.Pods[Pod]
	nodes []*topology.Node
	taken map[netip.Addr]string
}

func (c *cluster) Placed() iter.Seq[*topology.Node]        { return slices.Values(c.nodes) }
func (c *cluster) WithChassis(string) string               { return "" }
func (c *cluster) ReleaseNumber(int)                       {}
func (c *cluster) Holder(netip.Addr) (string, bool)        { return "", false }
func (c *cluster) OutsideAddresses() map[netip.Addr]string { return maps.Clone(c.taken) }

// TestPart plays the life of an EgressIP, of a node that can have its address, and of a pod. It says after each step
// what is dirty and with how many rows, which pods are looked at again, and whether the status says that it is in
// force.
func TestPart(t *testing.T) {
	c := &cluster{Pods: ovntest.NewPods[Pod](), taken: map[netip.Addr]string{}}
	out, s := part.NewOutbox(), ovntest.Settings(t, nil)
	p := New(out, s, ipam.NewPool(100), c, c, c, c, c)
	facts := ovntest.ReadFacts(ovntest.Facts(1, false))
	node := &topology.Node{Name: "n1", Placed: true, ID: 1, Object: &objects.Node{Ready: true}, Facts: facts,
		Outside: facts.Gateway.Network}
	web := &pod{Pod: ovntest.Pod{Trimmed: &objects.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}}}
	k := objects.Key{Kind: objects.EgressKind, Name: "a"}
	there := map[part.Event]any{k: &objects.EgressIP{
		Custom:    objects.Custom{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", Generation: 1}},
		Addresses: objects.ParseAddrs("203.0.113.20"), Nodes: labels.Everything(), Pods: labels.Everything(),
		Namespaces: labels.Everything()}}

	for _, step := range []struct {
		name   string
		play   func()
		events []part.Event
		want   string
	}{
		{"it comes, and no node has a gateway", func() {}, []part.Event{k}, "Egress/nodes:8 EgressIP/a:2 False"},
		{"a pod comes", func() { c.There["shop/web"] = web; c.Touch("shop/web") }, nil, "pods shop/web, in 2 sets"},
		{"a node comes", func() { c.nodes = append(c.nodes, node); p.Replan() }, nil, "EgressIP/a:14 True, in 2 sets"},
		{"its rows are asked for again", func() {}, []part.Event{part.Signal{What: part.Again, Name: "EgressIP/a"}},
			"EgressIP/a:14, in 2 sets"},
		{"somebody else has the address", func() { c.taken[netip.MustParseAddr("203.0.113.20")] = "a host"; p.Replan() }, nil,
			"EgressIP/a:2 False, in 2 sets"},
		{"it goes", func() { delete(there, k) }, []part.Event{k}, "Egress/nodes:0 EgressIP/a:0 pods shop/web"},
	} {
		step.play()
		p.Take(part.NewBatch(step.events, func(e part.Event) any { return there[e] }))
		p.Reconcile()
		var list []string
		for _, owner := range p.Dirty(false) {
			list = append(list, fmt.Sprintf("%s:%d", owner, len(p.Change(owner).Rows)))
		}
		if len(c.Looked) > 0 {
			list = append(list, "pods "+strings.Join(slices.Sorted(maps.Keys(c.Looked)), " "))
		}
		for _, note := range out.TakeNotes() {
			list = append(list, strings.Trim(strings.SplitAfter(ovntest.Written(note), `"status":"`)[1][:5], `",`))
		}
		got := strings.Join(list, " ")
		change := ovsdb.Change{}
		if AddTo(web, &change); len(change.Memberships) > 0 {
			got = strings.TrimPrefix(fmt.Sprintf("%s, in %d sets", got, len(change.Memberships)), ", ")
		}
		if got != step.want {
			t.Errorf("%s:\n%s, want\n%s", step.name, got, step.want)
		}
		p.Clean()
		clear(c.Looked)
	}
}
