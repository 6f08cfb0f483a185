package ovn

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
)

// What the parts of a cluster know of each other.

func (c *cluster) namespaceLabels(name string) (set labelSet, there bool) {
	set, there = c.namespaces[name]
	return set, there
}

func (c *cluster) podAt(key string) *podState { return c.pods.all[key] }

func (c *cluster) allPods() map[string]*podState { return c.pods.all }

func (c *cluster) podsOf(namespace string) map[string]*podState {
	return c.policies.byNamespace[namespace]
}

// touchedPods are the pods that are there of those whose rows are made again, by key.
func (c *cluster) touchedPods() iter.Seq2[string, *podState] {
	return func(yield func(string, *podState) bool) {
		for key := range c.pods.dirty {
			if p := c.pods.all[key]; p != nil && !yield(key, p) {
				return
			}
		}
	}
}

func (c *cluster) placedNodes() iter.Seq[*nodeState] {
	return func(yield func(*nodeState) bool) {
		for _, name := range c.nodes.names {
			if !yield(c.nodes.all[name]) {
				return
			}
		}
	}
}

func (c *cluster) hasWindows() bool { return len(c.nodes.windows) > 0 }

func (c *cluster) touchPod(key string) { c.pods.dirty[key] = struct{}{} }

func (c *cluster) touchNode(name string) { c.nodes.dirty[name] = struct{}{} }

// at tells what time it is.
func (c *cluster) at(now time.Time) { c.clock = now.Unix() }

func (c *cluster) now() int64 { return c.clock }

func (c *cluster) domainUsed(name string, by int) { c.domains.use(name, by) }

func (c *cluster) slicesOf(service string) []*slice {
	if s := c.services.all[service]; s != nil {
		return s.slices
	}
	return nil
}

func (c *cluster) serviceWith(addr netip.Addr) (name string, ok bool) {
	name, ok = c.balancers.held[addr]
	return name, ok
}

func (c *cluster) releaseNumber(number int) {
	c.nodes.ids.release(number - 1)
	c.nodes.vacated = true
}

// outsideAddresses are those that nobody else may have, and whose they are.
func (c *cluster) outsideAddresses() map[netip.Addr]string {
	taken := map[netip.Addr]string{}
	add := func(list []netip.Addr, whose string) {
		for _, addr := range list {
			taken[addr] = whose
		}
	}
	for at := range c.services.apiServers {
		taken[at.Addr()] = "the API server"
	}
	for n := range c.placedNodes() {
		if g := n.facts.Gateway; g != nil {
			add(g.NextHops, "a next hop of Node "+n.name)
			add(contract.Addrs(g.Addresses), "Node "+n.name)
		}
		add(n.facts.Addresses, "Node "+n.name)
	}
	if g := c.settings.shared; g != nil {
		add(g.NextHops, "a next hop of the shared gateway (shared-gateway-next-hops)")
		add(contract.Addrs(g.Addresses), "the shared gateway (shared-gateway-addresses)")
	}
	return taken
}

func (c *cluster) serviceAt(key string) *serviceState { return c.services.all[key] }

func (c *cluster) nodeAt(name string) *nodeState { return c.nodes.all[name] }

func (c *cluster) egressWanting() map[netip.Addr]string { return c.egress.wanted }

func (c *cluster) isHosts(addr netip.Addr) bool {
	return c.services.hostRules().At(addr) != outside.Nobody
}

func (c *cluster) touchService(key string) { c.services.dirty[key] = struct{}{} }

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

// placements are the nodes that have a switch, as Services' rows depend on them.
func (c *cluster) placements() *nodeSet {
	return &nodeSet{names: c.nodes.names, windows: c.nodes.windows, zones: c.nodes.zones, zoneOf: c.nodes.zoneOf, announcer: c.balancers.announcer}
}

func (c *cluster) wantsHostPort(port numberedPort) bool { return len(c.pods.hostPorted[port]) > 0 }

func (c *cluster) slicesChanged(service string) { c.domains.updateSlices(service) }

func (c *cluster) expectAddresses(name string, object *service) {
	c.balancers.expectAddresses(name, object)
}

func (c *cluster) apiServersMoved() { c.egress.replan = true }

// rangesChanged has all looked at again that depends on the ranges of ClusterIPs, and the nodes told of them.
func (c *cluster) rangesChanged() {
	c.nodes.dirtyTopology, c.egress.replan, c.balancers.changed = true, true, true
	c.notes = slices.DeleteFunc(c.notes, func(a annotation) bool { return a.key == contract.NodeNetworkAnnotation })
	for n := range c.placedNodes() {
		c.nodes.noteNode(n)
	}
}

func (c *cluster) nodeOf(chassis string) string { return c.nodes.nodeOf(chassis) }

func (c *cluster) node(name string) *nodeState { return c.nodes.node(name) }

func (c *cluster) forgetNode(n *nodeState) { c.nodes.forgetNode(n) }

func (c *cluster) touchHostPorts(claims []claim) { c.pods.touchHostPorts(claims) }

func (c *cluster) placementsChanged() { c.services.touchPlaced() }

func (c *cluster) datapathsChanged(firstOrLast bool) {
	c.services.touch(c.services.sctp)
	if firstOrLast {
		c.policies.windowsChanged()
	}
}

func (c *cluster) zonesChanged() { c.services.touch(c.services.hinted) }

func (c *cluster) podSeen(key string, object *pod) { c.domains.updatePod(key, object) }

func (c *cluster) podBegins(key string, p *podState) { c.policies.indexPod(key, p) }

func (c *cluster) podEnds(key string, p *podState) {
	c.egress.leaveBy(p, [2]*egressState{})
	c.policies.forgetPod(key, p)
}

func (c *cluster) awaitsNamespace(name string) bool { return c.policies.lacks(name) }

func (c *cluster) hostsKeep(protocol string, at netip.AddrPort) bool {
	return c.services.hostRules().Keep(protocol, at) != outside.Nobody
}

func (c *cluster) serviceHas(wanted claim) bool { return c.services.serviceHas(wanted) }

func (c *cluster) hostPortsChanged() { c.services.touchSelves() }
