package topology

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
)

// NetworkLabel is the label of a Node: the network outside that the node's gateway may be on. Without the label this is
// the controller's default-gateway-network. An administrator sets the label.
const NetworkLabel = "weft.net/gateway-network"

// OutsideOf decides on which network outside a node's gateway is, and may do there what concerns others: carry the
// shared gateway and EgressIPs, announce addresses of AddressPools, say who the neighbours are. Its agent says which
// network that is, and an administrator has to say the same, by the label or for all nodes without one. Otherwise it is
// on none, and the node's own pods alone leave by its gateway.
func (n *Node) OutsideOf(s *settings.Settings) (network, why string) {
	if n.Facts.Gateway == nil {
		return "", ""
	}
	said := n.Facts.Gateway.Network
	granted, labelled := n.Object.Labels.Lookup(NetworkLabel)
	if !labelled {
		granted = s.DefaultNetwork
	}
	if granted == said {
		return said, ""
	}
	why = fmt.Sprintf("its agent says that its gateway is on network %q (gateway-network), and no administrator has "+
		"granted it: ", objects.Quoted(said))
	switch {
	case !labelled:
		why += fmt.Sprintf("it has no label %s, and default-gateway-network is %q", NetworkLabel, granted)
	default:
		why += fmt.Sprintf("its label %s is %q", NetworkLabel, objects.Quoted(granted))
	}
	if len(validation.IsValidLabelValue(said)) > 0 { // nothing that a node says goes into a command line
		return "", why + "; no label can have that name: give the network one of 63 letters, digits, '.', '_' and '-' at " +
			"most that begins and ends with a letter or digit"
	}
	return "", why + fmt.Sprintf("; if the node is on that network, kubectl label --overwrite node %s %s=%s, otherwise "+
		"correct gateway-network of its agent", n.Name, NetworkLabel, said)
}

// NetworkOf is the one network outside that addresses are on of which several nodes say that their subnets hold them:
// the one that the object names, else the default one, which is the operator's word, else the oldest node's; "" without
// a node.
func NetworkOf(s *settings.Settings, named string, nodes []*Node) string {
	if named != "" || len(nodes) == 0 {
		return named
	}
	if slices.ContainsFunc(nodes, func(n *Node) bool { return n.Outside == s.DefaultNetwork }) {
		return s.DefaultNetwork
	}
	return slices.MinFunc(nodes, ByAge).Outside
}
