package loadbalancer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
)

// sourcesTier is the first of OVN's four: what passes here is still up to the policies of later tiers.
const sourcesTier = 0

const (
	allowSources  = 1001
	refuseSources = 1000
)

// sourceRangeACLs let only the clients of spec.loadBalancerSourceRanges reach a Service's load balancer addresses,
// and the nodes' hosts. An ACL sees a packet before it is load-balanced, and a connection's later packets
// no more: they have the endpoint's address by then. Conntrack does not come into it.
func (r *rows) sourceRangeACLs(s *objects.Service) {
	if len(s.SourceRanges) == 0 {
		return
	}
	for _, ipv4 := range []bool{true, false} {
		to := guarded(s, ipv4)
		if to == "" {
			continue
		}
		ip := northbound.IPWord(ipv4)
		if ranges := sourceRanges(s, ipv4); len(ranges) > 0 {
			r.acl(s, northbound.EdgesGroupID, "sources/"+ip, &nb.ACL{Priority: allowSources, Action: nb.ACLActionPass,
				Match: fmt.Sprintf("(%s) && %s.src == {%s}", to, ip, strings.Join(ipam.Texts(ranges), ", "))})
		}
		// On a switch without a host the group's name would not be known, and the match be lost.
		r.acl(s, northbound.HostsGroupID, "hosts/"+ip, &nb.ACL{Priority: allowSources, Action: nb.ACLActionPass,
			Match: fmt.Sprintf("inport == @%s && (%s)", northbound.HostsGroup, to)})
		r.acl(s, northbound.EdgesGroupID, "other sources/"+ip, &nb.ACL{Priority: refuseSources, Action: nb.ACLActionDrop,
			Match: to})
	}
}

func (r *rows) acl(s *objects.Service, groupID, key string, acl *nb.ACL) {
	name := s.Namespace + "/" + s.Name
	name = name[:min(len(name), 63)] // OVN's limit
	acl.Name, acl.Direction, acl.Tier = &name, nb.ACLDirectionFromLport, sourcesTier
	r.Member(nb.PortGroupTable, groupID, "acls", r.Add(nb.ACLTable, key, acl))
}

// guarded matches what is for a Service's load balancer addresses of a family; "" where it has none.
func guarded(s *objects.Service, ipv4 bool) string {
	vips := map[string][]string{} // by their ports' match
	for _, addr := range s.Ingress {
		if ports := portsOf(s, addr); addr.Is4() == ipv4 && s.HasFamily(ipv4) && ports != "" && !slices.Contains(vips[ports],
			addr.String()) {
			vips[ports] = append(vips[ports], addr.String())
		}
	}
	var matches []string
	for _, ports := range slices.Sorted(maps.Keys(vips)) {
		slices.Sort(vips[ports])
		matches = append(matches, fmt.Sprintf("%s.dst == {%s} && (%s)", northbound.IPWord(ipv4),
			strings.Join(vips[ports], ", "), ports))
	}
	if len(matches) > 1 {
		return "(" + strings.Join(matches, ") || (") + ")"
	}
	return strings.Join(matches, "")
}

// portsOf matches the ports that a Service has of an address.
func portsOf(s *objects.Service, addr netip.Addr) string {
	var kinds []string
	for _, kind := range []objects.Protocol{"tcp", "udp", "sctp"} {
		var ports []string
		for _, p := range s.Ports {
			if p.Protocol == kind && !s.Rejected.Rejects(objects.Claim{Addr: addr, Port: p.Port, Protocol: kind}) {
				ports = append(ports, fmt.Sprint(p.Port))
			}
		}
		if len(ports) > 0 {
			kinds = append(kinds, fmt.Sprintf("%s.dst == {%s}", kind, strings.Join(ports, ", ")))
		}
	}
	return strings.Join(kinds, " || ")
}

// sourceRanges are a Service's source ranges of a family that can be read.
func sourceRanges(s *objects.Service, ipv4 bool) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range s.SourceRanges {
		if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().Is4In6() && p.Addr().Is4() == ipv4 {
			list = append(list, p.Masked())
		}
	}
	return ipam.Disjoint(list)
}

// sourceProblems are what the owner of a Service with source ranges is told. A range that cannot be read
// admits nobody.
func sourceProblems(s *objects.Service) []objects.Problem {
	if len(s.SourceRanges) == 0 {
		return nil
	}
	found := objects.NewComplaints(objects.ServiceKind, &s.ObjectMeta)
	for _, text := range s.SourceRanges {
		if p, err := netip.ParsePrefix(text); err != nil || p.Addr().Is4In6() {
			found.Add(badSourceRange, func() string {
				return fmt.Sprintf("spec.loadBalancerSourceRanges: %q is not a CIDR, like 192.0.2.0/24 or 2001:db8::/32; it "+
					"admits nobody until it is corrected or removed", objects.Quoted(text))
			})
		}
	}
	for _, ipv4 := range []bool{true, false} {
		if word, all := map[bool]string{true: "IPv4", false: "IPv6"}[ipv4], map[bool]string{true: "0.0.0.0/0",
			false: "::/0"}[ipv4]; guarded(s, ipv4) != "" && len(sourceRanges(s, ipv4)) == 0 && len(found.List) == 0 {
			found.Add(noSourceRange, func() string {
				return fmt.Sprintf("spec.loadBalancerSourceRanges: has no %s range, so that only the nodes' hosts reach the %s "+
					"load balancer address; add %s to admit all", word, word, all)
			})
		}
	}
	return found.Problems()
}
