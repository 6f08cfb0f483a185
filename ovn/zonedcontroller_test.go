package ovn

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/freeport"
)

// twoNorthbounds is a deployment whose nodes are in two zones. That of the deployment itself is a.
type twoNorthbounds struct {
	*deployment
	other *ovsdbtest.Process
	views map[string]*ovsdb.Client
}

// inZone is a Node with the label of a zone, "" for none.
func inZone(zone string, number int, name string) *corev1.Node {
	n := kubeNode(name, fmt.Sprintf("10.244.%d.0/24", number), fmt.Sprintf("fd00:10:244:%d::/64", number))
	n.Annotations = map[string]string{contract.NodeFactsAnnotation: zonedFacts(number)}
	if zone != "" {
		n.Labels = map[string]string{contract.ZoneLabel: zone}
	}
	return n
}

func deployZones(t *testing.T, nodes ...*corev1.Node) *twoNorthbounds {
	t.Helper()
	d := deploy(t, web(), webSlice("a", at("10.244.1.3", "l1"), at("10.244.2.3", "l2")))
	for _, n := range nodes {
		d.create(n)
	}
	schema := ovsdbtest.Northbound(t)
	other := ovsdbtest.Server(t, schema)
	return &twoNorthbounds{d, other, map[string]*ovsdb.Client{"a": d.view,
		"b": ovsdbtest.Connect(t, schema, other.Endpoint, northbound.Tables...)}}
}

func (d *twoNorthbounds) lead(identity string) *instance {
	d.t.Helper()
	return d.start(identity, func(c *settings.Config) {
		twoZones(c)
		c.Northbound = []string{"a=" + d.northbound.Endpoint, "b=" + d.other.Endpoint}
		c.MetricsAddress = freeport.Address(d.t)
	})
}

// portIn is a port in the Northbound of a zone, nil for none.
func (d *twoNorthbounds) portIn(zone, name string) *nb.LogicalSwitchPort {
	for _, p := range ovsdb.List[nb.LogicalSwitchPort](d.views[zone], func(p *nb.LogicalSwitchPort) bool {
		return p.Name == name
	}) {
		return p
	}
	return nil
}

// livesIn waits until a pod has a port in one zone alone.
func (d *twoNorthbounds) livesIn(zone, pod string) {
	d.t.Helper()
	d.eventually(fmt.Sprintf("pod %s is in zone %s", pod, zone), func() bool {
		return (d.portIn("a", "default_"+pod) != nil) == (zone == "a") &&
			(d.portIn("b", "default_"+pod) != nil) == (zone == "b")
	})
}

// network is what a pod is told of its network, "" for nothing yet.
func (d *twoNorthbounds) network(pod string) string {
	d.t.Helper()
	p, err := d.api.CoreV1().Pods("default").Get(context.Background(), pod, metav1.GetOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	return p.Annotations[contract.PodNetworkAnnotation]
}

func (d *twoNorthbounds) told(pod string) {
	d.t.Helper()
	d.eventually("pod "+pod+" is told of its network", func() bool { return d.network(pod) != "" })
}

func (d *twoNorthbounds) label(node, zone string) {
	d.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, contract.ZoneLabel, zone)
	if _, err := d.api.CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		d.t.Fatal(err)
	}
}

// TestControllerOfTwoZones: each Northbound has the pods of its own nodes, and the way to the other's. While that of
// one zone is gone, the other one goes on, and no pod is told of an address that its Northbound does not have.
func TestControllerOfTwoZones(t *testing.T) {
	d := deployZones(t, inZone("", 1, "l1"), inZone("b", 2, "l2"))
	d.create(kubePod("one", "l1"))
	d.create(kubePod("two", "l2"))
	c := d.lead("first")
	d.livesIn("a", "one")
	d.livesIn("b", "two")
	d.told("one")
	d.told("two")
	for zone, foreign := range map[string]int{"a": 2, "b": 1} {
		d.eventually("zone "+zone+" has the Service, and the way to the other zone", func() bool {
			port := d.portIn(zone, contract.TransitPort(fmt.Sprint("l", foreign)))
			return port != nil && port.Type == "remote" &&
				port.Options["requested-chassis"] == fmt.Sprint("chassis-", foreign) &&
				port.ExternalIDs[contract.TunnelAddressesKey] == tunnelEnd(foreign).String() &&
				len(ovsdb.List[nb.LoadBalancer](d.views[zone], func(b *nb.LoadBalancer) bool {
					return b.Vips["10.96.0.10:80"] != ""
				})) == 1
		})
	}
	for node, zone := range map[string]string{"l1": "a", "l2": "b"} {
		d.eventually("Node "+node+" is told of its zone", func() bool {
			n, err := d.api.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
			return err == nil && strings.Contains(n.Annotations[contract.NodeNetworkAnnotation], `"zone":"`+zone+`"`)
		})
	}
	for _, line := range []string{`weft_ovsdb_connected{database="OVN_Northbound",zone="a"} 1`,
		`weft_ovsdb_connected{database="OVN_Northbound",zone="b"} 1`} {
		d.eventually("the metrics show "+line, func() bool { return strings.Contains(c.page("/metrics"), "\n"+line) })
	}

	// Zone b is lost.
	d.other.Kill()
	d.create(kubePod("three", "l1"))
	d.told("three")
	d.create(kubePod("four", "l2"))
	if err := d.api.CoreV1().Pods("default").Delete(context.Background(), "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.create(kubePod("five", "l1"))
	d.told("five") // so the controller has seen pod four
	if network := d.network("four"); network != "" {
		t.Errorf("pod four is told of %s, which no Northbound has", network)
	}
	if page := c.page("/readyz"); page != "ok\n" {
		t.Errorf("with one zone the controller is not ready: %s", page)
	}
	d.other.Start()
	d.livesIn("b", "four")
	d.told("four")
	d.eventually("pod two is gone", func() bool { return d.portIn("b", "default_two") == nil })

	// Somebody else's hand is undone in each zone.
	ovsdbtest.Run(t, "ovn-nbctl", "--db="+d.other.Endpoint, "lsp-del", "default_four")
	d.livesIn("b", "four")

	// A node comes to the other zone, and its pods with it.
	four := d.network("four")
	d.label("l2", "a")
	d.livesIn("a", "four")
	d.eventually("zone b has the way to the node", func() bool {
		own, foreign := d.portIn("a", contract.TransitPort("l2")), d.portIn("b", contract.TransitPort("l2"))
		return own != nil && own.Type == "router" && foreign != nil && foreign.Type == "remote"
	})
	if network := d.network("four"); network != four {
		t.Errorf("pod four had %s, and has %s", four, network)
	}

	// A node that is made anew in another zone than before, and one whose zone was unknown at first.
	if err := d.api.CoreV1().Pods("default").Delete(context.Background(), "four", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := d.api.CoreV1().Nodes().Delete(context.Background(), "l2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.eventually("the node is gone", func() bool {
		return d.portIn("a", contract.ManagementPort("l2")) == nil && d.portIn("b", contract.TransitPort("l2")) == nil
	})
	d.create(inZone("b", 2, "l2"))
	d.create(inZone("c", 3, "l3"))
	d.eventually("the Event on a Node of no zone", func() bool { return d.events("l3", "UnknownZone") > 0 })
	d.label("l3", "b")
	d.create(kubePod("six", "l2"))
	d.create(kubePod("seven", "l3"))
	d.livesIn("b", "six")
	d.livesIn("b", "seven")

	// A node whose label becomes wrong stays where it is.
	d.label("l3", "c")
	d.eventually("another Event on the Node", func() bool { return d.events("l3", "UnknownZone") > 1 })
	d.create(kubePod("eight", "l3"))
	d.livesIn("b", "eight")
	d.livesIn("b", "seven")

	// What there is not in a cluster with zones is told.
	egress := ownObject(newWorld(), "EgressIP", "out", v1alpha1.EgressIPSpec{Addresses: []string{"203.0.113.20"}})
	if _, err := d.own.Resource(objects.EgressKind.Resource()).Create(context.Background(), egress,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.eventually("the Event on an EgressIP", func() bool { return d.events("out", "NotWithZones") > 0 })
}

// TestControllerStartsWithoutAZone: one Northbound is gone when a controller begins. Pods of its zone keep the
// addresses that they were told, and no other pod gets these.
func TestControllerStartsWithoutAZone(t *testing.T) {
	small := inZone("", 1, "l1")
	small.Spec.PodCIDRs = []string{"10.244.1.0/29", "fd00:10:244:1::/64"} // four pods
	d := deployZones(t, small, inZone("b", 2, "l2"))
	d.create(kubePod("one", "l1"))
	d.create(kubePod("two", "l2"))
	first := d.lead("first")
	d.told("one")
	d.told("two")
	two := d.network("two")
	first.stop()
	d.other.Kill()
	// Meanwhile somebody else says of itself what l2 is.
	thief := inZone("a", 3, "thief")
	thief.Annotations[contract.NodeFactsAnnotation] = zonedFacts(2)
	thief.CreationTimestamp = metav1.NewTime(time.Unix(0, 0)) // it is older
	d.create(thief)
	d.lead("second")
	d.eventually("the Event on the thief", func() bool { return d.events("thief", "DuplicateChassis") > 0 })
	d.eventually("zone a has l2's tunnel", func() bool {
		port, other := d.portIn("a", contract.TransitPort("l2")), d.portIn("a", contract.ManagementPort("thief"))
		return port != nil && port.ExternalIDs[contract.TunnelAddressesKey] == tunnelEnd(2).String() && other != nil &&
			!strings.Contains(other.ExternalIDs[contract.TunnelAddressesKey], tunnelEnd(2).String())
	})
	if n := d.events("l2", "DuplicateChassis") + d.events("l2", "DuplicateGateway"); n > 0 {
		t.Errorf("%d Events blame l2", n)
	}
	d.create(kubePod("three", "l1"))
	d.told("three")
	// Zone b would take a pod with the address of a former one for that.
	former := d.network("one")
	if err := d.api.CoreV1().Pods("default").Delete(context.Background(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.eventually("pod one is gone", func() bool { return d.portIn("a", "default_one") == nil })
	address := func(network string) netip.Addr {
		var n contract.PodNetwork
		if err := json.Unmarshal([]byte(network), &n); err != nil {
			t.Fatal(err)
		}
		return n.Addresses[0].Addr()
	}
	late := []string{"late0", "late1", "late2"}
	for _, pod := range late {
		d.create(kubePod(pod, "l1"))
	}
	d.eventually("a pod waits for an address", func() bool {
		return slices.ContainsFunc(late, func(pod string) bool { return d.events(pod, "NoFreeAddress") > 0 })
	})
	d.create(kubePod("four", "l2"))
	d.other.Start()
	d.livesIn("b", "two")
	d.livesIn("b", "four")
	d.told("four")
	d.eventually("the last pod has the address, which all zones know to be free", func() bool {
		return slices.ContainsFunc(late, func(pod string) bool {
			return d.network(pod) != "" && address(d.network(pod)) == address(former)
		})
	})
	if network := d.network("two"); network != two || network == d.network("four") {
		t.Errorf("pod two had %s, and has %s; pod four has %s", two, network, d.network("four"))
	}
}
