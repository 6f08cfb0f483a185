package ovn

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
)

// TestHints states what nodes n1 in zone z1, n2 in z2 and n3 in none see, by the rules of kube-proxy
// (CategorizeEndpoints).
func TestHints(t *testing.T) {
	a, b, c := at("10.244.0.3", "n1"), at("10.244.1.3", "n2"), at("10.244.2.3", "n3")
	vip := func(addresses ...string) string {
		for i := range addresses {
			addresses[i] += ":8080"
		}
		return " 10.96.0.10:80=" + strings.Join(addresses, ",")
	}
	all := vip("10.244.0.3", "10.244.1.3")
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    []string
	}{
		{"zones", []runtime.Object{web(), webSlice("a", forZones(a, "z1"), forZones(b, "z2"))}, []string{
			"tcp [zoneless-linux zoneless-windows]" + all,
			"tcp@zone=z1 [zone-z1-linux zone-z1-windows]" + vip("10.244.0.3"),
			"tcp@zone=z2 [zone-z2-linux zone-z2-windows]" + vip("10.244.1.3")}},
		{"an endpoint for two zones", []runtime.Object{web(), webSlice("a", forZones(a, "z2", "z1"), forZones(b, "z2"))},
			[]string{
				"tcp [zoneless-linux zoneless-windows]" + all,
				"tcp@zone=z1 [zone-z1-linux zone-z1-windows]" + vip("10.244.0.3"),
				"tcp@zone=z2 [zone-z2-linux zone-z2-windows]" + all}},
		{"a zone without endpoints sees all", []runtime.Object{web(), webSlice("a", forZones(a, "z1"), forZones(b, "z1"))},
			[]string{
				"tcp [zoneless-linux zoneless-windows zone-z2-linux zone-z2-windows]" + all,
				"tcp@zone=z1 [zone-z1-linux zone-z1-windows]" + all}},
		{"zones that no node is in", []runtime.Object{web(), webSlice("a", forZones(a, "z8"), forZones(b, "z9"))}, []string{
			"tcp [zoneless-linux zoneless-windows zone-z1-linux zone-z1-windows zone-z2-linux zone-z2-windows]" + all}},
		{"one endpoint without a hint", []runtime.Object{web(), webSlice("a", forZones(a, "z1"), b)},
			[]string{"tcp [cluster]" + all}},
		{"hints in one of two slices", []runtime.Object{web(), webSlice("a", forZones(a, "z1")), webSlice("b", b)},
			[]string{"tcp [cluster]" + all}},
		{"an endpoint without a hint that is not ready",
			[]runtime.Object{web(), webSlice("a", forZones(a, "z1"), unready(b))}, []string{
				"tcp [zoneless-linux zoneless-windows zone-z2-linux zone-z2-windows]" + vip("10.244.0.3"),
				"tcp@zone=z1 [zone-z1-linux zone-z1-windows]" + vip("10.244.0.3")}},
		{"what terminates is for all", []runtime.Object{web(), webSlice("a", forZones(terminating(a, true), "z1"),
			forZones(terminating(b, true), "z2"))},
			[]string{"tcp [cluster]" + all}},
		{"a hint does not bring back what terminates",
			[]runtime.Object{web(), webSlice("a", forZones(terminating(a, true), "z1"), forZones(b, "z2"))}, []string{
				"tcp [zoneless-linux zoneless-windows zone-z1-linux zone-z1-windows]" + vip("10.244.1.3"),
				"tcp@zone=z2 [zone-z2-linux zone-z2-windows]" + vip("10.244.1.3")}},
		{"nodes", []runtime.Object{web(), webSlice("a", forNodes(a, "n1"), forNodes(b, "n2"))}, []string{
			"tcp [zoneless-linux zoneless-windows]" + all,
			"tcp@n1 [n1]" + vip("10.244.0.3"),
			"tcp@n2 [n2]" + vip("10.244.1.3")}},
		{"nodes before zones", []runtime.Object{web(), webSlice("a", forZones(forNodes(a, "n1"), "z1"),
			forZones(forNodes(c, "n3"), "z2"))}, []string{
			"tcp@n1 [n1]" + vip("10.244.0.3"),
			"tcp@n3 [n3]" + vip("10.244.2.3"),
			"tcp@zone=z2 [zone-z2-linux zone-z2-windows]" + vip("10.244.2.3")}},
		{"nodes' hints that not all have, and zones'",
			[]runtime.Object{web(), webSlice("a", forZones(forNodes(a, "n1"), "z1"), forZones(b, "z2"))}, []string{
				"tcp [zoneless-linux zoneless-windows]" + all,
				"tcp@zone=z1 [zone-z1-linux zone-z1-windows]" + vip("10.244.0.3"),
				"tcp@zone=z2 [zone-z2-linux zone-z2-windows]" + vip("10.244.1.3")}},
		{"internalTrafficPolicy Local knows no hints", []runtime.Object{web(local), webSlice("a", forZones(a, "z2"),
			forZones(b, "z1"))}, []string{
			"tcp@* [n3] 10.96.0.10:80=",
			"tcp@n1 [n1]" + vip("10.244.0.3"),
			"tcp@n2 [n2]" + vip("10.244.1.3")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := balancers(t, test.objects); !slices.Equal(got, test.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(test.want, "\n  "))
			}
		})
	}
	t.Run("SCTP has none on Windows", func(t *testing.T) {
		slice := webSlice("a", forZones(a, "z1"), forZones(c, "z2"))
		slice.Ports[0].Protocol = ptr(corev1.ProtocolSCTP)
		want := []string{
			"sctp [zoneless-linux]" + vip("10.244.0.3", "10.244.2.3"),
			"sctp@zone=z1 [zone-z1-linux]" + vip("10.244.0.3"),
			"sctp@zone=z2 [zone-z2-linux]" + vip("10.244.2.3")}
		if got := balancers(t, []runtime.Object{web(of(corev1.ProtocolSCTP)), slice}, "n2"); !slices.Equal(got, want) {
			t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	})
}

// TestNodeChangesItsZone and what its clients see with it; Services without hints are left alone.
func TestNodeChangesItsZone(t *testing.T) {
	s := newScene(t, nil)
	e1, e2 := ready("10.244.1.3", "n1"), ready("10.244.2.3", "n2")
	e1.Zones, e2.Zones = "z1,", "z2,"
	n1, n2 := s.node("n1", "10.244.1.0/24"), s.node("n2", "10.244.2.0/24")
	n1.Zone, n2.Zone = "z1", "z2"
	s.do(s.world.service("plain", "10.96.0.11"), s.world.service("web", "10.96.0.10"),
		s.world.slice("web-1", "web", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}}, e1, e2), n1, n2)
	move := func(zone string) (owners []string) {
		n := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "n1"}].(*objects.Node)
		n.Zone = zone
		s.c.update(s.put(&n), s.Get)
		for _, change := range s.c.takeChanges() {
			owners = append(owners, string(change.Owner))
		}
		return owners
	}
	groups := func() string { return strings.Join(groupsOf(s.c.changeOf(northbound.NodeOwner("n1")))[2:], " ") }
	s.want("zone group", groups(), loadbalancer.ZoneGroupID("z1", contract.Linux, loadbalancer.OnSwitches))
	for _, c := range []struct {
		zone  string
		wants []string
	}{
		{"z2", []string{"Cluster", "Node/n1", "Service/default/web"}}, // z1 has no node any more
		{"", []string{"Cluster", "Node/n1", "Service/default/web"}},
		{"z1", []string{"Cluster", "Node/n1", "Service/default/web"}},
		{"z1", []string{"Node/n1"}},
	} {
		if got := move(c.zone); !slices.Equal(got, c.wants) {
			t.Errorf("to zone %q: touches %s, want %s", c.zone, got, c.wants)
		}
		s.want("zone group", groups(), loadbalancer.ZoneGroupID(c.zone, contract.Linux, loadbalancer.OnSwitches))
	}
}

func forZones(e discoveryv1.Endpoint, zones ...string) discoveryv1.Endpoint {
	if e.Hints == nil {
		e.Hints = &discoveryv1.EndpointHints{}
	}
	for _, zone := range zones {
		e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: zone})
	}
	return e
}

func forNodes(e discoveryv1.Endpoint, nodes ...string) discoveryv1.Endpoint {
	if e.Hints == nil {
		e.Hints = &discoveryv1.EndpointHints{}
	}
	for _, node := range nodes {
		e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: node})
	}
	return e
}
