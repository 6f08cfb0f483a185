package connectivity

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newClusterNode is a Ready one, as the API server has it.
func newClusterNode(name, system string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: system}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeExternalIP, Address: "203.0.113.99"}}}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func TestNodesAreChosen(t *testing.T) {
	list := []corev1.Node{*newClusterNode("w2", windows), *newClusterNode("l3", linux), *newClusterNode("l1", linux),
		*newClusterNode("w1", windows), *newClusterNode("w3", windows), *newClusterNode("l2", linux),
		*newClusterNode("a", "plan9"), *newClusterNode("l0", linux), *newClusterNode("w0", windows)}
	list[7].Spec.Unschedulable = true
	list[8].Status.Conditions[0].Status = corev1.ConditionUnknown
	for _, c := range []struct {
		name  string
		all   []corev1.Node
		names []string
		most  int
		want  string // the names, or words of the error
	}{
		{"two of each system", list, nil, 8, "l1 l2 w1 w2"},
		{"fewer than that", list, nil, 3, "l1 l2 w1"},
		{"one", list, nil, 1, "l1"},
		{"of one system", list[1:3], nil, 8, "l1 l3"},
		{"named ones, in their order", list, []string{"w0", "l0", "a"}, 3, "w0 l0 a"},
		{"too many named ones", list, []string{"w1", "l1"}, 1, "nodes: 2 are named, and max-nodes is 1"},
		{"one that is not there", list, []string{"l9"}, 8, `nodes: the cluster has no node "l9"`},
		{"one twice", list, []string{"l1", "l1"}, 8, `nodes: "l1" is named twice`},
		{"none that is ready", list[6:], nil, 8, "none of the cluster's 3 nodes is Ready and schedulable"},
	} {
		nodes, err := chooseNodes(c.all, c.names, c.most)
		var got []string
		for _, n := range nodes {
			got = append(got, n.Name)
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if text := strings.Join(got, " "); err == nil && text != c.want || !strings.HasPrefix(text, c.want) {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}

func TestNodeHasItsInternalAddresses(t *testing.T) {
	n := newNode(newClusterNode("l1", linux, "192.0.2.1", "host.example", "2001:db8::1"))
	if len(n.addresses) != 2 || ofFamily(n.addresses, corev1.IPv6Protocol) != "2001:db8::1" ||
		ofFamily(n.addresses, corev1.IPv4Protocol) != "192.0.2.1" || n.kubeletPort != 10250 {
		t.Errorf("it is %+v", n)
	}
	if !slices.Equal(rolesOf(n, true), []role{serverRole, clientRole, guardedRole, hostRole}) ||
		slices.Contains(rolesOf(Node{System: windows}, true), hostRole) || slices.Contains(rolesOf(n, false), hostRole) {
		t.Error("pods on a host's network are for Linux nodes, where they are wanted")
	}
}
