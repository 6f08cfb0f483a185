package ovsdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// second is a stage with an engine of its own on the same database.
func (s *stage) second() *stage {
	other := &stage{T: s.T, kind: s.kind, db: s.db, endpoint: s.endpoint, server: s.server}
	other.restart()
	return other
}

// jobs lets pods come and go, and waits until other's replica has seen it.
func (s *stage) jobs(other *stage, n int) {
	s.Helper()
	for round := range 4 {
		var come, gone []ovsdb.Change
		for i := range n / 4 {
			name := fmt.Sprint("job-", round, "-", i)
			come = append(come, inSet(pod(name, "l1", "10.244.1.9"), "ns", fmt.Sprint("10.0.", round, ".", i)))
			gone = append(gone, ovsdb.Change{Owner: podOwner(name)})
		}
		s.apply(come...)
		s.follows(other)
		s.apply(gone...)
		s.follows(other)
	}
}

// follows waits until other's replica has all that the stage has written.
func (s *stage) follows(other *stage) {
	s.Helper()
	want := ovsdb.Dump(s.engine.Client())
	if err := other.engine.Client().WaitFor(s.context(), func() bool {
		return ovsdb.Dump(other.engine.Client()) == want
	}); err != nil {
		s.Fatal(err)
	}
}

// A standby's engine sees what the leader writes, and leads some day.
func TestAStandbyHoldsNothingAndAccusesNobody(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		standby := s.second()
		state := []ovsdb.Change{node("l1"), addressSet("ns")}
		s.replace(state...)
		s.jobs(standby, 40)
		if n := standby.engine.Held(); n != 0 {
			t.Errorf("a standby that has never led holds %d changes", n)
		}
		told := standby.watched()
		standby.replace(state...)
		told()

		// From here on others' changes are its business.
		s.apply(inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.0.0.1"))
		told(podOwner("a"))
	})
}

// An engine whose Watch has ended stands by again; what it knew of is no longer true.
func TestALostLead(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		state := []ovsdb.Change{node("l1"), addressSet("ns"), inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.0.0.1")}
		s.replace(state...)
		s.endWatch()
		leader := s.second()
		later := []ovsdb.Change{state[0], state[1], inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.0.0.2")}
		leader.replace(later...)
		leader.jobs(s, 40)
		if n := s.engine.Held(); n != 0 {
			t.Errorf("an engine that has lost the lead holds %d changes", n)
		}
		// It watches before it has compared: then it must not restore what it once knew.
		told := s.watched()
		leader.apply(inSet(pod("b", "l1", "10.244.1.4"), "ns", "10.0.0.3"))
		leader.foreign(mutate("Address_Set", addressSetID("ns"), "addresses", libovsdb.MutateOperationInsert,
			texts("10.0.0.9")))
		leader.follows(s)
		dump := ovsdb.Dump(s.engine.Client())
		later = append(later, inSet(pod("b", "l1", "10.244.1.4"), "ns", "10.0.0.3"))
		s.replace(later...)
		told()
		s.dump(strings.Replace(dump, ", 10.0.0.9", "", 1))
	})
}

// endWatch lets a Watch begin and end.
func (s *stage) endWatch() {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	told := make(chan struct{})
	ended.Go(func() { s.engine.Watch(ctx, func([]ovsdb.Owner) { close(told) }) })
	s.foreign(update("Logical_Switch", switchID("l1"), libovsdb.Row{"name": "other"}))
	<-told
	cancel()
	ended.Wait()
}

// What others do while a repair is under way is repaired next.
func TestStraysThatComeDuringARepair(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		s.replace(addressSet("ns0"), addressSet("ns1"), addressSet("ns2"), addressSet("ns3"))
		want := ovsdb.Dump(s.engine.Client())
		s.watched()
		theirs := s.second()
		for i := range 50 {
			for j := range 4 {
				theirs.foreign(mutate("Address_Set", addressSetID(fmt.Sprint("ns", j)), "addresses", libovsdb.MutateOperationInsert,
					texts(fmt.Sprint("192.0.2.", i))))
			}
			s.eventually("the address sets are repaired", func() bool { return ovsdb.Dump(s.engine.Client()) == want })
		}
	})
}

// Whatever changes, and whoever fails to look, what is held of it has a bound.
func TestManyForeignChanges(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		const limit = 20
		s.engine.LimitEvents(limit)
		state := []ovsdb.Change{node("l1"), addressSet("ns")}
		var removed, added []string
		for i := range 3 * limit {
			removed, added = append(removed, fmt.Sprint("10.0.0.", i)), append(added, fmt.Sprint("192.0.2.", i))
		}
		state = append(state, inSet(pod("a", "l1", "10.244.1.3"), "ns", removed...))
		s.replace(state...)
		want := ovsdb.Dump(s.engine.Client())
		s.foreign(
			mutate("Address_Set", addressSetID("ns"), "addresses", libovsdb.MutateOperationDelete, texts(removed[1:]...)),
			mutate("Address_Set", addressSetID("ns"), "addresses", libovsdb.MutateOperationInsert, texts(added...)),
		)
		if n := s.engine.Held(); n > limit {
			t.Errorf("the engine holds %d changes", n)
		}
		told := s.watched()
		s.eventually("the address set is repaired", func() bool { return ovsdb.Dump(s.engine.Client()) == want })
		told()
	})
}

func TestManyOwnersChangedUnwatched(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		const limit = 20
		s.engine.LimitEvents(limit)
		state := []ovsdb.Change{node("l1")}
		var operations []libovsdb.Operation
		for i := range 2 * limit {
			state = append(state, pod(fmt.Sprint(i), "l1", "10.244.1.3"))
			operations = append(operations, update("Logical_Switch_Port", ovsdb.ID("Logical_Switch_Port",
				podOwner(fmt.Sprint(i)), ""), libovsdb.Row{"type": "router"}))
		}
		s.replace(state...)
		want := ovsdb.Dump(s.engine.Client())
		s.foreign(operations...)
		if n := s.engine.Held(); n > limit {
			t.Errorf("the engine holds %d changes", n)
		}
		if err := s.engine.Watch(s.context(), func([]ovsdb.Owner) {}); err == nil || !strings.Contains(err.Error(),
			"Replace") {
			t.Errorf("a Watch that cannot tell what has changed ends with %v", err)
		}
		s.replace(state...)
		s.dump(want)
		told := s.watched()
		s.foreign(operations[0])
		told(podOwner("0"))
	})
}

// A set that the server refuses to correct is nobody else's trouble: an operator's meter must have a
// band, and has but one, which is weft's.
func TestARefusedRepairStandsAlone(t *testing.T) {
	s := realStage(t)
	s.config.Tables = append(slices.Clone(tables),
		ovsdb.Table{Model: &nb.Meter{}, Columns: []string{"name"}, Sets: []string{"bands"}},
		ovsdb.Table{Model: &nb.MeterBand{}, Columns: []string{"action", "rate"}})
	s.start()
	bandID := ovsdb.ID("Meter_Band", "Band", "")
	s.foreign(
		insert("Meter_Band", bandID, libovsdb.Row{"action": "drop", "rate": 10,
			"external_ids": libovsdb.OvsMap{GoMap: map[any]any{ovsdb.OwnerMark: "Band", ovsdb.KeyMark: ""}}}),
		insert("Meter", foreignGroup, libovsdb.Row{"name": "m", "unit": "kbps", "bands": refs(bandID)}),
	)
	state := []ovsdb.Change{
		{Owner: "Band", Rows: []ovsdb.Row{{Model: &nb.MeterBand{Action: "drop", Rate: 10}}}},
		node("l1"), addressSet("ns"), inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.0.0.1"),
	}
	s.replace(state...)
	want := ovsdb.Dump(s.engine.Client())
	stray := mutate("Address_Set", addressSetID("ns"), "addresses", libovsdb.MutateOperationInsert, texts("192.0.2.1"))
	s.foreign(stray)
	s.replace(state...)
	s.dump(want)

	told := s.watched()
	refused := func() float64 { return counters(t, s.engine.Client())["weft_ovsdb_transactions_total refused"] }
	before := refused()
	second := foreignGroup[:35] + "4"
	s.foreign(stray, insert("Meter", second, libovsdb.Row{"name": "n", "unit": "kbps", "bands": refs(bandID)}))
	s.eventually("the address set is repaired", func() bool {
		set, _ := ovsdb.Get[nb.AddressSet](s.engine.Client(), addressSetID("ns"))
		return len(set.Addresses) == 1 && refused() > before
	})
	// What the server has refused once is not asked for again and again.
	before = refused()
	s.apply(pod("b", "l1", "10.244.1.4"))
	s.foreign(stray)
	s.eventually("the address set is repaired", func() bool {
		set, _ := ovsdb.Get[nb.AddressSet](s.engine.Client(), addressSetID("ns"))
		return len(set.Addresses) == 1
	})
	if n := refused() - before; n > 1 { // the last of those above may come late
		t.Errorf("%v more transactions were refused with nothing new to repair", n)
	}
	told()
}
