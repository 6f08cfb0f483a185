package ovn

import (
	"cmp"
	"slices"

	"github.com/weftnet/weft/ovn/objects"
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

// sets are the changes of the sets that policies name: of those that there are, and of those that are
// gone.
func (b *policyBook) sets(selections []string, nodeSets []policy.Nodes, domains []ovsdb.Change) (sets, gone []ovsdb.Change) {
	list := slices.Clone(domains)
	for _, text := range slices.Sorted(slices.Values(selections)) {
		list = append(list, b.selections.change(text))
	}
	for _, nodes := range slices.Sorted(slices.Values(nodeSets)) {
		list = append(list, b.nodeSetChange(nodes))
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
func (b *policyBook) numberChanges(keys []objects.Key) []ovsdb.Change {
	keys = slices.DeleteFunc(keys, func(k objects.Key) bool { _, more := b.dirty[k]; return more || b.all[k] == nil })
	return b.changes(keys, false)
}

// changes are those of policies: what all share first, and last those that are gone.
func (b *policyBook) changes(keys []objects.Key, common bool) []ovsdb.Change {
	var list, gone []ovsdb.Change
	if common {
		list = append(list, b.commonChange())
	}
	slices.SortFunc(keys, func(a, b objects.Key) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	for _, k := range keys {
		if b.all[k] == nil {
			gone = append(gone, b.change(k))
		} else {
			list = append(list, b.change(k))
		}
	}
	return append(list, gone...)
}
