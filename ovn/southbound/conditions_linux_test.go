package southbound

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestConditions(t *testing.T) {
	datapath := `["datapath","==",["uuid","00000000-0000-4000-8000-000000000000"]]`
	for _, c := range []struct{ what, table, request, want, refused string }{
		{"all columns", "Chassis", `{}`, `[{}]`, ""},
		{"some columns", "Chassis", `[{"columns":["name"],"select":{"initial":true}}]`,
			`[{"columns":["name"],"select":{"initial":true}}]`, ""},
		{"everything, and nothing", "Chassis", `{"where":[true,false]}`, `[{"where":[true,false]}]`, ""},
		{"a condition", "MAC_Binding", `{"where":[` + datapath + `]}`, `[{"where":[` + datapath + `]}]`, ""},
		{"one of another table", "FDB", `{"where":[` + datapath + `]}`, "", "is none that ovn-controller uses"},
		{"one of another database", "Database", `{"where":[["name","==","x"]]}`, "", "is none that ovn-controller uses"},
		{"a column that another function is used of", "DNS", `{"where":[["datapaths","==",["set",[]]]]}`, "",
			"is none that ovn-controller uses"},
		{"one that is not hashed", "Logical_Flow", `{"where":[["table_id","<",0]]}`, "", "is none that ovn-controller uses"},
		{"one that excludes", "Port_Binding", `{"where":[["options","excludes",["map",[]]]]}`, "",
			"is none that ovn-controller uses"},
		{"as many as there may be", "MAC_Binding", `{"where":[` + strings.Repeat(datapath+",", maxClauses-1) + datapath +
			`]}`,
			`[{"where":[` + strings.Repeat(datapath+",", maxClauses-1) + datapath + `]}]`, ""},
		{"one more", "MAC_Binding", `{"where":[` + strings.Repeat(datapath+",", maxClauses) + datapath + `]}`,
			`[{"where":[true]}]`, ""},
		{"one more, that is bad", "MAC_Binding", `{"where":[` + strings.Repeat(datapath+",", maxClauses) +
			`["mac","!=","m"]]}`, "", "is none that ovn-controller uses"},
		{"a long one", "Port_Binding", `{"where":[["logical_port","==","` + strings.Repeat("x", maxClause) + `"]]}`, "",
			"more than the 400"},
		{"two of a table", "Chassis", `[{"columns":["name"]},{"columns":["nb_cfg"]}]`, "", "2 times in a monitor"},
		{"another member", "Chassis", `{"Where":[true]}`, "", `member "Where"`},
		{"no clause", "Chassis", `{"where":[["name"]]}`, "", "is no clause"},
		{"no list", "Chassis", `{"where":true}`, "", "is no list"},
	} {
		got, err := monitored(json.RawMessage(`{"` + c.table + `":` + c.request + `}`))
		switch {
		case (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused):
			t.Errorf("%s: %v, want %q", c.what, err, c.refused)
		case err == nil && string(got[c.table]) != c.want:
			t.Errorf("%s: %.300s, want %.300s", c.what, got[c.table], c.want)
		}
	}
}

// TestMonitorsOfAHostileNode: whatever it wants to be told of, the server gets conditions as ovn-controller has them,
// and not many; and who asks for such is told of no less than without the guard.
func TestMonitorsOfAHostileNode(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := newHostile(t, seed)
	h.guard.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	now := h.dump()
	passed, wide := 0, 0
	for i := range *requests / 2 {
		table := pick(h, slices.Sorted(maps.Keys(conditions))...)
		if h.columns[table] == nil { // of a later OVN
			continue
		}
		where := h.condition(now, table)
		request := func(guarded bool) string {
			h.forgive() // that a node has to wait is tested elsewhere
			conn, name := h.direct, "d"
			if guarded {
				conn, name = h.guarded, "g"
			}
			answer, err := ask(conn, "monitor_cond", fmt.Sprintf(`["OVN_Southbound","%s",{%q:[{"columns":[],"where":[%s]}]}]`,
				name, table, where))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ask(conn, "monitor_cancel", `["`+name+`"]`); err != nil {
				t.Fatal(err)
			}
			return answer
		}
		answer := request(true)
		if strings.Contains(answer, "permission error") {
			continue
		}
		for _, function := range []string{`"<`, `">`, `"excludes`} {
			if strings.Contains(where, function) {
				t.Fatalf("request %d: the server gets %s", i, where)
			}
		}
		plain := request(false)
		if strings.Contains(plain, `"error":{`) != strings.Contains(answer, `"error":{`) &&
			strings.Count(where, "[") < maxClauses {
			t.Fatalf("request %d: %s: %.300s; without the guard %.300s", i, where, answer, plain)
		}
		passed++
		got, want := rowsTold(t, answer, table), rowsTold(t, plain, table)
		for _, id := range want {
			if !slices.Contains(got, id) {
				t.Fatalf("request %d: %.300s: row %s is not told", i, where, id)
			}
		}
		if len(got) > len(want) {
			wide++
		}
	}
	t.Logf("%d of %d passed, %d told more", passed, *requests/2, wide)
	if passed < *requests/50 || wide == 0 {
		t.Error("this shows nothing")
	}
}

// rowsTold are the rows of an answer to a monitor.
func rowsTold(t *testing.T, answer, table string) []string {
	var reply struct{ Result map[string]map[string]any }
	if err := json.Unmarshal([]byte(answer), &reply); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(maps.Keys(reply.Result[table]))
}

// condition is one at random, more often than not as ovn-controller has it.
func (h *hostile) condition(now content, table string) string {
	var clauses []string
	usual := h.random.IntN(3) > 0
	for range pick(h, 1, 1, 2, 3, maxClauses, maxClauses+1) {
		c := pick(h, conditions[table]...)
		if !usual {
			c = clause{pick(h, slices.Sorted(maps.Keys(h.columns[table]))...), pick(h, "<", "<=", "==", "!=", ">=", ">",
				"includes", "excludes")}
		}
		clauses = append(clauses, fmt.Sprintf("[%q,%q,%s]", c.column, c.function, h.value(now, table, c.column)))
	}
	if h.random.IntN(10) == 0 {
		clauses = append(clauses, pick(h, "true", "false", `["_uuid","==",["uuid","`+h.any(now, table)+`"]]`))
	}
	return strings.Join(clauses, ",")
}

// flows gives the server so many logical flows.
func (s *southbound) flows(count int) {
	conn := s.dialled(s.server.Endpoint)
	for made := 0; made < count; {
		var text strings.Builder
		for range min(5000, count-made) {
			fmt.Fprintf(&text, `,{"op":"insert","table":"Logical_Flow","row":{"logical_datapath":["uuid","{datapath of pod1}"],"pipeline":"ingress","table_id":1,"priority":%d,"match":"ip4.src == 10.0.%d.%d","actions":"next;"}}`,
				made&0x7fff, made>>8, made&255)
			made++
		}
		answer, err := ask(conn, "transact", s.names.Replace(`["OVN_Southbound"`+text.String()+`]`))
		if err != nil || strings.Contains(answer, `"error":"`) {
			s.Fatalf("%v %.300s", err, answer)
		}
	}
}

// never is a condition that costs the server most: as many clauses as there may be, each tried on each row, and none
// fulfilled.
func never(table string) string {
	var clauses []string
	for i := range maxClauses - 1 {
		value := fmt.Sprintf(`["uuid","00000000-0000-4000-8000-%012d"]`, i)
		c := conditions[table][0]
		if c.column == "dp_key" {
			value = fmt.Sprint(1_000_000 + i)
		}
		clauses = append(clauses, fmt.Sprintf("[%q,%q,%s]", c.column, c.function, value))
	}
	if table == "Logical_Flow" { // with which the others are not hashed
		clauses = append(clauses, `["logical_dp_group","!=",["set",[]]]`)
	}
	return "[" + strings.Join(clauses, ",") + "]"
}

// TestWhatCostsTheServerIsCharged: a node that has the server work and say nothing has to wait as one that has it say
// much.
func TestWhatCostsTheServerIsCharged(t *testing.T) {
	s := newSouthbound(t)
	s.flows(50_000)
	conn := s.asNode()
	for _, method := range []string{"monitor_cond", "monitor_cond_since", "monitor_cond_change"} {
		params := []string{`"OVN_Southbound"`, `"m"`, `{"Logical_Flow":[{"columns":["match"],"where":` +
			never("Logical_Flow") + `}]}`}
		switch method {
		case "monitor_cond_since":
			params = append(params, `"00000000-0000-0000-0000-000000000000"`)
		case "monitor_cond_change":
			s.forgive() // what the last method has cost
			if answer, err := ask(conn, "monitor_cond",
				`["OVN_Southbound","m",{"Logical_Flow":[{"columns":["match"],"where":[false]}]}]`); err != nil ||
				strings.Contains(answer, `"error":{`) {
				t.Fatalf("%.300s %v", answer, err)
			}
			params[0], params[2] = params[1], `{"Logical_Flow":[{"where":`+never("Logical_Flow")+`}]}`
		}
		s.forgive()
		answer, err := ask(conn, method, "["+strings.Join(params, ",")+"]")
		if err != nil || strings.Contains(answer, `"error":{`) {
			t.Fatalf("%s: %.300s %v", method, answer, err)
		}
		s.until("it costs nothing: "+method, func() bool {
			s.guard.pace.mu.Lock()
			defer s.guard.pace.mu.Unlock()
			return s.guard.pace.debts["l2"].readings > 0.01
		})
		if _, err := ask(conn, "monitor_cancel", `["m"]`); err != nil {
			t.Fatal(err)
		}
	}
}
