package southbound

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
)

// tables are what a guard's replica has.
var tables = []ovsdb.Table{
	{Model: &sb.Chassis{}, Read: []string{"name"}},
	{Model: &sb.ChassisPrivate{}, Read: []string{"name"}},
	{Model: &sb.Encap{}, Read: []string{"chassis_name"}},
	{Model: &sb.PortBinding{}, Read: []string{"logical_port", "type", "options", "chassis", "ha_chassis_group"}},
	{Model: &sb.HAChassisGroup{}, Read: []string{"ha_chassis"}},
	{Model: &sb.HAChassis{}, Read: []string{"chassis"}},
	{Model: &sb.IGMPGroup{}, Read: []string{"chassis_name"}},
	{Model: &sb.BFD{}, Read: []string{"chassis_name"}},
	{Model: &sb.ServiceMonitor{}, Read: []string{"chassis_name"}},
}

// rule is what a node may do in a table. Tables and columns are those of the role ovn-controller, as ovn-northd
// writes it.
type rule struct {
	// makes: rows may be inserted and deleted.
	makes   bool
	columns []string
	// named is the column that has the node's name; empty: the rows are nobody's, or owner knows.
	named string
	// owner says whose a row is, and whether it is there; nil where rows are nobody's.
	owner func(c *ovsdb.Client, node, uuid string) (own, there bool)
}

var rules = map[string]rule{
	"Chassis": {makes: true, named: "name", owner: named(func(r *sb.Chassis) string { return r.Name }),
		columns: []string{"encaps", "external_ids", "hostname", "nb_cfg", "other_config", "transport_zones", "vtep_logical_switches"}},
	"Chassis_Private": {makes: true, named: "name", owner: named(func(r *sb.ChassisPrivate) string { return r.Name }),
		columns: []string{"chassis", "external_ids", "nb_cfg", "nb_cfg_timestamp"}},
	"Encap": {makes: true, named: "chassis_name", owner: named(func(r *sb.Encap) string { return r.ChassisName }),
		columns: []string{"ip", "options", "type"}},
	"IGMP_Group": {makes: true, named: "chassis_name", owner: named(func(r *sb.IGMPGroup) string { return r.ChassisName }),
		columns: []string{"address", "chassis", "datapath", "ports", "protocol"}},
	"BFD":             {owner: named(func(r *sb.BFD) string { return r.ChassisName }), columns: []string{"status"}},
	"Service_Monitor": {owner: named(func(r *sb.ServiceMonitor) string { return r.ChassisName }), columns: []string{"status"}},
	"Port_Binding": {owner: ownPort,
		columns: []string{"additional_chassis", "additional_encap", "chassis", "encap", "options", "up", "virtual_parent"}},
	"MAC_Binding":      {makes: true, columns: []string{"datapath", "ip", "logical_port", "mac", "timestamp"}},
	"FDB":              {makes: true, columns: []string{"dp_key", "mac", "port_key", "timestamp"}},
	"Controller_Event": {makes: true, columns: []string{"chassis", "event_info", "event_type", "seq_num"}},
}

func named[T any](name func(*T) string) func(*ovsdb.Client, string, string) (bool, bool) {
	return func(c *ovsdb.Client, node, uuid string) (own, there bool) {
		row, there := ovsdb.Get[T](c, uuid)
		return there && name(row) == node, there
	}
}

// ownPort: a port that is meant for a chassis is that one's. One that nobody has said a word about is whose it was
// first, as OVN's own rules have it.
func ownPort(c *ovsdb.Client, node, uuid string) (own, there bool) {
	port, there := ovsdb.Get[sb.PortBinding](c, uuid)
	if !there {
		return false, false
	}
	holds := port.Chassis != nil && chassisName(c, *port.Chassis) == node
	var meant []string
	switch port.Type {
	case "l3gateway", "l2gateway":
		meant = strings.Split(port.Options[port.Type+"-chassis"], ",")
	case "chassisredirect":
		if port.HaChassisGroup == nil {
			return holds, true
		}
		group, _ := ovsdb.Get[sb.HAChassisGroup](c, *port.HaChassisGroup)
		if group == nil {
			return false, false
		}
		for _, id := range group.HaChassis {
			if member, ok := ovsdb.Get[sb.HAChassis](c, id); ok && member.Chassis != nil {
				meant = append(meant, chassisName(c, *member.Chassis))
			}
		}
	default:
		requested := port.Options["requested-chassis"]
		if requested == "" && port.Chassis == nil {
			return true, true
		}
		meant = strings.Split(requested, ",")
	}
	return holds || slices.Contains(meant, node), true
}

func chassisName(c *ovsdb.Client, uuid string) string {
	row, ok := ovsdb.Get[sb.Chassis](c, uuid)
	if !ok {
		return ""
	}
	return row.Name
}

// object is a JSON object whose keys mean what they say: a struct's would mean their other spellings, too.
type object map[string]json.RawMessage

// text is a string of the object, "" where there is none.
func (o object) text(key string) string {
	var text string
	if json.Unmarshal(o[key], &text) != nil {
		return ""
	}
	return text
}

// operation is one of a transaction, RFC 7047, 5.2.
type operation struct {
	op, table        string
	where, mutations []json.RawMessage
	row              object
}

func newOperation(o object) (*operation, error) {
	p := &operation{op: o.text("op"), table: o.text("table")}
	for key, into := range map[string]any{"where": &p.where, "mutations": &p.mutations, "row": &p.row} {
		if o[key] == nil {
			continue
		}
		if err := json.Unmarshal(o[key], into); err != nil {
			return nil, fmt.Errorf("%s of an operation: %w", key, err)
		}
	}
	if p.row != nil { // one key, one meaning
		row, err := json.Marshal(p.row)
		if err != nil {
			return nil, err
		}
		o["row"] = row
	}
	return p, nil
}

// harmless operations change no row.
var harmless = []string{"abort", "assert", "comment", "commit", "select", "wait"}

// uuid is the row's in the operation's condition, the one way in which ovn-controller names rows.
func (o *operation) uuid() (uuid string, ok bool) {
	if len(o.where) != 1 {
		return "", false
	}
	var condition [3]json.RawMessage
	var column, function string
	if json.Unmarshal(o.where[0], &condition) != nil || json.Unmarshal(condition[0], &column) != nil ||
		json.Unmarshal(condition[1], &function) != nil || column != "_uuid" || function != "==" {
		return "", false
	}
	return atomOf(condition[2])
}

// atomOf reads ["uuid", X].
func atomOf(value json.RawMessage) (uuid string, ok bool) {
	var pair []string
	if json.Unmarshal(value, &pair) != nil || len(pair) != 2 || pair[0] != "uuid" {
		return "", false
	}
	return pair[1], true
}

// touched are the columns that the operation writes.
func (o *operation) touched() ([]string, error) {
	var columns []string
	for column := range o.row {
		columns = append(columns, column)
	}
	for _, text := range o.mutations {
		var mutation []json.RawMessage
		var column string
		if json.Unmarshal(text, &mutation) != nil || len(mutation) != 3 || json.Unmarshal(mutation[0], &column) != nil {
			return nil, fmt.Errorf("mutation %s is none", text)
		}
		columns = append(columns, column)
	}
	return columns, nil
}

// errUnknown: the replica has no such row, perhaps not yet.
type errUnknown struct{ table, uuid string }

func (e errUnknown) Error() string { return fmt.Sprintf("%s has no row %s", e.table, e.uuid) }

// check says why a node may not do an operation.
func check(c *ovsdb.Client, node string, o *operation) error {
	if slices.Contains(harmless, o.op) {
		return nil
	}
	r, known := rules[o.table]
	if !known {
		return fmt.Errorf("table %s is none that a node writes", o.table)
	}
	columns, err := o.touched()
	if err != nil {
		return err
	}
	switch o.op {
	case "insert":
		if !r.makes {
			return fmt.Errorf("a node makes no row of table %s", o.table)
		}
		if r.named != "" {
			var name string
			if json.Unmarshal(o.row[r.named], &name) != nil || name != node {
				return fmt.Errorf("a row of table %s with %s %s is another node's", o.table, r.named, o.row[r.named])
			}
		}
		return nil
	case "delete":
		if !r.makes {
			return fmt.Errorf("a node deletes no row of table %s", o.table)
		}
	case "update", "mutate":
		for _, column := range columns {
			if !slices.Contains(r.columns, column) {
				return fmt.Errorf("column %s of table %s is none that a node writes", column, o.table)
			}
		}
	default:
		return fmt.Errorf("operation %q is none that a node does", o.op)
	}
	uuid, ok := o.uuid()
	switch {
	case !ok:
		return fmt.Errorf("rows of table %s are named by their UUID alone", o.table)
	case r.owner == nil:
		return nil
	}
	own, there := r.owner(c, node, uuid)
	switch {
	case !there:
		return errUnknown{o.table, uuid}
	case !own:
		return fmt.Errorf("row %s of table %s is another node's", label(c, o.table, uuid), o.table)
	}
	if o.table == "Port_Binding" && slices.Contains(columns, "chassis") {
		if o.op != "update" {
			return fmt.Errorf("a port is claimed by an update, not by operation %q", o.op)
		}
		return checkClaim(c, node, o.row["chassis"])
	}
	return nil
}

// checkClaim: a node claims a port for itself, or gives it up.
func checkClaim(c *ovsdb.Client, node string, chassis json.RawMessage) error {
	var pair []json.RawMessage
	var kind string
	if json.Unmarshal(chassis, &pair) == nil && len(pair) == 2 && json.Unmarshal(pair[0], &kind) == nil {
		uuid, _ := atomOf(chassis)
		switch {
		case kind == "set" && strings.TrimSpace(string(pair[1])) == "[]",
			kind == "named-uuid", // its own, of the same transaction
			kind == "uuid" && chassisName(c, uuid) == node:
			return nil
		}
	}
	return fmt.Errorf("a port is claimed for %s, which is not the node's chassis", chassis)
}

// label is the name of a port, for people.
func label(c *ovsdb.Client, table, uuid string) string {
	if port, ok := ovsdb.Get[sb.PortBinding](c, uuid); ok && table == "Port_Binding" {
		return port.LogicalPort
	}
	return uuid
}
