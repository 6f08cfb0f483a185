package topology

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
)

// TestZones plays nodes that come to be in zones and leave them. It says after each step whether the cluster's rows are
// dirty, whether Services are told, and how many zones have groups of load balancers.
func TestZones(t *testing.T) {
	told := 0
	c := NewCluster(ovntest.Settings(t, nil), func() { told++ })
	node := func(name, zone string) *Node {
		return &Node{Name: name, Placed: true, Object: &objects.Node{Zone: zone}}
	}
	for _, step := range []struct {
		name string
		node *Node
		want string
	}{
		{"a node without a zone", node("n1", ""), "dirty, told, zones 1"},
		{"a zone's first node", node("n2", "a"), "dirty, told, zones 2"},
		{"the same again", node("n2", "a"), "zones 2"},
		{"its second", node("n3", "a"), "told, zones 2"},
		{"the first moves", node("n2", "b"), "dirty, told, zones 3"},
		{"a node without a switch", &Node{Name: "n3", Object: &objects.Node{Zone: "a"}}, "dirty, told, zones 2"},
		{"a node that is gone", &Node{Name: "n2"}, "dirty, told, zones 1"},
	} {
		told = 0
		c.Update(step.node)
		var list []string
		for range c.Dirty(false) {
			list = append(list, "dirty")
		}
		if told > 0 {
			list = append(list, "told")
		}
		zones := 0
		for _, r := range c.Change(northbound.ClusterOwner).Rows {
			if g, ok := r.Model.(*nb.LoadBalancerGroup); ok && strings.HasPrefix(g.Name, "weft-zone") &&
				strings.HasSuffix(g.Name, "-linux") {
				zones++
			}
		}
		if got := strings.Join(append(list, fmt.Sprint("zones ", zones)), ", "); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
		c.Clean()
	}
	c.Take(part.NewBatch([]part.Event{part.Signal{What: part.Again, Name: string(northbound.ClusterOwner)}}, nil))
	if owners := maps.Collect(c.Dirty(false)); owners[part.Common] != northbound.ClusterOwner {
		t.Errorf("rows that are asked for again are those of %v", owners)
	}
}
