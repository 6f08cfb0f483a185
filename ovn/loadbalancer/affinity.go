package loadbalancer

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// affinityBalancers adds to a sticky Service the load balancer that maps each of its endpoints to itself, wherever
// the Service is served.
//
// OVN remembers a client's endpoint by a flow that the client's first packet makes, and that packet goes
// no further. What the client sends next has the endpoint's address already: conntrack has translated it.
// OVN takes it for another first packet, and the connection never comes up. This load balancer takes it
// instead: a first TCP connection is there after one retransmission, one second, and the second datagram
// of UDP arrives.
//
// A row with the same VIP in another Service's load balancer does no harm: both make the same logical
// flows, and OVN keeps one. An endpoint whose address and port is one that others are load-balanced at has none:
// whoever may write EndpointSlices would take it from them.
func (r *rows) affinityBalancers(s *objects.Service, kind objects.Protocol, list []frontend, nodes *Nodes) {
	endpoints := map[netip.AddrPort]struct{}{}
	aliased := false
	var places []AttachPoint
	for i := range list {
		for _, v := range list[i].vips {
			for _, b := range v.backends {
				if _, ok := endpoints[b.at]; !ok && !nodes.Balanced(objects.Claim{Addr: b.at.Addr(), Port: b.at.Port(),
					Protocol: kind}) {
					endpoints[b.at] = struct{}{}
				}
			}
		}
		aliased = aliased || list[i].aliased
		places = append(places, list[i].places...)
	}
	if len(endpoints) == 0 || r.tooLarge() {
		return
	}
	all := r.affinityBalancer(s, kind, endpoints, "", nodes)
	slices.Sort(places)
	for _, at := range slices.Compact(places) {
		c := classOf(kind)
		if at != OnRouters || !aliased {
			r.Member(nb.LoadBalancerGroupTable, c.groups[at], "load_balancer", all)
			continue
		}
		for _, node := range nodes.at(at) {
			if c.has(nodes.isWindows(node)) {
				r.Member(attachment(at), attachmentID(at, node), "load_balancer", r.affinityBalancer(s, kind, endpoints, node,
					nodes))
			}
		}
	}
}

// affinityBalancer is the load balancer that maps endpoints to themselves: of a gateway router that shares addresses
// with its host those by the alias, and of all others, where node is "", by their addresses.
func (r *rows) affinityBalancer(s *objects.Service, kind objects.Protocol, endpoints map[netip.AddrPort]struct{},
	node string, nodes *Nodes) (uuid string) {
	where := "self"
	row := &nb.LoadBalancer{
		Protocol: (*string)(&kind),
		Vips:     make(map[string]string, len(endpoints)),
		Options: map[string]string{"hairpin_snat_ip": strings.Join(northbound.HairpinAddresses[:], " "),
			"neighbor_responder": "none"},
	}
	if s.ExternalLocal {
		row.Options["skip_snat"] = "true"
	}
	for at := range endpoints {
		if slices.Contains(nodes.Hosts[at.Addr()], node) {
			at = netip.AddrPortFrom(contract.OfFamily(contract.HostAliases, at.Addr()), at.Port())
			where = "self@gw=" + node
		}
		row.Vips[at.String()] = at.String()
	}
	row.Name = northbound.LoadBalancerName(s.Namespace, s.Name, where, kind)
	key := string(kind) + "/" + where
	if slices.ContainsFunc(r.Rows, func(row ovsdb.Row) bool { return row.Key == key }) {
		return ovsdb.ID(nb.LoadBalancerTable, r.Owner, key)
	}
	r.endpoints += len(row.Vips)
	return r.Add(nb.LoadBalancerTable, key, row)
}

// affinityProblems are what the owner of a sticky Service is told.
func affinityProblems(s *objects.Service) []objects.Problem {
	if !s.ClientIP || s.StickySeconds <= objects.MaxSticky {
		return nil
	}
	return []objects.Problem{objects.Limitf(objects.ServiceKind, &s.ObjectMeta, sessionAffinityTimeout,
		"spec.sessionAffinityConfig.clientIP.timeoutSeconds: %d is more than the %d that OVN can remember: a client that "+
			"opens no connection for %d s may get another endpoint; choose %d or less",
		s.StickySeconds, objects.MaxSticky, objects.MaxSticky, objects.MaxSticky)}
}
