package ovsdb_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

func TestReading(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.replace(node("l1"), pod("a", "l1", "10.244.1.3"), pod("b", "l1", "10.244.1.4"))
		client := s.engine.Client()
		portA := ovsdb.ID("Logical_Switch_Port", podOwner("a"), "")
		sw, ok := ovsdb.Get[nb.LogicalSwitch](client, switchID("l1"))
		if !ok || sw.Name != "l1" || len(sw.Ports) != 2 || sw.UUID != switchID("l1") ||
			sw.ExternalIDs[ovsdb.OwnerMark] != "Node/l1" {
			t.Errorf("the switch reads %+v, %v", sw, ok)
		}
		if _, ok := ovsdb.Get[nb.LogicalSwitch](client, portA); ok {
			t.Error("a port is read as a switch")
		}
		if ports := ovsdb.List(client, func(p *nb.LogicalSwitchPort) bool { return p.Name == "default_b" }); len(
			ports) != 1 || ports[0].Options["requested-chassis"] != "l1" {
			t.Errorf("listed %+v", ports)
		}
		if with := ovsdb.List(client, func(s *nb.LogicalSwitch) bool { return slices.Contains(s.Ports, portA) }); len(
			with) != 1 {
			t.Errorf("%d switches have the port", len(with))
		}
		if all := ovsdb.List[nb.LogicalSwitchPort](client, nil); len(all) != 2 {
			t.Errorf("%d ports instead of 2", len(all))
		}
		// What was read stays as it was.
		before, _ := ovsdb.Get[nb.LogicalSwitchPort](client, portA)
		up := make(chan error, 1)
		go func() {
			up <- client.WaitFor(s.context(), func() bool {
				p, ok := ovsdb.Get[nb.LogicalSwitchPort](client, portA)
				return ok && p.Up != nil && *p.Up
			})
		}()
		s.foreign(update("Logical_Switch_Port", portA, libovsdb.Row{"up": true}))
		if err := <-up; err != nil {
			t.Error(err)
		}
		if before.Up != nil {
			t.Error("a row changed in its reader's hands")
		}
		brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := client.WaitFor(brief, func() bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting in vain ends with %v", err)
		}
	})
}

func TestClosedClient(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.engine.Client().Close()
		if err := s.engine.Apply(s.context(), []ovsdb.Change{node("l1")}); !errors.Is(err, ovsdb.ErrClosed) {
			t.Errorf("applying ends with %v", err)
		}
	})
}

// The node's side: ports of a bridge that somebody else has made.
func TestPortsOnAForeignBridge(t *testing.T) {
	d := ovsdbtest.OpenVSwitch(t)
	server := ovsdbtest.Server(t, d)
	client := ovsdbtest.Connect(t, d, server.Endpoint,
		ovsdb.Table{Model: &vswitch.Bridge{}, Sets: []string{"ports"}, Read: []string{"name"}},
		ovsdb.Table{Model: &vswitch.Port{}, Columns: []string{"name", "interfaces"}},
		ovsdb.Table{Model: &vswitch.Interface{}, Columns: []string{"name", "type"}, Read: []string{"ofport"}},
	)
	if _, err := client.Transact(t.Context(),
		insert("Open_vSwitch", foreignGroup, libovsdb.Row{"bridges": refs(foreignSwitch)}),
		insert("Bridge", foreignSwitch, libovsdb.Row{"name": "br-int", "ports": refs(foreignPort)}),
		insert("Port", foreignPort, libovsdb.Row{"name": "br-int", "interfaces": libovsdb.UUID{GoUUID: foreignGroup[:35] +
			"4"}}),
		insert("Interface", foreignGroup[:35]+"4", libovsdb.Row{"name": "br-int", "type": "internal"}),
	); err != nil {
		t.Fatal(err)
	}
	bridge := ovsdb.List(client, func(b *vswitch.Bridge) bool { return b.Name == "br-int" })[0]
	port := func(name string) ovsdb.Change {
		owner := ovsdb.Owner("Pod/" + name)
		return ovsdb.Change{
			Owner: owner,
			Rows: []ovsdb.Row{
				{Model: &vswitch.Port{Name: name, Interfaces: []string{ovsdb.ID("Interface", owner, "")}}},
				{Model: &vswitch.Interface{Name: name, ExternalIDs: map[string]string{"iface-id": "default_" + name}}},
			},
			Memberships: []ovsdb.Membership{{Table: "Bridge", UUID: bridge.UUID, Column: "ports",
				Values: []string{ovsdb.ID("Port", owner, "")}}},
		}
	}
	engine := ovsdb.NewEngine(client)
	if err := engine.Apply(t.Context(), []ovsdb.Change{port("a"), port("b")}); err != nil {
		t.Fatal(err)
	}
	// An engine that remembers nothing removes a port from its bridge all the same.
	engine = ovsdb.NewEngine(client)
	if err := engine.Apply(t.Context(), []ovsdb.Change{{Owner: "Pod/a"}}); err != nil {
		t.Fatal(err)
	}
	const want = `Bridge br-int
    ports: b, br-int
Interface b [Pod/b]
    external_ids: iface-id=default_b
Interface br-int
    type: internal
Port b [Pod/b]
    interfaces: b
Port br-int
    interfaces: br-int
`
	if got := ovsdb.Dump(client); got != want {
		t.Errorf("the database holds\n%s\ninstead of\n%s", got, want)
	}
}

func TestMetrics(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.replace(node("l1"), pod("a", "l1", "10.244.1.3"))
		s.apply(pod("a", "l1", "10.244.1.4"))
		s.refused(s.engine.Apply(s.context(), []ovsdb.Change{pod("b", "gone", "10.244.1.4")}))
		sums := counters(t, s.engine.Client())
		for name, want := range map[string]float64{
			"weft_ovsdb_transactions_total committed":                  2,
			"weft_ovsdb_rows_written_total insert Logical_Switch_Port": 1,
			"weft_ovsdb_rows_written_total mutate Logical_Switch":      1,
			"weft_ovsdb_rows_written_total update Logical_Switch_Port": 1,
			"weft_ovsdb_refused_owners_total":                          1,
			"weft_ovsdb_connected":                                     1,
			"weft_ovsdb_reconnects_total":                              0,
		} {
			if sums[name] != want {
				t.Errorf("%s is %v instead of %v; all: %v", name, sums[name], want, sums)
			}
		}
	})
}

// TestAServerThatWasNeverThereIsTold: a client that waits for its first connection says that it has none.
func TestAServerThatWasNeverThereIsTold(t *testing.T) {
	const name = "weft_ovsdb_connected"
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(t.Context())
	var told error
	dialled := sync.OnceFunc(func() {
		told = testutil.GatherAndCompare(registry, strings.NewReader(`# HELP weft_ovsdb_connected 1 while there is a connection to the database.
# TYPE weft_ovsdb_connected gauge
weft_ovsdb_connected{database="OVN_Northbound"} 0
`), name)
		cancel()
	})
	_, err := ovsdb.Connect(ctx, ovsdb.Config{Endpoints: "unix:/nowhere", Model: ovsdbtest.Northbound(t).Model,
		Logger: ovsdbtest.Logger(t), Metrics: registry,
		Dial: func(context.Context, ovsdb.Endpoint) (net.Conn, error) {
			dialled()
			return nil, errors.New("there is no server")
		}})
	if !errors.Is(err, context.Canceled) || told != nil {
		t.Errorf("connected: %v, told: %v", err, told)
	}
}

// counters are a client's metrics by name and labels.
func counters(t *testing.T, client *ovsdb.Client) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(client.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				if l.GetName() != "database" {
					name += " " + l.GetValue()
				}
			}
			sums[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sums
}
