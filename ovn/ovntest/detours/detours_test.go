package detours

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound/northboundtest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/topology"
)

// placed are the nodes that the part sees.
type placed []*topology.Node

func (p *placed) Placed() iter.Seq[*topology.Node] { return slices.Values(*p) }

func node(number int) *topology.Node {
	return &topology.Node{Name: fmt.Sprint("n", number), Placed: true, ID: number, Object: &objects.Node{},
		Facts: ovntest.ReadFacts(ovntest.Facts(number, false))}
}

// read is a Detour as the informer has it, with the status that was written.
func read(generation int64, prefix, nextHop, status string) *Detour {
	u := &unstructured.Unstructured{Object: map[string]any{"kind": "Detour",
		"metadata": map[string]any{"name": "a", "uid": "1", "generation": generation},
		"spec":     map[string]any{"prefix": prefix, "nextHop": nextHop}}}
	if status != "" {
		var said map[string]any
		if err := json.Unmarshal([]byte(status), &said); err != nil {
			panic(err)
		}
		u.Object["status"] = said
	}
	trimmed, _ := Kind.Trim(u)
	return trimmed.(*Detour)
}

// TestPart plays the life of a Detour and of nodes. It says after each step which owners are dirty and their rows, what
// is told, and what the status says.
func TestPart(t *testing.T) {
	nodes, out := &placed{}, part.NewOutbox()
	p := New(out, nodes)
	k := objects.Key{Kind: Kind, Name: "a"}
	var there *Detour
	last := ""
	comes := func(generation int64, prefix, nextHop string) func() {
		return func() { there = read(generation, prefix, nextHop, last) }
	}
	joins := func(n *topology.Node) func() {
		return func() { *nodes = append(*nodes, n); p.UpdateNode(n) }
	}
	none := node(3)
	none.Facts.Gateway = nil
	const good, hop = "198.51.100.0/24", "203.0.113.9"
	for _, step := range []struct {
		name   string
		play   func()
		events []part.Event
		want   string
	}{
		{"it comes before nodes", comes(1, good, hop), []part.Event{k}, "Detour/a=[] False NoNode 0"},
		{"a node comes", joins(node(1)), nil, "Detour/a=[n1 198.51.100.0/24>203.0.113.9] True InUse 1"},
		{"another one", joins(node(2)), nil,
			"Detour/a=[n1 198.51.100.0/24>203.0.113.9 n2 198.51.100.0/24>203.0.113.9] True InUse 2"},
		{"one without a gateway", joins(none), nil, ""},
		{"a node is as before", func() { p.UpdateNode((*nodes)[0]) }, nil, ""},
		{"a node goes", func() {
			(*nodes)[0].Placed = false
			p.UpdateNode((*nodes)[0])
			*nodes = (*nodes)[1:]
		}, nil, "Detour/a=[n2 198.51.100.0/24>203.0.113.9] True InUse 1"},
		{"its status is read", func() { there = read(1, good, hop, last) }, []part.Event{k},
			"Detour/a=[n2 198.51.100.0/24>203.0.113.9]"},
		{"somebody else writes its status", func() { there = read(1, good, hop, `{"nodes":7}`) }, []part.Event{k},
			"Detour/a=[n2 198.51.100.0/24>203.0.113.9] True InUse 1"},
		{"its rows are asked for again", func() {}, []part.Event{part.Signal{What: part.Again, Name: "Detour/a"}},
			"Detour/a=[n2 198.51.100.0/24>203.0.113.9]"},
		{"its prefix is wrong", comes(2, "nonsense", hop), []part.Event{k}, "Detour/a=[] told BadSpec False BadSpec 0"},
		{"its next hop is of another family", comes(3, good, "2001:db8::9"), []part.Event{k},
			"Detour/a=[] told BadSpec False BadSpec 0"},
		{"it is right again", comes(4, good, hop), []part.Event{k},
			"Detour/a=[n2 198.51.100.0/24>203.0.113.9] True InUse 1"},
		{"it goes", func() { there = nil }, []part.Event{k}, "Detour/a=[]"},
	} {
		step.play()
		p.Take(part.NewBatch(step.events, func(part.Event) any {
			if there == nil {
				return nil
			}
			return there
		}))
		p.Reconcile()
		var list []string
		for at, owner := range p.Dirty(false) {
			if at != part.Common {
				t.Errorf("%s: %s at stage %d", step.name, owner, at)
			}
			var rows []string
			for _, r := range northboundtest.Change(t, p, owner).Rows {
				route := r.Model.(*nb.LogicalRouterStaticRoute)
				rows = append(rows, r.Key+" "+route.IPPrefix+">"+route.Nexthop)
			}
			list = append(list, fmt.Sprintf("%s=%v", owner, rows))
		}
		for _, problem := range out.TakeProblems() {
			list = append(list, "told "+problem.Reason)
		}
		for _, note := range out.TakeNotes() {
			last = ovntest.Written(note)
			s := note.Body.(status)
			list = append(list, fmt.Sprint(s.Conditions[0].Status, " ", s.Conditions[0].Reason, " ", s.Nodes))
		}
		if got := strings.Join(list, " "); got != step.want {
			t.Errorf("%s:\n%s, want\n%s", step.name, got, step.want)
		}
		p.Clean()
	}
}
