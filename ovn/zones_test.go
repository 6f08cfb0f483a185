package ovn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/interconnect"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/watch"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// twoZones has a cluster of the zones a and b.
func twoZones(c *settings.Config) {
	ovntest.Dual(c)
	c.Northbound = []string{"a=unix:a", "b=unix:b"}
}

// zoneWriterOf writes to no database: its view is asked alone.
func zoneWriterOf(c *cluster, i int) *zoneWriter {
	return &zoneWriter{zone: &zone{Zone: c.settings.Zones[i]}, cluster: c}
}

// TestZonesAgree: what one zone has of its own node's port on the transit switch, the others have of the remote port.
// No zone has rows of a foreign node's pods, and each has their addresses in its sets. The router knows all gateway
// routers of its zone.
func TestZonesAgree(t *testing.T) {
	w, c := newWorld(), newCluster(ovntest.Settings(t, twoZones))
	keys := w.put(w.namespace("default", "kubernetes.io/metadata.name=default"))
	for i := 1; i <= 4; i++ {
		n := w.node(fmt.Sprint("n", i), fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("fd00:10:244:%d::/64", i))
		n.Facts, n.Labels = zonedFacts(i), objects.NewLabelSet(map[string]string{contract.ZoneLabel: "ab"[i%2 : i%2+1]})
		keys = append(keys, w.put(n, w.labelled(w.pod("default", fmt.Sprint("p", i), n.Name), "app=x"))...)
	}
	keys = append(keys, w.put(w.policies(t, `
kind: NetworkPolicy
metadata: {name: to-x, namespace: default}
spec:
  podSelector: {matchLabels: {app: x}}
  ingress: [{from: [{podSelector: {matchLabels: {app: x}}}]}]
`)...)...)
	views := [2]*interconnect.View{zoneWriterOf(c, 0).newView(), zoneWriterOf(c, 1).newView()}
	zones := [2]map[ovsdb.Owner]ovsdb.Change{{}, {}}
	for ; len(keys) > 0; keys = w.absorb(c) {
		c.update(keys, w.Get)
		changes := c.takeChanges()
		for i, view := range views {
			for j, change := range view.Rows(changes) {
				if change.Owner != changes[j].Owner || change.With != changes[j].With {
					t.Errorf("the change of %s is one of %s", changes[j].Owner, change.Owner)
				}
				zones[i][change.Owner] = change
			}
		}
	}
	found := [2]zoneRows{readZone(zones[0]), readZone(zones[1])}
	for i, zone := range found {
		if len(zone.own) != 2 || len(zone.remote) != 2 || zone.routes != 2*4 {
			t.Errorf("zone %d has own nodes %v, foreign ones %v and %d routes to these", i, zone.own, zone.remote, zone.routes)
		}
		for port, own := range zone.own {
			var node int
			fmt.Sscanf(port, "tstor-n%d", &node)
			own.tunnel = tunnelEnd(node).String()
			if remote := found[1-i].remote[port]; remote != own {
				t.Errorf("zone %d has %s as %+v, and the other one as %+v", i, port, own, remote)
			}
		}
		if !maps.Equal(zone.joined, zone.neighbours) || len(zone.joined) != 2*2 {
			t.Errorf("zone %d has on the join switch %v, and its router knows %v", i, zone.joined, zone.neighbours)
		}
		if len(zone.pods) != 2 || len(zone.addresses) != 2*4 {
			t.Errorf("zone %d has ports of the pods %v, and the addresses %v in sets", i, zone.pods, zone.addresses)
		}
	}
}

// zonedFacts are those of node number i, which has a gateway and says where its tunnels end.
func zonedFacts(i int) string {
	facts := ovntest.ReadFacts(ovntest.Facts(i, true))
	facts.Addresses = append(facts.Addresses, tunnelEnd(i))
	facts.TunnelAddress = tunnelEnd(i)
	return contract.Format(facts)
}

func tunnelEnd(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + i)}) }

// linked is a node's port of the transit switch, and where the node's tunnels end.
type linked struct{ key, address, mac, chassis, tunnel string }

// zoneRows are what a zone has of nodes and pods.
type zoneRows struct {
	own, remote     map[string]linked // by the port's name
	routes          int               // to other zones
	pods, addresses []string          // those with a port, and those of all pods in sets
	// joined are the MAC addresses of routers on the join switch by their addresses, and neighbours are those that the
	// cluster's router is told.
	joined, neighbours map[string]string
}

func readZone(changes map[ovsdb.Owner]ovsdb.Change) zoneRows {
	z := zoneRows{own: map[string]linked{}, remote: map[string]linked{}, joined: map[string]string{},
		neighbours: map[string]string{}}
	for owner, change := range changes {
		kind, name := part.Split(owner)
		var chassis string
		ports := map[string]*nb.LogicalSwitchPort{}
		for _, row := range change.Rows {
			switch m := row.Model.(type) {
			case *nb.HAChassis:
				chassis = m.ChassisName
			case *nb.LogicalSwitchPort:
				ports[row.Key] = m
			case *nb.LogicalRouterPort:
				for _, network := range m.Networks {
					if row.Key == "join" && owner != northbound.ClusterOwner {
						z.joined[netip.MustParsePrefix(network).Addr().String()] = m.MAC
					}
				}
			case *nb.StaticMACBinding:
				if m.LogicalPort == "rtoj-cluster" {
					z.neighbours[m.IP] = m.MAC
				}
			case *nb.LogicalRouterStaticRoute:
				if m.OutputPort != nil && *m.OutputPort == "rtots" {
					z.routes++
				}
			}
		}
		if port := ports["transit"]; kind == "Node" && port != nil && port.Type == "remote" {
			mac, address, _ := strings.Cut(port.Addresses[0], " ")
			z.remote[port.Name] = linked{port.Options["requested-tnl-key"], address, mac, port.Options["requested-chassis"],
				port.ExternalIDs[contract.TunnelAddressesKey]}
		} else if kind == "Node" && port != nil {
			router := northbound.Model[nb.LogicalRouterPort](northbound.Extend(change), "transit")
			address := strings.TrimSuffix(router.Networks[0], "/32")
			z.own[port.Name] = linked{port.Options["requested-tnl-key"], address, router.MAC, chassis, ""}
		}
		if kind == "Pod" && len(change.Rows) > 0 {
			z.pods = append(z.pods, name)
		}
		for _, m := range change.Memberships {
			if kind == "Pod" && m.Table == nb.AddressSetTable {
				z.addresses = append(z.addresses, m.Values...)
			}
		}
	}
	return z
}

// TestHeldAddressesOutliveSubnets: the address of a pod that has ended stays held while its node gets its subnets anew.
// A pod that is there has its own address again, and refused ends free nothing.
func TestHeldAddressesOutliveSubnets(t *testing.T) {
	w, c := newWorld(), newCluster(ovntest.Settings(t, twoZones))
	update := func(keys []part.Event) {
		for ; len(keys) > 0; keys = w.absorb(c) {
			c.update(keys, w.Get)
			c.takeChanges()
		}
	}
	node := func(subnets ...string) { update(w.put(w.node("n1", subnets...))) }
	subnets := []string{"10.244.1.0/29", "fd00:10:244:1::/64"} // four pods
	node(subnets...)
	for _, pod := range []string{"stays", "ends"} {
		update(w.put(w.pod("default", pod, "n1")))
	}
	address := func(pod string) string {
		if p := c.pods.At("default/" + pod); p != nil && len(p.Addresses()) > 0 {
			return p.Addresses()[0].Addr().String()
		}
		return ""
	}
	stays, ends := address("stays"), address("ends")
	key := objects.Key{Kind: objects.PodKind, Name: "default/ends"}
	delete(w.objects, key)
	update([]part.Event{key})
	node()
	node(subnets...)
	for i := range 3 {
		pod := fmt.Sprint("new", i)
		update(w.put(w.pod("default", pod, "n1")))
		if got := address(pod); got == ends || got == stays {
			t.Errorf("pod %s has %s of another pod", pod, got)
		}
	}
	if got := address("stays"); got != stays {
		t.Errorf("the pod that stays had %s, and has %s", stays, got)
	}
	refused := true
	release := func() {
		ended := northbound.PodOwner("default/ends")
		c.pods.ReleaseHeld(func(owner ovsdb.Owner) bool { return refused && owner == ended })
		update([]part.Event{part.Signal{What: addressesFree}})
	}
	release()
	if got := address("new2"); got != "" {
		t.Errorf("the end of a pod was refused, and another one has %s", got)
	}
	refused = false
	release()
	if got := address("new2"); got != ends {
		t.Errorf("the last pod has %q, and %s is free", got, ends)
	}
}

// TestAZoneThatCanBeUsedLater is enough for a start, even if the last other one fails while it is waited for.
func TestAZoneThatCanBeUsedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := []northboundConfig{{Zone: settings.Zone{Name: "a"}}, {Zone: settings.Zone{Name: "b"}}}
		old := errors.New("table Logical_Switch lacks a column")
		var tried atomic.Bool
		_, closer, err := dialZones(t.Context(), list, zonePatience, newMetrics(watch.NewQueue()), ovsdbtest.Logger(t),
			func(_ context.Context, n northboundConfig) (database, func(), error) {
				if n.Name == "b" {
					time.Sleep(lastPause + zonePatience/2)
					return nil, nil, old
				}
				if !tried.Swap(true) {
					return nil, nil, old
				}
				return away{connected: true}, func() {}, nil
			})
		if err != nil {
			t.Fatalf("zone a is connected: %v", err)
		}
		closer()
	})
}

// TestAZoneThatCannotBeUsed: the others are used, and it is tried again. If none can be used there is an error.
func TestAZoneThatCannotBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := []northboundConfig{{Zone: settings.Zone{Name: "a"}}, {Zone: settings.Zone{Name: "b"}}}
		log := ovsdbtest.Logger(t)
		old := errors.New("table Logical_Switch lacks a column")
		var upgraded atomic.Bool
		var closed atomic.Int32
		dial := func(_ context.Context, n northboundConfig) (database, func(), error) {
			if n.Name == "b" && !upgraded.Load() {
				return nil, nil, old
			}
			return away{connected: true}, func() { closed.Add(1) }, nil
		}
		m := newMetrics(watch.NewQueue())
		all, closer, err := dialZones(t.Context(), list, zonePatience, m, log, dial)
		if err != nil {
			t.Fatal(err)
		}
		var there []string
		for z := range all.(zones).each {
			there = append(there, z.Name)
		}
		if !slices.Equal(there, []string{"a"}) || closed.Load() > 0 {
			t.Errorf("zones %q are there, %d connections closed", there, closed.Load())
		}
		upgraded.Store(true)
		time.Sleep(2 * lastPause)
		synctest.Wait()
		if !all.(zones).list[1].connected() {
			t.Error("the zone is not tried again")
		}
		closer()
		if closed.Load() != 2 {
			t.Errorf("%d connections closed, of two", closed.Load())
		}
		if _, _, err := dialZones(t.Context(), list[1:], zonePatience, m, log, func(context.Context, northboundConfig) (
			database, func(), error) {
			return nil, nil, old
		}); !errors.Is(err, old) || !strings.Contains(err.Error(), "zone b") {
			t.Errorf("no zone can be used: %v", err)
		}
	})
}
