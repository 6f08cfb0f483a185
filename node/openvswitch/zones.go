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
	"can have all connections that the node has room for; install a later one")

// BoundZones: none of these zones of connection tracking has more connections at a time than its bound. One with a
// bound of 0 is not bounded by the agent, and one that somebody else has a row for stays as it is. ovs-vswitchd gives
// the bounds to the datapath, as it does those that ovn-controller writes for zones of its own. Each of these has a
// twin with the same bound, whose number has the bit twin besides; 0 is for zones without twins. The datapath's row is
// ovn-controller's to make: until it has, there is nothing to write.
func (o *Database) BoundZones(ctx context.Context, c nodeconfig.Config, bounds map[int]int, twin int) error {
	root, err := o.Root()
	if err != nil {
		return err
	}
	datapath, ok := ovsdb.Get[vswitch.Datapath](o.Client, root.Datapaths[c.DatapathType])
	if !ok {
		return nil
	}
	if twin != 0 {
		bounds = o.withTwins(c.Owner(), datapath, bounds, twin)
	}
	operations, err := o.boundingZones(c.Owner(), datapath, bounds)
	if err == nil {
		err = o.Apply(ctx, operations)
	}
	if err != nil {
		return fmt.Errorf("bound the connections of zones: %w", err)
	}
	return nil
}

// withTwins adds to bounds those of the twins of zones that somebody else has bounded.
func (o *Database) withTwins(owner ovsdb.Owner, datapath *vswitch.Datapath, bounds map[int]int, bit int) map[int]int {
	all := maps.Clone(bounds)
	for zone, uuid := range datapath.CTZones {
		row, ok := ovsdb.Get[vswitch.CTZone](o.Client, uuid)
		if ok && row.Limit != nil && zone&bit == 0 && row.ExternalIDs[ovsdb.OwnerMark] != string(owner) {
			all[zone|bit] = *row.Limit
		}
	}
	return all
}

func (o *Database) boundingZones(
	owner ovsdb.Owner, datapath *vswitch.Datapath, bounds map[int]int,
) ([]libovsdb.Operation, error) {
	bounded := o.boundedZones(owner, datapath)
	var operations []libovsdb.Operation
	added := libovsdb.OvsMap{GoMap: map[any]any{}}
	for _, zone := range slices.Sorted(maps.Keys(bounds)) {
		bound := bounds[zone]
		row, ours := bounded[zone]
		switch _, taken := datapath.CTZones[zone]; {
		case bound == 0:
			continue
		case slices.Contains(o.Disabled(), models.ConntrackLimits):
			return nil, errNoZoneLimits
		case ours && (row.Limit == nil || *row.Limit != bound):
			operations = append(operations, UpdateRow(vswitch.CTZoneTable, row.UUID, libovsdb.Row{"limit": bound}))
		case !taken:
			key := strconv.Itoa(zone)
			uuid := ovsdb.ID(vswitch.CTZoneTable, owner, key)
			operations = append(operations, InsertRow(vswitch.CTZoneTable, uuid,
				libovsdb.Row{"limit": bound, "external_ids": StringMap(marks(owner, key))}))
			added.GoMap[zone] = libovsdb.UUID{GoUUID: uuid}
		}
		delete(bounded, zone)
	}
	if len(added.GoMap) > 0 {
		operations = append(operations, mutateZones(datapath, libovsdb.MutateOperationInsert, added))
	}
	return append(operations, unboundingZones(datapath, bounded)...), nil
}

// boundedZones are those of a datapath that the agent has bounded.
func (o *Database) boundedZones(owner ovsdb.Owner, datapath *vswitch.Datapath) map[int]*vswitch.CTZone {
	bounded := map[int]*vswitch.CTZone{}
	for zone, uuid := range datapath.CTZones {
		if row, ok := ovsdb.Get[vswitch.CTZone](o.Client, uuid); ok && row.ExternalIDs[ovsdb.OwnerMark] == string(owner) {
			bounded[zone] = row
		}
	}
	return bounded
}

func unboundingZones(datapath *vswitch.Datapath, bounded map[int]*vswitch.CTZone) []libovsdb.Operation {
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
