package policies

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/ovn/domains"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policy"
)

// ruleMatch is one of a rule's ACLs: whom it is about, and what it matches beside them.
type ruleMatch struct {
	port   string
	number objects.PortNumber
	parts  []string
}

// maxNamedTerms bounds what all ACLs of a NetworkPolicy's named ports say of peers, in terms: the selectors and
// prefixes that each ACL names. There is one for each number behind a name, and tenants choose names, numbers and peers
// alike.
const maxNamedTerms = 20_000

// namedTerms are those that a policy has left, and the ACLs that it had no terms for.
type namedTerms struct {
	left, refused int
}

// newNamedTerms are those of a new policy. An administrator's has no bound: leaving out what it refuses would be a way
// in.
func newNamedTerms(tier policy.Tier) *namedTerms {
	if tier != policy.Tenant {
		return &namedTerms{left: math.MaxInt}
	}
	return &namedTerms{left: maxNamedTerms}
}

// take says whether there are terms for one more ACL of a rule.
func (t *namedTerms) take(rule *policy.Rule) bool {
	n := 1
	for _, peer := range rule.Peers {
		n += max(1, len(peer.Blocks))
	}
	if n > t.left {
		t.refused++
		return false
	}
	t.left -= n
	return true
}

// matches are the rule's, except for its subject. A rule that no connection can match has none.
func (b *Part) matches(o *policy.Policy, rule *policy.Rule, terms *namedTerms) []ruleMatch {
	if rule.Nothing() {
		return nil
	}
	side := "src"
	if rule.Direction == policy.Egress {
		side = "dst"
	}
	var list []ruleMatch
	if l4 := portsMatch(rule.Ports); l4 != "" || rule.AnyPort {
		peers, some := "", true
		if !rule.Anyone {
			peers, some = b.peersMatch(side, rule, nil)
		}
		if some {
			m := ruleMatch{parts: without(peers, l4)}
			if len(m.parts) == 0 {
				m.parts = []string{"ip"}
			}
			list = append(list, m)
		}
	}
	for _, name := range portNames(rule.Ports) {
		for _, number := range b.selections.numbersBehind(o, rule, name, (*numberState).named) {
			if !asked(rule.Ports, name, number.Protocol) || !terms.take(rule) {
				continue
			}
			l4 := fmt.Sprintf("%s.dst == %d", number.Protocol, number.Number)
			peers, some := "", true
			switch {
			case rule.Direction == policy.Egress:
				peers, some = b.peersMatch(side, rule, &ruleMatch{port: name, number: number})
			case !rule.Anyone:
				peers, some = b.peersMatch(side, rule, nil)
			}
			if some {
				list = append(list, ruleMatch{name, number, without(peers, l4)})
			}
		}
	}
	return list
}

// peersMatch matches the other end; some is false where there can be nobody. With a named port it
// matches only pods that have it.
func (b *Part) peersMatch(side string, rule *policy.Rule, named *ruleMatch) (match string, some bool) {
	var families []string
	for _, ipv4 := range b.settings.Families() {
		ip := northbound.IPWord(ipv4)
		f := familyMatch{field: ip + "." + side, ip: ip}
		if rule.Anyone {
			f.pods(policy.Selection{}, ipv4, b, named)
		}
		for _, peer := range rule.Peers {
			switch {
			case peer.Pods != nil:
				f.pods(*peer.Pods, ipv4, b, named)
			case peer.Nodes != nil:
				f.values = append(f.values, "$"+nodeSetName(*peer.Nodes, ipv4))
			case peer.Domain != "":
				f.values = append(f.values, "$"+domains.SetName(peer.Domain, ipv4))
			default:
				f.blocks(peer.Blocks, ipv4, b, named)
			}
		}
		families = append(families, f.matches()...)
	}
	return either(families), len(families) > 0
}

// familyMatch is what peers are of one address family.
type familyMatch struct {
	field, ip string
	whole     bool     // all addresses
	values    []string // of a set
	others    []string // matches that no set can say
}

func (f *familyMatch) pods(s policy.Selection, ipv4 bool, b *Part, named *ruleMatch) {
	if named == nil {
		f.values = append(f.values, "$"+addressesName(s, ipv4, "", objects.PortNumber{}))
	} else if b.selections.isNamed(s, named) {
		f.values = append(f.values, "$"+addressesName(s, ipv4, named.port, named.number))
	}
}

func (f *familyMatch) blocks(list []netip.Prefix, ipv4 bool, b *Part, named *ruleMatch) {
	within := familyMatch{field: f.field, ip: f.ip}
	for _, p := range list {
		switch {
		case p.Addr().Is4() != ipv4:
		case p.Bits() == 0:
			within.whole = true
		case p.IsSingleIP():
			within.values = append(within.values, p.Addr().String())
		default:
			within.values = append(within.values, p.String())
		}
	}
	if named == nil {
		f.whole = f.whole || within.whole
		f.values = append(f.values, within.values...)
		return
	}
	if matches := within.matches(); len(matches) > 0 && b.selections.isNamed(policy.Selection{}, named) {
		f.others = append(f.others, fmt.Sprintf("(%s == $%s && %s)", f.field, addressesName(policy.Selection{}, ipv4,
			named.port, named.number), either(matches)))
	}
}

func (f *familyMatch) matches() []string {
	if f.whole {
		return []string{f.ip}
	}
	slices.Sort(f.values)
	switch values := slices.Compact(f.values); len(values) {
	case 0:
	case 1:
		f.others = append(f.others, f.field+" == "+values[0])
	default:
		f.others = append(f.others, f.field+" == {"+strings.Join(values, ", ")+"}")
	}
	return f.others
}

// either matches what any of some matches does.
func either(matches []string) string {
	if len(matches) > 1 {
		return "(" + strings.Join(matches, " || ") + ")"
	}
	return strings.Join(matches, "")
}

// without are the parts that are not empty.
func without(parts ...string) []string {
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// portsMatch matches numbered ports of a destination; "" where there are none.
func portsMatch(ports []policy.Port) string {
	var kinds []string
	for _, kind := range []policy.Protocol{policy.TCP, policy.UDP, policy.SCTP} {
		var ranges []policy.Port
		whole := false
		for _, p := range ports {
			if p.Protocol == kind && p.Name == "" {
				ranges = append(ranges, p)
				whole = whole || p.First == 0
			}
		}
		if whole {
			kinds = append(kinds, string(kind))
		} else {
			kinds = append(kinds, rangesMatch(string(kind)+".dst", ranges)...)
		}
	}
	return either(kinds)
}

func rangesMatch(field string, ranges []policy.Port) (matches []string) {
	slices.SortFunc(ranges, func(a, b policy.Port) int { return int(a.First) - int(b.First) })
	var merged []policy.Port
	for _, p := range ranges {
		if last := len(merged) - 1; last >= 0 && int(p.First) <= int(merged[last].Last)+1 {
			merged[last].Last = max(merged[last].Last, p.Last)
			continue
		}
		merged = append(merged, p)
	}
	var single []string
	for _, p := range merged {
		if p.First == p.Last {
			single = append(single, fmt.Sprint(p.First))
		} else {
			matches = append(matches, fmt.Sprintf("(%s >= %d && %s <= %d)", field, p.First, field, p.Last))
		}
	}
	switch len(single) {
	case 0:
		return matches
	case 1:
		return append(matches, field+" == "+single[0])
	}
	return append(matches, field+" == {"+strings.Join(single, ", ")+"}")
}

// portNames are the names among ports, each once, sorted.
func portNames(ports []policy.Port) []string {
	var names []string
	for _, p := range ports {
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// asked says whether ports have a name for a protocol.
func asked(ports []policy.Port, name string, protocol policy.Protocol) bool {
	return slices.ContainsFunc(ports, func(p policy.Port) bool {
		return p.Name == name && (p.Protocol == "" || p.Protocol == protocol)
	})
}
