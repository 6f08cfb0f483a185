//go:build linux

package chassis

import (
	"fmt"
	"maps"
	"testing"
)

func hosts(names ...string) []candidate {
	var all []candidate
	for _, name := range names {
		all = append(all, candidate{identity: name})
	}
	return all
}

func moved(before, after map[string]string) (moved int) {
	for node, host := range before {
		if after[node] != host {
			moved++
		}
	}
	return moved
}

func TestAssignIsEvenAndMovesLittle(t *testing.T) {
	for _, c := range []struct{ nodes, hosts, most int }{
		{1, 1, 1}, {1, 5, 1}, {2, 2, 2}, {3, 2, 2}, {10, 2, 7}, {50, 2, 32}, {50, 3, 21}, {50, 5, 13}, {1000, 7, 179},
	} {
		t.Run(fmt.Sprintf("%d nodes, %d hosts", c.nodes, c.hosts), func(t *testing.T) {
			all := names(c.hosts)
			nodes := names(c.nodes)
			assigned := assign(nodes, hosts(all...))
			load := map[string]int{}
			for _, node := range nodes {
				load[assigned[node]]++
			}
			for host, n := range load {
				if n > c.most {
					t.Errorf("host %s has %d nodes, want %d at most", host, n, c.most)
				}
			}
			joined := assign(nodes, hosts(append(all, "newcomer")...))
			if limit := c.nodes/(c.hosts+1)*2 + 3; moved(assigned, joined) > limit {
				t.Errorf("a newcomer moves %d nodes of %d", moved(assigned, joined), c.nodes)
			}
			if c.hosts > 1 {
				left := assign(nodes, hosts(all[1:]...))
				if limit := load[all[0]] + c.nodes/5 + 1; moved(assigned, left) > limit {
					t.Errorf("a host that had %d leaves, and %d move", load[all[0]], moved(assigned, left))
				}
			}
		})
	}
}

func TestAssignDoesNotDependOnOrder(t *testing.T) {
	if a, b := assign([]string{"x", "y", "z"}, hosts("a", "b")), assign([]string{"z", "x", "y"},
		hosts("b", "a")); !maps.Equal(a, b) {
		t.Error(a, b)
	}
}

func TestAssignPassesOverWhoCannotReachTheNode(t *testing.T) {
	all := hosts("a", "b")
	mine := assign([]string{"x"}, all)["x"]
	for i := range all {
		if all[i].identity == mine {
			all[i].unreachable = map[string]bool{"x": true}
		}
	}
	if other := assign([]string{"x"}, all)["x"]; other == mine {
		t.Errorf("%s has it still", mine)
	}
	for i := range all {
		all[i].unreachable = map[string]bool{"x": true}
	}
	if again := assign([]string{"x"}, all)["x"]; again != mine {
		t.Errorf("nobody reaches it, and %s has it", again)
	}
	if none := assign([]string{"x"}, nil); len(none) != 0 {
		t.Error(none)
	}
}
