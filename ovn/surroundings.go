package ovn

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/pods"
	"github.com/weftnet/weft/ovn/policies"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// OutsideAddresses are those that nobody else may have, and whose they are.
func (c *cluster) OutsideAddresses() map[netip.Addr]string {
	taken := map[netip.Addr]string{}
	add := func(list []netip.Addr, whose string) {
		for _, addr := range list {
			taken[addr] = whose
		}
	}
	for at := range c.claims.APIServers() {
		taken[at.Addr()] = "the API server"
	}
	for n := range c.nodes.Existing() {
		if g := n.Facts.Gateway; g != nil {
			add(g.NextHops, "a next hop of Node "+n.Name)
			add(contract.Addrs(g.Addresses), "Node "+n.Name)
		}
		add(n.HostAddresses(), "Node "+n.Name)
	}
	if g := c.settings.Shared; g != nil {
		add(g.NextHops, "a next hop of the shared gateway (shared-gateway-next-hops)")
		add(contract.Addrs(g.Addresses), "the shared gateway (shared-gateway-addresses)")
	}
	return taken
}

// Placements are the nodes that have a switch, as Services' rows depend on them.
func (c *cluster) Placements() *loadbalancer.Nodes {
	return &loadbalancer.Nodes{Names: c.nodes.Names(), Windows: c.nodes.Windows(), Zones: c.topology.Zones,
		ZoneOf: c.topology.ZoneOf, Announcer: c.pools.Announcer}
}

func (c *cluster) HasSharedGateway() bool { return c.gateway.Exists() }

// AddToNode adds what other parts have among a node's rows.
func (c *cluster) AddToNode(n *topology.Node, change *ovsdb.Change) {
	c.pools.AddToNode(n, change)
	c.nodeSets.AddTo(n.Object.Labels, n.PolicyAddresses(), change)
	if c.policies.Any() {
		policies.AddHostACL(n.Name, n.Subnets, n.HostAddresses(), change)
	}
}

// NodesChanged has the parts take in what they follow from of nodes. Then the nodes' owners are told what is wrong,
// which may depend on all of them.
func (c *cluster) NodesChanged(touched []*topology.Node) {
	before := c.gateway.Exists()
	for _, n := range touched {
		c.topology.Update(n)
		c.gateway.Update(n)
		c.pods.NodeChanged(n)
		c.pools.UpdateNode(n)
		for _, addr := range c.services.UpdateHosts(n) {
			c.pools.HostsHave(addr)
		}
		c.serviceCIDRs.UpdateOccupants(n)
	}
	c.services.UpdateNodePorts(touched)
	c.noteTraits(touched)
	if c.gateway.Exists() != before {
		for _, name := range c.gateway.Sharing() {
			c.nodes.Touch(name)
			touched = append(touched, c.nodes.At(name))
		}
	}
	for _, n := range touched {
		if n.Object != nil {
			c.nodes.Report(n, c.gateway.Problems(n))
		}
	}
}

func (c *cluster) PlacementsChanged() { c.services.PlacementsChanged() }

func (c *cluster) DatapathsChanged(firstOrLast bool) {
	c.services.DatapathsChanged()
	if firstOrLast {
		c.policies.WindowsChanged()
	}
}

func (c *cluster) zonesChanged() { c.services.ZonesChanged() }

func (c *cluster) NamespaceChanged(name string, object *objects.Namespace, relabelled bool) {
	c.policies.NoteLogging(name, object)
	if relabelled {
		c.selections.NamespaceChanged(name)
		c.pools.NamespaceChanged(name)
		c.egress.NamespaceChanged(name)
	}
}

func (c *cluster) PodSeen(key string, object *objects.Pod) { c.domains.UpdatePod(key, object) }

func (c *cluster) PodEnds(p *pods.Pod) {
	c.egress.Leave(p)
	c.selections.Leave(p)
}

func (c *cluster) SlicesChanged(service string) { c.domains.UpdateSlices(service) }

func (c *cluster) APIServersMoved() { c.egress.Replan() }

// RangesChanged has all looked at again that depends on the ranges of ClusterIPs, and the nodes told of them.
func (c *cluster) RangesChanged() {
	c.services.TouchEvery()
	c.topology.Touch()
	c.egress.Replan()
	c.pools.Recheck()
	c.Notes = slices.DeleteFunc(c.Notes, func(p part.Patch) bool {
		return p.Annotation() == contract.NodeNetworkAnnotation
	})
	c.nodes.NoteAll()
}

// HeldByAnother has everybody looked at again for whom it makes a difference which Service has an address: other
// Services, pods whose host ports these want, and EgressIPs.
func (c *cluster) HeldByAnother(addr netip.Addr) {
	c.services.HeldByAnother(addr)
	if _, wanted := c.egress.Wanting()[addr]; wanted {
		c.egress.Replan()
	}
}

// noteTraits takes in what nodes are to EgressIPs and AddressPools.
func (c *cluster) noteTraits(touched []*topology.Node) {
	for _, n := range touched {
		before, now := c.traits[n.Name], topology.TraitsOf(n)
		if c.traits[n.Name] = now; n.Object == nil {
			delete(c.traits, n.Name)
		}
		if before.Ready != now.Ready { // who may have addresses stays as it is
			c.egress.Turn(n)
			c.pools.Turn(n)
		}
		if before.Ready != now.Ready || before.Hosted != now.Hosted {
			c.liveness.Touch()
		}
		switch {
		case !before.Placed && !now.Placed && slices.Equal(before.Taken, now.Taken): // nobody can have it
		case !before.SameButLabels(&now):
			c.egress.Reshape(&before, &now)
			c.pools.Reshape()
		case before.Labels != now.Labels:
			c.egress.Relabel(before.Labels, now.Labels)
			c.pools.Relabel(n, before.Labels, now.Labels)
		}
	}
}

// holders are AddressPools as who decides about addresses sees them.
type holders struct{ *cluster }

// Holder is part of [claims.Pools].
func (h holders) Holder(addr netip.Addr) (service string, ok bool) { return h.pools.Holder(addr) }
