package ovsdb_test

import (
	"context"
	"errors"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

func balancer(endpoint string) ovsdb.Change {
	return ovsdb.Change{Owner: "Service/default/web", Rows: []ovsdb.Row{{Model: &nb.LoadBalancer{Name: "web",
		Vips: map[string]string{"10.96.0.1:80": endpoint}}}}}
}

// TestRowsComeBackAfterTheirReaders: a row that was deleted, by whomever, waits for readers to see that before it comes
// back. No other row does.
func TestRowsComeBackAfterTheirReaders(t *testing.T) {
	both(t, func(t *testing.T, s *stage) {
		asked := 0
		var answer error
		s.engine.HoldBack(func(context.Context) error { asked++; return answer }, nb.LoadBalancerTable)
		gone := ovsdb.Change{Owner: "Service/default/web"}
		expect := func(what string, want int, changes ...ovsdb.Change) {
			t.Helper()
			asked = 0
			s.apply(changes...)
			if asked != want {
				t.Errorf("%s: readers were waited for %d times, want %d", what, asked, want)
			}
		}
		expect("new rows", 0, node("l1"), pod("a", "l1", "10.244.1.3"), balancer("10.1.0.1:80"))
		expect("another value", 0, balancer("10.1.0.2:80"))
		expect("a deletion", 0, gone)
		expect("a return", 1, balancer("10.1.0.3:80"))
		s.apply(gone)
		s.apply(ovsdb.Change{Owner: podOwner("a")})
		expect("a row of another table", 0, pod("a", "l1", "10.244.1.3"))
		expect("a return beside others", 1, pod("b", "l1", "10.244.1.4"), balancer("10.1.0.4:80"),
			pod("c", "l1", "10.244.1.5"))

		lb := ovsdb.ID(nb.LoadBalancerTable, "Service/default/web", "")
		s.foreign(libovsdb.Operation{Op: libovsdb.OperationDelete, Table: nb.LoadBalancerTable, Where: []libovsdb.Condition{
			libovsdb.NewCondition("_uuid", libovsdb.ConditionEqual, libovsdb.UUID{GoUUID: lb})}})
		s.eventually("the replica has seen the deletion", func() bool {
			return len(ovsdb.List[nb.LoadBalancer](s.engine.Client(), nil)) == 0
		})
		expect("another hand's deletion", 1, balancer("10.1.0.5:80"))

		answer = errors.New("nobody reads")
		s.apply(gone)
		expect("readers that do not come", 1, balancer("10.1.0.6:80"))
		s.apply(gone)
		expect("readers that have not come", 0, balancer("10.1.0.7:80"))
	})
}
