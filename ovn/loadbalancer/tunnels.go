package loadbalancer

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
)

// isTunnel says whether an endpoint is, or may be, a host's tunnels: a pod may have the port to itself.
func (n *Nodes) isTunnel(at netip.AddrPort) bool {
	return at.Port() == contract.TunnelPort && !slices.ContainsFunc(n.Pods, func(p netip.Prefix) bool {
		return p.Contains(at.Addr())
	})
}

// tunnelProblems are the slices with such endpoints: clients are refused at once, where keepFromTunnels would have
// them wait for ever.
func tunnelProblems(s *objects.Service, from []*objects.EndpointSlice, nodes *Nodes) []objects.Problem {
	var found []objects.Problem
	for _, sl := range from {
		if !slices.ContainsFunc(sl.Ports, func(p objects.ServicePort) bool {
			return p.Protocol == "udp" && p.Port == contract.TunnelPort
		}) {
			continue
		}
		i := slices.IndexFunc(sl.Endpoints, func(e objects.Endpoint) bool {
			return nodes.isTunnel(netip.AddrPortFrom(e.Addr, contract.TunnelPort))
		})
		if i >= 0 {
			found = append(found, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, endpointAtTunnelPort,
				"EndpointSlice %s: the endpoint %s is not a pod, and its port is UDP %d, the port of the tunnels between nodes; "+
					"no Service reaches a tunnel, so such endpoints are left out; give them another port",
				sl.Name, sl.Endpoints[i].Addr, contract.TunnelPort))
		}
	}
	return found
}
