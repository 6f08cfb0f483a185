package southbound

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzPermit judges transactions as wholes. Of what is permitted each new row is put together from all operations that
// are about it, as the server does, and has to be one that l2 may have; and what is sent is permitted again. Names in
// braces are UUIDs, as in southbound.names.
func FuzzPermit(f *testing.F) {
	const (
		address = `{"op":"insert","table":"FDB","uuid-name":"a","row":{"dp_key":1,"port_key":2,"mac":"f9"}}`
		tunnel  = `{"op":"insert","table":"Encap","uuid-name":"a","row":{"chassis_name":"l2","type":"geneve","ip":"198.51.100.2"}}`
		about   = `"where":[["_uuid","==",["named-uuid","a"]]]`
	)
	for _, seed := range []string{
		address, tunnel,
		strings.Replace(address, `"uuid-name":"a"`, `"uuid":"{pod1}"`, 1),
		address + `,{"op":"update","table":"FDB",` + about + `,"row":{"port_key":1}}`,
		address + `,{"op":"update","table":"FDB",` + about + `,"row":{"timestamp":1}},{"op":"update","table":"FDB",` + about +
			`,"row":{"port_key":1}}`,
		tunnel + `,{"op":"update","table":"Encap",` + about + `,"row":{"ip":"flow"}}`,
		tunnel + `,{"op":"mutate","table":"Encap",` + about +
			`,"mutations":[["options","insert",["map",[["dst_port","53"]]]]]}`,
		tunnel + `,{"op":"mutate","table":"Chassis","where":[["_uuid","==",["uuid","{l2}"]]],"mutations":[["encaps","insert",["named-uuid","a"]]]}`,
		`{"op":"update","table":"FDB","where":[["_uuid","==",["uuid","{f1}"]]],"row":{"port_key":2}},{"op":"update","table":"FDB","where":[["_uuid","==",["uuid","{f1}"]]],"row":{"port_key":1}}`,
		`{"op":"insert","table":"MAC_Binding","row":{"logical_port":"gw2","datapath":["uuid","{datapath of gw2}"],"ip":"192.0.2.7","mac":"m"}},{"op":"comment","comment":"x"}`,
		`{"op":"insert","table":"Chassis","row":{"name":"l2","hostname":"l1"}}`,
		`{"op":"insert","table":"Chassis","uuid-name":"a","row":{"name":"l2"}},{"op":"update","table":"Chassis",` + about +
			`,"row":{"hostname":"l9"}}`,
		`{"op":"insert","table":"Chassis","row":{"name":"l2","other_config":["map",[["is-remote","true"]]]}}`,
		`{"op":"insert","table":"Chassis","uuid-name":"a","row":{"name":"l2"}},{"op":"mutate","table":"Chassis",` + about +
			`,"mutations":[["other_config","insert",["map",[["is-remote","true"]]]]]}`,
		`{"op":"insert","table":"Chassis","row":{"name":"l2"}},{"op":"delete","table":"Chassis","where":[["_uuid","==",["uuid","{l2}"]]]}`,
	} {
		f.Add(seed)
	}
	s := newSouthbound(f)
	s.guard.patience, s.guard.log = time.Millisecond, slog.New(slog.NewTextHandler(io.Discard, nil))
	f.Fuzz(func(t *testing.T, operations string) {
		var params []json.RawMessage
		if json.Unmarshal([]byte(s.names.Replace(`["OVN_Southbound",`+operations+`]`)), &params) != nil {
			t.Skip("no operations")
		}
		node := &session{guard: s.guard, node: "l2"}
		if node.permit(t.Context(), "transact", params) != nil {
			return
		}
		sent := slices.Clone(params)
		for what, row := range result(t, params[1:]) {
			if why := l2s(row); why != "" {
				t.Errorf("%s becomes %v: %s", what, row, why)
			}
		}
		if err := node.permit(t.Context(), "transact", sent); err != nil {
			t.Errorf("%s was permitted, and what is sent is not: %v", params, err)
		}
		for i := range sent {
			if string(sent[i]) != string(params[i]) {
				t.Errorf("%s is sent as %s the next time", params[i], sent[i])
			}
		}
	})
}

// result is what a server makes of operations: the columns of new rows, and "table" and "options".
func result(t *testing.T, operations []json.RawMessage) map[string]map[string]json.RawMessage {
	rows := map[string]map[string]json.RawMessage{}
	for i, text := range operations {
		var o struct {
			Op, Table, UUID string
			Name            string `json:"uuid-name"`
			Where           []json.RawMessage
			Row             map[string]json.RawMessage
			Mutations       [][3]json.RawMessage
		}
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if o.UUID != "" || o.Op == "select" {
			t.Errorf("%s is sent", text)
		}
		if o.Op == "insert" {
			row := map[string]json.RawMessage{"table": json.RawMessage(o.Table)}
			maps.Copy(row, o.Row)
			rows[fmt.Sprint("row ", i, " ", o.Table, " ", o.Name)] = row
			continue
		}
		for name, row := range rows {
			words := strings.SplitN(name, " ", 4)
			if words[2] != o.Table || words[3] == "" || len(o.Where) != 1 || !strings.Contains(string(o.Where[0]),
				quote(words[3])) {
				continue
			}
			maps.Copy(row, o.Row)
			for _, m := range o.Mutations {
				row["mutated "+string(m[0])] = m[2]
			}
		}
	}
	return rows
}

// l2s says why a new row may not be l2's.
func l2s(row map[string]json.RawMessage) string {
	text := func(column string) (text string) {
		_ = json.Unmarshal(row[column], &text)
		return text
	}
	number := func(column string) (n int) {
		_ = json.Unmarshal(row[column], &n)
		return n
	}
	switch table := string(row["table"]); table {
	case "FDB":
		if number("dp_key") != 1 || number("port_key") != 2 && number("port_key") != 5 {
			if number("dp_key") != 3 || number("port_key") != 3 {
				return "that port is not l2's"
			}
		}
	case "Encap":
		options := string(row["options"]) + string(row[`mutated "options"`])
		if text("chassis_name") != "l2" || text("type") != "geneve" || !slices.Contains(tunnels, text("ip")) ||
			strings.Contains(options, "dst_port") {
			return "other chassis would have a wrong tunnel"
		}
	case "MAC_Binding":
		if !slices.Contains(append(routed, "rtos-l1"), text("logical_port")) || string(row["datapath"]) == "" {
			return "l2 has no such neighbours"
		}
	case "Chassis", "Chassis_Private":
		if text("name") != "l2" {
			return "it is another node's"
		}
		if name := text("hostname"); name != "l2" && name != "" {
			return "ports of a node of that name would be l2's"
		}
		if others := string(row["other_config"]) + string(row[`mutated "other_config"`]); strings.Contains(others, remoteKey) {
			return "other nodes would take it for a node of another zone"
		}
	case "IGMP_Group":
		if text("chassis_name") != "l2" {
			return "it is another node's"
		}
	default:
		return "a node makes none"
	}
	return ""
}
