package ovn

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
)

// networkLabel is by what an administrator grants a node the network outside that its gateway is on. A node does not
// label itself: see models/api/rights/admission.yaml.
const networkLabel = "weft.net/gateway-network"

// outsideOf decides on which network outside a node's gateway is, and may do there what concerns others: carry the
// shared gateway and EgressIPs, announce addresses of AddressPools, say who the neighbours are. Its agent says which
// network that is, and an administrator has to say the same, by the label or for all nodes without one. Otherwise it is
// on none, and the node's own pods alone leave by its gateway.
func (n *placement) outsideOf(s *settings.Settings) (network, why string) {
	if n.facts.Gateway == nil {
		return "", ""
	}
	said := n.facts.Gateway.Network
	granted, labelled := n.object.Labels.Lookup(networkLabel)
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
		why += fmt.Sprintf("it has no label %s, and default-gateway-network is %q", networkLabel, granted)
	default:
		why += fmt.Sprintf("its label %s is %q", networkLabel, objects.Quoted(granted))
	}
	if len(validation.IsValidLabelValue(said)) > 0 { // nothing that a node says goes into a command line
		return "", why + "; no label can have that name: give the network one of 63 letters, digits, '.', '_' and '-' at " +
			"most that begins and ends with a letter or digit"
	}
	return "", why + fmt.Sprintf("; if the node is on that network, kubectl label --overwrite node %s %s=%s, otherwise "+
		"correct gateway-network of its agent", n.name, networkLabel, said)
}

// networkOf is the one network outside that addresses are on of which several nodes say that their subnets hold them:
// the one that the object names, else the default one, which is the operator's word, else the oldest node's; "" without
// a node.
func networkOf(s *settings.Settings, named string, nodes []*placement) string {
	if named != "" || len(nodes) == 0 {
		return named
	}
	if slices.ContainsFunc(nodes, func(n *placement) bool { return n.outside == s.DefaultNetwork }) {
		return s.DefaultNetwork
	}
	return slices.MinFunc(nodes, byAge).outside
}
