package hits

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovsdb"
)

// rules of policies, with the cookies of their flows. Rules whose ACLs' UUIDs begin alike have the same flows, as far
// as anybody can tell: what these have counted is then told of each.
type rules struct {
	list    []rule
	cookies []uint32
	of      map[uint32][]int // of a cookie, indices in list
}

type rule struct {
	mark   explain.Mark
	action string
}

// readRules reads ACLs and their logical flows.
func readRules(ctx context.Context, config Config) (*rules, error) {
	list, hinted, err := readACLs(ctx, config.Northbound)
	if err != nil {
		return nil, fmt.Errorf("ovn-northbound: %w", err)
	}
	flows, err := readFlows(ctx, config.Southbound)
	if err != nil {
		return nil, fmt.Errorf("ovn-southbound: %w", err)
	}
	of := map[uint32][]int{}
	for cookie, hint := range flows {
		if rules := hinted[hint]; rules != nil {
			of[cookie] = rules
		}
	}
	return &rules{list: list, cookies: slices.Sorted(maps.Keys(of)), of: of}, nil
}

// readACLs gives the rules, and their indices by the first 32 bits of the UUIDs of their ACLs, as eight digits.
func readACLs(ctx context.Context, config ovsdb.Config) (list []rule, hinted map[string][]int, err error) {
	if config.Model, err = nb.FullDatabaseModel(); err != nil {
		return nil, nil, err
	}
	rows, err := selectRows(ctx, config, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: nb.ACLTable,
		Columns: []string{"_uuid", "action", "external_ids"}, Where: []libovsdb.Condition{}})
	if err != nil {
		return nil, nil, err
	}
	hinted = map[string][]int{}
	for _, row := range rows {
		ids := ovsdb.TextMap(row["external_ids"])
		mark, ok := explain.ParseMark(ids[ovsdb.OwnerMark], ids[ovsdb.KeyMark])
		if !ok {
			continue
		}
		action, _ := row["action"].(string)
		hint := ovsdb.FirstBits(ovsdb.TextUUID(row["_uuid"]))
		hinted[hint] = append(hinted[hint], len(list))
		list = append(list, rule{mark, explain.Action(action)})
	}
	return list, hinted, nil
}

// stages are those of ovn-northd that judge ACLs, under their names since OVN 23.06 and before.
var stages = []string{"ls_in_acl_eval", "ls_in_acl_after_lb_eval", "ls_out_acl_eval", "ls_in_acl", "ls_in_acl_after_lb",
	"ls_out_acl"}

// readFlows gives the hints of the logical flows of ACLs by their cookies.
func readFlows(ctx context.Context, config ovsdb.Config) (map[uint32]string, error) {
	var err error
	if config.Model, err = sb.FullDatabaseModel(); err != nil {
		return nil, err
	}
	var operations []libovsdb.Operation
	for _, stage := range stages {
		operations = append(operations, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: sb.LogicalFlowTable,
			Columns: []string{"_uuid", "external_ids"},
			Where: []libovsdb.Condition{{Column: "external_ids", Function: libovsdb.ConditionIncludes,
				Value: libovsdb.OvsMap{GoMap: map[any]any{"stage-name": stage}}}}})
	}
	rows, err := selectRows(ctx, config, operations...)
	if err != nil {
		return nil, err
	}
	flows := map[uint32]string{}
	for _, row := range rows {
		hint := ovsdb.TextMap(row["external_ids"])["stage-hint"]
		if hint == "" {
			continue
		}
		cookie, err := strconv.ParseUint(ovsdb.FirstBits(ovsdb.TextUUID(row["_uuid"])), 16, 32)
		if err != nil {
			return nil, fmt.Errorf("a row of Logical_Flow has the UUID %v: %w", row["_uuid"], err)
		}
		flows[uint32(cookie)] = hint
	}
	return flows, nil
}

// selectRows asks a server once, and keeps no replica.
func selectRows(ctx context.Context, config ovsdb.Config, operations ...libovsdb.Operation) (rows []libovsdb.Row,
	err error) {
	err = ovsdb.Ask(ctx, config, func(client *ovsdb.Client) error {
		results, err := client.Transact(ctx, operations...)
		for _, r := range results {
			rows = append(rows, r.Rows...)
		}
		return err
	})
	return rows, err
}
