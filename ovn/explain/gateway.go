package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/services"
	"github.com/weftnet/weft/ovn/settings"
)

// gate is where a node is entered from outside.
type gate struct {
	network contract.NodeNetwork
	facts   contract.NodeFacts
}

// nodes are a cluster's, and by what they are entered.
type nodes struct {
	named  map[netip.Addr]string   // by their addresses
	hosts  map[string][]netip.Addr // by node: those from which its host reaches pods
	gates  map[string]gate         // by node
	ranges []netip.Prefix          // of Services' addresses, as far as nodes have them noted
}

func newNodes() nodes {
	return nodes{named: map[netip.Addr]string{}, hosts: map[string][]netip.Addr{}, gates: map[string]gate{}}
}

func (n *nodes) take(o *corev1.Node) {
	for _, a := range o.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil {
			n.named[addr] = o.Name
		}
	}
	var g gate
	network, ok, err := contract.Parse[contract.NodeNetwork](o.Annotations, contract.NodeNetworkAnnotation)
	if ok && err == nil {
		g.network = network
		for _, subnet := range network.PodCIDRs {
			n.hosts[o.Name] = append(n.hosts[o.Name], contract.ManagementAddress(subnet))
			n.named[contract.ManagementAddress(subnet)] = o.Name
		}
		for _, p := range network.ServiceCIDRs {
			if !slices.Contains(n.ranges, p) {
				n.ranges = append(n.ranges, p)
			}
		}
	}
	if facts, ok, err := contract.Parse[contract.NodeFacts](o.Annotations, contract.NodeFactsAnnotation); ok &&
		err == nil {
		g.facts = facts
		for _, addr := range g.addresses() {
			n.named[addr] = o.Name
		}
	}
	n.gates[o.Name] = g
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
func (n *nodes) nodePortsOf(addr netip.Addr) string {
	node := n.named[addr]
	if g, ok := n.gates[node]; ok && slices.Contains(g.addresses(), addr) {
		return node
	}
	return ""
}

// sources are the addresses from which a target is reached: a host reaches pods from those that it has among them,
// where a program does not choose another.
func (n *nodes) sources(from *pod, to target) []netip.Addr {
	among := n.hosts[from.node]
	if from.why == "" || from.port == "" || to.why != "" || to.gateway != nil ||
		slices.Contains(among, from.addresses[0]) {
		return from.addresses
	}
	var list []netip.Addr
	for _, addr := range among {
		if slices.ContainsFunc(from.addresses, func(own netip.Addr) bool { return own.Is4() == addr.Is4() }) {
			list = append(list, addr)
		}
	}
	if len(list) == 0 {
		return from.addresses
	}
	return list
}

// doors are by which a client may come to a Service's address, in the order in which it meets them: its own node's
// switch, then the gateway of the node whose address it is, or any. Where a gateway is missing, the switches tell
// whose the address is.
func (n *nodes) doors(addr netip.Addr, from *pod) []services.Door {
	var list []services.Door
	if from.port != "" {
		list = append(list, services.Door{Node: from.node})
	}
	names := slices.Sorted(maps.Keys(n.gates))
	if owner := n.nodePortsOf(addr); owner != "" {
		names = slices.Insert(names, 0, owner)
	}
	for _, outside := range []bool{true, false} {
		for _, node := range names {
			list = append(list, services.Door{Node: node, Outside: outside})
		}
	}
	return append(list, services.Door{})
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
func (n *nodes) gatewayOf(f *front, from *pod) (*gateway, error) {
	if !f.at.IsValid() || f.sort == clusterIP || from.port != "" && (f.node == "" || f.node == from.node) {
		return nil, nil
	}
	g := &gateway{node: f.node, asked: f.at,
		local: f.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal}
	if g.node == "" { // any that has one
		for _, node := range slices.Sorted(maps.Keys(n.gates)) {
			if g.node == "" && n.gates[node].facts.Gateway != nil {
				g.node = node
			}
		}
	}
	to := n.gates[g.node]
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
		g.client = n.outside(from, f.at.Addr())
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

// outside is the address that a client has at other nodes' gateways, if it is another there.
func (n *nodes) outside(from *pod, family netip.Addr) netip.Addr {
	of := func(list []netip.Addr) netip.Addr {
		if i := slices.IndexFunc(list, func(a netip.Addr) bool { return a.Is4() == family.Is4() }); i >= 0 {
			return list[i]
		}
		return netip.Addr{}
	}
	own := n.gates[from.node]
	switch {
	case from.why != "": // a host, or who is outside
		return of(from.addresses)
	case own.facts.Gateway != nil:
		return of(contract.Addrs(own.facts.Gateway.Addresses))
	case own.facts.SharedGateway:
		return of(own.network.SharedGateways)
	}
	return netip.Addr{}
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
