package node

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

// TestWindowsNodes are found by their label, with all addresses at which their tunnels may end.
func TestWindowsNodes(t *testing.T) {
	node := func(name, system, address, further string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: system},
			Annotations: map[string]string{contract.NodeFactsAnnotation: contract.Format(contract.NodeFacts{Chassis: name,
				Addresses: []netip.Addr{netip.MustParseAddr(further)}})}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: address}}}}
	}
	n := &ownNode{client: nodetest.FakeAPI(node("l1", "linux", "192.0.2.1", "198.51.100.1"),
		node("w1", "windows", "192.0.2.2", "198.51.100.2"))}
	found, err := n.windowsNodes(t.Context())
	want := []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.2")}
	if got := slices.SortedFunc(maps.Keys(found), netip.Addr.Compare); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}
