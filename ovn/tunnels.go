package ovn

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
)

// A host takes a GENEVE packet for another node's if it comes from that node's address, and what leaves a
// gateway may have it. So nothing that came through a logical network reaches any host's tunnels.

// tunnelsTier and refuseTunnels put this before everything that somebody may write.
const (
	tunnelsTier   = 0
	refuseTunnels = northbound.MaxPriority
)

// keepFromTunnels drops what would leave by a group's ports to a host's tunnels. Beyond these ports are all hosts:
// a node's own, and whoever is outside. The ACL sees a packet on its last switch, after all load balancers
// and routers, whichever of them it has met. It asks for no address: chassis that are no nodes have tunnels, too.
func (r *rows) keepFromTunnels(group, groupID string) {
	name := "hosts' tunnels"
	r.Member(nb.PortGroupTable, groupID, "acls", r.Add(nb.ACLTable, "tunnels/"+group, &nb.ACL{Name: &name,
		Direction: nb.ACLDirectionToLport, Tier: tunnelsTier, Priority: refuseTunnels, Action: nb.ACLActionDrop,
		Match: fmt.Sprintf("outport == @%s && udp.dst == %d", group, contract.TunnelPort)}))
}

// isTunnel says whether an endpoint is, or may be, a host's tunnels: a pod may have the port to itself.
func (n *nodeSet) isTunnel(at netip.AddrPort) bool {
	return at.Port() == contract.TunnelPort && !slices.ContainsFunc(n.pods, func(p netip.Prefix) bool { return p.Contains(at.Addr()) })
}

// tunnelProblems are the slices with such endpoints: clients are refused at once, where keepFromTunnels would have
// them wait for ever.
func tunnelProblems(s *objects.Service, from []*objects.EndpointSlice, nodes *nodeSet) []objects.Problem {
	var found []objects.Problem
	for _, sl := range from {
		if !slices.ContainsFunc(sl.Ports, func(p objects.ServicePort) bool { return p.Protocol == "udp" && p.Port == contract.TunnelPort }) {
			continue
		}
		i := slices.IndexFunc(sl.Endpoints, func(e objects.Endpoint) bool { return nodes.isTunnel(netip.AddrPortFrom(e.Addr, contract.TunnelPort)) })
		if i >= 0 {
			found = append(found, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, "EndpointAtTunnelPort",
				"EndpointSlice %s: endpoints[].addresses has %s, which is no pod's, and ports[] has UDP %d, at which hosts have their tunnels: nothing that comes by a Service reaches them; such endpoints are left out; give them another port",
				sl.Name, sl.Endpoints[i].Addr, contract.TunnelPort))
		}
	}
	return found
}
