package policies

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weftnet/weft/ovn/domains"
	"github.com/weftnet/weft/ovn/northbound/northboundtest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovn/settings"
)

// pod is one that has an address.
type pod struct {
	ovntest.Pod
	selected Selected
}

func (p *pod) Selected() *Selected { return &p.selected }

// cluster is all that the parts see: pods of the namespace shop, and no nodes.
type cluster struct{ ovntest.Pods[Pod] }

func (c *cluster) Namespaces() iter.Seq[string] { return slices.Values([]string{"shop"}) }

// noNodes are those of a cluster without any.
type noNodes struct{}

func (noNodes) All() iter.Seq2[string, objects.LabelSet] {
	return maps.All(map[string]objects.LabelSet{})
}
func (noNodes) HasWindows() bool { return false }
func (noNodes) Touch(string)     {}

// TestParts plays the life of a policy with a named port, and of a pod that it selects. It says after each step what is
// dirty, at which stage and with how many rows, and which pods are looked at again.
func TestParts(t *testing.T) {
	c := &cluster{ovntest.NewPods[Pod]()}
	out, s := part.NewOutbox(), &settings.Settings{Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
	clock := &part.Clock{}
	selections, nodeSets := NewSelections(out, s, c, c), NewNodeSets(out, noNodes{})
	policies := New(out, s, clock, noNodes{}, c, c, domains.New(out, s, clock, nil), selections, nodeSets)
	parts := []part.Part{selections, nodeSets, policies}

	http := intstr.FromString("http")
	object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1",
		Generation: 1},
		Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
			Ports: []networkingv1.NetworkPolicyPort{{Port: &http}}}}}}
	trimmed, _ := objects.NetworkPolicyKind.Trim(object)
	k := objects.Key{Kind: objects.NetworkPolicyKind, Name: "shop/web"}
	there := map[part.Event]any{k: trimmed}
	web := &pod{Pod: ovntest.Pod{Trimmed: &objects.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: types.UID("2")},
		Ports:      []objects.ContainerPort{{Name: "http", Protocol: policy.TCP, Number: 8080}}}}}

	for _, step := range []struct {
		name   string
		play   func()
		events []part.Event
		want   string
	}{
		{"a policy comes", func() {}, []part.Event{k},
			"Pods/shop: pods *:1@1 Policies/common:10@5 NetworkPolicy/shop/web:1@5"},
		{"a pod comes: its number has a group and an ACL", func() { c.There["shop/web-1"] = web; c.Touch("shop/web-1") }, nil,
			"Pods/shop: pods *:2@1 NetworkPolicy/shop/web:2@3 pods shop/web-1"},
		{"its rows are asked for again", func() {},
			[]part.Event{part.Signal{What: part.Again, Name: "NetworkPolicy/shop/web"}},
			"NetworkPolicy/shop/web:2@5"},
		{"the pod goes, and its number waits", func() { selections.Leave(web); delete(c.There, "shop/web-1") }, nil, ""},
		{"the ACL goes first", func() {}, []part.Event{part.Signal{What: lingering, Name: "shop: pods *"}},
			"Pods/shop: pods *:2@1 NetworkPolicy/shop/web:1@3"},
		{"then its group", func() {}, []part.Event{part.Signal{What: lingering, Name: "shop: pods *"}},
			"Pods/shop: pods *:1@1"},
		{"the policy goes, and its sets linger", func() { delete(there, k) }, []part.Event{k},
			"Policies/common:0@5 NetworkPolicy/shop/web:0@6"},
		{"they go", func() {}, []part.Event{part.Signal{What: lingering, Name: "shop: pods *"}}, "Pods/shop: pods *:0@1"},
	} {
		step.play()
		batch := part.NewBatch(step.events, func(e part.Event) any { return there[e] })
		var list []string
		for _, p := range parts {
			p.Take(batch)
		}
		for _, p := range parts {
			p.Reconcile()
		}
		for _, p := range parts {
			for at, owner := range p.Dirty(false) {
				list = append(list, fmt.Sprintf("%s:%d@%d", owner, len(northboundtest.Change(t, p, owner).Rows), at))
			}
		}
		if len(c.Looked) > 0 {
			list = append(list, "pods "+strings.Join(slices.Sorted(maps.Keys(c.Looked)), " "))
		}
		if got := strings.Join(list, " "); got != step.want {
			t.Errorf("%s:\n%s, want\n%s", step.name, got, step.want)
		}
		for _, p := range parts {
			p.Clean()
		}
		clear(c.Looked)
	}
	if n, ports := selections.Size(); n+ports > 0 || policies.Any() {
		t.Errorf("%d selections and %d named ports remain", n, ports)
	}
}
