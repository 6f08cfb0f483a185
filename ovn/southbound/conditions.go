package southbound

import (
	"encoding/json"
	"fmt"
	"slices"
)

// clause is a part of a monitor's condition: rows that fulfil any of its clauses are told (ovsdb-server.7, 4.1.12).
type clause struct{ column, function string }

// conditions are the clauses that ovn-controller uses of each table, beside true and false (OVN 23.03 to 26.03,
// update_sb_monitors of controller/ovn-controller.c). The server looks for equal values in a table of hashes if a
// condition has no other clauses, and else tries one clause after the other on each row, when the monitor begins
// and whenever the row changes.
var conditions = map[string][]clause{
	"Advertised_MAC_Binding": {{"datapath", "=="}},
	"Advertised_Route":       {{"datapath", "=="}},
	"Chassis_Private":        {{"name", "=="}},
	"Chassis_Template_Var":   {{"chassis", "=="}},
	"Controller_Event":       {{"chassis", "=="}},
	"DNS":                    {{"datapaths", "includes"}},
	"ECMP_Nexthop":           {{"datapath", "=="}},
	"FDB":                    {{"dp_key", "=="}},
	"IGMP_Group":             {{"chassis", "=="}},
	"IP_Multicast":           {{"datapath", "=="}},
	"Logical_Flow":           {{"logical_datapath", "=="}, {"logical_dp_group", "!="}},
	"MAC_Binding":            {{"datapath", "=="}},
	"Multicast_Group":        {{"datapath", "=="}},
	"Port_Binding": {{"chassis", "=="}, {"datapath", "=="}, {"logical_port", "=="}, {"options", "includes"},
		{"parent_port", "!="}, {"parent_port", "=="},
		{"requested_chassis", "=="}, {"type", "=="}},
}

const (
	// maxClauses is how many of a table the server gets of all of a node's monitors: it tries each on each row
	// that changes. Who names more has most of the table, and is told of all of it: so do nodes with many local
	// datapaths go on, by what the server has made for others already.
	maxClauses = 200
	// maxTables is how many tables a monitor may have, and maxTable how long their names are: the Southbound has some 40.
	maxTables, maxTable = 100, 64
	// maxClause is how many bytes one may have: a column, a function, and a name or a UUID.
	maxClause = 400
)

// monitored reads what a monitor is to tell, by table, and leaves of it what the server gets.
func monitored(text json.RawMessage) (object, error) {
	var tables object
	if err := json.Unmarshal(text, &tables); err != nil {
		return nil, err
	}
	if len(tables) > maxTables {
		return nil, fmt.Errorf("%d tables are more than the %d that a monitor may have", len(tables), maxTables)
	}
	for table, raw := range tables {
		if len(table) > maxTable {
			return nil, fmt.Errorf("table %.60q: there is none of so long a name", table)
		}
		request, err := monitoredTable(table, raw)
		if err != nil {
			return nil, fmt.Errorf("table %.60q: %w", table, err)
		}
		if tables[table], err = json.Marshal([]object{request}); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

func monitoredTable(table string, raw json.RawMessage) (object, error) {
	var request object
	if list := []object{}; json.Unmarshal(raw, &list) == nil {
		if len(list) != 1 {
			return nil, fmt.Errorf("it is asked for %d times in a monitor; put the columns into one", len(list))
		}
		request = list[0]
	} else if err := json.Unmarshal(raw, &request); err != nil {
		return nil, err
	}
	for key := range request {
		if !slices.Contains([]string{"columns", "select", "where"}, key) {
			return nil, fmt.Errorf("member %.60q of a monitor is none that ovn-controller uses; leave it out", key)
		}
	}
	if request["where"] == nil {
		return request, nil
	}
	where, err := checkCondition(table, request["where"])
	request["where"] = where
	return request, err
}

// everything is a condition that all rows fulfil.
var everything = json.RawMessage(`[true]`)

// checkCondition is the condition that the server gets.
func checkCondition(table string, text json.RawMessage) (json.RawMessage, error) {
	var clauses []json.RawMessage
	if err := json.Unmarshal(text, &clauses); err != nil {
		return nil, fmt.Errorf("a condition is no list: %w", err)
	}
	for _, raw := range clauses {
		var all bool
		if json.Unmarshal(raw, &all) == nil {
			continue
		}
		var c clause
		var triple []json.RawMessage
		if json.Unmarshal(raw, &triple) != nil || len(triple) != 3 || json.Unmarshal(triple[0], &c.column) != nil ||
			json.Unmarshal(triple[1], &c.function) != nil {
			return nil, fmt.Errorf("%.200s is no clause of a condition", raw)
		}
		if !slices.Contains(conditions[table], c) {
			return nil, fmt.Errorf("condition %.60q %.20q is none that ovn-controller uses", c.column, c.function)
		}
		if len(raw) > maxClause {
			return nil, fmt.Errorf("%d bytes are more than the %d that a clause may have", len(raw), maxClause)
		}
	}
	if len(clauses) > maxClauses {
		return everything, nil
	}
	return json.Marshal(clauses)
}
