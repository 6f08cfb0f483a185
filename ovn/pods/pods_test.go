package pods

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/topology"
)

// cluster is all that the part sees: a node, and Services and policies that want nothing.
type cluster struct {
	node *topology.Node
	kept bool // the host keeps all its ports
}

func (c *cluster) Node(string) *topology.Node            { return c.node }
func (c *cluster) Forget(string)                         {}
func (c *cluster) NoteNode(string)                       {}
func (c *cluster) TouchSticky()                          {}
func (c *cluster) Has(objects.Claim) bool                { return false }
func (c *cluster) HostsKeep(string, netip.AddrPort) bool { return c.kept }
func (c *cluster) Lacks(string) bool                     { return false }
func (c *cluster) PodSeen(string, *objects.Pod)          {}
func (c *cluster) PodEnds(*Pod)                          {}

// TestPart plays pods that come and go on a node with room for four. It says after each step what is dirty, at which
// stage and with how many rows, who has which address, and whose annotations are written.
func TestPart(t *testing.T) {
	c := &cluster{node: &topology.Node{Name: "n1", Facts: ovntest.ReadFacts(ovntest.Facts(1, false))}}
	out := part.NewOutbox()
	p := New(out, ovntest.Settings(t, nil), c, c, c, c, c)
	there := map[part.Event]any{}
	pod := func(name string) objects.Key {
		k := objects.Key{Kind: objects.PodKind, Name: "shop/" + name}
		there[k] = &objects.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
			Node: "n1", HostPorts: []objects.HostPort{{Protocol: "tcp", Port: 8080, Into: 80}}}
		return k
	}
	subnet := func(text string) {
		c.node.Subnets, c.node.Placed = []netip.Prefix{netip.MustParsePrefix(text)}, true
		p.Readdress(c.node)
	}
	for _, step := range []struct {
		name string
		play func() []part.Event
		want string
	}{
		{"a pod comes before its node", func() []part.Event { return []part.Event{pod("a")} }, "Pod/shop/a:0@7"},
		{"its node gets a subnet", func() []part.Event { subnet("10.244.0.0/29"); return nil },
			"Pod/shop/a:2@7 a=10.244.0.3 noted a"},
		{"four more, of which one waits", func() []part.Event { return []part.Event{pod("b"), pod("c"), pod("d"), pod("e")} },
			"Pod/shop/a:2@4 Pod/shop/b:1@7 Pod/shop/c:1@7 Pod/shop/d:1@7 Pod/shop/e:0@7 a=10.244.0.3 b=10.244.0.4 " +
				"c=10.244.0.5 d=10.244.0.6 noted b c d"},
		{"one goes, and the port of the host is another's", func() []part.Event {
			k := objects.Key{Kind: objects.PodKind, Name: "shop/a"}
			delete(there, k)
			return []part.Event{k}
		}, "Pod/shop/a:0@4 Pod/shop/b:2@4 Pod/shop/c:1@4 Pod/shop/d:1@4 Pod/shop/e:1@7 b=10.244.0.4 c=10.244.0.5 " +
			"d=10.244.0.6 e=10.244.0.3 noted b c d e"},
		{"the host keeps its ports", func() []part.Event {
			c.kept = true
			p.TouchHostPorts([]objects.Claim{{Port: 8080, Protocol: "tcp"}})
			return nil
		}, "Pod/shop/b:1@4 Pod/shop/c:1@4 Pod/shop/d:1@4 Pod/shop/e:1@4 b=10.244.0.4 c=10.244.0.5 d=10.244.0.6 " +
			"e=10.244.0.3 noted b c d e"},
	} {
		events := step.play()
		p.Take(part.NewBatch(events, func(e part.Event) any { return there[e] }))
		var list, noted []string
		for at, owner := range p.Dirty(false) {
			o := p.Change(owner)
			list = append(list, fmt.Sprintf("%s:%d@%d", owner, len(o.Rows), at))
			if o.Then != nil {
				o.Then()
			}
		}
		for _, key := range slices.Sorted(maps.Keys(maps.Collect(p.All()))) {
			for _, a := range p.At(key).Addresses() {
				list = append(list, strings.TrimPrefix(key, "shop/")+"="+a.Addr().String())
			}
		}
		for _, a := range out.TakeNotes() {
			noted = append(noted, a.Name)
		}
		if slices.Sort(noted); len(noted) > 0 {
			list = append(list, "noted "+strings.Join(noted, " "))
		}
		if got := strings.Join(list, " "); got != step.want {
			t.Errorf("%s:\n%s, want\n%s", step.name, got, step.want)
		}
		p.Clean()
	}
}
