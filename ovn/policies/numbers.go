package policies

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policy"
)

// namedPortState are the pods of a selection that have a port of a name, by what is behind the name.
//
// A number costs a group or sets of its own, and ACLs that name these. As an ACL holds for nobody while it names
// a set that is not there, and none may be missing when a pod comes, a number goes in the reverse order of its
// coming, each step in later transactions: first the pods, then the ACLs, then the sets.
type namedPortState struct {
	group, set usage
	numbers    map[objects.PortNumber]*numberState
	users      map[*policyState]int
}

// numberState is what is known of a number behind a port's name.
type numberState struct {
	pods int
	// unnamed says that no ACL is about the number any more, after the last pod with it has gone.
	unnamed bool
}

func (n *numberState) there() bool { return n.pods > 0 }

func (n *numberState) named() bool { return n.pods > 0 || !n.unnamed }

// countPorts keeps the numbers behind the names that policies ask for. Where one comes, their rows depend on it.
func (b *Selections) countPorts(p Pod, s *selectionState) {
	if len(p.Addresses()) == 0 {
		return
	}
	for name, n := range s.ports {
		for _, number := range p.Object().Numbers(name) {
			at := n.numbers[number]
			if at == nil || !at.named() {
				at = &numberState{}
				n.numbers[number] = at
				b.touchNumbers(s, n)
			}
			at.pods++
			in := p.Selected()
			in.counted = append(in.counted, portCount{s, at})
		}
	}
}

// Leave is told of a pod that ends, or is in other selections now: its named ports count no more.
func (b *Selections) Leave(p Pod) {
	in := p.Selected()
	for _, counted := range in.counted {
		if counted.at.pods--; counted.at.pods == 0 {
			b.emptied[counted.selection] = struct{}{}
		}
	}
	in.counted = in.counted[:0]
}

// portCount is where a pod's named port is counted.
type portCount struct {
	selection *selectionState
	at        *numberState
}

// lingerNumbers has those looked at again later that no pod has any more.
func (b *Selections) lingerNumbers() {
	for s := range b.emptied {
		for _, n := range s.ports {
			for _, at := range n.numbers {
				if !at.there() && !at.unnamed {
					b.settleLater(s)
				}
			}
		}
	}
	part.Empty(&b.emptied)
}

// settleNumbers takes a step with the numbers that no pod has any more.
func (b *Selections) settleNumbers(s *selectionState, n *namedPortState) {
	for number, at := range n.numbers {
		switch {
		case at.there():
		case at.unnamed:
			delete(n.numbers, number)
		default:
			at.unnamed = true
			b.touchNumbers(s, n)
			b.settleLater(s)
		}
	}
}

// settleLater has a selection settled after a while.
func (b *Selections) settleLater(s *selectionState) {
	if later := (part.Signal{What: lingering, Name: s.text}); !slices.Contains(b.Expected, part.Event(later)) {
		b.Expect(later)
	}
}

func (b *Selections) touchNumbers(s *selectionState, n *namedPortState) {
	b.dirty[s.text] = struct{}{}
	for p := range n.users {
		b.dirtyNumbers[p.key] = struct{}{}
	}
}

// NumberProblems are about a pod with more numbers behind a name than count.
func NumberProblems(o *objects.Pod) []objects.Problem {
	found := objects.NewComplaints(objects.PodKind, &o.ObjectMeta)
	count := map[string]int{}
	for _, port := range o.Ports {
		if count[port.Name]++; count[port.Name] == objects.MaxNumbers+1 {
			found.Add(tooManyPorts, func() string {
				return fmt.Sprintf("more than %d numbers are behind the port name %q; policies that name it are about the first "+
					"%d of them alone; give the other ports names of their own", objects.MaxNumbers, port.Name, objects.MaxNumbers)
			})
		}
	}
	return found.Problems()
}

// namedAmong are the selections whose pods' port names an egress rule's ports may be.
func namedAmong(rule *policy.Rule) []policy.Selection {
	if rule.Anyone {
		return []policy.Selection{{}}
	}
	var list []policy.Selection
	for _, peer := range rule.Peers {
		switch {
		case peer.Pods != nil:
			list = append(list, *peer.Pods)
		case peer.Blocks != nil: // of all pods, those within
			list = append(list, policy.Selection{})
		}
	}
	return list
}

// numbersBehind are those behind a port's name of which something is so, sorted.
func (b *Selections) numbersBehind(o *policy.Policy, rule *policy.Rule, name string,
	is func(*numberState) bool) []objects.PortNumber {
	among := []policy.Selection{o.Subject}
	if rule.Direction == policy.Egress {
		among = namedAmong(rule)
	}
	all := map[objects.PortNumber]struct{}{}
	for _, s := range among {
		for number, at := range b.numbersIn(s, name) {
			if is(at) {
				all[number] = struct{}{}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b objects.PortNumber) int {
		return objects.CompareContainerPorts(objects.ContainerPort{Protocol: a.Protocol, Number: a.Number},
			objects.ContainerPort{Protocol: b.Protocol, Number: b.Number})
	})
}

func (b *Selections) numbersIn(s policy.Selection, name string) map[objects.PortNumber]*numberState {
	if n := b.all[s.String()].ports[name]; n != nil {
		return n.numbers
	}
	return nil
}

// isNamed says whether rules name the pods of a selection with a port's name and number.
func (b *Selections) isNamed(s policy.Selection, port *ruleMatch) bool {
	at := b.numbersIn(s, port.port)[port.number]
	return at != nil && at.named()
}
