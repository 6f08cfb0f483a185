package ovsdb_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// tables are those of the Northbound database that the tests' changes use.
var tables = []ovsdb.Table{
	{Model: &nb.LogicalSwitch{}, Columns: []string{"name", "other_config", "load_balancer_group"},
		Sets: []string{"ports"}},
	{Model: &nb.LogicalSwitchPort{}, Columns: []string{"name", "type", "addresses", "port_security", "options", "enabled",
		"tag"}, Read: []string{"up"}},
	{Model: &nb.PortGroup{}, Columns: []string{"name"}, Sets: []string{"ports", "acls"}},
	{Model: &nb.ACL{}, Columns: []string{"name", "direction", "priority", "match", "action"}},
	{Model: &nb.AddressSet{}, Columns: []string{"name"}, Sets: []string{"addresses"}},
	{Model: &nb.LoadBalancer{}, Columns: []string{"name", "protocol", "vips", "options"}},
	{Model: &nb.LoadBalancerGroup{}, Columns: []string{"name"}, Sets: []string{"load_balancer"}},
}

// both runs a story against libovsdb's server in memory and the real one.
func both(t *testing.T, story func(t *testing.T, s *stage)) {
	for _, kind := range []string{"memory", "real"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := &stage{T: t, kind: kind, db: ovsdbtest.Northbound(t)}
			s.start()
			story(t, s)
		})
	}
}

// stage is a database with an engine at work on it.
type stage struct {
	*testing.T
	kind     string
	db       ovsdbtest.Database
	server   *ovsdbtest.Process // nil in memory
	endpoint string
	engine   *ovsdb.Engine
	config   ovsdb.Config
}

func (s *stage) start() {
	s.Helper()
	if s.kind == "memory" {
		s.endpoint = ovsdbtest.Memory(s, s.db)
	} else {
		s.server = ovsdbtest.Server(s, s.db)
		s.endpoint = s.server.Endpoint
	}
	s.restart()
}

// restart gives a new engine, which remembers nothing.
func (s *stage) restart() {
	s.Helper()
	if s.engine != nil {
		s.engine.Client().Close()
	}
	config := s.config
	config.Endpoints, config.Model = s.endpoint, s.db.Model
	if config.Tables == nil {
		config.Tables = tables
	}
	s.engine = ovsdb.NewEngine(ovsdbtest.ConnectWith(s, config))
}

func (s *stage) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.Cleanup(cancel)
	return ctx
}

func (s *stage) apply(changes ...ovsdb.Change) {
	s.Helper()
	if err := s.engine.Apply(s.context(), changes); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) replace(changes ...ovsdb.Change) {
	s.Helper()
	if err := s.engine.Replace(s.context(), changes); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) dump(want string) {
	s.Helper()
	if got := ovsdb.Dump(s.engine.Client()); got != want {
		s.Fatalf("the database holds\n%s\ninstead of\n%s", got, want)
	}
}

// refused calls f and gives the errors of the owners that the database refused.
func (s *stage) refused(err error) map[ovsdb.Owner]error {
	s.Helper()
	var refused *ovsdb.RefusedError
	if !errors.As(err, &refused) {
		s.Fatalf("got %v instead of a refusal", err)
	}
	return refused.Owners
}

func nodeOwner(name string) ovsdb.Owner { return ovsdb.Owner("Node/" + name) }
func podOwner(name string) ovsdb.Owner  { return ovsdb.Owner("Pod/default/" + name) }

func switchID(node string) string { return ovsdb.ID("Logical_Switch", nodeOwner(node), "") }

func node(name string) ovsdb.Change {
	return ovsdb.Change{Owner: nodeOwner(name), Rows: []ovsdb.Row{{Model: &nb.LogicalSwitch{
		Name: name, OtherConfig: map[string]string{"subnet": "10.244.1.0/24"},
	}}}}
}

func pod(name, node, address string) ovsdb.Change {
	addresses := "0a:58:0a:f4:01:03 " + address
	return ovsdb.Change{
		Owner: podOwner(name),
		Rows: []ovsdb.Row{{Model: &nb.LogicalSwitchPort{
			Name: "default_" + name, Addresses: []string{addresses}, PortSecurity: []string{addresses},
			Options: map[string]string{"requested-chassis": node}, ExternalIDs: map[string]string{"namespace": "default"},
		}}},
		Memberships: []ovsdb.Membership{{
			Table: "Logical_Switch", UUID: switchID(node), Column: "ports",
			Values: []string{ovsdb.ID("Logical_Switch_Port", podOwner(name), "")},
		}},
	}
}

func TestPodsComeAndGo(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.replace(node("l1"), pod("a", "l1", "10.244.1.3"), pod("b", "l1", "10.244.1.4"))
		s.dump(`Logical_Switch l1 [Node/l1]
    other_config: subnet=10.244.1.0/24
    ports: default_a, default_b
Logical_Switch_Port default_a [Pod/default/a]
    addresses: 0a:58:0a:f4:01:03 10.244.1.3
    external_ids: namespace=default
    options: requested-chassis=l1
    port_security: 0a:58:0a:f4:01:03 10.244.1.3
Logical_Switch_Port default_b [Pod/default/b]
    addresses: 0a:58:0a:f4:01:03 10.244.1.4
    external_ids: namespace=default
    options: requested-chassis=l1
    port_security: 0a:58:0a:f4:01:03 10.244.1.4
`)
		s.apply(ovsdb.Change{Owner: podOwner("a")}, pod("b", "l1", "10.244.1.5"))
		s.dump(`Logical_Switch l1 [Node/l1]
    other_config: subnet=10.244.1.0/24
    ports: default_b
Logical_Switch_Port default_b [Pod/default/b]
    addresses: 0a:58:0a:f4:01:03 10.244.1.5
    external_ids: namespace=default
    options: requested-chassis=l1
    port_security: 0a:58:0a:f4:01:03 10.244.1.5
`)
		s.replace()
		s.dump("")
	})
}

func TestThousandsInFewTransactions(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		changes := []ovsdb.Change{}
		for i := range 20 {
			changes = append(changes, node(fmt.Sprint("n", i)))
		}
		pods := 5000
		if s.server == nil {
			pods = 500 // it is slow
		}
		for i := range pods {
			changes = append(changes, pod(fmt.Sprint("p", i), fmt.Sprint("n", i%20), fmt.Sprint("10.244.1.", i)))
		}
		s.replace(changes...)
		if s.server != nil {
			if n := s.server.Transactions(); n > 50 {
				t.Errorf("%d transactions for %d owners", n, len(changes))
			}
		}
	})
}

// TestTheListStays: the caller may give the same list again.
func TestTheListStays(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		list := func() []ovsdb.Change { return []ovsdb.Change{node("l1"), pod("a", "l1", "10.244.1.3")} }
		for name, do := range map[string]func(context.Context, []ovsdb.Change) error{"Apply": s.engine.Apply,
			"Replace": s.engine.Replace} {
			given := list()
			for range 2 { // the second time nothing is left to do
				if err := do(s.context(), given); err != nil {
					t.Fatal(err)
				}
			}
			if want := list(); !reflect.DeepEqual(given, want) {
				t.Errorf("%s has made %+v of %+v", name, given, want)
			}
		}
	})
}

// TestIDsAreOfVersion5: those of the rows that are in databases stay.
func TestIDsAreOfVersion5(t *testing.T) {
	namespace := uuid.MustParse("6b0d6a6e-3a0e-5d0a-9d39-77656674b0d5")
	for _, key := range []string{"", "tcp", strings.Repeat("long", 100)} {
		want := uuid.NewSHA1(namespace, []byte("Load_Balancer\x00Service/default/web\x00"+key))
		if got := ovsdb.ID("Load_Balancer", "Service/default/web", key); got != want.String() || want.Version() != 5 {
			t.Errorf("%q: %s, want %s", key, got, want)
		}
	}
}

// TestTogether: changes that belong together are one transaction, more of them than others get, up to a bound.
func TestTogether(t *testing.T) {
	s := realStage(t)
	s.start()
	s.replace(node("l1"))
	add := func(n int, change func(i int) ovsdb.Change) int {
		changes := make([]ovsdb.Change, n)
		for i := range changes {
			changes[i] = change(i)
			changes[i].With = i > 0
		}
		before := s.transactions()
		s.apply(changes...)
		return s.transactions() - before
	}
	newPod := func(i int) ovsdb.Change { return pod(fmt.Sprint("p", i), "l1", fmt.Sprint("10.244.1.", i)) }
	if n := add(1000, newPod); n != 1 {
		t.Errorf("a thousand pods are %d transactions", n)
	}
	// One operation each.
	newSet := func(i int) ovsdb.Change { return addressSet(fmt.Sprint("s", i)) }
	if n := add(20000, newSet); n < 2 || n > 10 {
		t.Errorf("twenty thousand sets of addresses are %d transactions", n)
	}
}

// TestReplaceTogether: what one that knows nothing finds wrong is put right in one transaction with the changes
// that belong together: who is gone, and values that nobody asks for any more. Those of later changes stay.
func TestReplaceTogether(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		a, b, c := pod("a", "l1", "10.244.1.3"), pod("b", "l1", "10.244.1.4"), pod("c", "l1", "10.244.1.5")
		s.replace(node("l1"), addressSet("x"), addressSet("y"), inSet(a, "x", "10.244.1.3"), b, inSet(c, "x", "10.244.1.5"))
		s.restart()
		before := s.transactions()
		y, a := addressSet("y"), inSet(a, "y", "10.244.1.3")
		y.With, a.With = true, true
		s.replace(node("l1"), addressSet("x"), y, a, inSet(c, "x", "10.244.1.5"))
		if s.server != nil && s.transactions() != before+1 {
			t.Errorf("%d transactions", s.transactions()-before)
		}
		for set, want := range map[string]string{"x": "addresses: 10.244.1.5\n", "y": "addresses: 10.244.1.3\n"} {
			if dump := ovsdb.Dump(s.engine.Client()); !strings.Contains(dump, "Address_Set "+set+" [Namespace/"+set+"]\n    "+
				want) || strings.Contains(dump, "default_b") {
				t.Errorf("not %s in %s, or b is there:\n%s", want, set, dump)
			}
		}
	})
}

// realStage is a story for the real server alone; start makes it.
func realStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	s := &stage{T: t, kind: "real", db: ovsdbtest.Northbound(t)}
	return s
}

func manyPods(n int) []ovsdb.Change {
	changes := []ovsdb.Change{node("l1"), addressSet("ns")}
	for i := range n {
		address := fmt.Sprintf("10.244.%d.%d", i/250, i%250)
		changes = append(changes, inSet(pod(fmt.Sprint("p", i), "l1", address), "ns", address))
	}
	return changes
}
