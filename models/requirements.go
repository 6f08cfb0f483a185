package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/version"
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
	"OVN_Northbound": version.OVN,
	"OVN_Southbound": version.OVN,
	"Open_vSwitch":   version.OpenVSwitch,
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
	slices.SortFunc(optional, func(a, b Requirement) int {
		return strings.Compare(a.Table+"."+a.Column, b.Table+"."+b.Column)
	})
	if len(missing) > 0 {
		slices.Sort(missing)
		return optional, fmt.Errorf("the server's schema (%s %s) is too old: %s; upgrade %s to %s", schema.Name,
			schema.Version,
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

// Features that weft asks for by name.
const (
	ACLTiers        = "ACL tiers"
	ConditionalNAT  = "conditional NAT"
	ConntrackLimits = "conntrack limits"
)

const (
	northbound  = "OVN_Northbound"
	southbound  = "OVN_Southbound"
	openVSwitch = "Open_vSwitch"
)

// Requirements are the columns that OVN 22.03 and Open vSwitch 2.17 lack; whichever is listed here
// and not used does no harm. The versions are the first releases whose schema has the column.
var Requirements = []Requirement{
	{northbound, "ACL", "tier", "23.06", ACLTiers},
	{northbound, "Chassis_Template_Var", "", "22.12", "NodePort templates"},
	{northbound, "Chassis_Template_Var", "chassis", "22.12", "NodePort templates"},
	{northbound, "Chassis_Template_Var", "external_ids", "22.12", "NodePort templates"},
	{northbound, "Chassis_Template_Var", "variables", "22.12", "NodePort templates"},
	{northbound, "Logical_Router_Port", "status", "23.09", "gateway status"},
	{northbound, "Logical_Router_Policy", "bfd_sessions", "24.03", "BFD on policy routes"},
	{northbound, "DNS", "options", "24.03", "DNS options"},
	{northbound, "NAT", "gateway_port", "22.06", ""},
	{northbound, "NAT", "match", "24.09", ConditionalNAT},
	{northbound, "NAT", "priority", "24.09", ConditionalNAT},
	{northbound, "Static_MAC_Binding", "", "22.06", ""},
	{northbound, "Static_MAC_Binding", "ip", "22.06", ""},
	{northbound, "Static_MAC_Binding", "logical_port", "22.06", ""},
	{northbound, "Static_MAC_Binding", "mac", "22.06", ""},
	{northbound, "Static_MAC_Binding", "override_dynamic_mac", "22.06", ""},
	{northbound, "Logical_Switch_Port", "mirror_rules", "22.12", "mirroring"},
	{northbound, "Mirror", "", "22.12", "mirroring"},
	{northbound, "Mirror", "external_ids", "22.12", "mirroring"},
	{northbound, "Mirror", "filter", "22.12", "mirroring"},
	{northbound, "Mirror", "index", "22.12", "mirroring"},
	{northbound, "Mirror", "name", "22.12", "mirroring"},
	{northbound, "Mirror", "sink", "22.12", "mirroring"},
	{northbound, "Mirror", "type", "22.12", "mirroring"},
	{northbound, "Sample", "", "24.09", "policy sampling"},
	{northbound, "Sample", "collectors", "24.09", "policy sampling"},
	{northbound, "Sample", "metadata", "24.09", "policy sampling"},
	{northbound, "Sample_Collector", "", "24.09", "policy sampling"},
	{northbound, "ACL", "sample_new", "24.09", "policy sampling"},
	{northbound, "ACL", "sample_est", "24.09", "policy sampling"},
	{northbound, "Logical_Router_Policy", "chain", "25.03", "policy route chains"},
	{northbound, "Logical_Router_Policy", "jump_chain", "25.03", "policy route chains"},
	{northbound, "Logical_Router_Static_Route", "selection_fields", "25.03", "ECMP hash fields"},
	{northbound, "Logical_Switch_Port", "peer", "25.03", "peered switches"},
	{southbound, "BFD", "chassis_name", "24.03", "BFD by guarded nodes"},
	{southbound, "IGMP_Group", "chassis_name", "24.03", "multicast groups of guarded nodes"},
	{southbound, "Service_Monitor", "chassis_name", "24.03", "health checks by guarded nodes"},
	{openVSwitch, "CT_Zone", "limit", "3.3", ConntrackLimits},
	{openVSwitch, "Datapath", "ct_zone_default_limit", "3.3", ConntrackLimits},
}
