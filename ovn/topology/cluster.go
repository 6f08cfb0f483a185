package topology

import (
	"iter"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Cluster is what exists once in a cluster, and what of it follows from the zones that nodes are in.
type Cluster struct {
	part.Immediate
	settings *settings.Settings
	changed  func()
	Zones    map[string][]string // nodes that have a switch by zone, sorted
	ZoneOf   map[string]string
	dirty    bool
}

// NewCluster knows of no nodes yet. changed is told that nodes are in other zones.
func NewCluster(s *settings.Settings, changed func()) Cluster {
	return Cluster{settings: s, changed: changed, Zones: map[string][]string{}, ZoneOf: map[string]string{}}
}

// Take is part of [part.Part].
func (b *Cluster) Take(batch *part.Batch) {
	b.dirty = b.dirty || batch.AsksFor(northbound.ClusterOwner)
}

// Dirty is part of [part.Part].
func (b *Cluster) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Once(all || b.dirty, part.Common, northbound.ClusterOwner)
}

// Change is part of [part.Part].
func (b *Cluster) Change(ovsdb.Owner) part.Outcome {
	return part.Rows(clusterChange(b.settings, b.Zones))
}

// Clean is part of [part.Part].
func (b *Cluster) Clean() { b.dirty = false }

// Touch has the rows made again.
func (b *Cluster) Touch() { b.dirty = true }

// Priorities of the cluster router's policies.
const (
	policyHostToItself   = 1005
	policyOwnHost        = 1004 // as ovn-kubernetes has it
	policyUnknownService = 100
)

// clusterChange is what exists once: the cluster's router, the switch that joins it with the gateway
// routers, the groups of load balancers: that of every node's switch, that of every node's gateway
// router, and for both one of Linux nodes; and the sets of gateway routers' addresses.
func clusterChange(s *settings.Settings, zones map[string][]string) ovsdb.Change {
	r := NewRows(northbound.ClusterOwner)
	r.LogicalRouter("cluster", "cluster", nil)
	r.LogicalSwitch("join", "join")
	for _, key := range []string{"cluster", "linux", "gateways", "linux-gateways"} {
		r.Add(nb.LoadBalancerGroupTable, key, &nb.LoadBalancerGroup{Name: "weft-" + key})
	}
	loadbalancer.AddZoneGroups(r.Builder, zones)
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
		r.Add(nb.AddressSetTable, northbound.GatewaysKey(ipv4), &nb.AddressSet{Name: northbound.GatewaysSet(ipv4)})
		r.Policy(northbound.ClusterRouterID, "node's own/"+northbound.IPWord(ipv4), &nb.LogicalRouterPolicy{
			Priority: policyUnknownService, Action: nb.LogicalRouterPolicyActionDrop, Match: northbound.IPWord(ipv4) +
				".dst == " + own})
	}
	return r.Change
}

// Update takes in where a node is, and tells if that is another zone than before.
func (b *Cluster) Update(n *Node) {
	zone, has := n.topologyZone(), n.Object != nil && n.Placed
	before, had := b.ZoneOf[n.Name]
	if has == had && zone == before {
		return
	}
	if had {
		b.Zones[before] = slices.DeleteFunc(b.Zones[before], func(name string) bool { return name == n.Name })
		if len(b.Zones[before]) == 0 {
			delete(b.Zones, before)
			b.dirty = true
		}
		delete(b.ZoneOf, n.Name)
	}
	if has {
		if len(b.Zones[zone]) == 0 {
			b.dirty = true
		}
		i, _ := slices.BinarySearch(b.Zones[zone], n.Name)
		b.Zones[zone] = slices.Insert(b.Zones[zone], i, n.Name)
		b.ZoneOf[n.Name] = zone
	}
	b.changed()
}
