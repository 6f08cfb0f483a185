package ovsdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// foreign commits operations as somebody else would: behind the engine's back.
func (s *stage) foreign(operations ...libovsdb.Operation) []libovsdb.OperationResult {
	s.Helper()
	results, err := s.engine.Client().Transact(s.context(), operations...)
	if err != nil {
		s.Fatal(err)
	}
	return results
}

func byID(uuid string) []libovsdb.Condition {
	return []libovsdb.Condition{libovsdb.NewCondition("_uuid", libovsdb.ConditionEqual, libovsdb.UUID{GoUUID: uuid})}
}

func insert(table, uuid string, row libovsdb.Row) libovsdb.Operation {
	return libovsdb.Operation{Op: libovsdb.OperationInsert, Table: table, UUID: uuid, Row: row}
}

func update(table, uuid string, row libovsdb.Row) libovsdb.Operation {
	return libovsdb.Operation{Op: libovsdb.OperationUpdate, Table: table, Where: byID(uuid), Row: row}
}

func remove(table, uuid string) libovsdb.Operation {
	return libovsdb.Operation{Op: libovsdb.OperationDelete, Table: table, Where: byID(uuid)}
}

func mutate(table, uuid, column string, mutator libovsdb.Mutator, value any) libovsdb.Operation {
	return libovsdb.Operation{Op: libovsdb.OperationMutate, Table: table, Where: byID(uuid),
		Mutations: []libovsdb.Mutation{
			*libovsdb.NewMutation(column, mutator, value),
		}}
}

func refs(uuids ...string) libovsdb.OvsSet {
	set := libovsdb.OvsSet{GoSet: []any{}}
	for _, id := range uuids {
		set.GoSet = append(set.GoSet, libovsdb.UUID{GoUUID: id})
	}
	return set
}

func texts(values ...string) libovsdb.OvsSet {
	set := libovsdb.OvsSet{GoSet: []any{}}
	for _, v := range values {
		set.GoSet = append(set.GoSet, v)
	}
	return set
}

const (
	foreignSwitch = "11111111-1111-4111-8111-111111111111"
	foreignPort   = "22222222-2222-4222-8222-222222222222"
	foreignGroup  = "33333333-3333-4333-8333-333333333333"
)

func addressSet(name string) ovsdb.Change {
	return ovsdb.Change{Owner: ovsdb.Owner("Namespace/" + name), Rows: []ovsdb.Row{{Model: &nb.AddressSet{Name: name}}}}
}

func addressSetID(name string) string {
	return ovsdb.ID("Address_Set", ovsdb.Owner("Namespace/"+name), "")
}

// inSet adds an address to a pod's change.
func inSet(c ovsdb.Change, set string, addresses ...string) ovsdb.Change {
	c.Memberships = append(slices.Clone(c.Memberships), ovsdb.Membership{
		Table: "Address_Set", UUID: addressSetID(set), Column: "addresses", Values: addresses,
	})
	return c
}

func TestForeignRowsAreLeftAlone(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.replace(node("l1"), pod("a", "l1", "10.244.1.3"))
		s.foreign(
			insert("Logical_Switch_Port", foreignPort, libovsdb.Row{"name": "operators-port"}),
			mutate("Logical_Switch", switchID("l1"), "ports", libovsdb.MutateOperationInsert, refs(foreignPort)),
			insert("Logical_Switch", foreignSwitch, libovsdb.Row{"name": "operators-switch"}),
			insert("Port_Group", foreignGroup, libovsdb.Row{"name": "operators_group",
				"ports": refs(ovsdb.ID("Logical_Switch_Port", podOwner("a"), ""), foreignPort)}),
			insert("Load_Balancer_Group", "44444444-4444-4444-8444-444444444444", libovsdb.Row{"name": "weft-like"}),
			update("Logical_Switch_Port", ovsdb.ID("Logical_Switch_Port", podOwner("a"), ""),
				libovsdb.Row{"parent_name": "theirs"}),
			mutate("Logical_Switch_Port", ovsdb.ID("Logical_Switch_Port", podOwner("a"), ""), "external_ids",
				libovsdb.MutateOperationInsert,
				libovsdb.OvsMap{GoMap: map[any]any{"operator": "was here"}}),
		)
		want := `Load_Balancer_Group weft-like
Logical_Switch l1 [Node/l1]
    other_config: subnet=10.244.1.0/24
    ports: default_a, operators-port
Logical_Switch operators-switch
Logical_Switch_Port default_a [Pod/default/a]
    addresses: 0a:58:0a:f4:01:03 10.244.1.9
    external_ids: namespace=default, operator=was here
    options: requested-chassis=l1
    port_security: 0a:58:0a:f4:01:03 10.244.1.9
Logical_Switch_Port operators-port
Port_Group operators_group
    ports: operators-port
`
		s.restart()
		s.replace(node("l1"), pod("a", "l1", "10.244.1.9"))
		s.dump(want)
		s.replace()
		s.dump(`Load_Balancer_Group weft-like
Logical_Switch operators-switch
Port_Group operators_group
`) // the operator's port was in weft's switch alone, and went with it
	})
}

func TestNothingChangedNothingWritten(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		enabled, tag := true, 7
		state := []ovsdb.Change{
			node("l1"), addressSet("ns"),
			inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.244.1.3"),
			{
				Owner: "Service/web",
				Rows: []ovsdb.Row{
					{Key: "lb", Model: &nb.LoadBalancer{Name: "Service/web",
						Vips: map[string]string{"10.96.0.1:80": "10.244.1.3:80,10.244.1.4:80"}}},
					{Key: "group", Model: &nb.LoadBalancerGroup{Name: "weft-cluster"}},
					{Key: "acl", Model: &nb.ACL{Direction: "to-lport", Action: "drop", Match: `ip4 && "quoted"`, Priority: 5}},
					{Key: "pg", Model: &nb.PortGroup{Name: "pg"}},
					{Key: "port", Model: &nb.LogicalSwitchPort{Name: "web", Enabled: &enabled, Tag: &tag,
						Addresses: []string{"unknown", "router", "unknown"}}},
				},
				Memberships: []ovsdb.Membership{
					{Table: "Load_Balancer_Group", UUID: ovsdb.ID("Load_Balancer_Group", "Service/web", "group"),
						Column: "load_balancer", Values: []string{ovsdb.ID("Load_Balancer", "Service/web", "lb")}},
					{Table: "Port_Group", UUID: ovsdb.ID("Port_Group", "Service/web", "pg"), Column: "acls",
						Values: []string{ovsdb.ID("ACL", "Service/web", "acl")}},
					{Table: "Logical_Switch", UUID: switchID("l1"), Column: "ports",
						Values: []string{ovsdb.ID("Logical_Switch_Port", "Service/web", "port")}},
				},
			},
		}
		s.replace(state...)
		dump := ovsdb.Dump(s.engine.Client())
		if !strings.Contains(dump, "addresses: router, unknown\n    enabled: true\n    tag: 7") {
			t.Errorf("the database holds\n%s", dump)
		}
		// What is only read may change as it likes.
		s.foreign(update("Logical_Switch_Port", ovsdb.ID("Logical_Switch_Port", podOwner("a"), ""), libovsdb.Row{"up": true}))
		before := s.transactions()
		s.replace(state...)
		s.apply(state[2], state[0])
		s.restart()
		s.replace(state...)
		s.apply(state...)
		if n := s.transactions() - before; n != 0 {
			t.Errorf("%d transactions where nothing had changed", n)
		}
		s.dump(dump)
	})
}

// transactions counts those that the server has committed; the server in memory does not say.
func (s *stage) transactions() int {
	if s.server == nil {
		return 0
	}
	return s.server.Transactions()
}

func TestStaleMembersLeaveOnReplace(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.replace(node("l1"), addressSet("ns"), inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.244.1.3"),
			inSet(pod("b", "l1", "10.244.1.4"), "ns", "10.244.1.4"))
		s.foreign(mutate("Address_Set", addressSetID("ns"), "addresses", libovsdb.MutateOperationInsert,
			texts("192.0.2.1", "192.0.2.2")))
		s.restart()
		s.replace(node("l1"), addressSet("ns"), inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.244.1.5"))
		s.dump(`Address_Set ns [Namespace/ns]
    addresses: 10.244.1.5
Logical_Switch l1 [Node/l1]
    other_config: subnet=10.244.1.0/24
    ports: default_a
Logical_Switch_Port default_a [Pod/default/a]
    addresses: 0a:58:0a:f4:01:03 10.244.1.3
    external_ids: namespace=default
    options: requested-chassis=l1
    port_security: 0a:58:0a:f4:01:03 10.244.1.3
`)
	})
}

func TestTwoOwnersShareAMember(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.replace(node("l1"), addressSet("ns"), inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.0.0.1"),
			inSet(pod("b", "l1", "10.244.1.4"), "ns", "10.0.0.1"))
		has := func(want string) {
			t.Helper()
			if set, _ := ovsdb.Get[nb.AddressSet](s.engine.Client(), addressSetID("ns")); strings.Join(set.Addresses,
				" ") != want {
				t.Errorf("the address set holds %v instead of %s", set.Addresses, want)
			}
		}
		s.apply(ovsdb.Change{Owner: podOwner("a")})
		has("10.0.0.1")
		// One leaves and another comes in the same transaction, and in the next.
		s.apply(ovsdb.Change{Owner: podOwner("b")}, inSet(pod("c", "l1", "10.244.1.5"), "ns", "10.0.0.1"))
		has("10.0.0.1")
		s.apply(ovsdb.Change{Owner: podOwner("c")})
		has("")
		// Far enough apart they are in different transactions, both in flight.
		var crowd []ovsdb.Change
		for i := range 300 {
			crowd = append(crowd, pod(fmt.Sprint("p", i), "l1", "10.244.2.1"))
		}
		first, second := crowd[0], crowd[len(crowd)-1]
		crowd[0] = inSet(first, "ns", "10.0.0.9")
		s.apply(crowd...)
		has("10.0.0.9")
		crowd[0], crowd[len(crowd)-1] = first, inSet(second, "ns", "10.0.0.9")
		s.apply(crowd...)
		has("10.0.0.9")
		crowd[0], crowd[len(crowd)-1] = first, second
		s.apply(crowd...)
		has("")
		s.apply(inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.0.0.1"))
		has("10.0.0.1")
	})
}

// watched runs Watch and collects what it says.
func (s *stage) watched() func(want ...ovsdb.Owner) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	seen := map[ovsdb.Owner]bool{}
	ended, engine := make(chan struct{}), s.engine
	go func() {
		defer close(ended)
		engine.Watch(ctx, func(owners []ovsdb.Owner) {
			mu.Lock()
			defer mu.Unlock()
			for _, o := range owners {
				seen[o] = true
			}
		})
	}()
	s.Cleanup(func() { cancel(); <-ended })
	return func(want ...ovsdb.Owner) {
		s.Helper()
		s.eventually("the owners are told", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return !slices.ContainsFunc(want, func(o ovsdb.Owner) bool { return !seen[o] })
		})
		mu.Lock()
		defer mu.Unlock()
		for o := range seen {
			if !slices.Contains(want, o) {
				s.Errorf("owner %s was told of without need", o)
			}
		}
		clear(seen)
	}
}

// patience is how long a test waits for what has to happen, on the busiest of machines.
const patience = 2 * time.Minute

func (s *stage) eventually(what string, condition func() bool) {
	s.Helper()
	// more and more of it: to look at a database takes the processor that others are waited for with
	pause := time.Millisecond
	for deadline := time.Now().Add(patience); !condition(); pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("waited %s until %s; the database holds\n%s", patience, what, ovsdb.Dump(s.engine.Client()))
		}
		time.Sleep(pause)
	}
}

func TestOthersChangesAreSeenAndRepaired(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		state := []ovsdb.Change{
			node("l1"), addressSet("ns"), inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.244.1.3"),
			inSet(pod("b", "l1", "10.244.1.4"), "ns", "10.244.1.4"),
			{Owner: "Cluster", Rows: []ovsdb.Row{{Model: &nb.LoadBalancerGroup{Name: "weft-cluster"}}}},
		}
		s.replace(state...)
		want := ovsdb.Dump(s.engine.Client())
		told := s.watched()
		told()
		portA, portB := ovsdb.ID("Logical_Switch_Port", podOwner("a"), ""), ovsdb.ID("Logical_Switch_Port", podOwner("b"), "")

		s.foreign(update("Logical_Switch_Port", portA, libovsdb.Row{"addresses": texts("unknown")}))
		told(podOwner("a"))
		s.foreign(mutate("Logical_Switch", switchID("l1"), "ports", libovsdb.MutateOperationDelete, refs(portB)))
		told(podOwner("b")) // its port was collected
		s.foreign(remove("Load_Balancer_Group", ovsdb.ID("Load_Balancer_Group", "Cluster", "")))
		told("Cluster")
		s.apply(state...)
		s.dump(want)

		// Members of sets need no owner to be put right.
		s.foreign(
			mutate("Address_Set", addressSetID("ns"), "addresses", libovsdb.MutateOperationDelete, texts("10.244.1.3")),
			mutate("Address_Set", addressSetID("ns"), "addresses", libovsdb.MutateOperationInsert, texts("192.0.2.1")),
		)
		s.eventually("the address set is repaired", func() bool { return ovsdb.Dump(s.engine.Client()) == want })
		told()

		// A lost set gets back what others have put in.
		s.foreign(remove("Address_Set", addressSetID("ns")))
		told("Namespace/ns")
		s.apply(state[1])
		s.dump(want)

		// Marks that are taken away come back, and a row that bears weft's marks is weft's.
		s.foreign(
			update("Logical_Switch_Port", portA, libovsdb.Row{"external_ids": libovsdb.OvsMap{GoMap: map[any]any{}}}),
			insert("Logical_Switch", foreignSwitch,
				libovsdb.Row{"name": "stray", "external_ids": libovsdb.OvsMap{GoMap: map[any]any{ovsdb.OwnerMark: "Node/gone"}}}),
		)
		told(podOwner("a"), "Node/gone")
		s.apply(state[2], ovsdb.Change{Owner: "Node/gone"})
		s.dump(want)
		told()
	})
}
