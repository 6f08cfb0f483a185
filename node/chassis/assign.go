//go:build linux

package chassis

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weftnet/weft/models/rendezvous"
)

// candidate is a live host as the others see it.
type candidate struct {
	identity string
	// unreachable are the nodes whose agents it says it cannot reach.
	unreachable map[string]bool
}

// assign gives each node the host that must hold it. All hosts come to the same result by
// themselves when they see the same: a node goes to the live host that weighs most for it (package
// rendezvous), so that nodes move only from a host that leaves or to one that comes; a host that has
// a quarter more than its even share is passed over. A host that cannot reach the node comes last.
// Without hosts the result is empty.
func assign(nodes []string, hosts []candidate) map[string]string {
	assigned := make(map[string]string, len(nodes))
	if len(hosts) == 0 {
		return assigned
	}
	room := (5*len(nodes) + 4*len(hosts) - 1) / (4 * len(hosts)) // of n nodes and h hosts 1.25 n/h, rounded up
	load := map[string]int{}
	for _, node := range slices.Sorted(slices.Values(nodes)) {
		best := slices.MaxFunc(hosts, func(a, b candidate) int {
			return cmp.Or(
				preferTrue(!a.unreachable[node], !b.unreachable[node]),
				preferTrue(load[a.identity] < room, load[b.identity] < room),
				rendezvous.ForHosts.Compare(node, a.identity, b.identity),
			)
		})
		assigned[node] = best.identity
		load[best.identity]++
	}
	return assigned
}

func preferTrue(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// sortedKeys is for messages and annotations.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
