package ovn

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
)

// ownObject is an object of weft's own API group as the API server sends it.
func ownObject(w *world, kind, name string, spec any) *unstructured.Unstructured {
	text := must(json.Marshal(map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "spec": spec}))
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &o.Object); err != nil {
		panic(err)
	}
	meta := w.meta("", name)
	o.SetName(name)
	o.SetUID(meta.UID)
	o.SetGeneration(1)
	return o
}

func (w *world) namespace(name string, pairs ...string) *objects.Namespace {
	return objects.TrimNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelMap(pairs)}})
}

// labelMap reads "key=value".
func labelMap(pairs []string) map[string]string {
	set := map[string]string{}
	for _, pair := range pairs {
		k, v, _ := strings.Cut(pair, "=")
		set[k] = v
	}
	return set
}

// egressIP is one for the namespaces with a label.
func (w *world) egressIP(name, label string, addresses ...string) *objects.EgressIP {
	spec := v1alpha1.EgressIPSpec{Addresses: addresses}
	if label != "" {
		spec.NamespaceSelector.MatchLabels = labelMap([]string{label})
	}
	return trim(ownObject(w, "EgressIP", name, spec)).(*objects.EgressIP)
}

func (w *world) addressPool(name string, ranges ...string) *objects.AddressPool {
	return trim(ownObject(w, "AddressPool", name, v1alpha1.AddressPoolSpec{Ranges: ranges})).(*objects.AddressPool)
}

// absorbStatus does to an object what the API server would when its status is written.
func (w *world) absorbStatus(k objects.Key, a part.Patch) []part.Event {
	var patch struct{ Status map[string]any }
	if err := json.Unmarshal(a.JSON(ovntest.Writing), &patch); err != nil {
		panic(err)
	}
	text := string(must(json.Marshal(patch.Status)))
	var status struct {
		Conditions   []metav1.Condition
		LoadBalancer corev1.LoadBalancerStatus
	}
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		panic(err)
	}
	for field, value := range patch.Status {
		if value == nil {
			delete(patch.Status, field)
		}
	}
	text = string(must(json.Marshal(patch.Status)))
	switch o := w.objects[k].(type) {
	case *objects.EgressIP:
		if o.UID == a.UID {
			after := *o
			after.Status, after.Conditions = text, status.Conditions
			return w.put(&after)
		}
	case *objects.AddressPool:
		if o.UID == a.UID {
			after := *o
			after.Status, after.Conditions = text, status.Conditions
			return w.put(&after)
		}
	case *objects.Service:
		if o.UID == a.UID {
			after := *o
			var ingress []string
			for _, i := range status.LoadBalancer.Ingress {
				ingress = append(ingress, i.IP)
			}
			after.Balancer.Ingress = strings.Join(ingress, ",")
			after.Ingress = objects.ParseAddrs(after.Balancer.Ingress)
			return w.put(&after)
		}
	}
	return nil
}

func parseSelector(text string) (labels.Selector, error) { return labels.Parse(text) }
