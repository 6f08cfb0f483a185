// Package hits counts the packets that meet the rules of network policies on a node.
//
// A rule is an ACL of the Northbound. ovn-northd makes logical flows of it, which name it by the first 32 bits
// of its UUID (external_ids:stage-hint), and ovn-controller makes OpenFlow flows of those, whose cookie is the
// first 32 bits of the logical flow's UUID. Open vSwitch counts what meets a flow.
//
// A connection's packets in the direction of its first one are counted, those of the other direction are not:
// OVN lets these pass without asking ACLs. Of two rules with the same match on the same pods, one counts for
// both.
package hits

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovsdb"
)

// Count is what a rule has met.
type Count struct {
	// Policy is its kind and name.
	Policy string `json:"policy"`
	// Rule is its field, as "spec.ingress[0]", with the port's name where it has an ACL a number, or "isolation
	// from ingress".
	Rule    string `json:"rule"`
	Action  string `json:"action"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Config says where to look.
type Config struct {
	Northbound, Southbound ovsdb.Config
	// Bridges are names, or where ovs-vswitchd or a chassis host takes OpenFlow connections: unix:PATH.
	Bridges []string
	// Program is ovs-ofctl: a path, or a name in PATH.
	Program string
}

// Read gives the counts of the rules that have flows on the bridges, those of all bridges together, sorted
// by policy and rule.
func Read(ctx context.Context, config Config) ([]Count, error) {
	rules, err := readRules(ctx, config.Northbound)
	if err != nil {
		return nil, fmt.Errorf("ovn-northbound: %w", err)
	}
	flows, err := readFlows(ctx, config.Southbound)
	if err != nil {
		return nil, fmt.Errorf("ovn-southbound: %w", err)
	}
	wanted := map[flow]*Count{}
	for f, hint := range flows {
		if r := rules[hint]; r != nil {
			wanted[f] = r
		}
	}
	seen := map[*Count]bool{}
	for _, bridge := range config.Bridges {
		if err := count(ctx, config.Program, bridge, wanted, seen); err != nil {
			return nil, err
		}
	}
	var list []Count
	for r := range seen {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Rule, b.Rule))
	})
	return list, nil
}

// readRules gives the ACLs of policies by the first 32 bits of their UUID, as eight digits. Should two share
// them, they are told as one.
func readRules(ctx context.Context, config ovsdb.Config) (map[string]*Count, error) {
	var err error
	if config.Model, err = nb.FullDatabaseModel(); err != nil {
		return nil, err
	}
	rows, err := selectRows(ctx, config, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: nb.ACLTable,
		Columns: []string{"_uuid", "action", "external_ids"}, Where: []libovsdb.Condition{}})
	if err != nil {
		return nil, err
	}
	rules := map[string]*Count{}
	for _, row := range rows {
		ids := textMap(row["external_ids"])
		mark, ok := explain.ParseMark(ids[ovsdb.OwnerMark], ids[ovsdb.KeyMark])
		if !ok {
			continue
		}
		action, _ := row["action"].(string)
		r := &Count{Policy: mark.Policy(), Rule: ruleName(mark), Action: explain.Action(action)}
		hint := firstBits(row["_uuid"])
		if twin := rules[hint]; twin != nil {
			r = &Count{Policy: twin.Policy + " or " + r.Policy, Rule: twin.Rule + " or " + r.Rule, Action: twin.Action}
		}
		rules[hint] = r
	}
	return rules, nil
}

func ruleName(m explain.Mark) string {
	switch {
	case m.Rule == "":
		return "isolation from " + m.Direction.String()
	case m.Port != "":
		return m.Rule + ", port " + m.Port
	}
	return m.Rule
}

// flow is how an OpenFlow flow names its logical flow.
type flow struct {
	cookie   uint64
	priority int
}

// stages are those of ovn-northd that judge ACLs.
var stages = []string{"ls_in_acl_eval", "ls_in_acl_after_lb_eval", "ls_out_acl_eval"}

// readFlows gives the hints of the logical flows of ACLs. It reads as ovn-controller does, by a monitor: `weft southbound`
// lets nobody select.
func readFlows(ctx context.Context, config ovsdb.Config) (map[flow]string, error) {
	var err error
	if config.Model, err = sb.FullDatabaseModel(); err != nil {
		return nil, err
	}
	config.Tables, config.AnyMember = []ovsdb.Table{{Model: &sb.LogicalFlow{}, Read: []string{"priority", "external_ids"}}}, true
	client, err := ovsdb.Connect(ctx, config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	flows := map[flow]string{}
	for _, row := range ovsdb.List[sb.LogicalFlow](client, nil) {
		hint := row.ExternalIDs["stage-hint"]
		if hint == "" || !slices.Contains(stages, row.ExternalIDs["stage-name"]) {
			continue
		}
		digits, _, _ := strings.Cut(row.UUID, "-")
		cookie, err := strconv.ParseUint(digits, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("a row of Logical_Flow has the UUID %q: %w", row.UUID, err)
		}
		flows[flow{cookie, row.Priority}] = hint
	}
	return flows, nil
}

// selectRows asks a server once, and keeps no replica.
func selectRows(ctx context.Context, config ovsdb.Config, operations ...libovsdb.Operation) ([]libovsdb.Row, error) {
	client, err := ovsdb.Connect(ctx, config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	results, err := client.Transact(ctx, operations...)
	if err != nil {
		return nil, err
	}
	var rows []libovsdb.Row
	for _, r := range results {
		rows = append(rows, r.Rows...)
	}
	return rows, nil
}

func textMap(value any) map[string]string {
	m, _ := value.(libovsdb.OvsMap)
	texts := make(map[string]string, len(m.GoMap))
	for k, v := range m.GoMap {
		texts[fmt.Sprint(k)] = fmt.Sprint(v)
	}
	return texts
}

// firstBits are the first 32 of a UUID, as eight digits.
func firstBits(value any) string {
	id, _ := value.(libovsdb.UUID)
	digits, _, _ := strings.Cut(id.GoUUID, "-")
	return digits
}
