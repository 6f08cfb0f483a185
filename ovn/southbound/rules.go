package southbound

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
)

// rule is what a node may do in a table. Tables and columns are those of the role ovn-controller, as ovn-northd writes
// it, less what ovn-controller itself does not write (OVN 23.03 to 26.03), and Controller_Event: Weft asks for no
// events, and an event outlives the chassis that it names, so nobody could count them.
type rule struct {
	// columns are what is written of rows that there are, and of new ones; first those of new ones alone.
	columns, first []string
	// owner says whether a row would be the node's when an operation writes row to it, and whether it is there; nil: none
	// is.
	owner owner
	// makes says why a new row is not the node's to make; nil: no rows are made.
	makes func(r *replica, node string, row object) error
	// deletes: rows that are the node's may be deleted.
	deletes bool
	// refs are columns that refer to rows which are the node's own, and these rows' tables.
	refs map[string]string
}

type owner func(r *replica, node, uuid string, row object) (own, there bool)

var referred = map[string]owner{"Chassis": ownChassis, "Encap": ownEncap}

var rules = map[string]rule{
	"Chassis": {makes: bears("Chassis", "name"), first: []string{"name"}, deletes: true, owner: ownChassis,
		columns: []string{"encaps", "external_ids", "hostname", "nb_cfg", "other_config", "transport_zones",
			"vtep_logical_switches"},
		refs: map[string]string{"encaps": "Encap"}},
	"Chassis_Private": {makes: bears("Chassis_Private", "name"), first: []string{"name"}, deletes: true,
		owner:   named(func(r *sb.ChassisPrivate) string { return r.Name }),
		columns: []string{"chassis", "external_ids", "nb_cfg", "nb_cfg_timestamp"},
		refs:    map[string]string{"chassis": "Chassis"}},
	"Encap": {makes: newTunnel, first: []string{"chassis_name"}, deletes: true, owner: ownEncap,
		columns: []string{"ip", "options", "type"}},
	"IGMP_Group": {makes: bears("IGMP_Group", "chassis_name"), first: []string{"chassis_name", "datapath"}, deletes: true,
		owner:   named(func(r *sb.IGMPGroup) string { return r.ChassisName }),
		columns: []string{"address", "chassis", "ports", "protocol"},
		refs:    map[string]string{"chassis": "Chassis"}},
	"BFD": {owner: named(func(r *sb.BFD) string { return r.ChassisName }), columns: []string{"status"}},
	"Service_Monitor": {owner: named(func(r *sb.ServiceMonitor) string { return r.ChassisName }),
		columns: []string{"status"}},
	"Port_Binding": {owner: ownPort,
		columns: []string{"additional_chassis", "additional_encap", "chassis", "encap", "options", "up", "virtual_parent"},
		refs: map[string]string{"additional_chassis": "Chassis", "additional_encap": "Encap", "chassis": "Chassis",
			"encap": "Encap"}},
	"MAC_Binding": {makes: newNeighbour, first: []string{"datapath", "ip", "logical_port"}, owner: neighbour,
		columns: []string{"mac", "timestamp"}},
	"FDB": {makes: newAddress, first: []string{"dp_key", "mac"}, owner: address,
		columns: []string{"port_key", "timestamp"}},
}

// bears: rows of a table bear the node's name.
func bears(table, column string) func(*replica, string, object) error {
	return func(_ *replica, node string, row object) error {
		if name := row.text(column); name != node {
			return fmt.Errorf("a row of table %s with %s %q is another node's", table, column, name)
		}
		return nil
	}
}

// checkGroup: the ports of an IGMP_Group are on its datapath, and the node hears them. A node makes groups without
// ports of all datapaths that it knows.
func checkGroup(r *replica, node string, o *operation) error {
	made := o
	if o.about != nil {
		made = o.about
	}
	_, datapath, _ := pair(made.row["datapath"])
	if uuid, ok := o.uuid(); ok && o.op != "insert" {
		group, there := ovsdb.Get[sb.IGMPGroup](r.Client, uuid)
		if !there {
			return errUnknown{"IGMP_Group", uuid}
		}
		if group.Datapath != nil {
			datapath = *group.Datapath
		}
	}
	// What is taken out may have gone to another node.
	o = &operation{row: o.row, mutations: slices.DeleteFunc(slices.Clone(o.mutations), func(m mutation) bool {
		return m.mutator == "delete"
	})}
	for _, value := range o.values("ports") {
		for _, element := range elements(value) {
			kind, uuid, ok := pair(element)
			port, there := ovsdb.Get[sb.PortBinding](r.Client, uuid)
			switch {
			case !ok || kind != "uuid":
				return fmt.Errorf("%.100s is no port", element)
			case !there:
				return errUnknown{"Port_Binding", uuid}
			case port.Datapath != datapath || !r.has(node, port) && !(port.Type == "localnet" && r.present(node, datapath)):
				return fmt.Errorf("port %s is another node's, or another switch's", port.LogicalPort)
			}
		}
	}
	return nil
}

func named[T any](name func(*T) string) owner {
	return func(r *replica, node, uuid string, _ object) (own, there bool) {
		row, there := ovsdb.Get[T](r.Client, uuid)
		return there && name(row) == node, there
	}
}

// ownChassis: a remote chassis is none of the node that it names. It stands for a node of another zone, which has its
// own chassis there.
func ownChassis(r *replica, node, uuid string, _ object) (own, there bool) {
	row, there := ovsdb.Get[sb.Chassis](r.Client, uuid)
	return there && row.Name == node && !IsRemote(row), there
}

// ownEncap: so it is with the tunnels of a remote chassis.
func ownEncap(r *replica, node, uuid string, _ object) (own, there bool) {
	row, there := ovsdb.Get[sb.Encap](r.Client, uuid)
	return there && row.ChassisName == node && !r.hasChassis(node, true), there
}

func ownPort(r *replica, node, uuid string, _ object) (own, there bool) {
	port, there := ovsdb.Get[sb.PortBinding](r.Client, uuid)
	return there && r.owns(node, port), there
}

// neighbour and newNeighbour are of a MAC_Binding. When a neighbour was last heard of, each node may say if the router
// is on all chassis: an ovn-controller says so if packets of the neighbour have met its flows, whoever has learned of
// it. If that were refused, ovn-controller would lose all that it writes at the same time, and compute all flows anew.
func neighbour(r *replica, node, uuid string, row object) (own, there bool) {
	binding, there := ovsdb.Get[sb.MACBinding](r.Client, uuid)
	if !there {
		return false, false
	}
	port, known := r.ports().named[binding.LogicalPort]
	heardOf := len(row) == 1 && row["timestamp"] != nil
	return known && (r.learns(node, port) || heardOf && port.Type == "patch"), true
}

func newNeighbour(r *replica, node string, row object) error {
	name := row.text("logical_port")
	port, known := r.ports().named[name]
	if !known {
		return errUnknown{"Port_Binding", fmt.Sprintf("%q", name)}
	}
	if _, datapath, ok := pair(row["datapath"]); !ok || datapath != port.Datapath {
		return fmt.Errorf("a MAC_Binding of port %s is of its datapath, not of %.60s", name, row["datapath"])
	}
	if !r.learns(node, port) {
		return fmt.Errorf("port %s has no neighbours on the node", name)
	}
	return nil
}

// address and newAddress are of the FDB.
func address(r *replica, node, uuid string, row object) (own, there bool) {
	old, there := ovsdb.Get[sb.FDB](r.Client, uuid)
	if !there {
		return false, false
	}
	key := old.PortKey
	if row["port_key"] != nil { // it has moved there
		key, _ = row.number("port_key")
	}
	port, known := r.ports().keyed[[2]int{old.DpKey, key}]
	return known && r.hears(node, port), true
}

func newAddress(r *replica, node string, row object) error {
	datapath, _ := row.number("dp_key")
	key, _ := row.number("port_key")
	port, known := r.ports().keyed[[2]int{datapath, key}]
	switch {
	case !known:
		return errUnknown{"Port_Binding", fmt.Sprintf("with key %d on datapath %d", key, datapath)}
	case !r.hears(node, port):
		return fmt.Errorf("no addresses are learned of port %s on the node", port.LogicalPort)
	}
	return nil
}

// errUnknown: the replica has no such row, perhaps not yet.
type errUnknown struct{ table, row string }

func (e errUnknown) Error() string { return fmt.Sprintf("%s has no row %s", e.table, e.row) }

// mutable columns are sets and maps of which single elements may be written.
var mutable = []string{"additional_chassis", "additional_encap", "encaps", "external_ids", "options", "other_config",
	"ports",
	"transport_zones", "vtep_logical_switches"}

// check says why a node may not do an operation.
func check(r *replica, node string, o *operation) error {
	switch {
	case o.op == "comment":
		return nil
	case o.op == "wait":
		if string(o.timeout) != "0" {
			return errors.New("a node waits for nothing: the timeout of a wait is 0")
		}
		if _, ok := o.uuid(); !ok { // the server would go through all the table for each
			return errors.New("a node asks of single rows, by their UUID, whether they are as it thinks")
		}
		return nil
	}
	rule, known := rules[o.table]
	if !known {
		return fmt.Errorf("table %s is none that a node writes", o.table)
	}
	if o.op == "insert" {
		if err := r.isHere(node); err != nil {
			return err
		}
	}
	if err := rule.checkRow(r, node, o); err != nil {
		return err
	}
	for column, table := range rule.refs {
		for _, value := range o.values(column) {
			if err := refersToOwn(r, node, table, value); err != nil {
				return fmt.Errorf("column %s of table %s: %w", column, o.table, err)
			}
		}
	}
	switch o.table {
	case "Chassis":
		return errors.Join(checkHostname(node, o), checkRemote(o))
	case "Port_Binding":
		return checkOptions(r, o)
	case "IGMP_Group":
		return checkGroup(r, node, o)
	case "Encap":
		return checkTunnel(r, node, o)
	}
	return nil
}

// checkHostname: OVN finds the chassis that a port is meant for by its name and then by its host's, so that a host
// named like another node would have that one's ports while it has no chassis. The node's agent sets both to the Node's
// name.
func checkHostname(node string, o *operation) error {
	for _, value := range o.values("hostname") {
		var name string
		if json.Unmarshal(value, &name) != nil || name != node && name != "" {
			return fmt.Errorf("hostname of a Chassis is %.300s, which is not the node's name: set external_ids:hostname of "+
				"its Open vSwitch to %s, as weft node does", value, node)
		}
	}
	return nil
}

// remoteKey marks a chassis, in its other_config, as a node of another zone (OVN's controller/encaps.c).
const remoteKey = "is-remote"

// checkRemote: other nodes have no tunnel to a remote chassis, and ovn-northd does not wait for it.
func checkRemote(o *operation) error {
	for _, value := range o.values("other_config") {
		entries, _ := stringMap(value)
		if _, set := entries[remoteKey]; set {
			return fmt.Errorf("other_config:%s of a Chassis is none that a node writes", remoteKey)
		}
	}
	return nil
}

// checkRow is about whose row it is, and which of its columns are written.
func (rule *rule) checkRow(r *replica, node string, o *operation) error {
	switch o.op {
	case "insert":
		if rule.makes == nil {
			return fmt.Errorf("a node makes no row of table %s", o.table)
		}
		for column := range o.row {
			if !slices.Contains(rule.columns, column) && !slices.Contains(rule.first, column) {
				return fmt.Errorf("column %.60s of table %s is none that a node writes", column, o.table)
			}
		}
		return rule.makes(r, node, o.row)
	case "delete":
		if !rule.deletes {
			return fmt.Errorf("a node deletes no row of table %s", o.table)
		}
	case "update", "mutate":
		if rule.owner == nil {
			return fmt.Errorf("a node changes no row of table %s", o.table)
		}
		for _, column := range o.written() {
			if !slices.Contains(rule.columns, column) {
				return fmt.Errorf("column %s of table %s is none that a node writes", column, o.table)
			}
			if o.op == "mutate" && !slices.Contains(mutable, column) {
				return fmt.Errorf("column %s of table %s is written as a whole, by operation \"update\"", column, o.table)
			}
		}
		if (o.op == "update") != (o.mutations == nil) || (o.op == "mutate") != (o.row == nil) {
			return fmt.Errorf("operation %q is half another one", o.op)
		}
	default:
		return fmt.Errorf("operation %q is none that a node does", o.op)
	}
	if o.about != nil && o.op != "delete" {
		return rule.makes(r, node, o.result())
	}
	uuid, ok := o.uuid()
	if !ok {
		return fmt.Errorf("rows of table %s are named by their UUID alone", o.table)
	}
	own, there := rule.owner(r, node, uuid, o.row)
	switch {
	case !there:
		return errUnknown{o.table, uuid}
	case !own:
		return fmt.Errorf("row %s of table %s is another node's", label(r, o.table, uuid), o.table)
	}
	return nil
}

// refersToOwn: a value names rows that are the node's own, be they of the same transaction, or none.
func refersToOwn(r *replica, node, table string, value json.RawMessage) error {
	for _, element := range elements(value) {
		kind, uuid, ok := pair(element)
		switch {
		case ok && kind == "named-uuid":
		case !ok || kind != "uuid":
			return fmt.Errorf("%.100s is no row", element)
		default:
			own, there := referred[table](r, node, uuid, nil)
			if !there {
				return errUnknown{table, uuid}
			}
			if !own {
				return fmt.Errorf("row %s of table %s is another node's", uuid, table)
			}
		}
	}
	return nil
}

// nodesOptions are the keys of a port's options that ovn-controller writes. The others say, among other things, whom a
// port is meant for.
var nodesOptions = []string{"additional-chassis-activated", "ipv6_ra_pd_list", "vport-backoff", "vport-last-claim"}

// checkOptions: of a port's options a node writes but a few.
func checkOptions(r *replica, o *operation) error {
	var changed []string
	if value := o.row["options"]; value != nil {
		options, ok := stringMap(value)
		uuid, _ := o.uuid()
		port, there := ovsdb.Get[sb.PortBinding](r.Client, uuid)
		if !ok || !there {
			return fmt.Errorf("options %.100s are no map", value)
		}
		for _, pair := range [][2]map[string]string{{options, port.Options}, {port.Options, options}} {
			for key, value := range pair[0] {
				if was, ok := pair[1][key]; !ok || was != value {
					changed = append(changed, key)
				}
			}
		}
	}
	for _, m := range o.mutations {
		if m.column != "options" {
			continue
		}
		entries, ok := stringMap(m.value)
		changed = slices.AppendSeq(changed, maps.Keys(entries))
		for _, element := range elements(m.value) {
			var key string
			if !ok && json.Unmarshal(element, &key) != nil {
				return fmt.Errorf("options %.100s are neither keys nor a map", m.value)
			}
			if !ok {
				changed = append(changed, key)
			}
		}
	}
	for _, key := range changed {
		if !slices.Contains(nodesOptions, key) {
			return fmt.Errorf("option %s of a port is none that a node writes", key)
		}
	}
	return nil
}

// label is the name of a port, for people.
func label(r *replica, table, uuid string) string {
	switch table {
	case "Port_Binding":
		if port, ok := ovsdb.Get[sb.PortBinding](r.Client, uuid); ok {
			return port.LogicalPort
		}
	case "MAC_Binding":
		if row, ok := ovsdb.Get[sb.MACBinding](r.Client, uuid); ok {
			return uuid + " of port " + row.LogicalPort
		}
	}
	return uuid
}
