package ovn

import (
	"iter"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/services"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// topologyBook is what exists once in a cluster, and what of it follows from the zones that nodes are in.
type topologyBook struct {
	part.Immediate
	settings *settings.Settings
	changed  func()              // tells that nodes are in other zones
	zones    map[string][]string // nodes that have a switch by zone, sorted
	zoneOf   map[string]string
	dirty    bool
}

func newTopologyBook(s *settings.Settings, changed func()) topologyBook {
	return topologyBook{settings: s, changed: changed, zones: map[string][]string{}, zoneOf: map[string]string{}}
}

// Take is part of [part.Part].
func (b *topologyBook) Take(batch *part.Batch) {
	b.dirty = b.dirty || batch.AsksFor(northbound.ClusterOwner)
}

// Dirty is part of [part.Part].
func (b *topologyBook) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Once(all || b.dirty, part.Common, northbound.ClusterOwner)
}

// Change is part of [part.Part].
func (b *topologyBook) Change(ovsdb.Owner) part.Outcome {
	return part.Rows(topologyChange(b.settings, b.zones))
}

// Clean is part of [part.Part].
func (b *topologyBook) Clean() { b.dirty = false }

// Priorities of the cluster router's policies.
const (
	policyHostToItself   = 1005
	policyOwnHost        = 1004 // as ovn-kubernetes has it
	policyUnknownService = 100
)

// topologyChange is what exists once: the cluster's router, the switch that joins it with the gateway
// routers, and the groups of load balancers: that of every node's switch, that of every node's gateway
// router, and for both one of Linux nodes.
func topologyChange(s *settings.Settings, zones map[string][]string) ovsdb.Change {
	r := newRows(northbound.ClusterOwner)
	r.LogicalRouter("cluster", "cluster", nil)
	r.LogicalSwitch("join", "join")
	for _, key := range []string{"cluster", "linux", "gateways", "linux-gateways"} {
		r.Add(nb.LoadBalancerGroupTable, key, &nb.LoadBalancerGroup{Name: "weft-" + key})
	}
	services.AddZoneGroups(r.Builder, zones)
	r.portGroups()
	r.Link("join", northbound.ClusterRouterID, northbound.JoinSwitchID, northbound.RouterPort("rtoj-cluster",
		s.JoinAddresses(0)), "jtor-cluster", nil)
	for _, services := range s.Services {
		// A ClusterIP has become an endpoint's address before its packet comes to the router.
		// What still has one belongs to no Service and must not leave the cluster.
		r.Policy(northbound.ClusterRouterID, "unknown service/"+services.String(), &nb.LogicalRouterPolicy{
			Priority: policyUnknownService, Action: nb.LogicalRouterPolicyActionDrop, Match: northbound.Match("dst", services)})
	}
	for _, pods := range s.Pods {
		// The same holds for what means something on one node only, and each time another one.
		ipv4 := pods.Addr().Is4()
		own := northbound.AddressSet(slices.Concat(contract.HostAliases[:], contract.HostClients[:], contract.HostVIPs[:]),
			ipv4)
		r.Policy(northbound.ClusterRouterID, "node's own/"+northbound.IPWord(ipv4), &nb.LogicalRouterPolicy{
			Priority: policyUnknownService, Action: nb.LogicalRouterPolicyActionDrop, Match: northbound.IPWord(ipv4) +
				".dst == " + own})
	}
	return r.Change
}

// update takes in where a node is, and has the Services looked at again whose rows depend on that.
func (b *topologyBook) update(n *placement) {
	zone, has := n.zone(), n.object != nil && n.placed
	before, had := b.zoneOf[n.name]
	if has == had && zone == before {
		return
	}
	if had {
		b.zones[before] = slices.DeleteFunc(b.zones[before], func(name string) bool { return name == n.name })
		if len(b.zones[before]) == 0 {
			delete(b.zones, before)
			b.dirty = true
		}
		delete(b.zoneOf, n.name)
	}
	if has {
		if len(b.zones[zone]) == 0 {
			b.dirty = true
		}
		i, _ := slices.BinarySearch(b.zones[zone], n.name)
		b.zones[zone] = slices.Insert(b.zones[zone], i, n.name)
		b.zoneOf[n.name] = zone
	}
	b.changed()
}
