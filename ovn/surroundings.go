package ovn

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
)

// outsideAddresses are those that nobody else may have, and whose they are.
func (c *cluster) outsideAddresses() map[netip.Addr]string {
	taken := map[netip.Addr]string{}
	add := func(list []netip.Addr, whose string) {
		for _, addr := range list {
			taken[addr] = whose
		}
	}
	for at := range c.services.hosts.apiServers {
		taken[at.Addr()] = "the API server"
	}
	for n := range c.nodes.placed() {
		if g := n.facts.Gateway; g != nil {
			add(g.NextHops, "a next hop of Node "+n.name)
			add(contract.Addrs(g.Addresses), "Node "+n.name)
		}
		add(n.facts.Addresses, "Node "+n.name)
	}
	if g := c.settings.Shared; g != nil {
		add(g.NextHops, "a next hop of the shared gateway (shared-gateway-next-hops)")
		add(contract.Addrs(g.Addresses), "the shared gateway (shared-gateway-addresses)")
	}
	return taken
}

// placements are the nodes that have a switch, as Services' rows depend on them.
func (c *cluster) placements() *nodeSet {
	return &nodeSet{names: c.nodes.names, windows: c.nodes.windows, zones: c.nodes.zones, zoneOf: c.nodes.zoneOf, announcer: c.balancers.announcer}
}

func (c *cluster) placementsChanged() { c.services.touchPlaced() }

func (c *cluster) datapathsChanged(firstOrLast bool) {
	c.services.touchAll(c.services.sctp)
	if firstOrLast {
		c.policies.windowsChanged()
	}
}

func (c *cluster) zonesChanged() { c.services.touchAll(c.services.hinted) }

func (c *cluster) podSeen(key string, object *objects.Pod) { c.domains.updatePod(key, object) }

func (c *cluster) podEnds(p *podState) {
	c.egress.leaveBy(p, [2]*egressState{})
	c.policies.selections.uncountPorts(p)
}

func (c *cluster) slicesChanged(service string) { c.domains.updateSlices(service) }

func (c *cluster) serviceChanged(name string, object *objects.Service) {
	c.balancers.expectAddresses(name, object)
}

func (c *cluster) apiServersMoved() { c.egress.replan = true }

// rangesChanged has all looked at again that depends on the ranges of ClusterIPs, and the nodes told of them.
func (c *cluster) rangesChanged() {
	c.nodes.dirtyTopology, c.egress.replan, c.balancers.changed = true, true, true
	c.notes = slices.DeleteFunc(c.notes, func(a annotation) bool { return a.key == contract.NodeNetworkAnnotation })
	for n := range c.nodes.placed() {
		c.nodes.noteNode(n)
	}
}

// heldByAnother has everybody looked at again for whom it makes a difference which Service has an address: other
// Services, pods whose host ports these want, and EgressIPs.
func (c *cluster) heldByAnother(addr netip.Addr) {
	c.services.touchClaims(addr)
	for name := range c.services.claims.at[addr] {
		c.pods.touchHostPorts(c.services.claims.of[name])
	}
	if _, wanted := c.egress.wanted[addr]; wanted {
		c.egress.replan = true
	}
}
