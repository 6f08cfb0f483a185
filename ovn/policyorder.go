package ovn

import (
	"cmp"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// No change may let through, while it is made, what neither the old nor the new policies would. So all of it
// that policies, nodes, and pods that have a port need is one transaction, of which northd makes one in the
// Southbound, and ovn-controller one of all flows of its node. Where it is parted, for its size or because
// something in it is refused, its order sees to it as far as one object's change goes: sets come first, which
// alone decide nothing; then what policies have of numbers behind ports' names, which nobody has yet or nobody
// has any more; then pods that have a port join the sets of new policies, and are in those of the old ones
// still; then policies, each of them all at once. Then pods get their ports that had none. What nobody names
// any more goes last: see usage.

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
func (c *cluster) numberChanges(keys []objectKey) []ovsdb.Change {
	keys = slices.DeleteFunc(keys, func(k objectKey) bool { _, more := c.policies.dirty[k]; return more || c.policies.all[k] == nil })
	return c.policyChanges(keys, false)
}

// podChanges are those of pods that have a port, or had one, and those of pods that get one.
func (c *cluster) podChanges(names []string) (there, fresh []ovsdb.Change) {
	for _, name := range names {
		if p := c.pods[name]; p == nil || p.there {
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
