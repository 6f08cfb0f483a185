package acl

import (
	"errors"
	"fmt"
	"maps"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// Rows are the Northbound rows that decide on packets. Without Switches, all ports are taken to be on
// one switch.
type Rows struct {
	ACLs        []*nb.ACL
	PortGroups  []*nb.PortGroup
	AddressSets []*nb.AddressSet
	Ports       []*nb.LogicalSwitchPort
	Switches    []*nb.LogicalSwitch
}

// FromChanges gives the rows that a Northbound has with these changes in it, and nothing else. Rows of
// other tables are passed over. Values for a set of a row that is not among them are an error, except
// for a switch, which is made up: its name is its UUID.
func FromChanges(changes []ovsdb.Change) (Rows, error) {
	var rows Rows
	sets := map[string]map[string]*[]string{} // by the row's UUID and the column
	for _, change := range changes {
		for _, row := range change.Rows {
			rows.add(change.Owner, row, sets)
		}
	}
	var errs []error
	for _, change := range changes {
		for _, m := range change.Memberships {
			if sets[m.UUID] == nil && m.Table == nb.LogicalSwitchTable {
				made := &nb.LogicalSwitch{UUID: m.UUID, Name: m.UUID}
				rows.Switches = append(rows.Switches, made)
				sets[m.UUID] = map[string]*[]string{"ports": &made.Ports, "acls": &made.ACLs}
			}
			switch m.Table {
			case nb.LogicalSwitchTable, nb.PortGroupTable, nb.AddressSetTable:
			default:
				continue
			}
			if sets[m.UUID] == nil {
				errs = append(errs, fmt.Errorf("%s has values for %s of %s %s, which is not among the rows: add the row, or "+
					"leave the values out", change.Owner, m.Column, m.Table, m.UUID))
			} else if column := sets[m.UUID][m.Column]; column != nil {
				*column = append(*column, m.Values...)
			}
		}
	}
	return rows, errors.Join(errs...)
}

// add copies a row, with its UUID and marks, and remembers the columns that others add to.
func (r *Rows) add(owner ovsdb.Owner, row ovsdb.Row, sets map[string]map[string]*[]string) {
	marks := func(ids map[string]string) map[string]string {
		marked := map[string]string{ovsdb.OwnerMark: string(owner), ovsdb.KeyMark: row.Key}
		maps.Copy(marked, ids)
		return marked
	}
	switch m := row.Model.(type) {
	case *nb.ACL:
		c := m.DeepCopy()
		c.UUID, c.ExternalIDs = ovsdb.ID(nb.ACLTable, owner, row.Key), marks(c.ExternalIDs)
		r.ACLs = append(r.ACLs, c)
	case *nb.PortGroup:
		c := m.DeepCopy()
		c.UUID, c.ExternalIDs = ovsdb.ID(nb.PortGroupTable, owner, row.Key), marks(c.ExternalIDs)
		r.PortGroups = append(r.PortGroups, c)
		sets[c.UUID] = map[string]*[]string{"ports": &c.Ports, "acls": &c.ACLs}
	case *nb.AddressSet:
		c := m.DeepCopy()
		c.UUID, c.ExternalIDs = ovsdb.ID(nb.AddressSetTable, owner, row.Key), marks(c.ExternalIDs)
		r.AddressSets = append(r.AddressSets, c)
		sets[c.UUID] = map[string]*[]string{"addresses": &c.Addresses}
	case *nb.LogicalSwitchPort:
		c := m.DeepCopy()
		c.UUID, c.ExternalIDs = ovsdb.ID(nb.LogicalSwitchPortTable, owner, row.Key), marks(c.ExternalIDs)
		r.Ports = append(r.Ports, c)
	case *nb.LogicalSwitch:
		c := m.DeepCopy()
		c.UUID, c.ExternalIDs = ovsdb.ID(nb.LogicalSwitchTable, owner, row.Key), marks(c.ExternalIDs)
		r.Switches = append(r.Switches, c)
		sets[c.UUID] = map[string]*[]string{"ports": &c.Ports, "acls": &c.ACLs}
	}
}
