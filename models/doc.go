// Package models says which schema each database's generated types come from, and what a server
// may lack of it. The types are in the packages nb, sb and vswitch.
package models

//go:generate go tool modelgen -extended -p nb -o nb schemas/ovn-nb.ovsschema
//go:generate go tool modelgen -extended -p sb -o sb schemas/ovn-sb.ovsschema
//go:generate go tool modelgen -extended -p vswitch -o vswitch schemas/vswitch.ovsschema
