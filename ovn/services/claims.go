package services

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// updateClaims takes in what a Service wants outside, and has everybody looked at again for whom it makes
// a difference: other Services, pods with host ports, and sticky Services with such endpoints.
func (b *Part) updateClaims(name string, object *objects.Service) {
	touched, changed := b.claims.Update(name, object)
	b.touchAll(touched)
	if len(changed) == 0 {
		return
	}
	b.TouchSticky()
	b.pods.TouchHostPorts(changed)
	b.touchNodePorts(changed)
}

// touchNodePorts has the Services looked at again that want NodePorts among the claims at nodes' own addresses.
func (b *Part) touchNodePorts(claims []objects.Claim) {
	for _, one := range claims {
		if one.Addr.IsValid() {
			continue
		}
		for addr := range b.ports.nodes {
			for rival := range b.claims.Wanting(objects.Claim{Addr: addr, Port: one.Port, Protocol: one.Protocol}) {
				b.dirty[rival] = struct{}{}
			}
		}
	}
}

// touchClaims has the Services looked at again that want something of an address.
func (b *Part) touchClaims(addr netip.Addr) {
	for name := range b.claims.WantingAt(addr) {
		b.dirty[name] = struct{}{}
	}
}

// touchHostPorts has the pods looked at again whose host ports a Service wants that wants something of an address.
func (b *Part) touchHostPorts(addr netip.Addr) {
	for name := range b.claims.WantingAt(addr) {
		b.pods.TouchHostPorts(b.claims.Claims(name))
	}
}

// HeldByAnother is told that another Service than before has an address of an AddressPool, or none.
func (b *Part) HeldByAnother(addr netip.Addr) {
	b.touchClaims(addr)
	b.touchHostPorts(addr)
}

// UpdateHosts takes in a node's addresses and who listens there, and has the Services looked at again that want
// what has come or gone. It gives the addresses where that makes a difference.
func (b *Part) UpdateHosts(n *topology.Node) []netip.Addr {
	touched, heard := b.claims.UpdateHosts(n)
	for _, addr := range touched {
		b.touchClaims(addr)
		// what a Service has no more may be a pod's, on another node with this address
		if !heard || len(n.Facts.Listeners) > 0 {
			b.touchHostPorts(addr)
		}
	}
	return touched
}

// TouchSticky has the sticky Services looked at again whose rows depend on what is balanced.
func (b *Part) TouchSticky() {
	for name := range b.outward {
		if s := b.all[name]; s != nil && s.object != nil && s.object.ClientIP {
			b.dirty[name] = struct{}{}
		}
	}
}

// apiServer is the Service that Kubernetes keeps for its API server.
const apiServer = "default/kubernetes"

// updateAPIServers takes in where the API server is.
func (b *Part) updateAPIServers(state *service) {
	now := map[netip.AddrPort]bool{}
	for _, s := range state.slices {
		for _, p := range s.Ports {
			for _, e := range s.Endpoints {
				now[netip.AddrPortFrom(e.Addr, p.Port)] = true
			}
		}
	}
	changed := b.claims.UpdateAPIServers(now)
	if changed == nil {
		return
	}
	for _, at := range changed {
		b.touchClaims(at.Addr())
		b.pods.TouchHostPorts([]objects.Claim{{Addr: at.Addr(), Port: at.Port(), Protocol: "tcp"}})
	}
	b.around.APIServersMoved()
}

// updateOutward takes in whether a Service has endpoints that are no pods' addresses: they may be hosts'.
func (b *Part) updateOutward(name string, state *service) {
	if slices.ContainsFunc(state.slices, func(s *objects.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e objects.Endpoint) bool {
			pods := ipam.Family(b.settings.Pods, e.Addr)
			return pods == nil || !pods.Contains(e.Addr)
		})
	}) {
		b.outward[name] = struct{}{}
	} else {
		delete(b.outward, name)
	}
}
