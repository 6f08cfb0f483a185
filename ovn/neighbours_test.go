package ovn

import (
	"slices"
	"strings"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// neighbours are the rows Static_MAC_Binding of a database.
func neighbours(client *ovsdb.Client) []string {
	list := []string{}
	for _, row := range ovsdb.List(client, func(*nb.StaticMACBinding) bool { return true }) {
		list = append(list, strings.Join([]string{row.LogicalPort, row.IP, row.MAC}, " "))
	}
	slices.Sort(list)
	return list
}

// TestRoutersKnowWhomTheyCannotAsk: the host behind its own address, and on Windows the cluster's router. Linux nodes
// have no row for the join switch. The rows go with their node, also where the controller has not made them itself;
// those of others stay.
func TestRoutersKnowWhomTheyCannotAsk(t *testing.T) {
	w := newWorld()
	for i, system := range []string{contract.Linux, contract.Windows} {
		n := w.node(system, []string{"10.244.1.0/24", "10.244.2.0/24"}[i],
			[]string{"fd00:10:244:1::/64", "fd00:10:244:2::/64"}[i])
		n.Facts, n.OS = ovntest.EditFacts(1+i, true, func(f *contract.NodeFacts) {
			f.OS, f.Gateway.HostAddresses = system, true
			f.Addresses = contract.Addrs(f.Gateway.Addresses)
		}), system
		w.put(n)
	}
	settings := ovntest.Settings(t, ovntest.Dual)
	d := ovsdbtest.Northbound(t)
	endpoint := ovsdbtest.Memory(t, d)
	engine := ovsdb.NewEngine(ovsdbtest.Connect(t, d, endpoint, northbound.Tables...))
	const operators = "operators-port 192.0.2.77 02:00:00:00:00:77"
	_, err := engine.Client().Transact(t.Context(), libovsdb.Operation{Op: libovsdb.OperationInsert,
		Table: nb.StaticMACBindingTable, UUIDName: "row",
		Row: libovsdb.Row{"logical_port": "operators-port", "ip": "192.0.2.77", "mac": "02:00:00:00:00:77"}})
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *cluster {
		c := newCluster(settings)
		c.begin(records.Records{}, w.Keys(), w.Get)
		if err := engine.Replace(t.Context(), c.takeEverything()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	want := func(text string, list ...string) {
		t.Helper()
		if got := neighbours(engine.Client()); !slices.Equal(got, append([]string{operators}, list...)) {
			t.Errorf("%s: got\n  %s", text, strings.Join(got, "\n  "))
		}
	}
	const alias = "0a:58:a9:fe:a9:02"
	linux := []string{"rtoe-linux 169.254.169.2 " + alias, "rtoe-linux fd69::2 " + alias}
	windows := []string{"rtoe-windows 169.254.169.2 " + alias, "rtoe-windows fd69::2 " + alias,
		"rtoj-gw-windows 100.64.0.1 0a:58:64:40:00:01", "rtoj-gw-windows fd98::1 0a:58:64:40:00:01"}
	begin()
	want("at first", append(slices.Clone(linux), windows...)...)
	// a controller that has made none of them
	engine = ovsdb.NewEngine(ovsdbtest.Connect(t, d, endpoint, northbound.Tables...))
	begin()
	want("after a restart", append(slices.Clone(linux), windows...)...)
	engine = ovsdb.NewEngine(ovsdbtest.Connect(t, d, endpoint, northbound.Tables...))
	delete(w.objects, objects.Key{Kind: objects.NodeKind, Name: "windows"})
	begin()
	want("without the Windows node", linux...)
}
