package ovn

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
)

// TestBalancersAreRenamedInPlace: an upgrade that names load balancers otherwise updates their rows and does
// nothing else. Logical flows stay, and so do the connections that OVN would forget with a row that goes.
func TestBalancersAreRenamedInPlace(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.pods("a", "client")
	log, endpoints := d.service("log", "10.96.0.10"), []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 8080}}
	log.Ports = []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 514}}
	d.do(log, d.slice("log-a", "log", endpoints, ready(d.c.pods.At("default/a").Addresses()[0].Addr().String(), "n1")))
	d.touch(d.c.TakeExpected())
	d.within("client", func() {
		conn, err := net.Dial("udp", "10.96.0.10:514")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if text, _, err := exchange(conn, true, d.patience); err != nil || !strings.HasPrefix(text, "a ") {
			t.Fatalf("the Service answers %q: %v", text, err)
		}
	})
	old := d.c.changeOf(northbound.ServiceOwner("default/log"))
	for _, r := range old.Rows {
		if row, ok := r.Model.(*nb.LoadBalancer); ok {
			row.Name = "default/log/" + r.Key
		}
	}
	apply := func() []string {
		d.ovn.NB("--timeout=100", "--wait=hv", "sync")
		control := filepath.Join(filepath.Dir(strings.TrimPrefix(d.ovn.OVSDatabase(), "unix:")), nodetest.Vswitchd+".ctl")
		state := []string{
			d.ovn.NB("--bare", "--columns=_uuid", "list", "Load_Balancer"),
			sorted(d.ovn.Run("ovn-sbctl", "--db="+d.ovn.Southbound(), "--bare", "--columns=_uuid", "list", "Logical_Flow")),
			sorted(d.ovn.Run("ovs-appctl", "-t", control, "dpctl/dump-conntrack")),
		}
		return append(state, d.ovn.NB("lb-list"))
	}
	if err := d.engine.Apply(context.Background(), append(d.c.takeChanges(), old)); err != nil {
		t.Fatal(err)
	}
	before := apply()
	d.do(log)
	after := apply()
	for i, what := range []string{"load balancers", "logical flows", "tracked connections"} {
		if before[i] == "" || before[i] != after[i] {
			t.Errorf("%s are\n%s\nand were\n%s", what, after[i], before[i])
		}
	}
	if !strings.Contains(before[2], "dst=10.96.0.10") {
		t.Errorf("no connection to the Service is tracked:\n%s", before[2])
	}
	for i, name := range []string{"default/log/udp ", "log/cluster/defa "} {
		if list := [][]string{before, after}[i][3]; !strings.Contains(list, name) {
			t.Errorf("lb-list does not show %q:\n%s", name, list)
		}
	}
}

func sorted(lines string) string {
	list := strings.Split(lines, "\n")
	slices.Sort(list)
	return strings.Join(list, "\n")
}
