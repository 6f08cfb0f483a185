package ovsdb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestRowsOfOneUUID: a server has a UUID once in each table, so a client that names that of another table's row makes a
// second one. Neither a client that is connected nor one that connects later is disturbed, and each finds both rows.
func TestRowsOfOneUUID(t *testing.T) {
	database := ovsdbtest.Southbound(t)
	server := ovsdbtest.Server(t, database)
	tables := []ovsdb.Table{{Model: &sb.FDB{}, Read: []string{"mac", "port_key"}},
		{Model: &sb.Chassis{}, Read: []string{"name", "encaps"}}}
	early := ovsdbtest.Connect(t, database, server.Endpoint, tables...)
	const id = "11111111-1111-4111-8111-111111111111"
	transact := func(operations string) {
		if out := ovsdbtest.Run(t, "ovsdb-client", "transact", server.Endpoint, `["OVN_Southbound",`+operations+
			`]`); strings.Contains(out, "error") {
			t.Fatal(out)
		}
	}
	transact(`{"op":"insert","table":"Encap","uuid-name":"e","row":{"chassis_name":"l1","ip":"192.0.2.1","type":"geneve"}},` +
		`{"op":"insert","table":"Chassis","uuid":"` + id + `","row":{"name":"l1","encaps":["named-uuid","e"]}},` +
		`{"op":"insert","table":"FDB","uuid":"` + id + `","row":{"mac":"m","dp_key":1,"port_key":1}}`)
	transact(`{"op":"update","table":"FDB","where":[["_uuid","==",["uuid","` + id + `"]]],"row":{"port_key":2}}`)
	late := ovsdbtest.Connect(t, database, server.Endpoint, tables...)
	holds := func(c *ovsdb.Client, moved int) func() bool {
		return func() bool {
			chassis, hasChassis := ovsdb.Get[sb.Chassis](c, id)
			address, hasAddress := ovsdb.Get[sb.FDB](c, id)
			return c.Connected() && hasChassis && chassis.Name == "l1" && (moved == 0) == !hasAddress &&
				(!hasAddress || address.PortKey == moved)
		}
	}
	for what, client := range map[string]*ovsdb.Client{"one that was connected": early, "one that came later": late} {
		eventually(t, what+" does not see the rows", holds(client, 2))
	}
	transact(`{"op":"delete","table":"FDB","where":[["_uuid","==",["uuid","` + id + `"]]]}`)
	for what, client := range map[string]*ovsdb.Client{"one that was connected": early, "one that came later": late} {
		eventually(t, what+" does not see the end of one of them alone", holds(client, 0))
	}
}

func eventually(t *testing.T, otherwise string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(otherwise)
		}
	}
}
