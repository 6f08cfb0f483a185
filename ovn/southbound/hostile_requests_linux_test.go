package southbound

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// pick takes one at random.
func pick[T any](h *hostile, list ...T) T { return list[h.random.IntN(len(list))] }

// favourites are the tables that a node writes, which are asked for most.
var favourites = []string{"Port_Binding", "Port_Binding", "MAC_Binding", "FDB", "Chassis", "Chassis_Private", "Encap",
	"IGMP_Group", "Controller_Event", "BFD", "Service_Monitor"}

// usual are columns that nodes write, which are written most.
var usual = map[string][]string{
	"Port_Binding": {"additional_chassis", "additional_encap", "chassis", "encap", "options", "up", "virtual_parent"},
	"MAC_Binding":  {"mac", "timestamp"},
	"FDB":          {"port_key", "timestamp"},
	"Chassis":      {"encaps", "external_ids", "hostname", "nb_cfg"},
}

// transaction is a request at random, about the rows that there are.
func (h *hostile) transaction(now content) string {
	h.inserts = 0
	operations := []string{`"OVN_Southbound"`}
	for range 1 + h.random.IntN(3)*h.random.IntN(2)*h.random.IntN(2) {
		table := pick(h, favourites...)
		if h.random.IntN(8) == 0 {
			table = pick(h, slices.Sorted(maps.Keys(h.columns))...)
		}
		if operation := h.operation(now, table); !h.isEnd(operation) {
			operations = append(operations, operation)
		}
	}
	return "[" + strings.Join(operations, ",") + "]"
}

// isEnd says whether an operation deletes the node's own chassis, without which it could do little.
func (h *hostile) isEnd(text string) bool {
	var o object
	return json.Unmarshal([]byte(text), &o) == nil && o.text("op") == "delete" && o.text("table") == "Chassis" &&
		strings.Contains(string(o["where"]), h.chassis)
}

func (h *hostile) operation(now content, table string) string {
	op := pick(h, "update", "update", "update", "insert", "insert", "mutate", "delete", "wait", "select", "abort",
		"Update")
	keys := [][2]string{{"op", quote(op)}, {"table", quote(table)}}
	switch op {
	case "update", "Update":
		keys = append(keys, [2]string{"where", h.where(now, table)}, [2]string{"row", h.row(now, table, 1+h.random.IntN(2))})
	case "insert":
		h.inserts++
		keys = append(keys, [2]string{"row", h.row(now, table, len(h.columns[table]))},
			[2]string{"uuid-name", quote(fmt.Sprint("row", h.inserts))})
		if h.random.IntN(4) == 0 { // that of another row, perhaps of another table
			keys = append(keys, [2]string{"uuid", quote(h.any(now, pick(h, append(favourites, "Datapath_Binding", table)...)))})
		}
	case "mutate":
		keys = append(keys, [2]string{"where", h.where(now, table)}, [2]string{"mutations", h.mutation(now, table)})
	case "delete", "select":
		keys = append(keys, [2]string{"where", h.where(now, table)})
	case "wait":
		keys = append(keys, [2]string{"where", h.where(now, table)}, [2]string{"timeout", pick(h, "0", "0", "1", "null")},
			[2]string{"until", `"=="`}, [2]string{"columns", `[]`}, [2]string{"rows", `[{}]`})
	}
	if h.random.IntN(10) == 0 { // what could be read in two ways
		decoy := pick(h, [2]string{"op", `"select"`}, [2]string{"op", `"delete"`}, [2]string{"Op", `"comment"`},
			[2]string{"table", `"FDB"`}, [2]string{"table", `"Chassis"`}, [2]string{"where", `[]`},
			[2]string{"row", `{}`}, [2]string{"mutations", `[]`}, [2]string{`\u006fp`, `"delete"`}, [2]string{"row", `null`})
		keys = slices.Insert(keys, h.random.IntN(len(keys)+1), decoy)
	}
	var text []string
	for _, pair := range keys {
		text = append(text, `"`+pair[0]+`":`+pair[1])
	}
	return "{" + strings.Join(text, ",") + "}"
}

func (h *hostile) where(now content, table string) string {
	uuid := `["uuid",` + quote(h.any(now, table)) + `]`
	if h.random.IntN(8) > 0 {
		return `[["_uuid","==",` + uuid + `]]`
	}
	return pick(h, `[]`, `[["_uuid","!=",`+uuid+`]]`, `[["_uuid","includes",`+uuid+`]]`, `[["_uuid","==",`+uuid+
		`],["_uuid","==",`+uuid+`]]`,
		`[["name","==","l1"]]`, `[["chassis_name","==","l2"]]`, `[["logical_port","==","pod1"]]`,
		`[["_uuid","==",["named-uuid","row1"]]]`)
}

// any is a row of a table.
func (h *hostile) any(now content, table string) string {
	if rows := slices.Sorted(maps.Keys(now[table])); len(rows) > 0 {
		id := pick(h, rows...)
		if table == "Port_Binding" && !slices.Contains(mine, now[table][id]["logical_port"].(string)) {
			id = pick(h, rows...) // rather one of its own
		}
		return id
	}
	return "00000000-0000-4000-8000-000000000000"
}

func (h *hostile) row(now content, table string, columns int) string {
	names := slices.Sorted(maps.Keys(h.columns[table]))
	if table == "MAC_Binding" && columns == len(names) && h.random.IntN(2) == 0 { // a datapath that is the port's
		port := now["Port_Binding"][h.any(now, "Port_Binding")]
		return fmt.Sprintf(`{"logical_port":%q,"datapath":["uuid",%q],"ip":"192.0.2.%d"}`, port["logical_port"],
			port["datapath"].([]any)[1], h.random.IntN(250))
	}
	if some := usual[table]; columns < len(names) && some != nil && h.random.IntN(4) > 0 {
		names = slices.Clone(some)
	}
	h.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var text []string
	for _, column := range names[:min(columns, len(names))] {
		text = append(text, quote(column)+":"+h.value(now, table, column))
	}
	if h.random.IntN(10) == 0 {
		column := pick(h, names...)
		text = append(text, quote(column)+":"+h.value(now, table, column))
	}
	return "{" + strings.Join(text, ",") + "}"
}

func (h *hostile) mutation(now content, table string) string {
	column := pick(h, append(slices.Sorted(maps.Keys(h.columns[table])), usual[table]...)...)
	return fmt.Sprintf(`[[%q,%q,%s]]`, column, pick(h, "insert", "delete", "insert", "+=", "-="),
		h.value(now, table, column))
}

// value is one that suits a column, of what there is in the database.
func (h *hostile) value(now content, table, column string) string {
	switch { // what has to fit for a row to be taken
	case table == "MAC_Binding" && (column == "datapath" || column == "logical_port"):
		port := now["Port_Binding"][h.any(now, "Port_Binding")]
		if column == "logical_port" {
			return quote(pick(h, "gw2", "gw1", "office", "dmz", "rtos-l1", "rtoj", port["logical_port"].(string)))
		}
		return `["uuid",` + quote(port["datapath"].([]any)[1].(string)) + `]`
	case column == "event_type":
		return `"empty_lb_backends"`
	case table == "Encap" && column == "type":
		return `"geneve"`
	case table == "Encap" && column == "ip":
		return quote(pick(h, "192.0.2.1", "192.0.2.2", "flow", "0.0.0.0", "ff02::1", "::ffff:192.0.2.2",
			fmt.Sprint("192.0.2.", h.random.IntN(250)), fmt.Sprint("198.51.100.", h.random.IntN(20))))
	case table == "Encap" && column == "options":
		return pick(h, `["map",[]]`, `["map",[["csum","true"]]]`, `["map",[["csum","false"],["is_default","true"]]]`,
			`["map",[["dst_port","53"]]]`, `["map",[["csum","true"],["key","7"]]]`)
	case column == "name", column == "chassis_name":
		return pick(h, `"l2"`, `"l2"`, `"l1"`, `"l3"`)
	case column == "dp_key":
		return pick(h, "1", "1", "3", "4", "9")
	case column == "port_key":
		return pick(h, "2", "2", "1", "3", "5")
	}
	var plain string
	raw := h.columns[table][column]
	if json.Unmarshal(raw, &plain) == nil {
		return h.atom(now, plain, "")
	}
	var kind struct {
		Key, Value json.RawMessage
		Min        int
		Max        any
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		h.Fatal(err)
	}
	base := func(raw json.RawMessage) string {
		var typed struct{ Type, RefTable string }
		var name string
		if json.Unmarshal(raw, &name) == nil {
			typed.Type = name
		} else if err := json.Unmarshal(raw, &typed); err != nil {
			h.Fatal(err)
		}
		return h.atom(now, typed.Type, typed.RefTable)
	}
	if kind.Value != nil {
		key := quote(pick(h, "requested-chassis", "l3gateway-chassis", "additional-chassis-activated", "vport-backoff",
			"peer"))
		return pick(h, `["map",[]]`, `["map",[[`+key+`,`+quote(pick(h, "l1", "l2"))+`]]]`, `["set",[`+key+`]]`)
	}
	one := base(kind.Key)
	if kind.Max == nil && kind.Min == 0 || kind.Max == "unlimited" {
		return pick(h, one, `["set",[`+one+`]]`, `["set",[]]`)
	}
	if kind.Min == 0 {
		return pick(h, one, one, `["set",[]]`)
	}
	return one
}

func (h *hostile) atom(now content, kind, table string) string {
	switch kind {
	case "integer":
		return fmt.Sprint(h.random.IntN(9))
	case "real":
		return "0.5"
	case "boolean":
		return pick(h, "true", "false")
	case "uuid":
		if table == "Chassis" && h.random.IntN(2) == 0 {
			return `["uuid",` + quote(h.chassis) + `]`
		}
		return pick(h, `["uuid",`+quote(h.any(now, table))+`]`, `["uuid",`+quote(h.any(now, table))+`]`,
			fmt.Sprintf(`["named-uuid","row%d"]`, 1+h.random.IntN(2)))
	}
	return quote(pick(h, "l1", "l2", "pod1", "gw1", "rtos-l1", "admin_down", "x", fmt.Sprint(h.random.IntN(100))))
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}
