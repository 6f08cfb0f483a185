package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform/platformtest"
)

// TestAddByPodNetworks: where the controller keeps PodNetworks for the node, the agent says that it reads them, and
// attaches pods that have no annotation. Without them it goes back. On Windows, devices come after ADD.
func TestAddByPodNetworks(t *testing.T) {
	t.Run("linux", func(t *testing.T) { addByPodNetworks(t, false) })
	t.Run("windows", func(t *testing.T) { addByPodNetworks(t, true) })
}

func addByPodNetworks(t *testing.T, deferred bool) {
	n := newBareNodeWith(t, func(_ *nodeconfig.Config, f *platformtest.Fake) { f.Deferred = deferred })
	n.InstallFlows()
	n.follow()
	own := n.own.Resource(v1alpha1.PodNetworksResource).Namespace(contract.PodNetworksNamespace)
	object := &unstructured.Unstructured{Object: map[string]any{"pods": []any{"shop/web u1 10.244.1.7/24"}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodNetworks"))
	object.SetName("n1")
	if _, err := own.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	keeps := func(keeps bool) {
		t.Helper()
		node, err := n.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		network := bareNetwork
		network.PodNetworks = keeps
		node.Annotations[contract.NodeNetworkAnnotation] = contract.Format(network)
		if _, err := n.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		n.Until(func() bool {
			n.reconcileOnce(t.Context())
			return n.node.facts().PodNetworks == keeps || n.LookAgain()
		})
	}
	keeps(true)
	call := n.Pod("web", "u1", func(p *corev1.Pod) { p.Annotations = nil })
	result, err := n.attacher.Add(t.Context(), call)
	if err != nil || len(result.IPs) != 1 || result.IPs[0].Address.String() != "10.244.1.7/24" ||
		result.IPs[0].Gateway.String() != "10.244.1.1" || result.Interfaces[1].Mac != "0a:58:0a:f4:01:07" {
		t.Errorf("got %+v, %v", result, err)
	}
	if deferred {
		n.platform.StartSandbox(call.Netns)
		n.Whole(call)
	}
	if device := n.platform.Device(call.Attachment); device.Endpoint.Addresses[0].String() != "10.244.1.7/24" {
		t.Errorf("the device is %+v", device)
	}
	keeps(false)
	if _, err := n.attacher.Add(t.Context(), n.Pod("db", "u2", nil)); err != nil {
		t.Errorf("by its annotation: %v", err)
	}
}
