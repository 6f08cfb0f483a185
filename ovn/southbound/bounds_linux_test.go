package southbound

import (
	"fmt"
	"net"
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
		event     = `{"op":"insert","table":"Controller_Event","row":{"event_type":"empty_lb_backends","chassis":["uuid","{l2}"],"event_info":["map",[["a","%s"]]]}}`
		anonymous = `{"op":"insert","table":"Controller_Event","row":{"event_type":"empty_lb_backends"}}`
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
		{"an event", fmt.Sprintf(event, "x"), ""},
		{"an event of nobody's", anonymous, "names the node's chassis"},
		{"a large event", fmt.Sprintf(event, long), "more than the 4096"},
		{"a large neighbour", fmt.Sprintf(neighbour, long), "more than the 1024"},
		{"words about the chassis that are large together", fmt.Sprintf(about, 1, long[:40<<10]) + "," + fmt.Sprintf(about, 2, long[:40<<10]), "more than the 65536"},
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
			s.until("the guard does not see them", func() bool { return s.guard.replica.extent("Chassis", s.names.Replace("{l2}")) > len(long) })
		}
	}
}

// TestRowsOfANodeAreBounded: however it goes about it.
func TestRowsOfANodeAreBounded(t *testing.T) {
	s := newSouthbound(t)
	conn := s.asNode()
	event := s.names.Replace(`,{"op":"insert","table":"Controller_Event","row":{"event_type":"empty_lb_backends","chassis":["uuid","{l2}"]}}`)
	made := 0
	for n := 600; n > 0; {
		out, err := ask(conn, "transact", `["OVN_Southbound"`+strings.Repeat(event, n)+`]`)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "may have no more") {
			n /= 2
			continue
		}
		made += n
		s.until("the guard does not see what there is", func() bool {
			return s.guard.replica.rows()[[2]string{"Controller_Event", s.names.Replace("{l2}")}] == made
		})
	}
	if bound := bounds["Controller_Event"].rows; made != bound {
		t.Errorf("%d rows, want %d", made, bound)
	}
	out := ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.as("l1"), "create", "Controller_Event", "event_type=empty_lb_backends", s.names.Replace("chassis={l1}"))
	if strings.TrimSpace(out) == "" {
		t.Error("another node pays for it")
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
		{"a row of another table, by a second operation", second("pod2") + `,{"op":"update","table":"Port_Binding","where":[["_uuid","==",["named-uuid","row1"]]],"row":{"up":false}}`, "by their UUID"},
		{"the end of a new row", made + `,{"op":"delete","table":"IGMP_Group","where":[["_uuid","==",["named-uuid","row1"]]]}`, "by their UUID"},
	} {
		out, err := ask(conn, "transact", s.names.Replace(`["OVN_Southbound",`+c.operation+`]`))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "error\":\"") != (c.refused != "") || !strings.Contains(out, c.refused) {
			t.Errorf("%s: %.300s; want %q", c.what, out, c.refused)
		}
	}
	row := strings.Fields(ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--bare", "--columns=_uuid", "find", "IGMP_Group", s.names.Replace("datapath={datapath of pod2}")))[0]
	s.until("the guard does not see what there is", func() bool {
		out, err := ovsdbtest.Try(t, "ovn-sbctl", "--db="+s.as("l2"), "remove", "IGMP_Group", row, "ports", s.names.Replace("{pod1}"))
		return err == nil && out == ""
	})
	if out, err := ovsdbtest.Try(t, "ovn-sbctl", "--timeout=20", "--db="+s.as("l2"), "add", "IGMP_Group", row, "ports", s.names.Replace("{pod1}")); err == nil {
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
