package trace

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/ovntrace"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// protocols are IP's numbers.
var protocols = map[ovntrace.Protocol]uint8{ovntrace.TCP: acl.TCP, ovntrace.UDP: acl.UDP, ovntrace.SCTP: acl.SCTP}

// judged is the packet as ACLs see it at a port.
func (w *way) judged(port string, d policy.Direction) acl.Packet {
	p := acl.Packet{Src: w.src, Dst: w.dst.Addr(), Proto: protocols[w.packet.Protocol], SrcPort: w.packet.SrcPort,
		DstPort: w.dst.Port()}
	switch {
	case w.packet.Protocol == ovntrace.ICMP && p.Src.Is4():
		p.Proto, p.ICMPType = acl.ICMP, 8
	case w.packet.Protocol == ovntrace.ICMP:
		p.Proto, p.ICMPType = acl.ICMPv6, 128
	}
	if d == policy.Egress {
		p.Inport = port
	} else {
		p.Outport = port
	}
	return p
}

// miss is a rule about a pod that allows other packets than this one.
type miss struct {
	mark   explain.Mark
	unmet  []string // what its match asks for, and the packet has not
	nobody []string // the selections of its peers that select no pod
}

// nearest says which rule comes closest to allowing what an isolation has refused at a port, and what it asks for.
func (w *way) nearest(port string, d policy.Direction) (string, error) {
	groups, err := w.groupsOf(port)
	if err != nil {
		return "", err
	}
	var rules []*rule
	for _, key := range slices.Sorted(maps.Keys(w.acls)) {
		if m, ok := w.acls[key].mark(); ok && !w.acls[key].refuses() && m.Direction == d && m.Kind == policy.NetworkPolicy {
			rules = append(rules, w.acls[key])
		}
	}
	misses, err := w.misses(rules, w.judged(port, d), groups)
	if err != nil || len(misses) == 0 {
		return "", err
	}
	w.tellNobody(misses)
	near := slices.MinFunc(misses, func(a, b miss) int {
		return cmp.Or(len(a.unmet)-len(b.unmet), cmp.Compare(a.mark.Policy(), b.mark.Policy()), cmp.Compare(a.mark.Rule,
			b.mark.Rule))
	})
	var lacks []string
	for _, term := range near.unmet {
		lacks = append(lacks, w.lacks(term, d))
	}
	return fmt.Sprintf("%s, %s, comes closest: %s", near.mark.Policy(), near.mark.Rule, strings.Join(lacks, ", and ")), nil
}

// tellNobody notes which peers of rules select no pod, as those with a mistyped label do.
func (w *way) tellNobody(misses []miss) {
	var notes []string
	for _, m := range misses {
		for _, selection := range m.nobody {
			notes = append(notes, explain.SelectsNobody(m.mark.Policy(), m.mark.Rule, selection))
		}
	}
	slices.Sort(notes)
	w.status.Notes = append(w.status.Notes, slices.Compact(notes)...)
}

// lacks says why a packet does not meet a term of a match.
func (w *way) lacks(term string, d policy.Direction) string {
	if strings.Contains(term, "ip4.") || strings.Contains(term, "ip6.") {
		if d == policy.Egress {
			return fmt.Sprintf("%s is none of its peers", w.named(w.dst.Addr()))
		}
		return fmt.Sprintf("%s is none of its peers", w.named(w.src))
	}
	what := string(w.packet.Protocol)
	if w.dst.Port() != 0 {
		what = fmt.Sprintf("%d/%s", w.dst.Port(), what)
	}
	return fmt.Sprintf("it allows %s, and not %s", portTerm.ReplaceAllString(term, "$2/$1"), what)
}

// named is an address with whose it is, as far as that is known without the right to see other objects than those of
// the question.
func (w *way) named(addr netip.Addr) string {
	for _, e := range []*end{&w.from, &w.to} {
		if e.object != "" && slices.Contains(e.addresses, addr) {
			return fmt.Sprintf("%s (%s)", e.text, addr)
		}
	}
	if s := w.askedService(); s != nil && addr == w.chosen.Addr() {
		return fmt.Sprintf("the endpoint %s of Service %s", addr, s.key)
	}
	if n, found := w.nodeAt(addr); found {
		return fmt.Sprintf("node %s (%s)", n.name, addr)
	}
	return addr.String()
}

// portTerm is a port in a match.
var portTerm = regexp.MustCompile(`(tcp|udp|sctp)\.dst == ([0-9]+)`)

// groupsOf are the port groups that a port is in. The Southbound has one for each switch, whose number it puts before
// the name.
func (w *way) groupsOf(port string) (map[string]acl.Ports, error) {
	rows, err := rowsOf(w.ctx, w.south.Client, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: sb.PortGroupTable,
		Columns: []string{"name"}, Where: []libovsdb.Condition{libovsdb.NewCondition("ports", libovsdb.ConditionIncludes,
			libovsdb.OvsSet{GoSet: []any{port}})}})
	groups := map[string]acl.Ports{}
	for _, row := range rows {
		text, _ := row["name"].(string)
		if _, name, ok := strings.Cut(text, "_"); ok {
			groups[name] = acl.Ports{port: {}}
		}
	}
	return groups, err
}

// misses are those of some rules that are about a port of these groups.
func (w *way) misses(rules []*rule, packet acl.Packet, groups map[string]acl.Ports) (list []miss, err error) {
	matches, names := map[*rule]*acl.Match{}, map[string]bool{}
	for _, r := range rules {
		match, err := acl.Parse(r.match)
		if err != nil || !slices.ContainsFunc(match.Groups(), func(name string) bool { return groups[name] != nil }) {
			continue
		}
		matches[r] = match
		for _, name := range match.Sets() {
			names[name] = true
		}
	}
	sets, err := w.addressSets(slices.Sorted(maps.Keys(names)))
	if err != nil {
		return nil, err
	}
	env := &acl.Env{Groups: groups, Sets: map[string]*acl.Set{}}
	for name, s := range sets {
		env.Sets[name] = s.Set
	}
	for _, r := range rules {
		if match := matches[r]; match != nil && match.Check(env) == nil {
			mark, _ := r.mark()
			nobody, err := w.nobody(match, sets)
			if err != nil {
				return nil, err
			}
			list = append(list, miss{mark, match.Unmet(packet, env), nobody})
		}
	}
	return list, nil
}

// nobody are the selections of pods that a match names and whose address sets are empty, in all families. Those of
// namespaces whose right is missing are left out: where no pod has some labels is news, too.
func (w *way) nobody(match *acl.Match, sets map[string]addressSet) (list []string, err error) {
	some := map[string]bool{} // by selection, whether it selects a pod
	for _, name := range match.Sets() {
		if s := sets[name]; s.selection != "" {
			some[s.selection] = some[s.selection] || s.size > 0
		}
	}
	for _, selection := range slices.Sorted(maps.Keys(some)) {
		if some[selection] {
			continue
		}
		allowed, err := w.may(w.ctx, policy.NamespaceOf(selection))
		if err != nil {
			return nil, err
		}
		if allowed {
			list = append(list, selection)
		}
	}
	return list, nil
}

// addressSet is a set with whom it stands for.
type addressSet struct {
	*acl.Set
	size      int
	selection string // of pods, as [policy.Selection] writes it; "" of a set that is another's, or of a named port's
}

// addressSets are those of some names.
func (w *way) addressSets(names []string) (map[string]addressSet, error) {
	var operations []libovsdb.Operation
	for _, name := range names {
		operations = append(operations, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: nb.AddressSetTable,
			Columns: []string{"name", "addresses", "external_ids"},
			Where:   []libovsdb.Condition{libovsdb.NewCondition("name", libovsdb.ConditionEqual, name)}})
	}
	rows, err := rowsOf(w.ctx, w.north.Client, operations...)
	sets := map[string]addressSet{}
	for _, row := range rows {
		name, _ := row["name"].(string)
		addresses := ovsdb.Texts(row["addresses"])
		set, err := acl.NewSet(addresses)
		if err != nil {
			return nil, fmt.Errorf("address set %s: %w", name, err)
		}
		ids := ovsdb.TextMap(row["external_ids"])
		selection, whole := northbound.SelectionOf(ovsdb.Owner(ids[ovsdb.OwnerMark]))
		if !whole || strings.Contains(ids[ovsdb.KeyMark], "/") {
			selection = ""
		}
		sets[name] = addressSet{set, len(addresses), selection}
	}
	return sets, err
}
