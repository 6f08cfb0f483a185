package bench

import (
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weftnet/weft/test/bench/load"
	"github.com/weftnet/weft/test/bench/ovsdblog"
)

// recording is what an ovn-controller asks the Southbound for: the tables of its monitor, with their columns and last
// conditions.
type recording struct {
	mutex  sync.Mutex
	ended  bool
	most   int // the most clauses that a table has had
	tables map[string]map[string]json.RawMessage
}

// record runs the first node's ovn-controller through a proxy until it has all flows.
func (c *largeCluster) record(b *testing.B, node *chassis, all string) *recording {
	b.Helper()
	rec := &recording{}
	path := filepath.Join(node.dir, "recorded-"+all+".sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go rec.carry(client, strings.TrimPrefix(c.sb.remote, "unix:"))
		}
	}()
	node.vsctl(b, "--no-wait", "set", "Open_vSwitch", ".", "external_ids:ovn-remote=unix:"+path)
	c.restart(b, node, all)
	rec.mutex.Lock()
	defer rec.mutex.Unlock()
	rec.ended = true
	if len(rec.tables["Logical_Flow"]) == 0 {
		b.Fatalf("ovn-controller monitors no logical flows: %v", rec.tables)
	}
	return rec
}

// carry passes a client's requests on to a server, and notes its monitors.
func (rec *recording) carry(client net.Conn, server string) {
	defer client.Close()
	conn, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(client, conn)
		client.Close()
	}()
	decoder := json.NewDecoder(client)
	for {
		var text json.RawMessage
		if decoder.Decode(&text) != nil {
			return
		}
		rec.note(text)
		if _, err := conn.Write(text); err != nil {
			return
		}
	}
}

func (rec *recording) note(text []byte) {
	var request struct {
		Method string
		Params []json.RawMessage
	}
	if json.Unmarshal(text, &request) != nil || len(request.Params) < 3 {
		return
	}
	begins := request.Method == "monitor_cond_since" && string(request.Params[0]) == `"OVN_Southbound"`
	if !begins && request.Method != "monitor_cond_change" {
		return
	}
	var tables map[string][]map[string]json.RawMessage
	if json.Unmarshal(request.Params[2], &tables) != nil {
		return
	}
	rec.mutex.Lock()
	defer rec.mutex.Unlock()
	if rec.ended {
		return
	}
	if rec.tables == nil || begins {
		rec.tables = map[string]map[string]json.RawMessage{}
	}
	for table, requests := range tables {
		if rec.tables[table] == nil {
			rec.tables[table] = map[string]json.RawMessage{}
		}
		for key, value := range requests[0] {
			rec.tables[table][key] = value
		}
	}
	rec.most = max(rec.most, rec.clauses())
}

// clauses is how many the longest condition has.
func (rec *recording) clauses() int {
	most := 0
	for _, request := range rec.tables {
		var list []json.RawMessage
		if json.Unmarshal(request["where"], &list) == nil {
			most = max(most, len(list))
		}
	}
	return most
}

// monitors are what the ovn-controllers of so many nodes ask for, as the first one's has: each of its own chassis,
// switch and routers.
func (c *largeCluster) monitors(b *testing.B, content *ovsdblog.Database, rec *recording, nodes int) []string {
	b.Helper()
	text, err := json.Marshal(rec.tables)
	if err != nil {
		b.Fatal(err)
	}
	named, ofFirst := map[string][2]string{}, map[string][2]string{} // the UUID and the key of what a node has
	note := func(name, uuid, key string) {
		named[name] = [2]string{uuid, key}
		if strings.Contains(name, load.NodeName(0)) {
			ofFirst[name] = named[name]
		}
	}
	for uuid, row := range content.Tables["Datapath_Binding"] {
		note("datapath "+row["external_ids"]["name"], uuid, onlyValue(row["tunnel_key"]))
	}
	for uuid, row := range content.Tables["Chassis"] {
		note("chassis "+onlyValue(row["name"]), uuid, "")
	}
	var all []string
	for i := range nodes {
		pairs := []string{load.NodeName(0), load.NodeName(i)}
		for name, first := range ofFirst {
			own, ok := named[strings.ReplaceAll(name, load.NodeName(0), load.NodeName(i))]
			if !ok || own == first { // a Windows node has not all of it
				continue
			}
			pairs = append(pairs, first[0], own[0], `"dp_key","==",`+first[1]+`]`, `"dp_key","==",`+own[1]+`]`)
		}
		all = append(all, strings.NewReplacer(pairs...).Replace(string(text)))
	}
	return all
}

// onlyValue is the one value of a column.
func onlyValue(value ovsdblog.Value) string {
	for one := range value {
		return one
	}
	return ""
}
