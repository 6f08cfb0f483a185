package objects

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
)

// Node is a Node.
type Node struct {
	metav1.ObjectMeta
	PodCIDRs []string
	Network  string // contract.NodeNetworkAnnotation, as it stands there
	Facts    string // contract.NodeFactsAnnotation
	OS       string // the label kubernetes.io/os
	Gateway  string // the label weft.net/gateway, "true" where it has no value
	Zone     string // the label topology.kubernetes.io/zone
	Labels   LabelSet
	Ready    bool // the condition Ready
	// Addresses are those of its status, internal and external.
	Addresses []netip.Addr
}

// GatewayLabel is the label of a Node: the node is a gateway node, one of those that may carry the shared gateway, if
// the value is empty or "true". If such a node lacks anything else, the Event NotAGatewayNode says so. An administrator
// sets the label.
const GatewayLabel = "weft.net/gateway"

func trimNode(o *corev1.Node) *Node {
	n := &Node{
		ObjectMeta: trimMeta(&o.ObjectMeta),
		PodCIDRs:   o.Spec.PodCIDRs,
		Network:    o.Annotations[contract.NodeNetworkAnnotation],
		Facts:      o.Annotations[contract.NodeFactsAnnotation],
		OS:         Interned(o.Labels[corev1.LabelOSStable]),
		Zone:       Interned(o.Labels[corev1.LabelTopologyZone]),
	}
	n.Labels = NewLabelSet(o.Labels)
	for _, a := range o.Status.Addresses {
		ofHost := a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP
		if addr, err := netip.ParseAddr(a.Address); err == nil && ofHost {
			n.Addresses = append(n.Addresses, addr.Unmap())
		}
	}
	for _, condition := range o.Status.Conditions {
		n.Ready = n.Ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	}
	if gateway, ok := o.Labels[GatewayLabel]; ok {
		n.Gateway = cmp.Or(gateway, "true")
	}
	if len(n.PodCIDRs) == 0 && o.Spec.PodCIDR != "" {
		n.PodCIDRs = []string{o.Spec.PodCIDR}
	}
	return n
}

func (n *Node) equal(o *Node) bool {
	return n.UID == o.UID && n.Network == o.Network && n.Facts == o.Facts && n.OS == o.OS && n.Gateway == o.Gateway &&
		n.Labels == o.Labels && n.Ready == o.Ready && n.Zone == o.Zone &&
		slices.Equal(n.Addresses, o.Addresses) && slices.Equal(n.PodCIDRs, o.PodCIDRs)
}
