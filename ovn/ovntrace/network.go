package ovntrace

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
)

// readScope asks a Southbound how its datapaths are joined, and where a packet enters.
func readScope(ctx context.Context, southbound string, p Packet) (*scope, error) {
	model, err := sb.FullDatabaseModel()
	if err != nil {
		return nil, err
	}
	var s *scope
	err = ovsdb.Ask(ctx, ovsdb.Config{Endpoints: southbound, Model: model}, func(client *ovsdb.Client) error {
		ports := func(where ...libovsdb.Condition) libovsdb.Operation {
			return libovsdb.Operation{Op: libovsdb.OperationSelect, Table: sb.PortBindingTable, Where: where,
				Columns: []string{"logical_port", "datapath", "mac", "options"}}
		}
		kind := func(kind string) libovsdb.Operation {
			return ports(libovsdb.NewCondition("type", libovsdb.ConditionEqual, kind))
		}
		results, err := client.Transact(ctx,
			libovsdb.Operation{Op: libovsdb.OperationSelect, Table: sb.DatapathBindingTable, Where: []libovsdb.Condition{},
				Columns: []string{"_uuid", "external_ids"}},
			ports(libovsdb.NewCondition("logical_port", libovsdb.ConditionEqual, p.Inport)), kind("patch"), kind("l3gateway"))
		if err != nil {
			return fmt.Errorf("read the datapaths of the Southbound: %w", err)
		}
		n := newNetwork(results[0].Rows, append(results[2].Rows, results[3].Rows...))
		s = newScope(n, p)
		for _, row := range results[1].Rows {
			s.enters(ovsdb.TextUUID(row["datapath"]))
		}
		return nil
	})
	return s, err
}

// newNetwork is made of rows of Datapath_Binding, and of those of Port_Binding that join them.
func newNetwork(datapaths, ports []libovsdb.Row) *network {
	n := &network{names: map[string][]string{}, peers: map[string][]string{}}
	for _, row := range datapaths {
		ids := ovsdb.TextMap(row["external_ids"])
		name := cmp.Or(ids["name"], ids["logical-switch"], ids["logical-router"])
		n.names[name] = append(n.names[name], ovsdb.TextUUID(row["_uuid"]))
	}
	of := map[string]string{}
	for _, row := range ports {
		name, _ := row["logical_port"].(string)
		of[name] = ovsdb.TextUUID(row["datapath"])
	}
	for _, row := range ports {
		here := ovsdb.TextUUID(row["datapath"])
		there, joined := of[ovsdb.TextMap(row["options"])["peer"]]
		if !joined {
			continue
		}
		n.peers[here] = append(n.peers[here], there)
		for _, mac := range ovsdb.Texts(row["mac"]) { // of a router's port, with its networks
			for _, word := range strings.Fields(mac) {
				if prefix, err := netip.ParsePrefix(word); err == nil {
					n.attached = append(n.attached, attached{prefix.Masked(), []string{here, there}})
				}
			}
		}
	}
	return n
}
