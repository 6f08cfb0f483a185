package ovn

import (
	"maps"
	"slices"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// extent says whose changes are asked for. It is the one list of all that the Northbound holds of weft's.
type extent struct {
	topology, gateway, egressNodes, alive, policyCommon bool

	egress, nodes, pods, services, flushes []string
	selections, domains                    []string
	nodeSets                               []policy.Nodes
	policies, numbers                      []objects.Key
}

// extent is all that exists, or what update has touched since it was last asked for. Each line tells both, so that
// nothing is in one of them alone.
func (c *cluster) extent(all bool) extent {
	return extent{
		topology:     all || c.nodes.dirtyTopology,
		gateway:      all || c.nodes.dirtyGateway,
		egressNodes:  all || c.egress.dirtyNodes,
		alive:        all || c.balancers.alive.dirty,
		egress:       among(all, c.egress.all, c.egress.dirty),
		selections:   among(all, c.policies.selections.all, c.policies.selections.dirty),
		nodeSets:     among(all, c.policies.nodeSets, c.policies.dirtyNodeSets),
		domains:      among(all, c.domains.used, c.domains.dirty),
		nodes:        among(all, c.nodes.all, c.nodes.dirty),
		pods:         among(all, c.pods.all, c.pods.dirty),
		policies:     among(all, c.policies.all, c.policies.dirty),
		policyCommon: all && len(c.policies.all) > 0 || c.policies.dirtyCommon,
		numbers:      among(all, map[objects.Key]struct{}{}, c.policies.selections.dirtyNumbers), // which are parts of policies
		services:     among(all, c.services.all, c.services.dirty),
		flushes:      among(all, c.services.flushes.of, c.services.flushes.dirty),
	}
}

// among are the keys of what is there, or of what was touched, in no order.
func among[K comparable, V, W any](all bool, there map[K]V, touched map[K]W) []K {
	if all {
		return keysOf(there)
	}
	return keysOf(touched)
}

// changes are those of all owners that update has touched since the last call.
func (c *cluster) changes() []ovsdb.Change { return c.list(c.extent(false)) }

// everything is all that the Northbound shall hold of weft's.
func (c *cluster) everything() []ovsdb.Change {
	return slices.DeleteFunc(c.list(c.extent(true)), func(change ovsdb.Change) bool { return len(change.Rows) == 0 })
}

// list makes the changes of an extent, in the order in which they are to be made; see policyorder.go for why.
func (c *cluster) list(of extent) []ovsdb.Change {
	list := make([]ovsdb.Change, 0, len(of.nodes)+len(of.pods)+len(of.services))
	one := func(wanted bool, change func() ovsdb.Change) {
		if wanted {
			list = append(list, change())
		}
	}
	each := func(names []string, change func(string) ovsdb.Change) (some []ovsdb.Change) {
		for _, name := range slices.Sorted(slices.Values(names)) {
			some = append(some, change(name))
		}
		return some
	}
	one(of.topology, c.topologyChange)
	one(of.gateway, c.gatewayChange)
	one(of.egressNodes, c.egress.commonChange)
	one(of.alive, c.balancers.aliveChange)
	list = append(list, each(of.egress, c.egress.change)...)
	sets, gone := c.policies.sets(of.selections, of.nodeSets, each(of.domains, c.domains.change))
	sets = append(sets, each(of.nodes, c.nodeChange)...)
	there, fresh := c.podChanges(slices.Sorted(slices.Values(of.pods)))
	list = append(list, together(sets, c.policies.numberChanges(of.numbers), there, c.policies.changes(of.policies, of.policyCommon))...)
	list = append(list, fresh...)
	list = append(list, gone...)
	list = append(list, each(of.services, c.services.change)...)
	list = append(list, each(of.flushes, c.services.flushes.change)...)
	c.clean()
	return list
}

// podChanges are those of pods that have a port, or had one, and those of pods that get one.
func (c *cluster) podChanges(names []string) (there, fresh []ovsdb.Change) {
	for _, name := range names {
		if p := c.pods.all[name]; p == nil || p.there {
			there = append(there, c.podChange(name))
		} else {
			fresh = append(fresh, c.podChange(name))
		}
	}
	return there, fresh
}

// together has changes made in one transaction.
func together(parts ...[]ovsdb.Change) []ovsdb.Change {
	list := slices.Concat(parts...)
	for i := range list {
		list[i].With = i > 0
	}
	return list
}

// clean forgets what was touched.
func (c *cluster) clean() {
	c.nodes.dirtyTopology, c.nodes.dirtyGateway, c.egress.dirtyNodes, c.balancers.alive.dirty = false, false, false, false
	empty(&c.egress.dirty)
	empty(&c.domains.dirty)
	c.policies.clean()
	empty(&c.nodes.dirty)
	empty(&c.pods.dirty)
	empty(&c.services.dirty)
	empty(&c.services.flushes.dirty)
}

// empty makes a set anew of what is to be done. To go over a map costs what it has ever held, also after clear: once
// everything was to be done, each later event would pay for it.
func empty[K comparable, V any](set *map[K]V) { *set = map[K]V{} }

// keysOf are a map's, in no order.
func keysOf[K comparable, V any](m map[K]V) []K { return slices.Collect(maps.Keys(m)) }
