package ovn

import (
	"context"
	"fmt"
	"testing"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestTwoZonesWithPackets: two nodes have a Northbound, a northd and a Southbound each. Pods reach each other and
// Services by both families, and policies hold. One zone changes while the other one's databases are gone, which learns
// of it when they are back.
func TestTwoZonesWithPackets(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, twoZones))
	n2 := d.secondZone()
	d.do(d.namespace("default", "kubernetes.io/metadata.name=default"))
	d.pods("a", "c")
	d.podsAt(n2, "n2", "b")
	d.outside(nil)
	d.serve("outside")
	s := d.service("web", "10.96.0.10", "fd00:10:96::a")
	s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: 30080}}
	ports := []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}}
	a, a6 := d.addresses("a")
	b, b6 := d.addresses("b")
	d.do(s, d.slice("web-4", "web", ports, ready(b, "n2")), d.slice("web-6", "web", ports, ready(b6, "n2")))
	all := []visit{
		{"another zone's pod", "a", b + ":8080", a}, {"another zone's pod, IPv6", "a", "[" + b6 + "]:8080", a6},
		{"the other way", "b", a + ":8080", b}, {"the other way, IPv6", "b", "[" + a6 + "]:8080", b6},
		{"Service", "a", "10.96.0.10:80", a}, {"Service, IPv6", "a", "[fd00:10:96::a]:80", a6},
		{"Service of its own", "b", "10.96.0.10:80", "169.254.169.5"},
		{"gateway", "a", testClient + ":8080", testGateway},
		{"gateway, IPv6", "a", "[" + testClient6 + "]:8080", testGateway6},
		{"NodePort", "outside", testGateway + ":30080", "100.64.0.2"},
		{"NodePort, IPv6", "outside", "[" + testGateway6 + "]:30080", "fd98::2"},
	}
	d.visits(all...)

	d.labels("a", "may")
	d.labels("b", "served")
	policy := d.policies(t, `
kind: NetworkPolicy
metadata: {name: served, namespace: default}
spec:
  podSelector: {matchLabels: {app: served}}
  ingress: [{from: [{podSelector: {matchLabels: {app: may}}}]}]
`)
	d.do(policy...)
	who := func(ways ...string) (list []visit) {
		for _, from := range ways {
			ip4, ip6 := d.addresses(from)
			list = append(list, visit{"who may", from, b + ":8080", ip4}, visit{"who may, IPv6", from, "[" + b6 + "]:8080", ip6})
		}
		return list
	}
	refusals := []visit{{"who may not", "c", b + ":8080", noAnswer},
		{"who may not, IPv6", "c", "[" + b6 + "]:8080", noAnswer},
		{"who may not, by the Service", "c", "10.96.0.10:80", noAnswer},
		{"who may not, by the Service, IPv6", "c", "[fd00:10:96::a]:80", noAnswer}}
	d.visits(append(who("a"), refusals...)...)

	// Zone b stands still. Zone a changes meanwhile, and b learns of it when it is back.
	other := d.zones[1]
	servers := []string{nodetest.NBServer, nodetest.SBServer, nodetest.Northd}
	for _, server := range servers {
		other.ovn.Kill(server)
	}
	d.zones = d.zones[:1]
	d.pods("late")
	d.labels("late", "may")
	late, late6 := d.addresses("late")
	d.visits(append(who("a"), append(refusals, visit{"within the zone", "late", a + ":8080", late},
		visit{"within the zone, IPv6", "late", "[" + a6 + "]:8080", late6},
		visit{"zone b does not know of it", "late", b + ":8080", noAnswer},
		visit{"zone b does not know of it, IPv6", "late", "[" + b6 + "]:8080", noAnswer})...)...)
	for _, server := range servers {
		other.ovn.Start(server)
	}
	d.zones = append(d.zones, other)
	d.replace(other)
	d.do()
	d.visits(append(who("a", "late"), refusals...)...)
	d.undo(policy...)
	d.visits(all...)
}

// labels gives a pod the label app.
func (d *datapath) labels(pod, app string) {
	d.t.Helper()
	d.do(d.labelled(d.Get(objects.Key{Kind: objects.PodKind, Name: "default/" + pod}).(*objects.Pod), "app="+app))
}

// replace makes a zone's Northbound what it would be.
func (d *datapath) replace(z *datapathZone) {
	d.t.Helper()
	if err := z.engine.Replace(context.Background(), z.rows(d.c.takeEverything())); err != nil {
		d.t.Fatal(err)
	}
}

// secondZone is n2 with databases of its own, in a network namespace that a cable joins to n1's.
func (d *datapath) secondZone() *nodetest.OVN {
	d.t.Helper()
	central := nodetest.StartCentral(d.t)
	schema := ovsdbtest.Northbound(d.t)
	d.zones = append(d.zones, &datapathZone{ovn: central,
		engine: ovsdb.NewEngine(ovsdbtest.Connect(d.t, schema, central.Northbound(), northbound.Tables...))})
	for i, z := range d.zones {
		z.rows = zoneWriterOf(d.c, i).newView().Rows
		other := fmt.Sprint(2 - i)
		z.ovn.Run("ovn-sbctl", "--db="+z.ovn.Southbound(), "chassis-add", "chassis-"+other, "geneve", "192.0.2."+other,
			"--", "set", "Chassis", "chassis-"+other, "other_config:is-remote=true", "hostname=n"+other)
		d.replace(z)
	}
	return d.secondNodeOf(central, "external_ids:ovn-is-interconn=true")
}
