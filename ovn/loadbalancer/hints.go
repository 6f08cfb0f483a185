package loadbalancer

import (
	"maps"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// reach is for whom the endpoints of a VIP are, by the rules of kube-proxy: hints count if every ready
// endpoint has them, and on a node or in a zone that one of them names. A node's count before a zone's.
type reach struct {
	nodes, zones map[string]struct{} // named by hints; nil where an endpoint has none
}

func reachOf(list []backend, publishNotReady bool) reach {
	to := reach{map[string]struct{}{}, map[string]struct{}{}}
	for _, b := range list {
		if b.ready || publishNotReady {
			to.nodes, to.zones = named(to.nodes, b.nodes), named(to.zones, b.zones)
		}
	}
	return to
}

func named(names map[string]struct{}, by objects.Hints) map[string]struct{} {
	if names == nil || by == "" {
		return nil
	}
	for name := range by.Each {
		names[name] = struct{}{}
	}
	return names
}

// differs says whether some nodes' clients may see others than the rest.
func (to reach) differs() bool { return len(to.nodes)+len(to.zones) > 0 }

// near are the endpoints for a node's clients, of all that a VIP has.
func (to reach) near(list []backend, node, zone string, publishNotReady bool) []backend {
	suits := func(b backend) bool { return b.zones.Has(zone) }
	if _, ok := to.nodes[node]; ok {
		suits = func(b backend) bool { return b.nodes.Has(node) }
	} else if _, ok := to.zones[zone]; !ok {
		return choose(list, publishNotReady)
	}
	var chosen []backend
	for _, b := range list {
		if (b.ready || publishNotReady) && suits(b) {
			chosen = append(chosen, b)
		}
	}
	return chosen
}

// reaches are those of a frontend's VIPs; nil if all nodes' clients see the same.
func (f *frontend) reaches(s *objects.Service) []reach {
	list, differs := make([]reach, len(f.vips)), false
	for i, v := range f.vips {
		list[i] = reachOf(v.backends, s.PublishNotReady)
		differs = differs || list[i].differs()
	}
	if !differs {
		return nil
	}
	return list
}

// nearView is what clients on a node see, or those in a zone on nodes that no hint names (node is "").
func (f *frontend) nearView(s *objects.Service, to []reach, node, zone string) view {
	v := view{vips: make([]vip, len(f.vips))}
	for i, all := range f.vips {
		v.vips[i] = anywhere(all, to[i].near(all.backends, node, zone, s.PublishNotReady))
		if _, ok := to[i].zones[zone]; ok && v.scope == "" {
			v.scope = "zone=" + zone // no node has such a name
		}
		if _, ok := to[i].nodes[node]; ok {
			v.scope = node
		}
	}
	return v
}

// attachNear puts a frontend's load balancers with what is near to the clients: one in the group of each
// zone, except for zones with nodes that see something of their own. There each node has its own.
func (r *rows) attachNear(s *objects.Service, f *frontend, at AttachPoint, nodes *Nodes, to []reach) {
	c := classOf(f.protocol)
	seen := func(node, zone string) (ids []string) { return r.balancers(s, f, f.nearView(s, to, node, zone)) }
	for _, zone := range slices.Sorted(maps.Keys(nodes.Zones)) {
		here := nodes.within(zone, at, c)
		if !slices.ContainsFunc(here, func(node string) bool {
			return slices.ContainsFunc(to, func(one reach) bool { _, ok := one.nodes[node]; return ok })
		}) {
			ids := seen("", zone)
			for _, os := range c.systems() {
				r.Member(nb.LoadBalancerGroupTable, ZoneGroupID(zone, os, at), "load_balancer", ids...)
			}
			continue
		}
		for _, node := range here {
			if r.tooLarge() {
				return
			}
			r.Member(attachment(at), attachmentID(at, node), "load_balancer", seen(node, zone)...)
		}
	}
}

// within are a zone's nodes of a class that have a place.
func (n *Nodes) within(zone string, at AttachPoint, c class) []string {
	var list []string
	for _, node := range n.Zones[zone] {
		if _, has := slices.BinarySearch(n.at(at), node); has && c.has(n.isWindows(node)) {
			list = append(list, node)
		}
	}
	return list
}

// ZoneGroup is the key of the group of load balancers that a zone's nodes of an operating system have in a
// place; nodes without a zone share one, too.
func ZoneGroup(zone, os string, at AttachPoint) string {
	if zone == "" {
		zone = "zoneless"
	} else {
		zone = "zone-" + zone
	}
	if at == OnRouters {
		os += "-gateways"
	}
	return zone + "-" + os
}

func ZoneGroupID(zone, os string, at AttachPoint) string {
	return ovsdb.ID(nb.LoadBalancerGroupTable, northbound.ClusterOwner, ZoneGroup(zone, os, at))
}

// AddZoneGroups adds those of all zones.
func AddZoneGroups(r *northbound.Builder, zones map[string][]string) {
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		for _, os := range []string{contract.Linux, contract.Windows} {
			for _, at := range []AttachPoint{OnSwitches, OnRouters} {
				key := ZoneGroup(zone, os, at)
				r.Add(nb.LoadBalancerGroupTable, key, &nb.LoadBalancerGroup{Name: "weft-" + key})
			}
		}
	}
}
