package openvswitch_test

import (
	"maps"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
	"github.com/weftnet/weft/ovsdb"
)

// zones is a node's database, and the agent's configuration.
type zones struct {
	t      *testing.T
	ovs    *openvswitch.Database
	config nodeconfig.Config
}

func newZones(t *testing.T, ovs *openvswitch.Database) *zones {
	t.Helper()
	config := nodeconfig.Default()
	config.NodeName, config.DatapathType = "n1", nodeconfig.DatapathSystem
	return &zones{t, ovs, config}
}

// datapath makes one, as ovn-controller does.
func (z *zones) datapath(columns libovsdb.Row, rows ...libovsdb.Operation) {
	z.t.Helper()
	root, err := z.ovs.Root()
	if err != nil {
		z.t.Fatal(err)
	}
	uuid := ovsdb.ID(vswitch.DatapathTable, "Theirs", "")
	byType := libovsdb.OvsMap{GoMap: map[any]any{nodeconfig.DatapathSystem: libovsdb.UUID{GoUUID: uuid}}}
	if err := z.ovs.Apply(z.t.Context(), append(rows,
		openvswitch.InsertRow(vswitch.DatapathTable, uuid, columns),
		openvswitch.MutateRow(vswitch.OpenvSwitchTable, root.UUID, libovsdb.Mutation{Column: "datapaths",
			Mutator: libovsdb.MutateOperationInsert, Value: byType}))); err != nil {
		z.t.Fatal(err)
	}
	if err := z.ovs.WaitFor(z.t.Context(), func() bool {
		_, ok := ovsdb.Get[vswitch.Datapath](z.ovs.Client, uuid)
		return ok
	}); err != nil {
		z.t.Fatal(err)
	}
}

// shared is a datapath whose zones 7 and 64001 somebody else has bounded.
func (z *zones) shared() {
	z.t.Helper()
	theirs := ovsdb.ID(vswitch.CTZoneTable, "Theirs", "")
	zone := libovsdb.UUID{GoUUID: theirs}
	z.datapath(libovsdb.Row{"ct_zones": libovsdb.OvsMap{GoMap: map[any]any{7: zone, 64001: zone}}},
		openvswitch.InsertRow(vswitch.CTZoneTable, theirs, libovsdb.Row{"limit": 5}))
	z.has(map[int]int{7: 5, 64001: 5})
}

// bound has zones 64000 and 64001 bounded.
func (z *zones) bound(most int) error {
	return openvswitch.NewZones(z.ovs, z.config).Bound(z.t.Context(), map[int]int{64000: most, 64001: most}, 0)
}

// has waits for exactly these limits, by zone.
func (z *zones) has(want map[int]int) {
	z.t.Helper()
	got := map[int]int{}
	if err := z.ovs.WaitFor(z.t.Context(), func() bool {
		clear(got)
		for _, datapath := range ovsdb.List[vswitch.Datapath](z.ovs.Client, nil) {
			for zone, uuid := range datapath.CTZones {
				if row, ok := ovsdb.Get[vswitch.CTZone](z.ovs.Client, uuid); ok && row.Limit != nil {
					got[zone] = *row.Limit
				}
			}
		}
		return maps.Equal(got, want)
	}); err != nil {
		z.t.Fatalf("the limits are %v, not %v: %v", got, want, err)
	}
}

// The agent bounds its own zones, and no other. A zone that somebody has bounded already keeps that bound.
func TestBoundedZones(t *testing.T) {
	z := newZones(t, openvswitchtest.New(t))
	if err := z.bound(100); err != nil {
		t.Fatalf("before ovn-controller has made a datapath: %v", err)
	}
	z.has(map[int]int{})
	z.shared()
	for _, most := range []int{100, 100, 200} {
		if err := z.bound(most); err != nil {
			t.Fatal(err)
		}
		z.has(map[int]int{7: 5, 64000: most, 64001: 5})
	}
	if err := z.bound(0); err != nil {
		t.Fatal(err)
	}
	z.has(map[int]int{7: 5, 64001: 5})
}

// Each zone that somebody else has bounded has a twin of the same bound, which goes with it.
func TestZonesHaveTwins(t *testing.T) {
	z := newZones(t, openvswitchtest.New(t))
	z.shared()
	bound := func(bit int) {
		t.Helper()
		if err := openvswitch.NewZones(z.ovs, z.config).Bound(t.Context(), map[int]int{64000: 100}, bit); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		bound(1 << 15)
		z.has(map[int]int{7: 5, 7 | 1<<15: 5, 64000: 100, 64001: 5})
	}
	datapath := ovsdb.List[vswitch.Datapath](z.ovs.Client, nil)[0]
	theirs := datapath.CTZones[7]
	if err := z.ovs.Apply(t.Context(), []libovsdb.Operation{openvswitch.UpdateRow(vswitch.CTZoneTable, theirs,
		libovsdb.Row{"limit": 6})}); err != nil {
		t.Fatal(err)
	}
	z.has(map[int]int{7: 6, 7 | 1<<15: 5, 64000: 100, 64001: 6})
	bound(1 << 15)
	z.has(map[int]int{7: 6, 7 | 1<<15: 6, 64000: 100, 64001: 6})
	bound(0)
	z.has(map[int]int{7: 6, 64000: 100, 64001: 6})
}

// Bounds go with all that the agent has made.
func TestZonesAreReleased(t *testing.T) {
	z := newZones(t, openvswitchtest.New(t))
	z.shared()
	if err := z.bound(100); err != nil {
		t.Fatal(err)
	}
	z.has(map[int]int{7: 5, 64000: 100, 64001: 5})
	if removed, err := z.ovs.RemoveOwn(t.Context(), z.config); !removed || err != nil {
		t.Fatalf("removed: %v, %v", removed, err)
	}
	z.has(map[int]int{7: 5, 64001: 5})
}
