package openvswitch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/local"
	"github.com/weftnet/weft/ovsdb"
)

// Database is the node's Open_vSwitch database: a replica to read, transactions to write.
type Database struct {
	*ovsdb.Client

	changing sync.Mutex // held while bridges are compared and written
	told     time.Time  // when a log has last had what was written
}

const (
	TypeInternal = "internal"
)

// Tables leaves out statistics, which the server would send every few seconds.
var Tables = []ovsdb.Table{
	{Model: &vswitch.OpenvSwitch{}, Read: []string{"bridges", "datapaths", "next_cfg", "cur_cfg", "other_config",
		"ovs_version"}},
	{Model: &vswitch.Datapath{}, Read: []string{"ct_zones"}},
	{Model: &vswitch.CTZone{}, Read: []string{"limit"}},
	{Model: &vswitch.Bridge{}, Read: []string{"name", "ports", "datapath_type", "fail_mode", "other_config"}},
	{Model: &vswitch.Port{}, Read: []string{"name", "interfaces", "protected"}},
	{Model: &vswitch.Interface{}, Read: []string{"name", "type", "mac", "mtu_request", "ofport", "error", "options"}},
}

func Connect(ctx context.Context, database string) (*Database, error) {
	model, err := vswitch.FullDatabaseModel()
	if err != nil {
		return nil, err
	}
	client, err := ovsdb.Connect(ctx, ovsdb.Config{Endpoints: database, Model: model, Tables: Tables, Dial: local.Dial})
	if err != nil {
		return nil, fmt.Errorf("ovs-database: %w", err)
	}
	return &Database{Client: client}, nil
}

var errNoRoot = errors.New("the Open_vSwitch database is empty: run `ovs-vsctl init`, as the openvswitch service does")

func (o *Database) Root() (*vswitch.OpenvSwitch, error) {
	rows := ovsdb.List[vswitch.OpenvSwitch](o.Client, nil)
	if len(rows) == 0 {
		return nil, errNoRoot
	}
	return rows[0], nil
}

func (o *Database) Bridge(name string) *vswitch.Bridge {
	return first(ovsdb.List(o.Client, func(b *vswitch.Bridge) bool { return b.Name == name }))
}

func (o *Database) Port(name string) *vswitch.Port {
	return first(ovsdb.List(o.Client, func(p *vswitch.Port) bool { return p.Name == name }))
}

func (o *Database) Device(name string) *vswitch.Interface {
	return first(ovsdb.List(o.Client, func(i *vswitch.Interface) bool { return i.Name == name }))
}

// BridgeOf is the bridge that holds a port.
func (o *Database) BridgeOf(port string) *vswitch.Bridge {
	return first(ovsdb.List(o.Client, func(b *vswitch.Bridge) bool { return slices.Contains(b.Ports, port) }))
}

// TunnelPeers are where the tunnels lead that ovn-controller has made, sorted.
func (o *Database) TunnelPeers() []netip.Addr {
	var peers []netip.Addr
	for _, i := range ovsdb.List(o.Client, func(i *vswitch.Interface) bool { return i.Type == "geneve" }) {
		if peer, err := netip.ParseAddr(i.Options["remote_ip"]); err == nil {
			peers = append(peers, peer)
		}
	}
	slices.SortFunc(peers, netip.Addr.Compare)
	return slices.Compact(peers)
}

func first[T any](rows []*T) *T {
	if len(rows) == 0 {
		return nil
	}
	return rows[0]
}

// Apply sends operations, none of which changes anything when repeated.
func (o *Database) Apply(ctx context.Context, operations []libovsdb.Operation) error {
	if len(operations) == 0 {
		return nil
	}
	_, err := o.Transact(ctx, operations...)
	return err
}

// Operations as the server reads them.

func InsertRow(table, uuid string, row libovsdb.Row) libovsdb.Operation {
	return libovsdb.Operation{Op: libovsdb.OperationInsert, Table: table, UUID: uuid, Row: row}
}

func UpdateRow(table, uuid string, row libovsdb.Row) libovsdb.Operation {
	return libovsdb.Operation{Op: libovsdb.OperationUpdate, Table: table, Where: whereUUID(uuid), Row: row}
}

func MutateRow(table, uuid string, mutations ...libovsdb.Mutation) libovsdb.Operation {
	return libovsdb.Operation{Op: libovsdb.OperationMutate, Table: table, Where: whereUUID(uuid), Mutations: mutations}
}

func whereUUID(uuid string) []libovsdb.Condition {
	return []libovsdb.Condition{{Column: "_uuid", Function: libovsdb.ConditionEqual, Value: libovsdb.UUID{GoUUID: uuid}}}
}

func References(uuids ...string) libovsdb.OvsSet {
	set := libovsdb.OvsSet{GoSet: []any{}}
	for _, uuid := range uuids {
		set.GoSet = append(set.GoSet, libovsdb.UUID{GoUUID: uuid})
	}
	return set
}

func StringMap(values map[string]string) libovsdb.OvsMap {
	m := libovsdb.OvsMap{GoMap: map[any]any{}}
	for key, value := range values {
		m.GoMap[key] = value
	}
	return m
}

func AddTo(column string, uuids ...string) libovsdb.Mutation {
	return libovsdb.Mutation{Column: column, Mutator: libovsdb.MutateOperationInsert, Value: References(uuids...)}
}

func RemoveFrom(column string, uuids ...string) libovsdb.Mutation {
	return libovsdb.Mutation{Column: column, Mutator: libovsdb.MutateOperationDelete, Value: References(uuids...)}
}

// SetKeys returns the mutations that give a map column the wanted keys and leave its others alone;
// a wanted value of "" takes the key away.
func SetKeys(column string, has, want map[string]string) []libovsdb.Mutation {
	remove, add := libovsdb.OvsSet{GoSet: []any{}}, map[string]string{}
	for key, value := range want {
		now, present := has[key]
		if present && now == value || !present && value == "" {
			continue
		}
		if present {
			remove.GoSet = append(remove.GoSet, key)
		}
		if value != "" {
			add[key] = value
		}
	}
	var mutations []libovsdb.Mutation
	if len(remove.GoSet) > 0 {
		mutations = append(mutations, libovsdb.Mutation{Column: column, Mutator: libovsdb.MutateOperationDelete,
			Value: remove})
	}
	if len(add) > 0 {
		mutations = append(mutations, libovsdb.Mutation{Column: column, Mutator: libovsdb.MutateOperationInsert,
			Value: StringMap(add)})
	}
	return mutations
}
