package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// sourcesTier is the first of OVN's four: what passes here is still up to the policies of later tiers.
const sourcesTier = 0

const (
	allowSources  = 1001
	refuseSources = 1000
)

// portGroups are those of all nodes' ports, which the nodes put there.
func (r *rows) portGroups() {
	r.add(nb.PortGroupTable, "edges", &nb.PortGroup{Name: edgesGroup})
	r.add(nb.PortGroupTable, "hosts", &nb.PortGroup{Name: hostsGroup})
	r.add(nb.PortGroupTable, "outside", &nb.PortGroup{Name: outsideGroup})
	r.keepFromTunnels(hostsGroup, hostsGroupID)
	r.keepFromTunnels(outsideGroup, outsideGroupID)
}

// joinPortGroups puts a node's ports there.
func (r *rows) joinPortGroups(n *placement) {
	host := ovsdb.ID(nb.LogicalSwitchPortTable, r.Owner, "management")
	r.member(nb.PortGroupTable, hostsGroupID, "ports", host)
	r.member(nb.PortGroupTable, edgesGroupID, "ports", host)
	if n.facts.Gateway != nil {
		r.member(nb.PortGroupTable, edgesGroupID, "ports", ovsdb.ID(nb.LogicalSwitchPortTable, r.Owner, "localnet"))
	}
}

// admit lets only the clients of spec.loadBalancerSourceRanges reach a Service's load balancer addresses,
// and the nodes' hosts. An ACL sees a packet before it is load-balanced, and a connection's later packets
// no more: they have the endpoint's address by then. Conntrack does not come into it.
func (r *rows) admit(s *service) {
	if len(s.sourceRanges) == 0 {
		return
	}
	for _, ipv4 := range []bool{true, false} {
		to := guarded(s, ipv4)
		if to == "" {
			continue
		}
		ip := ipWord(ipv4)
		if ranges := sourceRanges(s, ipv4); len(ranges) > 0 {
			r.acl(s, edgesGroupID, "sources/"+ip, &nb.ACL{Priority: allowSources, Action: nb.ACLActionPass,
				Match: fmt.Sprintf("(%s) && %s.src == {%s}", to, ip, strings.Join(texts(ranges), ", "))})
		}
		// On a switch without a host the group's name would not be known, and the match be lost.
		r.acl(s, hostsGroupID, "hosts/"+ip, &nb.ACL{Priority: allowSources, Action: nb.ACLActionPass, Match: fmt.Sprintf("inport == @%s && (%s)", hostsGroup, to)})
		r.acl(s, edgesGroupID, "other sources/"+ip, &nb.ACL{Priority: refuseSources, Action: nb.ACLActionDrop, Match: to})
	}
}

func (r *rows) acl(s *service, groupID, key string, acl *nb.ACL) {
	name := s.Namespace + "/" + s.Name
	name = name[:min(len(name), 63)] // OVN's limit
	acl.Name, acl.Direction, acl.Tier = &name, nb.ACLDirectionFromLport, sourcesTier
	r.member(nb.PortGroupTable, groupID, "acls", r.add(nb.ACLTable, key, acl))
}

// guarded matches what is for a Service's load balancer addresses of a family; "" where it has none.
func guarded(s *service, ipv4 bool) string {
	vips := map[string][]string{} // by their ports' match
	for _, addr := range s.ingress {
		if ports := portsOf(s, addr); addr.Is4() == ipv4 && s.isOf(ipv4) && ports != "" && !slices.Contains(vips[ports], addr.String()) {
			vips[ports] = append(vips[ports], addr.String())
		}
	}
	var matches []string
	for _, ports := range slices.Sorted(maps.Keys(vips)) {
		slices.Sort(vips[ports])
		matches = append(matches, fmt.Sprintf("%s.dst == {%s} && (%s)", ipWord(ipv4), strings.Join(vips[ports], ", "), ports))
	}
	if len(matches) > 1 {
		return "(" + strings.Join(matches, ") || (") + ")"
	}
	return strings.Join(matches, "")
}

// portsOf matches the ports that a Service has of an address.
func portsOf(s *service, addr netip.Addr) string {
	var kinds []string
	for _, kind := range []protocol{"tcp", "udp", "sctp"} {
		var ports []string
		for _, p := range s.ports {
			if p.protocol == kind && !s.denied.denies(claim{addr, p.port, kind}) {
				ports = append(ports, fmt.Sprint(p.port))
			}
		}
		if len(ports) > 0 {
			kinds = append(kinds, fmt.Sprintf("%s.dst == {%s}", kind, strings.Join(ports, ", ")))
		}
	}
	return strings.Join(kinds, " || ")
}

// sourceRanges are a Service's source ranges of a family that can be read.
func sourceRanges(s *service, ipv4 bool) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range s.sourceRanges {
		if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().Is4In6() && p.Addr().Is4() == ipv4 {
			list = append(list, p.Masked())
		}
	}
	return disjoint(list)
}

// sourceProblems are what the owner of a Service with source ranges is told. A range that cannot be read
// admits nobody.
func sourceProblems(s *service) []problem {
	if len(s.sourceRanges) == 0 {
		return nil
	}
	found := newComplaints("Service", &s.ObjectMeta)
	for _, text := range s.sourceRanges {
		if p, err := netip.ParsePrefix(text); err != nil || p.Addr().Is4In6() {
			found.add("BadSourceRange", func() string {
				return fmt.Sprintf("spec.loadBalancerSourceRanges: %q is not a CIDR, like 192.0.2.0/24 or 2001:db8::/32; it admits nobody until it is corrected or removed", quoted(text))
			})
		}
	}
	for _, ipv4 := range []bool{true, false} {
		if word, all := map[bool]string{true: "IPv4", false: "IPv6"}[ipv4], map[bool]string{true: "0.0.0.0/0", false: "::/0"}[ipv4]; guarded(s, ipv4) != "" && len(sourceRanges(s, ipv4)) == 0 && len(found.list) == 0 {
			found.add("NoSourceRange", func() string {
				return fmt.Sprintf("spec.loadBalancerSourceRanges: has no %s range, so that no client reaches the %s load balancer address; add %s to admit all", word, word, all)
			})
		}
	}
	return found.problems()
}
