package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovn/southbound"
	"github.com/weftnet/weft/ovsdb"
)

// rolePatience is how long a server beside the door may take to say what it is. It is on the same host.
const rolePatience = 3 * time.Second

// northdPatience is how long ovn-northd may take to translate what a reading has met. Of large networks that takes
// seconds, and the leading controller counts once a minute.
const northdPatience = 5 * time.Second

// north is what the Northbound says.
type north struct {
	database api.Database
	global   nb.NBGlobal
	// switches are the ports' UUIDs of each switch, by its own UUID.
	switches map[string][]string
	// down are the ports of pods that are not up: UUIDs and names.
	down map[string]string
}

// south is what the Southbound says.
type south struct {
	database      api.Database
	configuration int
	// chassis are the configurations that chassis have, by their names. Those of remote are of nodes of other zones, which
	// have none here.
	chassis map[string]int
	remote  map[string]struct{}
	// unclaimed are the names of pods' ports that no chassis has made work.
	unclaimed map[string]struct{}
}

// readNorthbound asks the server beside the door. An error stands in the result.
func readNorthbound(ctx context.Context, config ovsdb.Config) (n north) {
	n.database = roleOf(ctx, config, Northbound)
	if !n.database.Answers {
		return n
	}
	var err error
	if config.Model, err = nb.FullDatabaseModel(); err == nil {
		config.Tables = []ovsdb.Table{
			{Model: &nb.NBGlobal{}, Read: []string{"nb_cfg", "sb_cfg", "sb_cfg_timestamp", "hv_cfg", "options"}},
			{Model: &nb.LogicalSwitch{}, Sets: []string{"ports"}},
		}
		err = ovsdb.Ask(ctx, config, func(client *ovsdb.Client) error { return n.read(ctx, client) })
	}
	fail(&n.database, err)
	return n
}

// fail says of a database that it has not answered, if there is an error.
func fail(d *api.Database, err error) {
	if err != nil {
		d.Answers, d.Reason = false, cut(err.Error())
	}
}

func (n *north) read(ctx context.Context, client *ovsdb.Client) error {
	global := func() (g nb.NBGlobal) {
		for _, row := range ovsdb.List[nb.NBGlobal](client, nil) {
			g = *row
		}
		return g
	}
	soon, cancel := context.WithTimeout(ctx, northdPatience)
	defer cancel()
	_ = client.WaitFor(soon, func() bool { // ovn-northd follows, or else that is what is wrong
		g := global()
		return g.SbCfg >= g.NbCfg
	})
	n.global, n.switches, n.down = global(), map[string][]string{}, map[string]string{}
	for _, row := range ovsdb.List[nb.LogicalSwitch](client, nil) {
		n.switches[row.UUID] = row.Ports
	}
	rows, err := notUp(ctx, client, nb.LogicalSwitchPortTable, "_uuid", "name")
	for _, row := range rows {
		id, _ := row["_uuid"].(libovsdb.UUID)
		n.down[id.GoUUID], _ = row["name"].(string)
	}
	return err
}

// readSouthbound asks the server beside the door. An error stands in the result.
func readSouthbound(ctx context.Context, config ovsdb.Config) (s south) {
	s.database = roleOf(ctx, config, Southbound)
	if !s.database.Answers {
		return s
	}
	var err error
	if config.Model, err = sb.FullDatabaseModel(); err == nil {
		config.Tables = []ovsdb.Table{
			{Model: &sb.SBGlobal{}, Read: []string{"nb_cfg"}},
			{Model: &sb.Chassis{}, Read: []string{"name", "other_config"}},
			{Model: &sb.ChassisPrivate{}, Read: []string{"name", "nb_cfg"}},
		}
		err = ovsdb.Ask(ctx, config, func(client *ovsdb.Client) error { return s.read(ctx, client) })
	}
	fail(&s.database, err)
	return s
}

func (s *south) read(ctx context.Context, client *ovsdb.Client) error {
	for _, row := range ovsdb.List[sb.SBGlobal](client, nil) {
		s.configuration = row.NbCfg
	}
	s.chassis, s.remote, s.unclaimed = map[string]int{}, map[string]struct{}{}, map[string]struct{}{}
	for _, row := range ovsdb.List[sb.Chassis](client, nil) {
		if southbound.IsRemote(row) {
			s.remote[row.Name] = struct{}{}
		} else {
			s.chassis[row.Name] = 0
		}
	}
	for _, row := range ovsdb.List[sb.ChassisPrivate](client, nil) {
		if _, there := s.chassis[row.Name]; there {
			s.chassis[row.Name] = row.NbCfg
		}
	}
	rows, err := notUp(ctx, client, sb.PortBindingTable, "logical_port")
	for _, row := range rows {
		name, _ := row["logical_port"].(string)
		s.unclaimed[name] = struct{}{}
	}
	return err
}

// notUp are the ports of pods and hosts, which have no type, that are not up, or of which nobody has said so.
func notUp(ctx context.Context, client *ovsdb.Client, table string, columns ...string) (rows []libovsdb.Row,
	err error) {
	var operations []libovsdb.Operation
	for _, up := range []any{false, libovsdb.OvsSet{GoSet: []any{}}} {
		operations = append(operations, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: table, Columns: columns,
			Where: []libovsdb.Condition{libovsdb.NewCondition("type", libovsdb.ConditionEqual, ""),
				libovsdb.NewCondition("up", libovsdb.ConditionEqual, up)}})
	}
	results, err := client.Transact(ctx, operations...)
	for _, r := range results {
		rows = append(rows, r.Rows...)
	}
	return rows, err
}

// Names of the databases.
const (
	Northbound = "OVN_Northbound"
	Southbound = "OVN_Southbound"
)

var errCutOff = errors.New("the server is not in contact with the majority of its cluster")

// roleOf asks what a server is to a database. It answers if it can be asked for the database, too.
func roleOf(ctx context.Context, config ovsdb.Config, name string) api.Database {
	ctx, cancel := context.WithTimeout(ctx, rolePatience)
	defer cancel()
	role, err := ovsdb.RoleOf(ctx, config, name)
	if err == nil && !role.Connected {
		err = errCutOff
	}
	d := api.Database{Name: name, Answers: err == nil, Model: role.Model, Leader: role.Leader, Connected: role.Connected}
	if err != nil {
		d.Reason = cut(fmt.Sprintf("%s: %v", config.Endpoints, err))
	}
	return d
}
