package pools

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

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/topology"
)

// cluster is all that the parts see.
type cluster struct {
	nodes            []*topology.Node
	services         map[string]*objects.Service
	touched, written map[string]bool
}

func (c *cluster) At(string) *topology.Node                 { return nil }
func (c *cluster) Placed() iter.Seq[*topology.Node]         { return slices.Values(c.nodes) }
func (c *cluster) Labels(string) (objects.LabelSet, bool)   { return objects.LabelSet{}, true }
func (c *cluster) IsHosts(netip.Addr) bool                  { return false }
func (c *cluster) Wanting() map[netip.Addr]string           { return nil }
func (c *cluster) Changed() bool                            { return false }
func (c *cluster) OutsideAddresses() map[netip.Addr]string  { return map[netip.Addr]string{} }
func (c *cluster) HeldByAnother(netip.Addr)                 {}
func (c *cluster) SlicesOf(string) []*objects.EndpointSlice { return nil }
func (c *cluster) Service(key string) *objects.Service      { return c.services[key] }
func (c *cluster) Touched() iter.Seq[string]                { return maps.Keys(c.touched) }
func (c *cluster) Touch(name string)                        { c.written[name] = true }

// TestParts plays the life of an AddressPool and of a Service that wants an address. It says after each step what the
// Service has, which node announces it, whose statuses are written and whose rows are made again.
func TestParts(t *testing.T) {
	c := &cluster{services: map[string]*objects.Service{}, touched: map[string]bool{}, written: map[string]bool{}}
	out := part.NewOutbox()
	p, _ := New(out, ovntest.Settings(t, nil), c, c, c, c, c, c)
	facts := ovntest.ReadFacts(ovntest.Facts(1, false))
	node := &topology.Node{Name: "n1", Placed: true, ID: 1, Object: &objects.Node{Ready: true}, Facts: facts,
		Outside: facts.Gateway.Network}
	k, web, addr := objects.Key{Kind: objects.PoolKind, Name: "a"}, "shop/web", netip.MustParseAddr("203.0.113.64")
	there := map[part.Event]any{k: &objects.AddressPool{
		Custom: objects.Custom{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", Generation: 1}}, Auto: true,
		Ranges:   []objects.AddressRange{objects.RangeOf(netip.PrefixFrom(addr, 32))},
		Services: labels.Everything(), Namespaces: labels.Everything(), Nodes: labels.Everything()}}
	service := func(ingress string) {
		c.services[web] = &objects.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "2"},
			Balancer: objects.LoadBalancer{Wanted: true, Class: v1alpha1.PoolClass, Families: "4", Ingress: ingress}}
		c.touched[web] = true
	}
	turn := func(ready bool) { node.Object.Ready = ready; p.Turn(node) }

	for _, step := range []struct {
		name   string
		play   func()
		events []part.Event
		want   string
	}{
		{"a node and a pool come", func() { c.nodes = append(c.nodes, node); p.UpdateNode(node) }, []part.Event{k},
			"nobody's; AddressPool a"},
		{"a Service comes", func() { service("") }, nil, "shop/web's; AddressPool a, Service web"},
		{"its status says so", func() { service(addr.String()) }, nil, "shop/web's, by n1; rows of n1 shop/web"},
		{"the node is not ready", func() { turn(false) }, nil, "shop/web's; rows of n1 shop/web"},
		{"the node is ready", func() { turn(true) }, nil, "shop/web's, by n1; rows of n1 shop/web"},
		{"the pool goes", func() { delete(there, k) }, []part.Event{k}, "shop/web's; rows of n1 shop/web"},
		{"the Service goes", func() { delete(c.services, web); c.touched[web] = true }, nil, "nobody's"},
	} {
		step.play()
		p.Take(part.NewBatch(step.events, func(e part.Event) any { return there[e] }))
		p.Reconcile()
		got := "nobody's"
		if name, held := p.Holder(addr); held {
			got = name + "'s"
		}
		if node, _ := p.Announcer(addr); node != "" {
			got += ", by " + node
		}
		var noted []string
		for _, a := range out.TakeNotes() {
			noted = append(noted, fmt.Sprint(a.Kind, " ", a.Name))
		}
		if slices.Sort(noted); len(noted) > 0 {
			got += "; " + strings.Join(noted, ", ")
		}
		if len(c.written) > 0 {
			got += "; rows of " + strings.Join(slices.Sorted(maps.Keys(c.written)), " ")
		}
		if got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
		clear(c.touched)
		clear(c.written)
	}
}
