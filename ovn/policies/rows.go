package policies

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"net/netip"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Priorities of ACLs in their tiers.
const (
	// hostTier is before all policies: a node reaches its own pods.
	hostTier  = 0
	allowHost = 1001
	// Beside from-lport ACLs of Services' source ranges, which must not let more through.
	allowHostLocal = 1003
	refuseLocal    = 1002

	allowTenant  = 1001
	refuseTenant = 1000

	// A ClusterNetworkPolicy of priority 0 has the ACL priorities from firstCluster downwards, each further
	// one rankSlots fewer: so many rules may the policies of one priority have together in a direction.
	firstCluster = 32700
	rankSlots    = 32
)

func groupKey(port string, number objects.PortNumber) string { return setKey("group", port, number) }

// setKey tells apart the rows of a selection: what they are, and the named port that they are narrowed to.
func setKey(what, port string, number objects.PortNumber) string {
	if port == "" {
		return what
	}
	return fmt.Sprintf("%s/%s/%s/%d", what, port, number.Protocol, number.Number)
}

// setName is the name of a selection's row in matches: pods_ for port groups, addrs_ for address sets. A
// namespace has no dots and no underscores of its own, and what was shortened or changed has a hash.
func setName(prefix string, s policy.Selection, port string, number objects.PortNumber) string {
	base := strings.ReplaceAll(s.Namespace, "-", ".")
	if s.Namespace == "" || s.Pods != "" {
		base = northbound.Distinct(strings.Join(without(cmp.Or(base, s.Namespaces, "all"), s.Pods), "_"), s.String())
	}
	if port != "" {
		base += fmt.Sprintf("_%s_%s_%d", strings.ReplaceAll(port, "-", "_"), number.Protocol, number.Number)
	}
	return prefix + base
}

func groupName(s policy.Selection, port string, number objects.PortNumber) string {
	return setName("pods_", s, port, number)
}

func addressesName(s policy.Selection, ipv4 bool, port string, number objects.PortNumber) string {
	return setName("addrs_", s, port, number) + "_" + northbound.IPWord(ipv4)
}

func nodeSetName(nodes policy.Nodes, ipv4 bool) string {
	return "nodes_" + northbound.Distinct(cmp.Or(string(nodes), "all"), string(nodes)) + "_" + northbound.IPWord(ipv4)
}

// each calls with every set that a usage keeps alive: the selection's own, and those of its named ports.
func (s *selectionState) each(of func(set, group usage, port string, number objects.PortNumber)) {
	of(s.set, s.group, "", objects.PortNumber{})
	for name, n := range s.ports {
		for number := range n.numbers {
			of(n.set, n.group, name, number)
		}
	}
}

// AddTo puts a pod's port and addresses into the sets that select it.
func AddTo(p Pod, change *ovsdb.Change) {
	port := ovsdb.ID(nb.LogicalSwitchPortTable, change.Owner, string(p.Object().UID))
	member := func(table, uuid, column, value string) { // each set comes once
		change.Memberships = append(change.Memberships, ovsdb.Membership{Table: table, UUID: uuid, Column: column,
			Values: []string{value}})
	}
	join := func(s *selectionState, set, group usage, name string, number objects.PortNumber) {
		owner := northbound.SelectionOwner(s.text)
		if group.live() {
			member(nb.PortGroupTable, ovsdb.ID(nb.PortGroupTable, owner, groupKey(name, number)), "ports", port)
		}
		if set.live() {
			for _, a := range p.Addresses() {
				member(nb.AddressSetTable, ovsdb.ID(nb.AddressSetTable, owner, setKey(northbound.IPWord(a.Addr().Is4()), name,
					number)), "addresses", a.Addr().String())
			}
		}
	}
	for _, s := range p.Selected().by {
		join(s, s.set, s.group, "", objects.PortNumber{})
		for name, n := range s.ports {
			for _, number := range p.Object().Numbers(name) {
				join(s, n.set, n.group, name, number)
			}
		}
	}
}

// commonChange is what holds as soon as there is any policy, before all of them: a pod that its own Service
// sends back to it reaches itself, nobody outside has a node's address among the pods, and pods have no addresses
// that policies do not know.
func (b *Part) commonChange() ovsdb.Change {
	r := northbound.NewBuilder(northbound.PoliciesOwner)
	if len(b.all) == 0 {
		return r.Change
	}
	logMeter(r, !b.nodes.HasWindows())
	var selves, hosts []string
	for _, ipv4 := range b.settings.Families() {
		ip := northbound.IPWord(ipv4)
		selves = append(selves, ip+".src == "+northbound.HairpinAddresses[ipam.FamilyIndex(ipv4)])
		hosts = append(hosts, ip+".src == $"+northbound.HostsGroup+"_"+ip)
	}
	for _, acl := range []struct {
		key, group, name, match string
		direction               nb.ACLDirection
		action                  nb.ACLAction
	}{
		{"self", northbound.HostsGroupID, "pod to itself by Service", "flags.loopback == 1 && " + either(selves),
			nb.ACLDirectionToLport, nb.ACLActionAllowRelated},
		{"outside", northbound.OutsideGroupID, "not a node", "inport == @" + northbound.OutsideGroup + " && " + either(hosts),
			nb.ACLDirectionFromLport, nb.ACLActionDrop},
	} {
		r.Member(nb.PortGroupTable, acl.group, "acls",
			r.Add(nb.ACLTable, acl.key, &nb.ACL{Name: &acl.name, Direction: acl.direction, Tier: hostTier,
				Priority: allowHost, Action: acl.action, Match: acl.match}))
	}
	local(r, b.settings)
	defaults(r, b.settings.Lacks.AclTiers)
	return r.Change
}

// local refuses what pods send from or to addresses of the one switch alone, which no selector and no range that
// means pods or nodes has: IPv6 link-local ones, that of a pod among them, which OVN's port security admits; and
// broadcast and multicast, which OVN floods to all ports of the switch. Hosts may, and neighbour, router and
// multicast listener discovery pass in OVN before all ACLs.
func local(r *northbound.Builder, s *settings.Settings) {
	var linkLocal []string
	flooded := []string{"(ip && eth.dst == 01:00:00:00:00:00/01:00:00:00:00:00)"}
	for _, ipv4 := range s.Families() {
		if ipv4 {
			flooded = append(flooded, "ip4.dst == {224.0.0.0/4, 255.255.255.255}")
		} else {
			linkLocal = append(linkLocal, "ip6.src == fe80::/10", "ip6.dst == fe80::/10")
			flooded = append(flooded, "ip6.dst == ff00::/8")
		}
	}
	add := func(key, name, match string, priority int, action nb.ACLAction) {
		r.Member(nb.PortGroupTable, northbound.HostsGroupID, "acls",
			r.Add(nb.ACLTable, key, &nb.ACL{Name: &name, Direction: nb.ACLDirectionFromLport,
				Tier: hostTier, Priority: priority, Action: action, Match: match}))
	}
	if len(linkLocal) > 0 {
		add("link-local", "link-local of pods", either(linkLocal), refuseLocal, nb.ACLActionDrop)
	}
	add("flooded", "broadcast and multicast of pods", either(flooded), refuseLocal, nb.ACLActionDrop)
	add("host/local", "node on its switch", "inport == @"+northbound.HostsGroup+" && "+
		either(append(linkLocal, flooded...)), allowHostLocal, nb.ACLActionAllowRelated)
}

// defaults are what happens to packets to a port where no policy of a tier decides: the next tier is asked, and
// after the last one they pass. OVN means the same without them, but at each tier, not only at the last, it
// lets pass the packets of a connection that a drop has blocked before, and unblocks it, so that every other
// packet of a connection passed which a policy has come to refuse (seen with 25.03, ls_out_acl_eval).
func defaults(r *northbound.Builder, noTiers bool) {
	for tier := hostTier; tier <= int(policy.Baseline); tier++ {
		name, action := "next tier", nb.ACLActionPass
		switch {
		case tier == int(policy.Baseline):
			name, action = "no policy", nb.ACLActionAllowRelated
		case noTiers:
			continue
		}
		r.Member(nb.PortGroupTable, northbound.HostsGroupID, "acls", r.Add(nb.ACLTable, fmt.Sprintf("default/%d", tier),
			&nb.ACL{Name: &name,
				Direction: nb.ACLDirectionToLport, Tier: tier, Action: action, Match: "ip"}))
	}
}

// AddHostACL lets a node's host reach the pods on it, its probes too, whatever policies say. By a Service it comes in
// by the router, with the address that it has among the pods. What others send through the host does not have an
// address of its own.
func AddHostACL(node string, subnets []netip.Prefix, hosts []netip.Addr, change *ovsdb.Change) {
	r := northbound.Extend(*change)
	var among, beside []string
	for _, subnet := range subnets {
		own := contract.ManagementAddress(subnet)
		among = append(among, fmt.Sprintf("%s.src == %s", northbound.IPWord(own.Is4()), own))
	}
	for _, addr := range hosts {
		beside = append(beside, fmt.Sprintf("%s.src == %s", northbound.IPWord(addr.Is4()), addr))
	}
	if len(beside) > 0 {
		among = append(among, fmt.Sprintf("(inport == %q && %s)", contract.ManagementPort(node), either(beside)))
	}
	name := "node to its pods"
	r.Member(nb.LogicalSwitchTable, northbound.SwitchID(node), "acls", r.Add(nb.ACLTable, "host", &nb.ACL{Name: &name,
		Direction: nb.ACLDirectionToLport, Tier: hostTier, Priority: allowHost, Action: nb.ACLActionAllowRelated,
		Match: strings.Join(among, " || ")}))
	*change = r.Change
}

// change is a policy's ACLs.
func (b *Part) change(k objects.Key) part.Outcome {
	r := northbound.NewBuilder(northbound.PolicyOwner(k))
	p := b.all[k]
	if p == nil {
		return part.Outcome{Change: r.Change, Then: func() { b.Tell(r.Owner) }}
	}
	refused := 0
	if o := p.object.Policy; o != nil {
		if slot, room := b.slot(p); room {
			refused = policyACLs(r, b, o, slot)
			isolation(r, b, o)
		}
	}
	return part.Outcome{Change: r.Change, Then: func() {
		b.Tell(r.Owner, b.policyProblems(p, refused)...)
		b.notePolicy(p, len(r.Rows), refused)
	}}
}

// slot is the ACL priority of a policy's first rule; room is false where older policies of its priority
// have left it none.
func (b *Part) slot(p *policyState) (slot int, room bool) {
	at, wide := p.rank()
	switch {
	case !wide:
		return allowTenant, true
	case b.settings.Lacks.AclTiers:
		return 0, false
	}
	for o, slot := range b.placed(at) {
		if o == p {
			return slot, true
		}
	}
	return 0, false
}

// placed are the policies of a rank for which there is room, the oldest first, each with its slot.
func (b *Part) placed(at rank) iter.Seq2[*policyState, int] {
	return func(yield func(*policyState, int) bool) {
		used := 0
		for _, o := range b.ranks[at] {
			size := o.size()
			if used+size > rankSlots {
				continue
			}
			if !yield(o, firstCluster-at.priority*rankSlots-used) {
				return
			}
			used += size
		}
	}
}

// size is how many ACL priorities a cluster-wide policy takes.
func (p *policyState) size() int {
	var rules [2]int
	for i := range p.object.Policy.Rules {
		rules[p.object.Policy.Rules[i].Direction]++
	}
	return max(rules[0], rules[1])
}

// policyACLs are those of a policy's rules. A rule with named ports has one for each number that is behind a name, up
// to a bound; refused are those beyond it.
func policyACLs(r *northbound.Builder, b *Part, o *policy.Policy, slot int) (refused int) {
	terms := newNamedTerms(o.Tier)
	for i := range o.Rules {
		rule := &o.Rules[i]
		priority := slot
		if o.Tier != policy.Tenant {
			priority = slot - rule.Index
		}
		for _, m := range b.matches(o, rule, terms) {
			policyACL(r, b, o, rule, m, priority)
		}
	}
	return terms.refused
}

func policyACL(r *northbound.Builder, b *Part, o *policy.Policy, rule *policy.Rule, m ruleMatch, priority int) {
	port, number := m.port, m.number
	if rule.Direction == policy.Egress { // the name is of the others' ports
		port, number = "", objects.PortNumber{}
	}
	acl := &nb.ACL{Priority: priority, Tier: int(o.Tier), Action: ruleAction(o.Tier, rule.Action),
		Match: strings.Join(append([]string{subjectSide(rule.Direction) + " == @" + groupName(o.Subject, port, number)},
			m.parts...), " && ")}
	key := fmt.Sprintf("%s/%d", rule.Direction, rule.Index)
	b.finish(acl, o, rule.Direction, fmt.Sprintf("%s[%d]", rule.Direction, rule.Index))
	r.Member(nb.PortGroupTable, ovsdb.ID(nb.PortGroupTable, northbound.SelectionOwner(o.Subject.String()),
		groupKey(port, number)), "acls",
		r.Add(nb.ACLTable, setKey(key, m.port, m.number), acl))
}

// ruleAction is a rule's in its tier. What Baseline passes on nobody else decides, and it passes. To OVN a packet that
// the last tier passes on is one of no connection (seen with 25.03, ls_in_acl_eval): answers to it would be invalid.
func ruleAction(tier policy.Tier, action policy.Action) nb.ACLAction {
	switch {
	case action == policy.Deny:
		return nb.ACLActionDrop
	case action == policy.Pass && tier != policy.Baseline:
		return nb.ACLActionPass
	}
	return nb.ACLActionAllowRelated
}

func subjectSide(d policy.Direction) string {
	if d == policy.Ingress {
		return "outport"
	}
	return "inport"
}

// isolation refuses what no NetworkPolicy allows.
func isolation(r *northbound.Builder, b *Part, o *policy.Policy) {
	for _, d := range policy.Directions {
		if !o.Isolates[d] {
			continue
		}
		acl := &nb.ACL{Priority: refuseTenant, Tier: int(o.Tier), Action: nb.ACLActionDrop,
			Match: subjectSide(d) + " == @" + groupName(o.Subject, "", objects.PortNumber{}) + " && ip"}
		b.finish(acl, o, d, d.String())
		r.Member(nb.PortGroupTable, ovsdb.ID(nb.PortGroupTable, northbound.SelectionOwner(o.Subject.String()),
			groupKey("", objects.PortNumber{})), "acls",
			r.Add(nb.ACLTable, d.String(), acl))
	}
}

// finish adds to a policy's ACL what all of them have.
func (b *Part) finish(acl *nb.ACL, o *policy.Policy, d policy.Direction, what string) {
	name := aclName(o, what)
	acl.Name = &name
	acl.Direction = nb.ACLDirectionToLport
	if d == policy.Egress {
		acl.Direction = nb.ACLDirectionFromLport
		acl.Options = map[string]string{"apply-after-lb": "true"} // the endpoint is judged, not the Service
	}
	b.logACL(acl, o)
}

// maxACLName is OVN's limit.
const maxACLName = 63

// aclName is what a policy's ACL is called in logs: the policy and where in it. Of a long one the middle is
// left out for a hash.
func aclName(o *policy.Policy, what string) string {
	name := o.Key()
	switch o.Kind {
	case policy.ClusterNetworkPolicy:
		name = "CNP/" + name
	case policy.AdminNetworkPolicy:
		name = "ANP/" + name
	case policy.BaselineAdminNetworkPolicy:
		name = "BANP/" + name
	}
	if room := maxACLName - len(what) - 1; len(name) > room {
		sum := sha256.Sum256([]byte(name))
		name = name[:room-9] + "~" + hex.EncodeToString(sum[:4])
	}
	return name + " " + what
}
