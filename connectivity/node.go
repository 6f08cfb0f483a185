package connectivity

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Node is one on which the test runs pods.
type Node struct {
	Name   string `json:"name"`
	System string `json:"system"` // "linux" or "windows", by the label kubernetes.io/os

	addresses   []netip.Addr // the internal ones
	kubeletPort int
}

const (
	linux   = "linux"
	windows = "windows"
)

func listNodes(ctx context.Context, client kubernetes.Interface) ([]corev1.Node, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}

func names(nodes []Node) string {
	var words []string
	for _, n := range nodes {
		words = append(words, fmt.Sprintf("%s (%s)", n.Name, cmp.Or(n.System, "no label "+corev1.LabelOSStable)))
	}
	return strings.Join(words, ", ")
}

// perSystem is how many nodes of each system are chosen where nobody names any.
const perSystem = 2

// chooseNodes are the nodes of those names, or without names the first Ready ones of each system, perSystem of it. They
// are at most so many.
func chooseNodes(all []corev1.Node, names []string, most int) ([]Node, error) {
	if len(names) == 0 {
		return usualNodes(all, most)
	}
	if len(names) > most {
		return nil, fmt.Errorf("nodes: %d are named, and max-nodes is %d; name fewer, or give a larger max-nodes", len(names),
			most)
	}
	var chosen []Node
	for i, name := range names {
		at := slices.IndexFunc(all, func(n corev1.Node) bool { return n.Name == name })
		switch {
		case at < 0:
			return nil, fmt.Errorf("nodes: the cluster has no node %q; `kubectl get nodes` lists them", name)
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("nodes: %q is named twice; name each node once", name)
		}
		chosen = append(chosen, newNode(&all[at]))
	}
	return chosen, nil
}

func usualNodes(all []corev1.Node, most int) ([]Node, error) {
	of := map[string][]Node{}
	for i := range all {
		if n := newNode(&all[i]); ready(&all[i]) && !all[i].Spec.Unschedulable {
			of[n.System] = append(of[n.System], n)
		}
	}
	var chosen []Node
	for rank := range perSystem {
		for _, system := range []string{linux, windows} {
			nodes := slices.SortedFunc(slices.Values(of[system]), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
			if rank < len(nodes) && len(chosen) < most {
				chosen = append(chosen, nodes[rank])
			}
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("none of the cluster's %d nodes is Ready and schedulable, and has the label %s with linux or "+
			"windows; name nodes by the key nodes", len(all), corev1.LabelOSStable)
	}
	slices.SortFunc(chosen, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.System, b.System), cmp.Compare(a.Name, b.Name))
	})
	return chosen, nil
}

func newNode(n *corev1.Node) Node {
	node := Node{Name: n.Name, System: n.Labels[corev1.LabelOSStable],
		kubeletPort: int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)}
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			node.addresses = append(node.addresses, addr)
		}
	}
	return node
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// parseAddresses leaves out what is no address, as the ClusterIP "None" is.
func parseAddresses(texts []string) (addrs []netip.Addr) {
	for _, text := range texts {
		if addr, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// familyOf is the address family of an address.
func familyOf(addr netip.Addr) corev1.IPFamily {
	if addr.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// ofFamily is the first address of a family, as a text; empty if there is none.
func ofFamily(addrs []netip.Addr, family corev1.IPFamily) string {
	for _, addr := range addrs {
		if familyOf(addr) == family {
			return addr.String()
		}
	}
	return ""
}
