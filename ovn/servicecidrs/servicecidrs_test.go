package servicecidrs

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
)

// others have the nodes that are placed, and count what they are told.
type others struct {
	nodes   []*topology.Node
	changes int
}

func (o *others) Placed() iter.Seq[*topology.Node] { return slices.Values(o.nodes) }

func (o *others) RangesChanged() { o.changes++ }

// TestPart plays ServiceCIDRs, and a node that gets an address of theirs. It says after each step which ranges
// ClusterIPs come from, and what a ServiceCIDR is told.
func TestPart(t *testing.T) {
	n := &topology.Node{Name: "n1", Placed: true}
	around, out := &others{nodes: []*topology.Node{n}}, part.NewOutbox()
	s := &settings.Settings{Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
	p := New(out, s, around, around)
	put := func(name string, ranges ...string) func() {
		o := &objects.ServiceCIDR{}
		o.Name = name
		for _, text := range ranges {
			o.Ranges = append(o.Ranges, netip.MustParsePrefix(text))
		}
		return func() {
			p.Take(part.NewBatch([]part.Event{objects.Key{Kind: objects.ServiceCIDRKind, Name: name}}, func(part.Event) any {
				if len(ranges) == 0 {
					return nil
				}
				return o
			}))
		}
	}
	node := func(addresses ...string) func() {
		return func() {
			n.Facts = contract.NodeFacts{Addresses: objects.ParseAddrs(strings.Join(addresses, ","))}
			p.UpdateOccupants(n)
			p.Take(part.NewBatch(nil, nil))
		}
	}
	for _, step := range []struct {
		name   string
		play   func()
		ranges string
		told   string // a part of it, "" for nothing
	}{
		{"the same as from the start", put("a", "10.96.0.0/16"), "10.96.0.0/16", ""},
		{"another", put("b", "10.98.0.0/24"), "10.96.0.0/16,10.98.0.0/24", ""},
		{"one of pods'", put("c", "10.244.8.0/24"), "10.96.0.0/16,10.98.0.0/24", "pod-cidrs 10.244.0.0/16"},
		{"a family that pods do not have", put("d", "fd00:98::/112"), "10.96.0.0/16,10.98.0.0/24", "of the family of"},
		{"a node elsewhere", node("192.0.2.1"), "10.96.0.0/16,10.98.0.0/24", ""},
		{"a node with an address of one", node("192.0.2.1", "10.98.0.7"), "10.96.0.0/16", "address 10.98.0.7 of Node n1"},
		{"it has the address no more", node("192.0.2.1"), "10.96.0.0/16,10.98.0.0/24", ""},
		{"it goes", put("b"), "10.96.0.0/16", ""},
	} {
		t.Run(step.name, func(t *testing.T) {
			before := ipam.Join(s.Services)
			around.changes = 0
			step.play()
			if now := ipam.Join(s.Services); now != step.ranges {
				t.Errorf("the ranges are %s, want %s", now, step.ranges)
			} else if told := around.changes == 1; told != (now != before) {
				t.Errorf("others are told %d times", around.changes)
			}
			told := fmt.Sprint(out.TakeProblems())
			if !strings.Contains(told, step.told) || step.told == "" && told != "[]" {
				t.Errorf("told is %s, want %q", told, step.told)
			}
		})
	}
}
