package ovn

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	kubetesting "k8s.io/client-go/testing"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// TestControllerAndItsOwnKinds: a controller runs without the CustomResourceDefinitions, notices them, serves
// the objects and says so in their statuses, and lets go when the definitions are deleted.
func TestControllerAndItsOwnKinds(t *testing.T) {
	t.Parallel()
	node := kubeNode("e1", "10.244.1.0/24")
	node.Annotations = map[string]string{contract.NodeFactsAnnotation: ovntest.Facts(1, false)}
	node.Labels = map[string]string{v1alpha1.EgressLabel: ""}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	service := web(func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	})
	d := deploy(t, node, kubePod("web", "e1"), service, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default",
		Labels: map[string]string{"team": "a"}}})
	var there atomic.Bool
	missing := func(kubetesting.Action) (bool, runtime.Object, error) {
		return !there.Load(), nil, apierrors.NewNotFound(v1alpha1.EgressIPs.GroupResource(), "")
	}
	d.own.PrependReactor("list", "*", missing)
	d.own.PrependWatchReactor("*", func(a kubetesting.Action) (bool, watch.Interface, error) {
		handled, _, err := missing(a)
		return handled, nil, err
	})
	d.start("one", func(c *settings.Config) { c.AllocateLoadBalancerAddresses = true })
	d.eventually("the pod has a port", func() bool { return d.port("default_web") != nil })

	w := newWorld()
	ctx := context.Background()
	create := func(o *unstructured.Unstructured) dynamic.ResourceInterface {
		t.Helper()
		resource := d.own.Resource(v1alpha1.EgressIPs)
		if o.GetKind() == "AddressPool" {
			resource = d.own.Resource(v1alpha1.AddressPools)
		}
		if _, err := resource.Create(ctx, o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return resource
	}
	there.Store(true)
	egress := create(ownObject(w, "EgressIP", "a", v1alpha1.EgressIPSpec{Addresses: []string{"203.0.113.20"},
		NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}))
	pools := create(ownObject(w, "AddressPool", "p", v1alpha1.AddressPoolSpec{Ranges: []string{"203.0.113.64/30"}}))
	sets := func() []*nb.AddressSet {
		return ovsdb.List(d.view, func(s *nb.AddressSet) bool { return s.Name == "egress_a_ip4" && len(s.Addresses) == 1 })
	}
	d.eventually("the pod is in the set", func() bool { return len(sets()) == 1 })
	says := func(resource dynamic.ResourceInterface, name string, words ...string) bool {
		o, err := resource.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(o.Object["status"])
		for _, word := range words {
			if !strings.Contains(string(text), word) {
				return false
			}
		}
		return true
	}
	d.eventually("the statuses say so", func() bool {
		return says(egress, "a", `"Ready"`, `"Carried"`, `"pods":1`, `"lastTransitionTime":"2`) && says(pools, "p", `"InUse"`,
			`"used":1`, `"free":3`)
	})
	d.eventually("the Service has an address", func() bool {
		s, err := d.api.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && len(s.Status.LoadBalancer.Ingress) == 1 && s.Status.LoadBalancer.Ingress[0].IP == "203.0.113.64"
	})
	if err := egress.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.eventually("the EgressIP's rows are gone", func() bool {
		return len(sets()) == 0 && len(ovsdb.List(d.view, func(r *nb.LogicalRouter) bool {
			return strings.HasPrefix(r.Name, "egress@")
		})) == 0
	})
}
