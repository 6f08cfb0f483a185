package southbound

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// asNode is a connection of l2.
func (s *southbound) asNode() net.Conn {
	conn, err := net.Dial("unix", strings.TrimPrefix(s.as("l2"), "unix:"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	return conn
}

// TestWhatANodeMayHaveOfTheServer: neither by one request nor by many does a node fill the server's memory.
func TestWhatANodeMayHaveOfTheServer(t *testing.T) {
	s := newSouthbound(t)
	conn := s.asNode()
	const (
		all       = `{"op":"select","table":"Chassis","where":[]}`
		neighbour = `{"op":"insert","table":"MAC_Binding","row":{"logical_port":"gw2","datapath":["uuid","{datapath of gw2}"],"ip":"%s","mac":"m"}}`
		about     = `{"op":"mutate","table":"Chassis","where":[["_uuid","==",["uuid","{l2}"]]],"mutations":[["external_ids","insert",["map",[["%d","%s"]]]]]}`
		tunnel    = `{"op":"insert","table":"Encap","uuid-name":"e%d","row":{"chassis_name":"l2","type":"geneve","ip":"198.51.100.%[1]d"}}`
		large     = "large words about the chassis"
		wait      = `{"op":"wait","table":"Chassis","timeout":0,"until":"==","columns":["name"],"rows":[{"name":"l2"}],"where":[%s]}`
	)
	long := strings.Repeat("x", 60<<10)
	tunnels := make([]string, bounds["Encap"].rows)
	for i := range tunnels {
		tunnels[i] = fmt.Sprintf(tunnel, i)
	}
	for _, c := range []struct{ what, operations, refused string }{
		{"a table", all, "none that a node does"},
		{"a row as it is", fmt.Sprintf(wait, `["_uuid","==",["uuid","{l2}"]]`), ""},
		{"any row", fmt.Sprintf(wait, ``), "by their UUID"},
		{"a large neighbour", fmt.Sprintf(neighbour, long), "more than the 1024"},
		{"words about the chassis that are large together", fmt.Sprintf(about, 1, long[:40<<10]) + "," + fmt.Sprintf(about, 2,
			long[:40<<10]), "more than the 65536"},
		{large, fmt.Sprintf(about, 1, long), ""},
		{"more of them", fmt.Sprintf(about, 2, long), "more than the 65536"},
		{"any number of tunnels", strings.Join(tunnels, ","), "16 rows of l2"},
	} {
		out, err := ask(conn, "transact", s.names.Replace(`["OVN_Southbound",`+c.operations+`]`))
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if strings.Contains(out, "error\":\"") != (c.refused != "") || !strings.Contains(out, c.refused) {
			t.Errorf("%s: %.300s; want %q", c.what, out, c.refused)
		}
		if c.what == large { // of which the next is more
			s.until("the guard does not see them", func() bool {
				return s.guard.replica.extent("Chassis", s.names.Replace("{l2}")) > len(long)
			})
			where := json.RawMessage(s.names.Replace(`["_uuid","==",["uuid","{l2}"]]`))
			number := &operation{op: "update", table: "Chassis", where: []json.RawMessage{where}}
			var heard tells
			if heard.tell(s.guard.replica, number, 10); heard.bytes < len(long) {
				t.Errorf("a number beside %d bytes counts %d", len(long), heard.bytes)
			}
		}
	}
}

// fewRows has tests fill tables in a moment.
func fewRows(t *testing.T, rows int) {
	all := bounds
	t.Cleanup(func() { bounds = all })
	bounds = maps.Clone(all)
	for table, bound := range bounds {
		if bound.rows > 0 {
			bound.rows = rows
			bounds[table] = bound
		}
	}
}

const newChassis = `{"op":"insert","table":"Encap","uuid-name":"e","row":{"chassis_name":"l2","type":"geneve","ip":"192.0.2.2"}},` +
	`{"op":"insert","table":"Chassis","uuid-name":"c","row":{"name":"l2","hostname":"l2","encaps":["named-uuid","e"]}}`

// makes are inserts of the i-th row that l2 may make, of each table whose rows are bounded.
var makes = map[string]func(i int) string{
	"Encap": func(i int) string {
		return fmt.Sprintf(`{"op":"insert","table":"Encap","uuid-name":"e","row":{"chassis_name":"l2","type":"geneve","ip":"198.51.100.%d"}},`+
			`{"op":"mutate","table":"Chassis","where":[["_uuid","==",["uuid","{now l2}"]]],"mutations":[["encaps","insert",["named-uuid","e"]]]}`, i%bounds["Encap"].rows)
	},
	"IGMP_Group": func(i int) string {
		return fmt.Sprintf(`{"op":"insert","table":"IGMP_Group","row":{"chassis_name":"l2","chassis":["uuid","{now l2}"],"address":"239.0.%d.%d","datapath":["uuid","{datapath of pod2}"]}}`, i>>8, i&255)
	},
	"MAC_Binding": func(i int) string {
		return fmt.Sprintf(`{"op":"insert","table":"MAC_Binding","row":{"logical_port":"gw2","datapath":["uuid","{datapath of gw2}"],"ip":"10.0.%d.%d","mac":"m"}}`, i>>8, i&255)
	},
	"FDB": func(i int) string {
		return fmt.Sprintf(`{"op":"insert","table":"FDB","row":{"dp_key":1,"port_key":2,"mac":"0a:00:00:00:%02x:%02x"}}`,
			i>>8, i&255)
	},
}

// lives are what l2 may do to a row that it has made, or to what a row refers to.
var lives = map[string][]string{
	"Encap": {`{"op":"update","table":"Encap","where":{row},"row":{"options":["map",[]]}}`},
	"IGMP_Group": {`{"op":"update","table":"IGMP_Group","where":{row},"row":{"chassis":["set",[]]}}`,
		`{"op":"update","table":"IGMP_Group","where":{row},"row":{"address":"239.1.{i}.1"}}`},
	"MAC_Binding": {`{"op":"update","table":"MAC_Binding","where":{row},"row":{"mac":"n","timestamp":7}}`},
	"FDB": {`{"op":"update","table":"FDB","where":{row},"row":{"port_key":5,"timestamp":7}}`,
		`{"op":"update","table":"FDB","where":{row},"row":{"port_key":2}}`},
}

// TestRowsOfANodeAreBounded: it fills a table, does whatever it may to its rows and to what they count for, and fills
// it again. It waits for nothing, so the guard may not know of the last rows yet. The server has no more rows than the
// bound.
func TestRowsOfANodeAreBounded(t *testing.T) {
	fewRows(t, 16)
	s := newSouthbound(t)
	s.guard.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	claim := s.names.Replace(
		`["OVN_Southbound",{"op":"update","table":"Port_Binding","where":[["_uuid","==",["uuid","{free}"]]],"row":{"chassis":["uuid","{l2}"]}}]`)
	conn := s.asNode()
	if out, err := ask(conn, "transact", claim); err != nil || strings.Contains(out, `"error":"`) {
		t.Fatal(out, err)
	}
	uuids := func(table string) []string {
		return strings.Fields(ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--bare", "--columns=_uuid", "list",
			table))
	}
	for table, bound := range bounds {
		if (bound.rows > 0) != (makes[table] != nil) || (bound.rows > 0) != (lives[table] != nil) {
			t.Fatalf("table %s: this shows nothing", table)
		}
		if bound.rows == 0 {
			continue
		}
		foreign := uuids(table)
		for round := range 4 {
			chassis := strings.TrimSpace(ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--bare", "--columns=_uuid",
				"find", "Chassis", "name=l2"))
			made := 0
			for i := range 2 * bound.rows {
				s.forgive() // that a node has to wait is tested elsewhere
				out, err := ask(conn, "transact",
					strings.ReplaceAll(s.names.Replace(`["OVN_Southbound",`+makes[table](round*1000+i)+`]`), "{now l2}", chassis))
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(out, `"error":"`) {
					made++
				}
			}
			rows := slices.DeleteFunc(uuids(table), func(id string) bool { return slices.Contains(foreign, id) })
			if len(rows) > bound.rows {
				t.Errorf("round %d: a node has %d rows of table %s, of %d", round, len(rows), table, bound.rows)
			}
			if round == 0 && (made < bound.rows-len(foreign) || len(rows) < bound.rows-len(foreign)) {
				t.Errorf("a node could make %d rows of table %s, of %d", made, table, bound.rows)
			}
			for i, row := range rows {
				for _, life := range lives[table] {
					s.forgive()
					life = strings.NewReplacer("{row}", `[["_uuid","==",["uuid","`+row+`"]]]`, "{i}", fmt.Sprint(i)).Replace(life)
					if _, err := ask(conn, "transact", `["OVN_Southbound",`+life+`]`); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, change := range []string{`{"op":"delete","table":"Chassis","where":[["_uuid","==",["uuid","` + chassis +
				`"]]]}`, newChassis} {
				s.until("the chassis is not made anew", func() bool {
					out, err := ask(conn, "transact", `["OVN_Southbound",`+change+`]`)
					return err != nil || !strings.Contains(out, `"error":"`)
				})
			}
		}
	}
}

// TestMulticast: a node says what its own ports listen to.
func TestMulticast(t *testing.T) {
	s := newSouthbound(t)
	conn := s.asNode()
	group := func(datapath, port string) string {
		return `{"op":"insert","table":"IGMP_Group","row":{"chassis_name":"l2","chassis":["uuid","{l2}"],"address":"239.0.0.1","datapath":["uuid","{datapath of ` +
			datapath + `}"],"ports":["uuid","{` + port + `}"]}}`
	}
	// As ovn-controller has it.
	second := func(port string) string {
		return `{"op":"insert","table":"IGMP_Group","uuid-name":"row1","row":{"chassis_name":"l2","chassis":["uuid","{l2}"],"address":"239.0.0.2","datapath":["uuid","{datapath of pod2}"]}},` +
			`{"op":"mutate","table":"IGMP_Group","where":[["_uuid","==",["named-uuid","row1"]]],"mutations":[["ports","insert",["set",[["uuid","{` + port + `}"]]]]]}`
	}
	made, _, _ := strings.Cut(second("pod2"), `,{"op":"mutate"`)
	for _, c := range []struct{ what, operation, refused string }{
		{"another node's port", group("pod2", "pod1"), "port pod1 is another node's"},
		{"no port", strings.Replace(group("near", ""), `["uuid","{}"]`, `["set",[]]`, 1), ""},
		{"its port on another switch", group("etor2", "pod2"), "or another switch's"},
		{"the network outside", group("etor2", "localnet2"), ""},
		{"that of a switch where it has no port", group("near", "localnet3"), "port localnet3 is another node's"},
		{"its own port", group("pod2", "pod2"), ""},
		{"its own port, by a second operation", second("pod2"), ""},
		{"another node's port, by a second operation", second("pod1"), "port pod1 is another node's"},
		{"a row of another table, by a second operation",
			second("pod2") + `,{"op":"update","table":"Port_Binding","where":[["_uuid","==",["named-uuid","row1"]]],"row":{"up":false}}`, "by their UUID"},
		{"the end of a new row",
			made + `,{"op":"delete","table":"IGMP_Group","where":[["_uuid","==",["named-uuid","row1"]]]}`, "by their UUID"},
	} {
		out, err := ask(conn, "transact", s.names.Replace(`["OVN_Southbound",`+c.operation+`]`))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "error\":\"") != (c.refused != "") || !strings.Contains(out, c.refused) {
			t.Errorf("%s: %.300s; want %q", c.what, out, c.refused)
		}
	}
	row := strings.Fields(ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--bare", "--columns=_uuid", "find",
		"IGMP_Group", s.names.Replace("datapath={datapath of pod2}")))[0]
	s.until("the guard does not see what there is", func() bool {
		out, err := ovsdbtest.Try(t, "ovn-sbctl", "--db="+s.as("l2"), "remove", "IGMP_Group", row, "ports",
			s.names.Replace("{pod1}"))
		return err == nil && out == ""
	})
	if out, err := ovsdbtest.Try(t, "ovn-sbctl", "--timeout=100", "--db="+s.as("l2"), "add", "IGMP_Group", row, "ports",
		s.names.Replace("{pod1}")); err == nil {
		t.Errorf("another node's port was added: %s", out)
	}
}

// TestALedger: what a node writes in a minute is bounded, however often it connects.
func TestALedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l ledger
		if err := l.enter("l1", maxWritten); err != nil {
			t.Error(err)
		}
		if l.enter("l1", 1) == nil {
			t.Error("there is no end to it")
		}
		if err := l.enter("l2", 1); err != nil {
			t.Errorf("another node pays for it: %v", err)
		}
		time.Sleep(time.Minute)
		if err := l.enter("l1", 1); err != nil {
			t.Errorf("after a minute: %v", err)
		}
	})
	s := newSouthbound(t)
	comment := `["OVN_Southbound",{"op":"comment","comment":"` + strings.Repeat("x", maxWritten/2) + `"}]`
	for range 2 {
		if _, err := ask(s.asNode(), "transact", `["OVN_Southbound",{"op":"comment","comment":"x"}]`); err != nil {
			t.Fatal(err)
		}
		if out, err := ask(s.asNode(), "transact", comment); err == nil {
			t.Logf("%.100s", out)
			continue
		}
		return
	}
	t.Error("there is no end to it")
}
