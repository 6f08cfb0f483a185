package openvswitch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/ovsdb"
)

var errNoZoneLimits = errors.New("this node's Open vSwitch is older than 3.3 and sets no limits of zones: one pod " +
	"can have all connections that the node has room for; install 3.6 or 3.7")

// Zones are the zones of connection tracking of a node's datapath, whose connections the agent bounds.
type Zones struct {
	ovs    *Database
	config nodeconfig.Config
}

// NewZones are those of the node that the configuration is about.
func NewZones(ovs *Database, c nodeconfig.Config) Zones { return Zones{ovs, c} }

// Bound: none of these zones of connection tracking has more connections at a time than its bound. One with a
// bound of 0 is not bounded by the agent, and one that somebody else has a row for stays as it is. ovs-vswitchd gives
// the bounds to the datapath, as it does those that ovn-controller writes for zones of its own. Each of these has a
// twin with the same bound, whose number has the bit twin besides; 0 is for zones without twins. The datapath's row is
// ovn-controller's to make: until it has, there is nothing to write.
func (z Zones) Bound(ctx context.Context, bounds map[int]int, twin int) error {
	root, err := z.ovs.Root()
	if err != nil {
		return err
	}
	datapath, ok := ovsdb.Get[vswitch.Datapath](z.ovs.Client, root.Datapaths[z.config.DatapathType])
	if !ok {
		return nil
	}
	if twin != 0 {
		bounds = z.withTwins(datapath, bounds, twin)
	}
	operations, err := z.bounding(datapath, bounds)
	if err == nil {
		err = z.ovs.Apply(ctx, operations)
	}
	if err != nil {
		return fmt.Errorf("bound the connections of zones: %w", err)
	}
	return nil
}

// withTwins adds to bounds those of the twins of zones that somebody else has bounded.
func (z Zones) withTwins(datapath *vswitch.Datapath, bounds map[int]int, bit int) map[int]int {
	all := maps.Clone(bounds)
	for zone, uuid := range datapath.CTZones {
		row, ok := ovsdb.Get[vswitch.CTZone](z.ovs.Client, uuid)
		if ok && row.Limit != nil && zone&bit == 0 && !z.ours(row) {
			all[zone|bit] = *row.Limit
		}
	}
	return all
}

// bounding returns what has to be changed so that zones have their bounds.
func (z Zones) bounding(datapath *vswitch.Datapath, bounds map[int]int) ([]libovsdb.Operation, error) {
	bounded := z.bounded(datapath)
	var operations []libovsdb.Operation
	added := libovsdb.OvsMap{GoMap: map[any]any{}}
	for _, zone := range slices.Sorted(maps.Keys(bounds)) {
		bound := bounds[zone]
		row, ours := bounded[zone]
		switch _, taken := datapath.CTZones[zone]; {
		case bound == 0:
			continue
		case slices.Contains(z.ovs.Disabled(), models.ConntrackLimits):
			return nil, errNoZoneLimits
		case ours && (row.Limit == nil || *row.Limit != bound):
			operations = append(operations, UpdateRow(vswitch.CTZoneTable, row.UUID, libovsdb.Row{"limit": bound}))
		case !taken:
			key := strconv.Itoa(zone)
			uuid := ovsdb.ID(vswitch.CTZoneTable, z.config.Owner(), key)
			operations = append(operations, InsertRow(vswitch.CTZoneTable, uuid,
				libovsdb.Row{"limit": bound, "external_ids": StringMap(marks(z.config.Owner(), key))}))
			added.GoMap[zone] = libovsdb.UUID{GoUUID: uuid}
		}
		delete(bounded, zone)
	}
	if len(added.GoMap) > 0 {
		operations = append(operations, mutateZones(datapath, libovsdb.MutateOperationInsert, added))
	}
	return append(operations, unbounding(datapath, bounded)...), nil
}

// releasing returns what takes the agent's bounds away.
func (z Zones) releasing(datapath *vswitch.Datapath) []libovsdb.Operation {
	return unbounding(datapath, z.bounded(datapath))
}

// bounded are the zones of a datapath that the agent has bounded.
func (z Zones) bounded(datapath *vswitch.Datapath) map[int]*vswitch.CTZone {
	bounded := map[int]*vswitch.CTZone{}
	for zone, uuid := range datapath.CTZones {
		if row, ok := ovsdb.Get[vswitch.CTZone](z.ovs.Client, uuid); ok && z.ours(row) {
			bounded[zone] = row
		}
	}
	return bounded
}

// ours says whether the agent has made a zone's row.
func (z Zones) ours(row *vswitch.CTZone) bool {
	return row.ExternalIDs[ovsdb.OwnerMark] == string(z.config.Owner())
}

func unbounding(datapath *vswitch.Datapath, bounded map[int]*vswitch.CTZone) []libovsdb.Operation {
	if len(bounded) == 0 {
		return nil
	}
	removed := libovsdb.OvsSet{GoSet: []any{}}
	for zone := range bounded {
		removed.GoSet = append(removed.GoSet, zone)
	}
	return []libovsdb.Operation{mutateZones(datapath, libovsdb.MutateOperationDelete, removed)}
}

func mutateZones(datapath *vswitch.Datapath, mutator libovsdb.Mutator, zones any) libovsdb.Operation {
	return MutateRow(vswitch.DatapathTable, datapath.UUID,
		libovsdb.Mutation{Column: "ct_zones", Mutator: mutator, Value: zones})
}
