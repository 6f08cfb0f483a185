package southbound

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/models/schemas"
	"github.com/weftnet/weft/ovsdb"
)

var requests = flag.Int("requests", 1000, "how many a hostile node makes")

// TestAHostileNode asks for anything at random, with the certificate of l2. Whatever the server has taken, the database
// is then compared with what it was: what belongs to l1, or to ovn-northd, is as before. Whose a thing is stands here
// by name, and not by what the guard thinks.
func TestAHostileNode(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	fewRows(t, 10)
	h := newHostile(t, seed)
	before := h.dump()
	for i := range *requests {
		if i%200 == 199 {
			h.anew()
			before = h.dump()
		}
		h.forgive() // that a node has to wait is tested elsewhere
		text := h.transaction(before)
		answer, err := ask(h.guarded, "transact", text)
		if err != nil {
			t.Fatalf("request %d, %s: %v", i, text, err)
		}
		if strings.Contains(answer, "permission error") {
			h.refused++
			continue
		}
		after := h.dump()
		for _, wrong := range h.overfull(after) {
			t.Errorf("request %d: %s\n%s\n%s", i, wrong, text, answer)
		}
		for _, wrong := range append(h.compare(before, after), consequences(before, after, text)...) {
			t.Errorf("request %d: %s\n%s\n%s", i, wrong, text, answer)
		}
		if t.Failed() {
			return
		}
		h.settle(after)
		before = after
	}
	t.Logf("%d of %d refused; rows that were changed: %v", h.refused, *requests, h.changed)
	total := 0
	for _, rows := range h.changed {
		total += rows
	}
	if total < *requests/100 {
		t.Errorf("%d rows were changed: this shows nothing", total)
	}
}

// content is a database: table, row, column.
type content map[string]map[string]map[string]any

type hostile struct {
	*southbound
	random           *rand.Rand
	guarded, direct  net.Conn
	columns          map[string]map[string]json.RawMessage // of the schema
	chassis          string                                // of l2
	refused, inserts int
	changed          map[string]int
	there            map[string]int // how many rows tables have at first
}

func newHostile(t *testing.T, seed uint64) *hostile {
	s := newSouthbound(t)
	s.guard.patience = time.Millisecond
	s.guard.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	h := &hostile{southbound: s, random: rand.New(rand.NewPCG(seed, 0)), columns: map[string]map[string]json.RawMessage{},
		changed: map[string]int{}, chassis: s.names.Replace("{l2}")}
	dial := func(endpoint string) net.Conn {
		conn, err := net.Dial("unix", strings.TrimPrefix(endpoint, "unix:"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	h.guarded, h.direct = dial(s.as("l2")), dial(s.server.Endpoint)
	var schema struct {
		Tables map[string]struct {
			Columns map[string]struct{ Type json.RawMessage }
		}
	}
	if err := json.Unmarshal(schemas.Southbound, &schema); err != nil {
		t.Fatal(err)
	}
	for name, table := range schema.Tables {
		h.columns[name] = map[string]json.RawMessage{}
		for column, c := range table.Columns {
			h.columns[name][column] = c.Type
		}
	}
	h.there = map[string]int{}
	for table, rows := range h.dump() {
		h.there[table] = len(rows)
	}
	return h
}

func (h *hostile) dump() content {
	tables := slices.Sorted(maps.Keys(h.columns))
	params := []any{"OVN_Southbound"}
	for _, table := range tables {
		params = append(params, map[string]any{"op": "select", "table": table, "where": []any{}})
	}
	text, err := json.Marshal(params)
	if err != nil {
		h.Fatal(err)
	}
	answer, err := ask(h.direct, "transact", string(text))
	if err != nil {
		h.Fatal(err)
	}
	var reply struct {
		Result []struct{ Rows []map[string]any }
	}
	if err := json.Unmarshal([]byte(answer), &reply); err != nil {
		h.Fatal(err)
	}
	c := content{}
	for i, table := range tables {
		c[table] = map[string]map[string]any{}
		for _, row := range reply.Result[i].Rows {
			delete(row, "_version")
			c[table][row["_uuid"].([]any)[1].(string)] = row
		}
	}
	return c
}

// mine are l2's ports, and those that whoever comes first has; routed are router ports on whose networks l2 has a port.
var (
	mine = []string{"pod2", "gw2", "etor2", "etor3", "cr2", "mgmt-l2"}
	open = []string{"free", "idle"}
	// outside are ports to networks outside, of switches with a port of l2's own.
	outside = []string{"localnet2", "localnet6", "localnet7"}
	routed  = []string{"gw2", "etor2", "etor3", "office", "yard"}
	// everywhere are router ports that are on all chassis.
	everywhere = []string{"rtos-l1", "office", "dmz", "yard", "rtoj"}
)

// holds says whether l2 has claimed an open port.
func (h *hostile) holds(c content, port string) bool {
	for _, row := range c["Port_Binding"] {
		if row["logical_port"] == port {
			return reflect.DeepEqual(row["chassis"], []any{"uuid", h.chassis})
		}
	}
	return false
}

// compare says what is wrong after a request.
func (h *hostile) compare(before, after content) []string {
	var wrong []string
	for table := range before {
		ids := maps.Clone(before[table])
		maps.Copy(ids, after[table])
		for id := range ids {
			old, now := before[table][id], after[table][id]
			if reflect.DeepEqual(old, now) {
				continue
			}
			h.changed[table]++
			if why := h.judge(before, table, old, now); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s: %s\nbefore %v\nafter %v", table, why, old, now))
			}
		}
	}
	return wrong
}

// judge says why a row may not become another one: nil is one that is not there.
func (h *hostile) judge(before content, table string, old, now map[string]any) string {
	var written []string
	for column := range now {
		if old != nil && !reflect.DeepEqual(old[column], now[column]) {
			written = append(written, column)
		}
	}
	only := func(columns ...string) string {
		for _, column := range written {
			if !slices.Contains(columns, column) {
				return "column " + column + " is not a node's"
			}
		}
		return ""
	}
	own := []any{[]any{"uuid", h.chassis}, []any{"set", []any{}}}
	is := func(row map[string]any, column string, allowed []any) bool {
		return slices.ContainsFunc(allowed, func(v any) bool { return reflect.DeepEqual(row[column], v) })
	}
	bears := func(column string) string {
		for _, row := range []map[string]any{old, now} {
			if row != nil && row[column] != "l2" {
				return "it is not l2's"
			}
		}
		return ""
	}
	switch table {
	case "Chassis", "Chassis_Private":
		return bears("name")
	case "Encap":
		if now != nil && now["type"] != "geneve" {
			return "all would have to do with VXLAN's keys"
		}
		if now != nil {
			return cmp.Or(bears("chassis_name"), tunnelPort(now))
		}
		return bears("chassis_name")
	case "IGMP_Group":
		for _, port := range names(now["ports"]) {
			name := before["Port_Binding"][port]["logical_port"].(string)
			if !slices.Contains(mine, name) && !slices.Contains(outside, name) && !(slices.Contains(open, name) &&
				h.holds(before, name)) {
				return "port " + name + " is not l2's"
			}
		}
		return bears("chassis_name")
	case "BFD", "Service_Monitor":
		if old == nil || now == nil {
			return "a node makes and deletes none"
		}
		return bears("chassis_name") + only("status")
	case "MAC_Binding":
		if now == nil {
			return "a node deletes none"
		}
		port := now["logical_port"].(string)
		if old != nil && slices.Contains(everywhere, port) && only("timestamp") == "" {
			return "" // each node says when it was last heard of
		}
		if !slices.Contains(routed, port) && !(port == "rtos-l1" && h.holds(before, "idle")) {
			return "l2 has no part in what is behind port " + port
		}
		return only("mac", "timestamp")
	case "FDB":
		if now == nil {
			return "a node deletes none"
		}
		at := fmt.Sprint(now["dp_key"], "/", now["port_key"])
		if at != "1/2" && !(at == "1/5" && h.holds(before, "free")) && !(at == "3/3" && h.holds(before, "idle")) {
			return "that port is not l2's"
		}
		return only("port_key", "timestamp")
	case "Port_Binding":
		if old == nil || now == nil {
			return "a node makes and deletes none"
		}
		if port := old["logical_port"].(string); !slices.Contains(mine, port) && !(slices.Contains(open, port) &&
			is(old, "chassis", own)) {
			return "port " + port + " is not l2's"
		}
		if slices.Contains(written, "chassis") && !is(now, "chassis", own) {
			return "it is bound away"
		}
		options := func(row map[string]any) string {
			kept := slices.DeleteFunc(slices.Clone(row["options"].([]any)[1].([]any)), func(pair any) bool {
				return slices.Contains([]any{"additional-chassis-activated", "ipv6_ra_pd_list", "vport-backoff",
					"vport-last-claim"}, pair.([]any)[0])
			})
			return fmt.Sprint(kept)
		}
		if options(old) != options(now) {
			return "it is meant for somebody else now"
		}
		return only("additional_chassis", "additional_encap", "chassis", "encap", "options", "up", "virtual_parent")
	}
	return "the table is no node's"
}

// anew has the node delete its chassis and make it again, with another UUID.
func (h *hostile) anew() {
	for _, request := range []string{`{"op":"delete","table":"Chassis","where":[["_uuid","==",["uuid","` + h.chassis +
		`"]]]}`, newChassis} {
		h.until("the chassis is not made anew", func() bool { // the guard may know the last one still
			answer, err := ask(h.guarded, "transact", `["OVN_Southbound",`+request+`]`)
			if err != nil {
				h.Fatal(err)
			}
			return !strings.Contains(answer, `"error":"`)
		})
	}
	for id, row := range h.dump()["Chassis"] {
		if row["name"] == "l2" {
			h.chassis = id
		}
	}
}

// overfull are tables of which one has more rows than its bound.
func (h *hostile) overfull(c content) (wrong []string) {
	for table, bound := range bounds {
		if bound.rows == 0 {
			continue
		}
		makers := map[string]int{}
		for _, row := range c[table] {
			makers[fmt.Sprint(row["chassis_name"], row["logical_port"], row["dp_key"])]++
		}
		for maker, n := range makers {
			if n > bound.rows {
				wrong = append(wrong, fmt.Sprintf("%d rows of %s in table %s, of %d", n, maker, table, bound.rows))
			}
		}
	}
	for table := range c {
		if bounds[table].rows == 0 && len(c[table]) > h.there[table] {
			wrong = append(wrong, "table "+table+" has no bound, and more rows than before")
		}
	}
	return wrong
}

// names are the UUIDs of a set of rows, or of a single one.
func names(value any) (list []string) {
	pair, ok := value.([]any)
	switch {
	case !ok:
	case pair[0] == "uuid":
		list = append(list, pair[1].(string))
	default:
		for _, element := range pair[1].([]any) {
			list = append(list, names(element)...)
		}
	}
	return list
}

// settle waits until the guard knows what the server has.
func (h *hostile) settle(c content) {
	h.until("the guard does not see what there is", func() bool {
		return len(ovsdb.List[sb.MACBinding](h.guard.replica.Client, nil)) == len(c["MAC_Binding"]) &&
			len(ovsdb.List[sb.FDB](h.guard.replica.Client, nil)) == len(c["FDB"]) &&
			!slices.ContainsFunc(ovsdb.List[sb.PortBinding](h.guard.replica.Client, nil), func(port *sb.PortBinding) bool {
				return slices.Contains(open, port.LogicalPort) && h.guard.replica.is(port.Chassis, "l2") != h.holds(c,
					port.LogicalPort)
			})
	})
}
