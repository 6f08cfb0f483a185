package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/settings"
)

// gate is where a node is entered from outside.
type gate struct {
	network contract.NodeNetwork
	facts   contract.NodeFacts
}

func (c *Cluster) takeNode(o *corev1.Node) {
	for _, a := range o.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil {
			c.nodes[addr] = o.Name
		}
	}
	var g gate
	network, ok, err := contract.Parse[contract.NodeNetwork](o.Annotations, contract.NodeNetworkAnnotation)
	if ok && err == nil {
		g.network = network
		for _, subnet := range network.PodCIDRs {
			c.hosts[o.Name] = append(c.hosts[o.Name], contract.ManagementAddress(subnet))
			c.nodes[contract.ManagementAddress(subnet)] = o.Name
		}
		for _, p := range network.ServiceCIDRs {
			if !slices.Contains(c.ranges, p) {
				c.ranges = append(c.ranges, p)
			}
		}
	}
	if facts, ok, err := contract.Parse[contract.NodeFacts](o.Annotations, contract.NodeFactsAnnotation); ok &&
		err == nil {
		g.facts = facts
		for _, addr := range g.addresses() {
			c.nodes[addr] = o.Name
		}
	}
	c.gates[o.Name] = g
}

// addresses are those that the node's NodePorts have.
func (g *gate) addresses() []netip.Addr {
	list := g.facts.Addresses
	if g.facts.Gateway != nil {
		list = slices.Concat(contract.Addrs(g.facts.Gateway.Addresses), list)
	}
	return list
}

// nodePortsOf is the node whose NodePorts an address has, "" if it has none.
func (c *Cluster) nodePortsOf(addr netip.Addr) string {
	node := c.nodes[addr]
	if g, ok := c.gates[node]; ok && slices.Contains(g.addresses(), addr) {
		return node
	}
	return ""
}

// gateway is a gateway router that balances a connection on its way to a Service: the client's own switch sees
// none but the address that was asked for, and the endpoint's may see another client.
type gateway struct {
	node  string
	asked netip.AddrPort
	local bool // externalTrafficPolicy: Local
	// client is whom the endpoint sees; the zero one: the client itself.
	client netip.Addr
}

// gatewayOf finds the one between a client and a Service, nil if there is none: pods and hosts have ClusterIPs,
// addresses outside and their own node's NodePorts balanced on their switch.
func (c *Cluster) gatewayOf(f *front, from *pod) (*gateway, error) {
	if !f.at.IsValid() || f.sort == clusterIP || from.port != "" && (f.node == "" || f.node == from.node) {
		return nil, nil
	}
	g := &gateway{node: f.node, asked: f.at,
		local: f.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal}
	if g.node == "" { // any that has one
		for _, node := range slices.Sorted(maps.Keys(c.gates)) {
			if g.node == "" && c.gates[node].facts.Gateway != nil {
				g.node = node
			}
		}
	}
	to := c.gates[g.node]
	switch {
	case to.facts.Gateway == nil && f.node != "":
		return nil, fmt.Errorf("%s: Node %s has no gateway, so that none but clients on it reach its NodePorts; ask for "+
			"those of a node that has one", f.at, f.node)
	case to.facts.Gateway == nil:
		return nil, fmt.Errorf("%s: no node has a gateway, so that no client outside reaches it; ask about a pod", f.at)
	case f.node != "" && !slices.Contains(contract.Addrs(to.facts.Gateway.Addresses), f.at.Addr()):
		return nil, fmt.Errorf("%s: the agent of Node %s serves NodePorts at this address, and endpoints see its host as "+
			"the client; ask from that, or for one of its gateway's addresses: %s",
			f.at, f.node, listing(texts(contract.Addrs(to.facts.Gateway.Addresses))))
	case g.local:
		g.client = c.outside(from, f.at.Addr())
		return g, nil
	}
	for _, join := range to.network.JoinCIDRs {
		if join.Addr().Is4() == f.at.Addr().Is4() {
			g.client = settings.JoinAddress(join, to.network.ID)
			return g, nil
		}
	}
	return nil, fmt.Errorf("%s: Node %s's annotation %s has no join range of its family, so that nobody can tell whom "+
		"endpoints see as the client; see why the controller has not written it", f.at, g.node,
		contract.NodeNetworkAnnotation)
}

// outside is the address that a client has outside of the cluster, if it is another there.
func (c *Cluster) outside(from *pod, family netip.Addr) netip.Addr {
	of := func(list []netip.Addr) netip.Addr {
		if i := slices.IndexFunc(list, func(a netip.Addr) bool { return a.Is4() == family.Is4() }); i >= 0 {
			return list[i]
		}
		return netip.Addr{}
	}
	gate := c.gates[from.node].facts.Gateway
	switch {
	case from.why != "": // a host, or who is outside
		return of(from.addresses)
	case gate == nil || gate.Routed:
		return netip.Addr{}
	}
	return of(contract.Addrs(gate.Addresses))
}

// leaving is a connection as its client's switch sees it. What a host sends to another node is not on one.
func (g *gateway) leaving(c acl.Connection, from *pod) acl.Connection {
	c.Outport, c.Dst, c.DstPort, c.VIP = "", g.asked.Addr(), g.asked.Port(), netip.AddrPort{}
	if from.why != "" {
		c.Inport = ""
	}
	return c
}

// arriving is the connection of a path as the endpoint's switch sees it.
func (g *gateway) arriving(p Path, port string, c acl.Connection) acl.Connection {
	c.Inport, c.Outport, c.Dst, c.DstPort = "", port, p.Dst, p.Port
	if g.client.IsValid() {
		c.Src = g.client
	}
	return c
}

func (g *gateway) note(p *Path) string {
	client := p.Src
	if g.client.IsValid() {
		client = g.client
	}
	return fmt.Sprintf("it leaves for %s and comes in by the gateway of Node %s, behind which the endpoint sees the "+
		"client %s", g.asked, g.node, client)
}
