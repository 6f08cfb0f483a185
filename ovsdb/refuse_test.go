package ovsdb_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

func TestARefusedOwnerStandsAlone(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		changes := []ovsdb.Change{node("l1")}
		for i := range 40 {
			changes = append(changes, pod(fmt.Sprint("p", i), "l1", fmt.Sprint("10.244.1.", i)))
		}
		// Port names are unique in the database: a clash is seen only at commit.
		clash := pod("clash", "l1", "10.244.1.99")
		clash.Rows[0].Model.(*nb.LogicalSwitchPort).Name = "default_p7"
		// A bad value is seen at its own operation.
		bad := ovsdb.Change{Owner: "Policy/bad",
			Rows: []ovsdb.Row{{Model: &nb.ACL{Direction: "sideways", Action: "drop", Match: "1", Priority: 1}}}}
		if s.server == nil { // the server in memory knows of no bad values
			bad.Rows[0] = ovsdb.Row{Model: &nb.Meter{}}
		}
		changes = append(changes, clash, bad, addressSet("last"))

		refused := s.refused(s.engine.Replace(s.context(), changes))
		// Either of the two that clash may be the one that loses.
		delete(refused, podOwner("p7"))
		wanted := []ovsdb.Owner{podOwner("clash"), "Policy/bad"}
		if len(refused) == 1 {
			wanted = wanted[1:]
		}
		if got := slices.Sorted(maps.Keys(refused)); !slices.Equal(got, wanted) {
			t.Errorf("%v were refused instead of %v", got, wanted)
		}
		if _, ok := refused["Policy/bad"]; !ok {
			t.Error("the owner with a bad value is not named")
		}
		for owner, err := range refused {
			t.Logf("%s: %v", owner, err)
		}
		dump := ovsdb.Dump(s.engine.Client())
		if n := strings.Count(dump, "Logical_Switch_Port "); n != 40 {
			t.Errorf("%d ports instead of 40:\n%s", n, dump)
		}
		if !strings.Contains(dump, "Address_Set last") {
			t.Errorf("the owner after the refused ones is missing:\n%s", dump)
		}
		// Without the other the loser finds its name free.
		clash.Rows[0].Model.(*nb.LogicalSwitchPort).Name = "default_clash"
		bad.Rows = nil
		s.replace(changes[:len(changes)-3]...)
		s.apply(clash, bad)
	})
}

func TestABadValueCostsFewTransactions(t *testing.T) {
	s := realStage(t)
	s.start()
	changes := manyPods(200)
	tag := 100000
	changes[100].Rows[0].Model.(*nb.LogicalSwitchPort).Tag = &tag
	if refused := s.refused(s.engine.Replace(s.context(), changes)); len(refused) != 1 ||
		refused[changes[100].Owner] == nil {
		t.Errorf("refused: %v", refused)
	}
	// The server names the operation, so nothing need be halved: all, the others, the guilty one,
	// and the guilty one again now that the others are in.
	if n := counters(t, s.engine.Client())["weft_ovsdb_transactions_total refused"]; n > 4 {
		t.Errorf("%v transactions were refused", n)
	}
}

func TestARenamedOwnerTakesOverTheName(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.replace(node("l1"), pod("old", "l1", "10.244.1.3"))
		successor := pod("new", "l1", "10.244.1.3")
		successor.Rows[0].Model.(*nb.LogicalSwitchPort).Name = "default_old"
		s.replace(node("l1"), successor)
		s.dump(`Logical_Switch l1 [Node/l1]
    other_config: subnet=10.244.1.0/24
    ports: default_old
Logical_Switch_Port default_old [Pod/default/new]
    addresses: 0a:58:0a:f4:01:03 10.244.1.3
    external_ids: namespace=default
    options: requested-chassis=l1
    port_security: 0a:58:0a:f4:01:03 10.244.1.3
`)
	})
}

func TestAMemberOfNothingIsRefused(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.replace(node("l1"), addressSet("ns"))
		refused := s.refused(s.engine.Apply(s.context(), []ovsdb.Change{pod("a", "gone", "10.244.9.3"),
			pod("b", "l1", "10.244.1.4")}))
		if len(refused) != 1 || refused[podOwner("a")] == nil || !strings.Contains(refused[podOwner("a")].Error(),
			"Logical_Switch") {
			t.Errorf("refused: %v", refused)
		}
		// When the switch comes so can the pod, and children before parents find their way too.
		s.apply(pod("a", "gone", "10.244.9.3"), node("gone"))
		dump := ovsdb.Dump(s.engine.Client())
		if !strings.Contains(dump, "ports: default_a\n") || !strings.Contains(dump, "ports: default_b\n") {
			t.Errorf("the database holds\n%s", dump)
		}
	})
}

func TestAParentBehindABadOwner(t *testing.T) {
	s := realStage(t)
	s.start()
	bad := ovsdb.Change{Owner: "Policy/bad",
		Rows: []ovsdb.Row{{Model: &nb.ACL{Direction: "sideways", Action: "drop", Match: "1"}}}}
	refused := s.refused(s.engine.Apply(s.context(), []ovsdb.Change{pod("a", "l1", "10.244.1.3"), bad, node("l1")}))
	if len(refused) != 1 || refused["Policy/bad"] == nil {
		t.Errorf("refused: %v", refused)
	}
}

func TestARefusedOwnerKeepsWhatItHad(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		good := []ovsdb.Change{node("l1"), addressSet("ns"), inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.244.1.3")}
		s.replace(good...)
		s.foreign(insert("Logical_Switch_Port", foreignPort, libovsdb.Row{"name": "taken"}),
			insert("Logical_Switch", foreignSwitch, libovsdb.Row{"ports": refs(foreignPort)}))
		dump := ovsdb.Dump(s.engine.Client())
		bad := inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.244.1.9")
		bad.Rows[0].Model.(*nb.LogicalSwitchPort).Name = "taken"
		s.refused(s.engine.Replace(s.context(), []ovsdb.Change{good[0], good[1], bad}))
		s.dump(dump)
		// What it had is still what it wants, and what it was refused is not.
		s.watched()
		s.foreign(
			mutate("Address_Set", addressSetID("ns"), "addresses", libovsdb.MutateOperationDelete, texts("10.244.1.3")),
			mutate("Address_Set", addressSetID("ns"), "addresses", libovsdb.MutateOperationInsert, texts("10.244.1.9")),
		)
		s.eventually("the address set is repaired", func() bool { return ovsdb.Dump(s.engine.Client()) == dump })
		s.restart() // which forgets what the owner had asked for
		s.refused(s.engine.Replace(s.context(), []ovsdb.Change{good[0], good[1], bad}))
		s.dump(dump)
		s.replace(good...)
		s.dump(dump)
	})
}

func TestMistakesOfTheCaller(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		many := ovsdb.Change{Owner: "a"}
		for i := range 100 {
			many.Rows = append(many.Rows, ovsdb.Row{Key: fmt.Sprint(min(i, 98)), Model: &nb.ACL{}})
		}
		for name, c := range map[string]ovsdb.Change{
			"not told of": {Owner: "a", Rows: []ovsdb.Row{{Model: &nb.Meter{Name: "m"}}}},
			"pointer":     {Owner: "a", Rows: []ovsdb.Row{{Model: nb.ACL{}}}},
			"the key":     {Owner: "a", Rows: []ovsdb.Row{{Model: &nb.ACL{}}, {Model: &nb.ACL{}}}},
			"key \"98\"":  many,
			"fill":        {Owner: "a", Memberships: []ovsdb.Membership{{Table: "Logical_Switch", Column: "name"}}},
		} {
			refused := s.refused(s.engine.Apply(s.context(), []ovsdb.Change{c}))
			if err := refused["a"]; err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%q is not said by %v", name, err)
			}
		}
		if err := s.engine.Apply(s.context(), []ovsdb.Change{node("l1"), node("l1")}); err == nil {
			t.Error("an owner twice in one call is accepted")
		}
		s.dump("")
	})
}

// TestRandomHistories compares the outcome of any sequence of changes with that of its last state
// applied to an empty database.
func TestRandomHistories(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		fresh := &stage{T: t, kind: s.kind, db: s.db}
		rounds := map[string]int{"memory": 15, "real": 60}[s.kind]
		now := map[ovsdb.Owner]ovsdb.Change{}
		for _, c := range randomState(r) {
			if c.Owner[0] == 'N' { // others need nodes and namespaces
				now[c.Owner] = c
			}
		}
		for range rounds {
			var changes []ovsdb.Change
			for _, c := range randomState(r) {
				old, ok := now[c.Owner]
				switch r.IntN(3) {
				case 0:
					changes = append(changes, c)
				case 1:
					if ok && c.Owner[0] != 'N' {
						c = ovsdb.Change{Owner: c.Owner}
						changes = append(changes, c)
					} else {
						c = old
					}
				default:
					c = old
				}
				if len(c.Rows) > 0 {
					now[c.Owner] = c
				} else if c.Owner != "" {
					delete(now, c.Owner)
				}
			}
			switch r.IntN(6) {
			case 0:
				s.restart()
				fallthrough
			case 1:
				for _, c := range changes {
					if len(c.Rows) > 0 {
						now[c.Owner] = c
					}
				}
				s.replace(ordered(now)...)
			default:
				s.apply(ordered(now)...) // parents that the changes may need
				s.apply(changes...)
			}
			fresh.fresh()
			fresh.replace(ordered(now)...)
			s.dump(ovsdb.Dump(fresh.engine.Client()))
		}
	})
}

// ordered lists changes with parents first.
func ordered(state map[ovsdb.Owner]ovsdb.Change) []ovsdb.Change {
	var changes []ovsdb.Change
	for _, owner := range slices.Sorted(maps.Keys(state)) {
		changes = append(changes, state[owner])
	}
	return changes
}

// randomState has for each owner something that it may become.
func randomState(r *rand.Rand) []ovsdb.Change {
	var changes []ovsdb.Change
	for i := range 3 {
		n := node(fmt.Sprint("n", i))
		n.Rows[0].Model.(*nb.LogicalSwitch).OtherConfig = map[string]string{"mtu": fmt.Sprint(r.IntN(3))}
		changes = append(changes, n, addressSet(fmt.Sprint("ns", i)))
	}
	for i := range 12 {
		p := pod(fmt.Sprint("p", i), fmt.Sprint("n", r.IntN(3)), fmt.Sprint("10.244.1.", r.IntN(5)))
		for range r.IntN(3) {
			p = inSet(p, fmt.Sprint("ns", r.IntN(3)), fmt.Sprint("10.0.0.", r.IntN(4)), fmt.Sprint("10.0.1.", r.IntN(4)))
		}
		changes = append(changes, p)
	}
	for i := range 4 {
		owner := ovsdb.Owner(fmt.Sprint("Policy/", i))
		c := ovsdb.Change{Owner: owner, Rows: []ovsdb.Row{{Model: &nb.PortGroup{Name: fmt.Sprint("pg", i)}},
			{Model: &nb.LoadBalancerGroup{Name: fmt.Sprint("weft-", i)}}}}
		group := ovsdb.Membership{Table: "Port_Group", UUID: ovsdb.ID("Port_Group", owner, ""), Column: "acls"}
		for range r.IntN(4) {
			key := fmt.Sprint(len(c.Rows))
			c.Rows = append(c.Rows, ovsdb.Row{Key: key, Model: &nb.ACL{Direction: "to-lport", Action: "drop", Match: "1",
				Priority: r.IntN(3)}})
			group.Values = append(group.Values, ovsdb.ID("ACL", owner, key))
		}
		c.Memberships = []ovsdb.Membership{group}
		changes = append(changes, c)
	}
	return changes
}

// fresh empties the stage's own database and forgets its engine.
func (s *stage) fresh() {
	s.Helper()
	if s.engine == nil {
		s.start()
		return
	}
	s.restart()
	s.replace()
	s.dump("")
}
