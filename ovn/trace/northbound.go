package trace

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovn/northbound"
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

// gatewaysOf are the nodes whose gateway routers have a load balancer of their own with endpoints at an address,
// sorted. One that all have is none of these.
func (n *northboundServer) gatewaysOf(ctx context.Context, address netip.Addr) (nodes []string, err error) {
	all := func(table string, columns ...string) libovsdb.Operation {
		return libovsdb.Operation{Op: libovsdb.OperationSelect, Table: table, Columns: columns,
			Where: []libovsdb.Condition{}}
	}
	rows, err := rowsOf(ctx, n.Client, all(nb.LoadBalancerTable, "_uuid", "vips"))
	if err != nil {
		return nil, err
	}
	serving := map[string]bool{}
	for _, row := range rows {
		for vip, endpoints := range ovsdb.TextMap(row["vips"]) {
			if at, err := netip.ParseAddrPort(vip); err == nil && at.Addr() == address && endpoints != "" {
				serving[ovsdb.TextUUID(row["_uuid"])] = true
			}
		}
	}
	routers, err := rowsOf(ctx, n.Client, all(nb.LogicalRouterTable, "name", "load_balancer"))
	for _, row := range routers {
		name, _ := row["name"].(string)
		node, isGateway := strings.CutPrefix(name, gatewayPrefix)
		if isGateway && slices.ContainsFunc(ovsdb.TextUUIDs(row["load_balancer"]), func(id string) bool {
			return serving[id]
		}) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes, err
}

// nodePort is a Service's port at the addresses of all nodes.
type nodePort struct {
	service   string           // namespace/name
	endpoints []netip.AddrPort // that clients within the cluster get, sorted
}

// nodePort finds whose a port of a family is; nil is nobody's. Load balancers of NodePorts have keys like
// tcp/nodeport4@l1. Those of gateway routers may have fewer endpoints.
func (n *northboundServer) nodePort(ctx context.Context, protocol string, ipv4 bool, port uint16) (*nodePort, error) {
	rows, err := rowsOf(ctx, n.Client, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: nb.LoadBalancerTable,
		Columns: []string{"vips", "external_ids"}, Where: []libovsdb.Condition{
			libovsdb.NewCondition("protocol", libovsdb.ConditionEqual, protocol)}})
	if err != nil {
		return nil, err
	}
	var found *nodePort
	sort, end := protocol+"/nodeport"+northbound.IPVersion(ipv4), fmt.Sprintf(":%d", port)
	for _, row := range rows {
		ids := ovsdb.TextMap(row["external_ids"])
		service, ofService := strings.CutPrefix(ids[ovsdb.OwnerMark], "Service/")
		key, scope, _ := strings.Cut(ids[ovsdb.KeyMark], "@")
		if !ofService || key != sort && key != sort+"/refused" {
			continue
		}
		for vip, endpoints := range ovsdb.TextMap(row["vips"]) {
			if !strings.HasSuffix(vip, end) {
				continue
			}
			if found == nil {
				found = &nodePort{service: service}
			}
			if !strings.HasPrefix(scope, "gw=") {
				found.endpoints = append(found.endpoints, addrPorts(endpoints)...)
			}
		}
	}
	if found != nil {
		slices.SortFunc(found.endpoints, netip.AddrPort.Compare)
		found.endpoints = slices.Compact(found.endpoints)
	}
	return found, nil
}

func addrPorts(text string) (list []netip.AddrPort) {
	for one := range strings.SplitSeq(text, ",") {
		if at, err := netip.ParseAddrPort(one); err == nil {
			list = append(list, at)
		}
	}
	return list
}
