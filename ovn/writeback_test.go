package ovn

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
)

// TestWriteBacks: what is written to objects of each kind, byte for byte, and at which time.
func TestWriteBacks(t *testing.T) {
	s := newScene(t, func(c *settings.Config) {
		ovntest.Dual(c)
		withBalancers(c)
	})
	s.c.At(time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC))
	written := time.Date(2026, 1, 3, 4, 5, 6, 7, time.FixedZone("", 3600))
	before := metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))

	known := s.policies(t, `{kind: NetworkPolicy, metadata: {namespace: prod, name: known}, spec: {podSelector: {}}}`)[0].(*objects.PolicyObject)
	known.Noted = fmt.Sprintf(`{"uid":%q,"generation":%d,"inForce":true,"since":"2026-01-02T00:00:00Z"}`, known.UID, known.Generation)
	guard := s.policies(t, `{kind: ClusterNetworkPolicy, metadata: {name: guard}, spec: {tier: Admin, priority: 7, subject: {namespaces: {}}}}`)[0].(*objects.PolicyObject)
	guard.Conditions = []metav1.Condition{
		{Type: "Seen", Status: metav1.ConditionTrue, LastTransitionTime: before, Reason: "By", Message: "us & them"},
		{Type: "Audited", Status: metav1.ConditionUnknown, Reason: "NoTime", Message: "later"}}
	wrong := s.policies(t, `{kind: NetworkPolicy, metadata: {namespace: prod, name: wrong}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "<any>"}}]}]}}`)
	elsewhere := s.egressIP("elsewhere", "team=none", "203.0.113.21")
	elsewhere.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, LastTransitionTime: before}}
	given, unpooled := s.service("given", "10.96.0.9"), s.balanced("unpooled")
	given.Balancer.Ingress, unpooled.Balancer.Ingress, unpooled.Balancer.Families = "203.0.113.65", "198.51.100.7", "6"

	s.objects[part.Signal{What: egress.Hosting, Name: "hosted"}] = "chassis-1"
	events := s.put(append(wrong, s.namespace("prod"), s.egressNode(1), s.pod("prod", "web", "e1"), known, guard,
		s.egressIP("hosted", "", "203.0.113.20"), elsewhere, s.addressPool("pool", "203.0.113.64-203.0.113.66"),
		s.addressPool("bad", "<any>"), s.balanced("web"), given, unpooled)...)
	got := map[string]string{}
	for len(events) > 0 {
		s.c.update(events, s.Get)
		s.c.policies.Written(ownersOf(s.c.takeChanges()), nil)
		for _, a := range s.c.Notes {
			got[a.Key().String()] = string(a.JSON(written))
		}
		events = append(s.absorb(s.c), s.c.TakeExpected()...)
	}
	want := map[string]string{
		"AddressPool bad":            `{"metadata":{"uid":"uid-11"},"status":{"conditions":[{"type":"Ready","status":"False","observedGeneration":1,"lastTransitionTime":"2026-01-03T03:05:06Z","reason":"BadRange","message":"spec.ranges[0]: \u003cany\u003e is neither a prefix nor first and last address; write it like 203.0.113.64/27 or 203.0.113.64-203.0.113.80"}],"free":0,"observedGeneration":1,"used":0}}`,
		"AddressPool pool":           `{"metadata":{"uid":"uid-10"},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-03T03:05:06Z","reason":"InUse","message":"all ranges are in use"}],"free":2,"observedGeneration":1,"used":1}}`,
		"ClusterNetworkPolicy guard": `{"metadata":{"uid":"ClusterNetworkPolicy/guard"},"status":{"conditions":[{"type":"Seen","status":"True","lastTransitionTime":"2026-01-02T00:00:00Z","reason":"By","message":"us \u0026 them"},{"type":"Audited","status":"Unknown","lastTransitionTime":"2026-01-03T03:05:06Z","reason":"NoTime","message":"later"},{"type":"Ready","status":"True","observedGeneration":2,"lastTransitionTime":"2026-01-03T03:05:06Z","reason":"InForce","message":"0 ACLs in the OVN Northbound (weft.net/owner=ClusterNetworkPolicy/guard), on the port group pods_all_xlugxievfgkhwzffvft53br22a"}]}}`,
		"EgressIP elsewhere":         `{"metadata":{"uid":"uid-4"},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-02T00:00:00Z","reason":"Carried","message":"1 node is ready to carry the addresses, on the network external"}],"node":null,"observedGeneration":1,"pods":0}}`,
		"EgressIP hosted":            `{"metadata":{"uid":"uid-9"},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-03T03:05:06Z","reason":"Carried","message":"1 node is ready to carry the addresses, on the network external"}],"node":"e1","observedGeneration":1,"pods":1}}`,
		"NetworkPolicy prod/known":   `{"metadata":{"uid":"NetworkPolicy/prod/known","annotations":{"weft.net/policy-status":"{\"uid\":\"NetworkPolicy/prod/known\",\"generation\":1,\"inForce\":true,\"since\":\"2026-01-02T00:00:00Z\",\"reason\":\"InForce\",\"message\":\"1 ACL in the OVN Northbound (weft.net/owner=NetworkPolicy/prod/known), on the port group pods_prod\"}"}}}`,
		"NetworkPolicy prod/wrong":   `{"metadata":{"uid":"NetworkPolicy/prod/wrong","annotations":{"weft.net/policy-status":"{\"uid\":\"NetworkPolicy/prod/wrong\",\"generation\":3,\"inForce\":true,\"since\":\"2026-01-03T03:05:06Z\",\"reason\":\"PartlyInForce\",\"message\":\"in force except for what is wrong: spec.ingress[0].from[0].ipBlock.cidr: \\\"\\u003cany\\u003e\\\" is not a CIDR, like 192.0.2.0/24 or 2001:db8::/32; it matches nothing until it is corrected; 1 ACL in the OVN Northbound (weft.net/owner=NetworkPolicy/prod/wrong), on the port group pods_prod\"}"}}}`,
		"Node e1":                    `{"metadata":{"uid":"uid-7","annotations":{"weft.net/node-network":"{\"id\":1,\"podCIDRs\":[\"10.244.1.0/24\",\"fd00:10:244:1::/64\"],\"clusterCIDRs\":[\"10.244.0.0/16\",\"fd00:10:244::/48\"],\"serviceCIDRs\":[\"10.96.0.0/16\",\"fd00:10:96::/112\"],\"joinCIDRs\":[\"100.64.0.0/16\",\"fd98::/64\"]}"}}}`,
		"Pod prod/web":               `{"metadata":{"uid":"uid-8","annotations":{"weft.net/pod-network":"{\"uid\":\"uid-8\",\"mac\":\"0a:58:0a:f4:01:03\",\"addresses\":[\"10.244.1.3/24\",\"fd00:10:244:1::3/64\"],\"gateways\":[\"10.244.1.1\",\"fd00:10:244:1::1\"]}"}}}`,
		"Service default/given":      `{"metadata":{"uid":"uid-5"},"status":{"loadBalancer":{"ingress":null}}}`,
		"Service default/unpooled":   `{"metadata":{"uid":"uid-6"},"status":{"loadBalancer":{"ingress":[]}}}`,
		"Service default/web":        `{"metadata":{"uid":"uid-12"},"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.64","ipMode":"VIP"}]}}}`,
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if got[name] != want[name] {
			t.Errorf("%s gets\n%s\n, not\n%s", name, got[name], want[name])
		}
	}
	for name := range want {
		if got[name] == "" {
			t.Errorf("%s gets nothing", name)
		}
	}
}
