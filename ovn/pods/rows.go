package pods

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// podChange is a pod's port on its node's switch. The row's key is the pod's UID: a pod that is
// created anew under the same name gets a port of its own, and whatever is still bound to the old one
// is not taken for it.
//
// OVN does not answer ARP and neighbour solicitations in the pod's place: that would be two of some
// seven logical flows a pod, on every chassis of the cluster, to save its neighbours on the same node
// a broadcast now and then. What pods ask for most, their router, is answered still.
func podChange(s *settings.Settings, p *objects.Pod, addresses []netip.Prefix, n *topology.Node,
	taken func(objects.Claim) bool) ovsdb.Change {
	r := northbound.NewBuilder(northbound.PodOwner(objects.FullName(p.Namespace, p.Name)))
	port := []string{northbound.PortAddresses(contract.Addrs(addresses))}
	options := map[string]string{
		"requested-chassis": n.Chassis(), "iface-id-ver": string(p.UID), "disable_arp_nd_rsp": "true",
	}
	topology.BoundConnections(options, n, s.PodConnections)
	r.SwitchPort(northbound.SwitchID(n.Name), string(p.UID), &nb.LogicalSwitchPort{
		Name:         contract.PodPort(p.Namespace, p.Name),
		Addresses:    port,
		PortSecurity: port,
		Options:      options,
	})
	hostPorts(r, p, addresses, n, taken)
	return r.Change
}

// Annotation is the annotation that tells the node's agent what the port above is.
func Annotation(uid types.UID, addresses []netip.Prefix) string {
	return contract.Format(contract.NewPodNetwork(string(uid), addresses))
}
