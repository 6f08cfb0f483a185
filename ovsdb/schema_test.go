package ovsdb_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// older is a server with the schema of an earlier OVN.
func older(t *testing.T, version string) (ovsdbtest.Database, string) {
	t.Helper()
	schema, err := os.ReadFile("testdata/ovn-nb-" + version + ".ovsschema")
	if err != nil {
		t.Fatal(err)
	}
	d := ovsdbtest.Northbound(t)
	return d, ovsdbtest.Server(t, ovsdbtest.Database{Schema: schema, Model: d.Model}).Endpoint
}

func TestAnOlderServerServesWithoutItsMissingFeatures(t *testing.T) {
	d, endpoint := older(t, "23.03")
	engine := ovsdb.NewEngine(ovsdbtest.Connect(t, d, endpoint, append(slices.Clone(tables[:3]),
		ovsdb.Table{Model: &nb.ACL{}, Columns: []string{"name", "direction", "priority", "match", "action", "tier"}},
		ovsdb.Table{Model: &nb.ChassisTemplateVar{}, Columns: []string{"chassis", "variables"}},
	)...))
	if got := engine.Client().Disabled(); !slices.Equal(got, []string{"ACL tiers"}) {
		t.Errorf("the features %v are off", got)
	}
	policy := ovsdb.Change{
		Owner: "Policy/p",
		Rows: []ovsdb.Row{
			{Model: &nb.PortGroup{Name: "pg"}},
			{Model: &nb.ACL{Direction: "to-lport", Action: "drop", Match: "1", Priority: 1, Tier: 2}},
			{Model: &nb.ChassisTemplateVar{Chassis: "c", Variables: map[string]string{"a": "b"}}},
		},
		Memberships: []ovsdb.Membership{{Table: "Port_Group", UUID: ovsdb.ID("Port_Group", "Policy/p", ""), Column: "acls",
			Values: []string{ovsdb.ID("ACL", "Policy/p", "")}}},
	}
	for range 2 {
		if err := engine.Replace(t.Context(), []ovsdb.Change{policy}); err != nil {
			t.Fatal(err)
		}
	}
	const want = `ACL Policy/p [Policy/p]
    action: drop
    direction: to-lport
    match: 1
    priority: 1
Chassis_Template_Var Policy/p [Policy/p]
    chassis: c
    variables: a=b
Port_Group pg [Policy/p]
    acls: Policy/p
`
	if got := ovsdb.Dump(engine.Client()); got != want {
		t.Errorf("the database holds\n%s\ninstead of\n%s", got, want)
	}
}

func TestATooOldServerIsRefused(t *testing.T) {
	d, endpoint := older(t, "22.03")
	_, err := ovsdb.Connect(t.Context(), ovsdb.Config{Endpoints: endpoint, Model: d.Model, Logger: ovsdbtest.Logger(t),
		Tables: []ovsdb.Table{
			{Model: &nb.NAT{}, Columns: []string{"type", "gateway_port"}},
			{Model: &nb.ACL{}, Columns: []string{"tier"}},
		}})
	const want = "table NAT of database OVN_Northbound has no column gateway_port; OVN 22.06 is the first to have it; " +
		"upgrade OVN to 25.03"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v instead of %q", err, want)
	}
}

func TestConfigurationErrors(t *testing.T) {
	d := ovsdbtest.Northbound(t)
	for want, config := range map[string]ovsdb.Config{
		`"udp:1.2.3.4:5": must begin with`: {Endpoints: "udp:1.2.3.4:5"},
		"needs a certificate":              {Endpoints: "ssl:1.2.3.4:5"},
		"load the client's certificate none": {Endpoints: "ssl:1.2.3.4:5", TLS: &ovsdb.TLS{CertFile: "none",
			KeyFile: "none", CAFile: "none"}},
		"table NAT of database OVN_Northbound has no ": {Endpoints: "unix:x",
			Tables: []ovsdb.Table{{Model: &nb.NAT{}, Columns: []string{"nonsense"}}}},
		"listed twice": {Endpoints: "unix:x",
			Tables: []ovsdb.Table{{Model: &nb.NAT{}, Columns: []string{"type"}, Read: []string{"type"}}}},
		"no set of strings": {Endpoints: "unix:x",
			Tables: []ovsdb.Table{{Model: &nb.NAT{}, Sets: []string{"type"}}}},
		"is no table of database": {Endpoints: "unix:x",
			Tables: []ovsdb.Table{{Model: &struct{ UUID string }{}}}},
	} {
		config.Model = d.Model
		if _, err := ovsdb.Connect(t.Context(), config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v instead of %q", err, want)
		}
	}
}

func TestConnectWaitsAndCanBeCancelled(t *testing.T) {
	d := ovsdbtest.Northbound(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := ovsdb.Connect(ctx, ovsdb.Config{Endpoints: "unix:/nonexistent/db.sock,tcp:127.0.0.1:1", Model: d.Model,
		Logger: ovsdbtest.Logger(t)})
	if err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("the error is %v", err)
	}
}

func FuzzParseEndpoints(f *testing.F) {
	for _, text := range []string{
		"unix:/run/ovn/ovnnb_db.sock", "tcp:1.2.3.4:6641", "ssl:[fd00::1]:6641, ssl:host:1", "ssl:fd00::1:6641", "", ",",
		"tcp:", "unix:", "tcp:1.2.3.4:70000",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		endpoints, err := ovsdb.ParseEndpoints(text)
		if err != nil {
			return
		}
		var list []string
		for _, e := range endpoints {
			list = append(list, e.String())
		}
		again, err := ovsdb.ParseEndpoints(strings.Join(list, ","))
		if err != nil || !slices.Equal(again, endpoints) {
			t.Errorf("%q gives %v, which gives %v, %v", text, endpoints, again, err)
		}
	})
}

func TestParseEndpoints(t *testing.T) {
	got, err := ovsdb.ParseEndpoints("tcp:1.2.3.4:6641,ssl:[fd00::1]:6641, unix:/run/x")
	want := []ovsdb.Endpoint{{Scheme: "tcp", Address: "1.2.3.4:6641"}, {Scheme: "ssl", Address: "[fd00::1]:6641"},
		{Scheme: "unix", Address: "/run/x"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"": "must begin with", "tcp:1.2.3.4": "HOST:PORT", "ssl:fd00::1:6641": "in brackets", "unix:": "no path",
		"tcp:x:0": "not an address", "tcp::1": "not an address",
		"ssl:x:http": "not an address", "/run/x": "must begin with",
	} {
		if _, err := ovsdb.ParseEndpoints(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v instead of %q", text, err, want)
		}
	}
}
