package ovn

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// Many changes are more than one transaction, and none of them may let through what neither the old nor the
// new policies would. So sets come first, which alone decide nothing; then what policies have of numbers behind
// ports' names, which nobody has yet or nobody has any more; then pods that have a port join the sets of new
// policies, and are in those of the old ones still; then policies, each of them all at once; then
// pods get their ports that had none. What nobody names any more goes last: see usage.

// policySets are the changes of the sets that policies name: of those that there are, and of those that are
// gone.
func (c *cluster) policySets(selections []string, nodeSets []policy.Nodes, domains []ovsdb.Change) (sets, gone []ovsdb.Change) {
	list := slices.Clone(domains)
	for _, text := range slices.Sorted(slices.Values(selections)) {
		list = append(list, c.selectionChange(text))
	}
	for _, nodes := range slices.Sorted(slices.Values(nodeSets)) {
		list = append(list, c.nodeSetChange(nodes))
	}
	for _, change := range list {
		if len(change.Rows) > 0 {
			sets = append(sets, change)
		} else {
			gone = append(gone, change)
		}
	}
	return sets, gone
}

// numberChanges are those of policies that are the same, but for the numbers behind their ports' names.
func (c *cluster) numberChanges() []ovsdb.Change {
	keys := slices.DeleteFunc(keysOf(c.policies.dirtyNumbers), func(k objectKey) bool { _, more := c.policies.dirty[k]; return more || c.policies.all[k] == nil })
	return c.policyChanges(keys, false)
}

// amongPods puts the changes of policies between those of pods that have a port and of those that get one.
func (c *cluster) amongPods(names []string, policies []ovsdb.Change) []ovsdb.Change {
	list := make([]ovsdb.Change, 0, len(names)+len(policies))
	var fresh []ovsdb.Change
	for _, name := range names {
		p := c.pods[name]
		if there := p == nil || p.there; there {
			list = append(list, c.podChange(name))
		} else {
			fresh = append(fresh, c.podChange(name))
		}
	}
	return slices.Concat(list, policies, fresh)
}

// policyChanges are those of policies: what all share first, and last those that are gone.
func (c *cluster) policyChanges(keys []objectKey, common bool) []ovsdb.Change {
	var list, gone []ovsdb.Change
	if common {
		list = append(list, c.policiesChange())
	}
	slices.SortFunc(keys, func(a, b objectKey) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	for _, k := range keys {
		if c.policies.all[k] == nil {
			gone = append(gone, c.policyChange(k))
		} else {
			list = append(list, c.policyChange(k))
		}
	}
	return append(list, gone...)
}

// seen takes in which pods have a port in the Northbound.
func (c *cluster) seen(ports map[types.UID][]netip.Addr) {
	for _, p := range c.pods {
		p.there = len(ports[p.object.UID]) > 0
	}
}

// keysOf are a map's, in no order.
func keysOf[K comparable, V any](m map[K]V) []K { return slices.Collect(maps.Keys(m)) }
