package trace

import (
	"context"
	"fmt"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovsdb"
)

// northboundServer is the database's server for one trace.
type northboundServer struct{ *ovsdb.Client }

// rule is an ACL.
type rule struct {
	owner, key    string
	match, action string
	direction     string
}

func (r *rule) refuses() bool { return r.action == nb.ACLActionDrop || r.action == nb.ACLActionReject }

// mark is what the rule stands for, if it is a policy's.
func (r *rule) mark() (explain.Mark, bool) { return explain.ParseMark(r.owner, r.key) }

// rules are all ACLs, by the first 32 bits of their UUIDs.
func (n *northboundServer) rules(ctx context.Context) (map[string]*rule, error) {
	rows, err := rowsOf(ctx, n.Client, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: nb.ACLTable,
		Columns: []string{"_uuid", "match", "action", "direction", "external_ids"}, Where: []libovsdb.Condition{}})
	found := map[string]*rule{}
	for _, row := range rows {
		ids := ovsdb.TextMap(row["external_ids"])
		r := &rule{owner: ids[ovsdb.OwnerMark], key: ids[ovsdb.KeyMark]}
		r.match, _ = row["match"].(string)
		r.action, _ = row["action"].(string)
		r.direction, _ = row["direction"].(string)
		found[ovsdb.FirstBits(ovsdb.TextUUID(row["_uuid"]))] = r
	}
	return found, err
}

// owners are those of a table's rows, by the first 32 bits of their UUIDs.
func (n *northboundServer) owners(ctx context.Context, table string) (map[string]string, error) {
	rows, err := rowsOf(ctx, n.Client, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: table,
		Columns: []string{"_uuid", "external_ids"}, Where: []libovsdb.Condition{}})
	found := map[string]string{}
	for _, row := range rows {
		found[ovsdb.FirstBits(ovsdb.TextUUID(row["_uuid"]))] = ovsdb.TextMap(row["external_ids"])[ovsdb.OwnerMark]
	}
	return found, err
}

// nodePort is the owner of the load balancer that has a port at the addresses of all nodes; "" is none.
func (n *northboundServer) nodePort(ctx context.Context, protocol string, port uint16) (owner string, err error) {
	rows, err := rowsOf(ctx, n.Client, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: nb.LoadBalancerTable,
		Columns: []string{"vips", "protocol", "external_ids"}, Where: []libovsdb.Condition{
			libovsdb.NewCondition("options", libovsdb.ConditionIncludes,
				libovsdb.OvsMap{GoMap: map[any]any{"template": "true"}}),
			libovsdb.NewCondition("protocol", libovsdb.ConditionEqual, protocol)}})
	for _, row := range rows {
		for vip := range ovsdb.TextMap(row["vips"]) {
			if strings.HasSuffix(vip, fmt.Sprintf(":%d", port)) {
				return ovsdb.TextMap(row["external_ids"])[ovsdb.OwnerMark], err
			}
		}
	}
	return "", err
}
