package latency

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// balances finds the address and the endpoints of a load balancer in a flow of the logical switch's table lb.
var balances = regexp.MustCompile(`\(ls_in_lb +\).*ip4.dst == ([0-9.]+).*backends=([0-9.:,]+)`)

// TestALoadBalancerComesBackWhileNorthdIsBusy: ovn-northd must not meet its deletion and its return at once. It would
// end by an assertion if the load balancer is in a group, or go on with the former endpoints if it is on a switch.
func TestALoadBalancerComesBackWhileNorthdIsBusy(t *testing.T) {
	n := &network{t, ovsdbtest.Server(t, ovsdbtest.Northbound(t)), ovsdbtest.Server(t, ovsdbtest.Southbound(t))}
	ovsdbtest.Northd(t, n.north, n.south)
	config := ovsdb.Config{Endpoints: n.north.Endpoint, Model: ovsdbtest.Northbound(t).Model, Logger: ovsdbtest.Logger(t)}
	tables := config
	tables.Tables = northbound.Tables
	client, err := ovsdb.Connect(t.Context(), tables)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	engine, waits := ovsdb.NewEngine(client), 0
	engine.HoldBack(func(ctx context.Context) error {
		waits++
		return CatchUp(ctx, config)
	}, nb.LoadBalancerTable, nb.LoadBalancerGroupTable)
	apply := func(changes ...ovsdb.Change) {
		t.Helper()
		if err := engine.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
	}
	const grouped, switched = "10.96.0.1", "10.96.0.2"
	const topology, service = ovsdb.Owner("Node/n1"), ovsdb.Owner("Service/default/web")
	base := northbound.Extend(ovsdb.Change{Owner: topology})
	group := base.Add(nb.LoadBalancerGroupTable, "group", &nb.LoadBalancerGroup{Name: "group"})
	for i := range 400 { // so that northd is busy for some time
		name := fmt.Sprintf("n%d", i)
		s := &nb.LogicalSwitch{Name: name}
		if i == 0 {
			s.LoadBalancerGroup = []string{group}
		}
		base.Add(nb.LogicalSwitchTable, name, s)
	}
	apply(base.Change)
	balancer := func(endpoint string) ovsdb.Change {
		change := northbound.Extend(ovsdb.Change{Owner: service})
		tcp := nb.LoadBalancerProtocolTCP
		add := func(name, vip, table, holder string) {
			change.Member(table, holder, "load_balancer", change.Add(nb.LoadBalancerTable, name, &nb.LoadBalancer{Name: name,
				Protocol: &tcp, Vips: map[string]string{vip + ":80": endpoint}}))
		}
		add("grouped", grouped, nb.LoadBalancerGroupTable, group)
		add("switched", switched, nb.LogicalSwitchTable, ovsdb.ID(nb.LogicalSwitchTable, topology, "n1"))
		return change.Change
	}
	ovn := func(program, endpoint string, args ...string) string {
		t.Helper()
		return ovsdbtest.Run(t, program, append([]string{"--db=" + endpoint, "--timeout=30"}, args...)...)
	}
	const rounds = 10
	for round := range rounds {
		endpoint := fmt.Sprintf("10.1.0.%d:80", round)
		apply(balancer("10.2.0.1:80"))
		ovn("ovn-nbctl", n.north.Endpoint, "--wait=sb", "sync")
		ovn("ovn-nbctl", n.north.Endpoint, "set", "NB_Global", ".", fmt.Sprintf("options:round=%d", round)) // it computes all
		apply(ovsdb.Change{Owner: service})
		apply(balancer(endpoint))
		ovn("ovn-nbctl", n.north.Endpoint, "--wait=sb", "sync")
		leads := map[string]string{}
		for line := range strings.Lines(ovn("ovn-sbctl", n.south.Endpoint, "dump-flows")) {
			if m := balances.FindStringSubmatch(line); m != nil {
				leads[m[1]] += m[2]
			}
		}
		if want := map[string]string{grouped: endpoint, switched: endpoint}; !maps.Equal(leads, want) {
			t.Errorf("round %d: the flows lead to %v, want %v", round, leads, want)
		}
	}
	if waits < rounds {
		t.Errorf("of %d returns, %d waited for ovn-northd", rounds, waits)
	}
}

// TestNorthdIsNotThere: what waits for it ends with its time.
func TestNorthdIsNotThere(t *testing.T) {
	server := ovsdbtest.Server(t, ovsdbtest.Northbound(t))
	ovsdbtest.Run(t, "ovn-nbctl", "--db="+server.Endpoint, "init")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := CatchUp(ctx, ovsdb.Config{Endpoints: server.Endpoint, Model: ovsdbtest.Northbound(t).Model,
		Logger: ovsdbtest.Logger(t)})
	if err == nil || !strings.Contains(err.Error(), "ovn-northd") {
		t.Errorf("%v", err)
	}
}
