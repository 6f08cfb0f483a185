package ovn

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
)

// ofOnePriority is a policy that is there since some seconds, or is not applied yet where they are 0.
func ofOnePriority(name string, since, rules int) *v1alpha2.ClusterNetworkPolicy {
	p := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if since > 0 {
		p.CreationTimestamp = metav1.NewTime(time.Unix(int64(1_800_000_000-since), 0))
	}
	p.Spec = v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier, Priority: 5,
		Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}}
	for range rules {
		p.Spec.Ingress = append(p.Spec.Ingress, v1alpha2.ClusterNetworkPolicyIngressRule{
			Action: v1alpha2.ClusterNetworkPolicyRuleActionDeny, From: []v1alpha2.ClusterNetworkPolicyIngressPeer{
				{Namespaces: &metav1.LabelSelector{}}}})
	}
	return p
}

// TestAManifestIsYoungerThanWhatRuns, whatever the two are called: it has no time of creation yet.
func TestAManifestIsYoungerThanWhatRuns(t *testing.T) {
	for _, c := range []struct {
		name     string
		policies []*v1alpha2.ClusterNetworkPolicy
		want     []string
	}{
		{"there is room for both", []*v1alpha2.ClusterNetworkPolicy{ofOnePriority("a", 0, 1), ofOnePriority("b", 60, 1)},
			[]string{
				"ClusterNetworkPolicy a: SamePriority: spec.priority: 5 in the tier Admin is also the priority of " +
					"ClusterNetworkPolicy b; it is older, and decides first",
				"ClusterNetworkPolicy b: SamePriority: spec.priority: 5 in the tier Admin is also the priority of " +
					"ClusterNetworkPolicy a; it is younger, and decides after this one",
			}},
		{"there is room for one", []*v1alpha2.ClusterNetworkPolicy{ofOnePriority("a", 0, 20), ofOnePriority("b", 60, 20)},
			[]string{"ClusterNetworkPolicy a: PriorityFull: "}},
		{"there is room for the older one", []*v1alpha2.ClusterNetworkPolicy{ofOnePriority("a", 60, 20),
			ofOnePriority("b", 30, 20)}, []string{"ClusterNetworkPolicy b: PriorityFull: "}},
		{"there is room for the oldest and the youngest", []*v1alpha2.ClusterNetworkPolicy{ofOnePriority("a", 60, 20),
			ofOnePriority("b", 30, 20), ofOnePriority("c", 10, 1)}, []string{
			"ClusterNetworkPolicy a: SamePriority: spec.priority: 5 in the tier Admin is also the priority of " +
				"ClusterNetworkPolicy c; it is younger",
			"ClusterNetworkPolicy b: PriorityFull: ",
			"ClusterNetworkPolicy c: SamePriority: spec.priority: 5 in the tier Admin is also the priority of " +
				"ClusterNetworkPolicy a; it is older",
		}},
		{"neither is applied", []*v1alpha2.ClusterNetworkPolicy{ofOnePriority("a", 0, 1), ofOnePriority("b", 0, 1)}, []string{
			"ClusterNetworkPolicy a: SamePriority: spec.priority: 5 in the tier Admin is also the priority of " +
				"ClusterNetworkPolicy b; the one that is applied first decides first",
			"ClusterNetworkPolicy b: SamePriority: spec.priority: 5 in the tier Admin is also the priority of " +
				"ClusterNetworkPolicy a; the one that is applied first decides first",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := settings.DefaultConfig()
			config.Northbound, config.PodCIDRs, config.ServiceCIDRs, config.AllocateNodeCIDRs = []string{"unix:none"},
				[]string{"10.244.0.0/16"}, []string{"10.96.0.0/16"}, true
			var given []runtime.Object
			for _, p := range c.policies {
				given = append(given, p)
			}
			offline, err := Translate(config, given)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(offline.Problems, c.want, func(p objects.Problem, want string) bool {
				return strings.HasPrefix(p.String(), want)
			}) {
				t.Errorf("%v", offline.Problems)
			}
		})
	}
}
