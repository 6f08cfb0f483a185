package ovn

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubetesting "k8s.io/client-go/testing"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/freeport"
)

// TestNewLeaderKnowsWhoLives: what has moved off a dead node does not go back with the first write of a term, and
// who carries an EgressIP is told as before. The ports are where the test says, in ovn-northd's place.
func TestNewLeaderKnowsWhoLives(t *testing.T) {
	var objects []runtime.Object
	for i := range 3 {
		n := kubeNode(fmt.Sprint("l", i), fmt.Sprintf("10.244.%d.0/24", i))
		n.Annotations, n.Labels = map[string]string{contract.NodeFactsAnnotation: ovntest.Facts(1+i, false)},
			map[string]string{v1alpha1.EgressLabel: ""}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		objects = append(objects, n)
	}
	d := deploy(t, append(objects, web(balanced("203.0.113.64", corev1.LoadBalancerIPModeVIP), func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}))...)
	w := newWorld()
	for resource, o := range map[schema.GroupVersionResource]*unstructured.Unstructured{
		v1alpha1.AddressPools: ownObject(w, "AddressPool", "p",
			v1alpha1.AddressPoolSpec{Ranges: []string{"203.0.113.64/30"}}),
		v1alpha1.EgressIPs: ownObject(w, "EgressIP", "e", v1alpha1.EgressIPSpec{Addresses: []string{"203.0.113.20"}}),
	} {
		if _, err := d.own.Resource(resource).Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	announcing := func() (node string) {
		for _, p := range ovsdb.List[nb.LogicalSwitchPort](d.view, func(p *nb.LogicalSwitchPort) bool {
			return p.Options["nat-addresses"] != ""
		}) {
			if name, ok := strings.CutPrefix(p.Name, "etor-l"); ok {
				node += "l" + name
			}
		}
		return node
	}
	hosting := func(port, chassis string) {
		ovsdbtest.Run(t, "ovn-nbctl", "--db="+d.northbound.Endpoint, "set", "Logical_Router_Port", port,
			"status:hosting-chassis="+chassis)
	}
	carrier := func() string {
		o, err := d.own.Resource(v1alpha1.EgressIPs).Get(context.Background(), "e", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node, _, _ := unstructured.NestedString(o.Object, "status", "node")
		return node
	}
	first := d.start("first", withBalancers)
	d.eventually("a node announces the address", func() bool { return announcing() != "" })
	dead := announcing()
	d.eventually("the EgressIP has a router", func() bool {
		return len(ovsdb.List[nb.LogicalRouterPort](d.view, func(p *nb.LogicalRouterPort) bool {
			return p.Name == "rtoe-egress@e"
		})) == 1
	})
	hosting("rtoe-egress@e", "chassis-2")
	d.eventually("the status names the carrier", func() bool { return carrier() == "l1" })
	hosting("alive-"+dead, map[string]string{"l0": "chassis-2", "l1": "chassis-3", "l2": "chassis-1"}[dead])
	d.eventually("the address has moved", func() bool { return announcing() != dead && announcing() != "" })
	first.stop()

	transactions, patches := d.northbound.Transactions(), len(d.own.Actions())
	second := d.start("second", func(c *settings.Config) { withBalancers(c); c.MetricsAddress = freeport.Address(t) })
	d.eventually("the second is in step", func() bool {
		return strings.Contains(second.page("/metrics"), "\nweft_controller_reconcile_seconds_count 1")
	})
	d.create(kubeNode("lone", "10.9.0.0/24")) // when its Event is there, all before is
	d.eventually("the Event on another node", func() bool { return d.events("lone", "NoPodSubnet") == 1 })
	if n := d.northbound.Transactions() - transactions; n != 1 { // the claim
		t.Errorf("a new leader makes %d transactions beside its claim; %s announces what had moved off %s", n-1, announcing(),
			dead)
	}
	second.stop()
	for _, a := range d.own.Actions()[patches:] {
		if p, ok := a.(kubetesting.PatchAction); ok {
			t.Errorf("a new leader writes %s %s: %s", p.GetResource().Resource, p.GetName(), p.GetPatch())
		}
	}
	if carrier() != "l1" {
		t.Errorf("the EgressIP's node is %q", carrier())
	}
}
