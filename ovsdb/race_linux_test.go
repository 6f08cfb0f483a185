package ovsdb_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// gate is a connection whose reader can be held back, so that the replica falls behind.
type gate struct {
	net.Conn
	mu    sync.Mutex // held while nothing may be read
	wrote chan struct{}
}

func (g *gate) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.mu.Lock()
	defer g.mu.Unlock()
	return n, err
}

func (g *gate) Write(b []byte) (int, error) {
	n, err := g.Conn.Write(b)
	select {
	case g.wrote <- struct{}{}:
	default:
	}
	return n, err
}

func TestAParentThatVanishesMeanwhile(t *testing.T) {
	s := realStage(t)
	var g *gate
	s.config.Dial = func(ctx context.Context, e ovsdb.Endpoint) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", e.Address)
		g = &gate{Conn: conn, wrote: make(chan struct{}, 1)}
		return g, err
	}
	s.start()
	s.replace(node("l1"), node("l2"))
	theirs := ovsdbtest.Connect(t, s.db, s.endpoint, tables...)

	g.mu.Lock()
	if _, err := theirs.Transact(s.context(), remove("Logical_Switch", switchID("l1"))); err != nil {
		t.Fatal(err)
	}
	select { // what was written before
	case <-g.wrote:
	default:
	}
	answer := make(chan error, 1)
	go func() {
		answer <- s.engine.Apply(s.context(), []ovsdb.Change{pod("a", "l1", "10.244.1.3"), pod("b", "l2", "10.244.2.3")})
	}()
	<-g.wrote
	g.mu.Unlock()
	refused := s.refused(<-answer)
	if len(refused) != 1 || refused[podOwner("a")] == nil {
		t.Errorf("refused: %v", refused)
	}
	if dump := ovsdb.Dump(s.engine.Client()); strings.Contains(dump, "default_a") ||
		!strings.Contains(dump, "ports: default_b") {
		t.Errorf("the database holds\n%s", dump)
	}
}

// TestAForeignChangeInTheSameUpdate: two transactions wait for a server, which then tells what both have made of a
// row in one update.
func TestAForeignChangeInTheSameUpdate(t *testing.T) {
	s := realStage(t)
	s.server = ovsdbtest.Server(t, s.db)
	s.endpoint = s.server.Endpoint
	theirs := ovsdbtest.Connect(t, s.db, s.endpoint, tables...) // the server serves the older connection first
	var g *gate
	s.config.Dial = func(ctx context.Context, e ovsdb.Endpoint) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", e.Address)
		g = &gate{Conn: conn, wrote: make(chan struct{}, 1)}
		return g, err
	}
	s.restart()
	s.replace(node("l1"), pod("a", "l1", "10.244.1.3"))
	told := s.watched()
	told()
	s.server.Pause()
	port := ovsdb.ID("Logical_Switch_Port", podOwner("a"), "")
	answers := make(chan error, 2)
	go func() {
		_, err := theirs.Transact(s.context(), update("Logical_Switch_Port", port, libovsdb.Row{"type": "router"}))
		answers <- err
	}()
	select { // what was written before
	case <-g.wrote:
	default:
	}
	go func() { answers <- s.engine.Apply(s.context(), []ovsdb.Change{pod("a", "l1", "10.244.1.4")}) }()
	<-g.wrote
	s.server.Resume()
	for range 2 {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
	told(podOwner("a"))
}

func TestBeforeAReplaceNothingIsStray(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.replace(addressSet("ns"))
		s.restart()
		told := s.watched()
		add := func(address string) {
			s.foreign(mutate("Address_Set", addressSetID("ns"), "addresses", libovsdb.MutateOperationInsert, texts(address)))
		}
		has := func(n int) bool {
			set, _ := ovsdb.Get[nb.AddressSet](s.engine.Client(), addressSetID("ns"))
			return len(set.Addresses) == n
		}
		add("192.0.2.1") // perhaps of an owner that has not been heard of yet
		s.apply(node("l1"))
		s.apply(ovsdb.Change{Owner: nodeOwner("l1")})
		told()
		if !has(1) {
			t.Error("an address was removed before all owners were known")
		}
		s.replace(addressSet("ns"))
		if !has(0) {
			t.Error("a stray address is still there")
		}
		told()
		add("192.0.2.2")
		s.eventually("the stray address is gone", func() bool { return has(0) })
	})
}

func TestExternalIDsKeyByKey(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		with := func(ids map[string]string) ovsdb.Change {
			c := node("l1")
			c.Rows[0].Model.(*nb.LogicalSwitch).ExternalIDs = ids
			return c
		}
		s.replace(with(map[string]string{"zone": "a", "weft.net/extra": "x"}))
		s.foreign(mutate("Logical_Switch", switchID("l1"), "external_ids", libovsdb.MutateOperationInsert,
			libovsdb.OvsMap{GoMap: map[any]any{"operator": "1"}}))
		s.replace(with(map[string]string{"zone": "b"}))
		s.dump(`Logical_Switch l1 [Node/l1]
    external_ids: operator=1, zone=b
    other_config: subnet=10.244.1.0/24
`)
	})
}

func TestAServerIsUpgradedUnderway(t *testing.T) {
	t.Parallel()
	schema, err := os.ReadFile("testdata/ovn-nb-23.03.ovsschema")
	if err != nil {
		t.Fatal(err)
	}
	d := ovsdbtest.Northbound(t)
	server := ovsdbtest.Server(t, ovsdbtest.Database{Schema: schema, Model: d.Model})
	client := ovsdbtest.Connect(t, d, server.Endpoint,
		ovsdb.Table{Model: &nb.PortGroup{}, Columns: []string{"name"}, Sets: []string{"acls"}},
		ovsdb.Table{Model: &nb.ACL{}, Columns: []string{"direction", "priority", "match", "action", "tier"}},
	)
	engine := ovsdb.NewEngine(client)
	policy := []ovsdb.Change{{
		Owner: "Policy/p",
		Rows: []ovsdb.Row{{Model: &nb.PortGroup{Name: "pg"}},
			{Model: &nb.ACL{Direction: "to-lport", Action: "drop", Match: "1", Tier: 2}}},
		Memberships: []ovsdb.Membership{{Table: "Port_Group", UUID: ovsdb.ID("Port_Group", "Policy/p", ""), Column: "acls",
			Values: []string{ovsdb.ID("ACL", "Policy/p", "")}}},
	}}
	if err := engine.Replace(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(t.TempDir(), "schema")
	if err := os.WriteFile(newer, d.Schema, 0o600); err != nil {
		t.Fatal(err)
	}
	// The server converts the database while it serves, and ends the sessions that watch it.
	ovsdbtest.Run(t, "ovsdb-client", "convert", server.Endpoint, newer)
	s := &stage{T: t, engine: engine}
	s.eventually("the new schema is read", func() bool { return len(client.Disabled()) == 0 && client.Connected() })
	if err := engine.Replace(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if dump := ovsdb.Dump(client); !strings.Contains(dump, "tier: 2") {
		t.Errorf("the database holds\n%s", dump)
	}
}
