package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Requirement is a column that a server may lack because it is older than the models.
type Requirement struct {
	Database, Table, Column string
	// Since is the first version that has it, of OVN or of Open vSwitch.
	Since string
	// Feature is what weft does without where the column is missing; empty where weft cannot.
	Feature string
}

func (r Requirement) product() string {
	if r.Database == "Open_vSwitch" {
		return "Open vSwitch"
	}
	return "OVN"
}

// Error says what a server lacks.
func (r Requirement) Error() string {
	what := fmt.Sprintf("table %s of database %s has no column %s", r.Table, r.Database, r.Column)
	if r.Column == "" {
		what = fmt.Sprintf("database %s has no table %s", r.Database, r.Table)
	}
	if r.Since == "" {
		return fmt.Sprintf("%s; %s %s has it", what, r.product(), baseline[r.Database])
	}
	return fmt.Sprintf("%s; %s %s is the first to have it", what, r.product(), r.Since)
}

// baseline is the version whose schema each database's models are generated from.
var baseline = map[string]string{
	"OVN_Northbound": "25.03",
	"OVN_Southbound": "25.03",
	"Open_vSwitch":   "3.5",
}

// Check compares a server's schema with the needed columns, by table. The result lists what only
// optional features miss; the error lists what weft cannot do without.
func Check(schema ovsdb.DatabaseSchema, needed map[string][]string, requirements []Requirement) ([]Requirement, error) {
	var optional []Requirement
	var missing []string
	lack := func(table, column string) {
		r := find(requirements, schema.Name, table, column)
		if r.Feature != "" {
			optional = append(optional, r)
		} else {
			missing = append(missing, r.Error())
		}
	}
	for table, columns := range needed {
		has := schema.Table(table)
		if has == nil {
			lack(table, "")
			continue
		}
		for _, column := range columns {
			if has.Column(column) == nil {
				lack(table, column)
			}
		}
	}
	slices.SortFunc(optional, func(a, b Requirement) int { return strings.Compare(a.Table+"."+a.Column, b.Table+"."+b.Column) })
	if len(missing) > 0 {
		slices.Sort(missing)
		return optional, fmt.Errorf("the server's schema (%s %s) is too old: %s; upgrade %s to %s", schema.Name, schema.Version,
			strings.Join(missing, "; "), Requirement{Database: schema.Name}.product(), baseline[schema.Name])
	}
	return optional, nil
}

func find(requirements []Requirement, database, table, column string) Requirement {
	for _, r := range requirements {
		if r.Database == database && r.Table == table && r.Column == column {
			return r
		}
	}
	return Requirement{Database: database, Table: table, Column: column}
}

// Features are the names of the features that missing columns turn off, each once.
func Features(missing []Requirement) []string {
	var names []string
	for _, r := range missing {
		names = append(names, r.Feature)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

const (
	nb  = "OVN_Northbound"
	ovs = "Open_vSwitch"
)

// Requirements are all that weft's own tables need beyond OVN 22.03 and Open vSwitch 2.17.
var Requirements = []Requirement{}
