//go:build linux

package hyperv

import (
	"slices"
	"testing"
)

// A table keeps its entries whatever their number is, and of a key the newest one first.
func TestTable(t *testing.T) {
	for name, faults := range map[string]Faults{"fixed": KnownFaults(), "growing": without(FixedTables)} {
		t.Run(name, func(t *testing.T) {
			table := newTable[int, int](4, faults)
			for i := range 100 {
				table.add(i, i)
				table.add(i, -i)
			}
			check := func() {
				t.Helper()
				for i := range 100 {
					if got := slices.Collect(table.of(i)); !slices.Equal(got, []int{-i, i}) {
						t.Fatalf("%d: %v", i, got)
					}
				}
				if fixed := len(table.lists) == 4; table.count != 200 || len(table.all()) != 200 || fixed == table.grows {
					t.Fatalf("%d entries in %d lists, %d in all", table.count, len(table.lists), len(table.all()))
				}
			}
			check()
			table.setFaults(without(FixedTables))
			check()
			table.setFaults(KnownFaults())
			check()
			table.remove(7, 7)
			if table.first(7) != -7 || table.first(100) != 0 || table.count != 199 {
				t.Errorf("%d, %d, %d entries", table.first(7), table.first(100), table.count)
			}
			table.clear()
			if table.count != 0 || len(table.all()) != 0 {
				t.Errorf("%d entries", table.count)
			}
		})
	}
}

// With many connections the driver looks at many for each packet, since its tables do not grow.
func TestFixedTables(t *testing.T) {
	const connections = 20 * connectionLists
	compared := func(faults Faults) float64 {
		e, h := bare(t, faults)
		commit := ct(t, 1, true)
		packet := func(i int) []byte { return udp(client, server, uint16(1024+i), 53, "q") }
		for i := range connections {
			send(t, e, h, packet(i), commit)
		}
		if s := e.Status(); s.Connections != connections {
			t.Fatalf("%d connections", s.Connections)
		}
		const packets = 1000
		before := e.datapath.conntrack.connections.compared
		for i := range packets {
			send(t, e, h, packet(i), ct(t, 1, false))
		}
		return float64(e.datapath.conntrack.connections.compared-before) / packets
	}
	// A list has 20 entries, and the oldest ones are found last.
	if got := compared(KnownFaults()); got < 15 || got > 25 {
		t.Errorf("%v entries were looked at for a packet", got)
	}
	if got := compared(without(FixedTables)); got > 3 {
		t.Errorf("without the fault %v entries were looked at for a packet", got)
	}
}
