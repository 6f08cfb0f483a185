package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// mostLegs bounds a way on which nodes' addresses lead to one another, as those of endpoints that are NodePorts may.
const mostLegs = 8

// owns says whether an address is one of the node's host.
func (n *node) owns(addr netip.Addr) bool {
	return slices.Contains(n.addresses, addr) || slices.Contains(n.facts.Addresses, addr) || n.shares(addr)
}

// shares says whether an address is the node's host's, and its gateway router's.
func (n *node) shares(addr netip.Addr) bool { return n.routes(addr) && n.sharesAddresses() }

// sharesAddresses says whether the node's gateway router has addresses of its host.
func (n *node) sharesAddresses() bool { return n.facts.Gateway != nil && n.facts.Gateway.HostAddresses }

// routerAddress is the first address of the node's gateway router, of the family of another one. The zero one is none.
func (n *node) routerAddress(other netip.Addr) netip.Addr {
	for _, addr := range contract.Addrs(n.facts.Gateway.Addresses) {
		if addr.Is4() == other.Is4() {
			return addr
		}
	}
	return netip.Addr{}
}

// routes says whether an address is one of the node's gateway router.
func (n *node) routes(addr netip.Addr) bool {
	return n.facts.Gateway != nil && slices.Contains(contract.Addrs(n.facts.Gateway.Addresses), addr)
}

// ofFamily is an address of the node's host, of the family of another one. The zero one is none.
func (n *node) ofFamily(other netip.Addr) netip.Addr {
	for _, addr := range slices.Concat(n.addresses, n.facts.Addresses) {
		if addr.Is4() == other.Is4() {
			return addr
		}
	}
	return netip.Addr{}
}

// sourceOutside is the source that flows on the node's external bridge give a packet of its gateway router.
func (n *node) sourceOutside(src netip.Addr) netip.Addr {
	own := n.routerAddress(src)
	if !own.IsValid() || !n.inCluster(src) || n.facts.Gateway.Routed && n.holds(src) {
		return src
	}
	return own
}

// holds says whether an endpoint is on the node.
func (n *node) holds(endpoint netip.Addr) bool {
	return n.owns(endpoint) || slices.ContainsFunc(n.network.PodCIDRs, func(p netip.Prefix) bool {
		return p.Contains(endpoint)
	})
}

// isPod says whether an address is one among the pods that is not the node's host.
func (n *node) isPod(addr netip.Addr) bool {
	return !slices.ContainsFunc(n.network.PodCIDRs, func(p netip.Prefix) bool {
		return contract.ManagementAddress(p) == addr
	}) && n.inCluster(addr)
}

// inCluster says whether an address is one among the pods.
func (n *node) inCluster(addr netip.Addr) bool {
	return slices.ContainsFunc(n.network.ClusterCIDRs, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// byRoutes says whether the source is a host that does not reach an address by OVN.
func (t *tracing) byRoutes(to netip.Addr) bool {
	n := t.nodes[t.from.node]
	return t.q.from.Kind != api.AddressEnd && t.from.port.owner == t.hostOwner() && !n.inside(to)
}

// byHost completes the first packet of a host to a NodePort, and refuses what else does not enter OVN.
func (t *tracing) byHost(p ovntrace.Packet) (ovntrace.Packet, error) {
	n := t.nodes[t.from.node]
	port, err := t.nodePortAt(netip.AddrPortFrom(p.Dst, p.DstPort), p.Protocol)
	if err == nil && port == nil {
		err = questionErrorf("spec.destination", "the host of node %s reaches %s by its own routes, and not by OVN; ask "+
			"about a pod, a Service or a NodePort", n.name, p.Dst)
	}
	if p.Src = n.ofFamily(p.Dst); n.owns(p.Dst) {
		p.Src = p.Dst
	}
	return p, err
}

// nodePortAt is the NodePort that an address of a node has; nil is none.
func (t *tracing) nodePortAt(at netip.AddrPort, protocol ovntrace.Protocol) (*nodePort, error) {
	if _, found := t.nodeAt(at.Addr()); !found || protocol == ovntrace.ICMP {
		return nil, nil
	}
	return t.north.nodePort(t.ctx, string(protocol), at.Addr().Is4(), at.Port())
}

// leaveHost tells of what a host sends to a NodePort. To an own address it does not leave the host.
func (w *way) leaveHost() error {
	n := w.nodes[w.node]
	if w.beyond = true; n.owns(w.dst.Addr()) {
		return w.askHost(n)
	}
	w.step(api.StepHost, "Node "+n.name, "the host of node %s sends it by its own routes, outside of OVN", n.name)
	to, _ := w.nodeAt(w.dst.Addr())
	return w.come(to)
}

// come tells of a packet that comes to a node by the network outside: its gateway router takes it, or its host has it.
func (w *way) come(n *node) error {
	switch {
	case w.packet.Protocol == ovntrace.ICMP:
		w.untraced(n)
		return nil
	case len(w.done) >= mostLegs:
		w.end(api.Lost, fmt.Sprintf("it has come to nodes' addresses %d times, and is not followed any more", mostLegs),
			"see whether endpoints of Services are addresses of nodes with NodePorts")
		return nil
	case !n.routes(w.dst.Addr()):
		return w.askHost(n)
	}
	before := *w
	w.next(n.name, w.src, w.dst)
	if err := w.atGateway(); err != nil {
		return err
	}
	trace, err := w.run(w.packet, n.name)
	if err != nil {
		return err
	}
	if w.balances(trace) {
		return w.comeIn(trace)
	}
	if *w = before; n.shares(w.dst.Addr()) {
		return w.askHost(n)
	}
	w.untraced(n)
	return nil
}

// atGateway completes a packet that enters OVN by the gateway of the node.
func (w *way) atGateway() (err error) {
	w.packet.Inport, w.packet.EthSrc = localnetPrefix+w.entry, routerOutside
	w.packet.EthDst, err = w.macOf(outerPrefix + w.entry)
	return err
}

// balances says whether a load balancer of a gateway router takes a packet, or refuses it. Its flows ask for the port,
// and those of NAT do not.
func (w *way) balances(trace *ovntrace.Trace) bool {
	asks := fmt.Sprintf("%s.dst == %d", w.packet.Protocol, w.packet.DstPort)
	return slices.ContainsFunc(trace.Visits, func(v ovntrace.Visit) bool {
		return v.Datapath == gatewayPrefix+w.entry && slices.ContainsFunc(v.Flows, func(f ovntrace.Flow) bool {
			return f.Stage == "lr_in_dnat" && strings.Contains(f.Match, asks)
		})
	})
}

// untraced ends a packet at a node's host.
func (w *way) untraced(n *node) {
	w.end(api.Arrives, fmt.Sprintf("it goes from %s to node %s (%s) by the nodes' network; the way there is not traced",
		w.src, n.name, w.target(w.dst)), "")
}

// toHost tells of a packet that a gateway router has for the host with which it shares addresses. The host sees no
// client at an address that it reaches otherwise.
func (w *way) toHost(n *node) error {
	if n.owns(w.src) || n.inCluster(w.src) {
		client := contract.OfFamily(contract.HostClients, w.src)
		w.step(api.StepTranslation, "Node "+n.name, "flows on the node's external bridge give it the source %s in place "+
			"of %s", client, w.src)
		w.src = client
	}
	if alias := w.dst.Addr(); alias == contract.OfFamily(contract.HostAliases, alias) {
		w.dst = netip.AddrPortFrom(n.routerAddress(alias), w.dst.Port())
		w.step(api.StepTranslation, "Node "+n.name, "flows on the node's external bridge give it the destination %s in "+
			"place of %s", w.dst.Addr(), alias)
	}
	return w.reachHost(n)
}

// hostReceives is the end of a packet at a node's host.
func hostReceives(node string) string { return "the host of node " + node + " receives it" }
