package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// reachHost ends a packet at a node's host, unless it is for a NodePort.
func (w *way) reachHost(n *node) error {
	port, err := w.nodePortAt(w.dst, w.packet.Protocol)
	switch {
	case err != nil:
		return err
	case port != nil:
		return w.askHost(n)
	}
	w.end(api.Arrives, hostReceives(n.name), "")
	return nil
}

// askHost tells of a packet that comes to a node's host, whose agent listens at NodePorts.
func (w *way) askHost(n *node) error {
	port, err := w.nodePortAt(w.dst, w.packet.Protocol)
	if err != nil {
		return err
	}
	if port == nil {
		w.untraced(n)
		return nil
	}
	service, local, err := w.behind(port)
	if err != nil {
		return err
	}
	if why := w.refusedByAgent(n); why != "" {
		w.listens(n, service)
		w.end(api.Refused, fmt.Sprintf("%s is a NodePort of %s, which the agent of node %s serves at this address, and not "+
			"to this client: %s", w.target(w.dst), service, n.name, why), "ask the Service by its ClusterIP, or by the "+
			"NodePort of the client's own node; docs/services.md says who answers where")
		return nil
	}
	if !local {
		return w.connect(n, service, netip.Addr{}, w.hostVIP(), "the address of NodePorts in the node's own switch")
	}
	return w.choosesItself(n, service, port.endpoints)
}

// listens tells of an agent that takes a packet and goes no further. It accepts each connection of TCP before it looks
// who asks, and ends it then.
func (w *way) listens(n *node, service string) {
	if w.node = n.name; w.packet.Protocol == ovntrace.TCP {
		w.step(api.StepHost, service, "%s: the agent of node %s accepts the connection at its NodePort %s, and resets it",
			service, n.name, w.target(w.dst))
	}
}

// behind names the Service of a NodePort, and says whether its externalTrafficPolicy is Local.
func (w *way) behind(p *nodePort) (service string, local bool, err error) {
	namespace, name, _ := strings.Cut(p.service, "/")
	allowed, err := w.may(w.ctx, namespace)
	if err == nil && !allowed {
		err = &ForbiddenError{"", "the packet goes to a NodePort of a Service outside of the namespaces whose right you have"}
	}
	if err != nil {
		return "", false, err
	}
	o, err := object[corev1.Service](w.ctx, w.Tracer, "services", namespace, name)
	local = o != nil && o.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	return "Service " + p.service, local, err
}

// hostVIP is the address and the port by which a node's host finds a NodePort in the node's switch.
func (w *way) hostVIP() netip.AddrPort {
	return netip.AddrPortFrom(contract.OfFamily(contract.HostVIPs, w.dst.Addr()), w.dst.Port())
}

// refusedByAgent says why the agent of a node does not serve the client; "" if it does.
func (w *way) refusedByAgent(n *node) string {
	routers := n.network.SharedGateways
	if g := n.facts.Gateway; g != nil && !g.HostAddresses {
		routers = append(slices.Clone(routers), contract.Addrs(g.Addresses)...)
	}
	switch {
	case w.packet.Protocol == ovntrace.SCTP:
		return "agents serve no SCTP"
	case n.isPod(w.src):
		return "an endpoint would see the node in place of the pod"
	case slices.Contains(routers, w.src):
		return fmt.Sprintf("%s is the address of a router of the cluster, and the packet could go in circles", w.src)
	case slices.Contains(contract.HostClients[:], w.src):
		return fmt.Sprintf("%s stands for clients in the cluster and for the host itself, and the packet could go in circles",
			w.src)
	}
	return ""
}

// connect tells of the connection that an agent makes for a client. Without a source, the host's system chooses that of
// the management port.
func (w *way) connect(n *node, service string, src netip.Addr, to netip.AddrPort, what string) error {
	host := contract.ManagementPort(n.name)
	ports, err := w.south.ports(w.ctx, host)
	if err != nil {
		return err
	}
	sender, there := ports[host]
	if !there {
		w.end(api.Lost, fmt.Sprintf("node %s has no management port in the Southbound", n.name),
			"`weft status` says what the node lacks")
		return nil
	}
	for _, own := range bare(sender.addresses) {
		if !src.IsValid() && own.Is4() == to.Addr().Is4() {
			src = own
		}
	}
	w.passesOn(n, service, src, to, what)
	w.sender = &sender
	w.packet.Inport, w.packet.EthSrc = sender.name, sender.mac
	if w.packet.EthDst, err = w.firstHop(sender.datapath, to.Addr()); err != nil {
		return err
	}
	trace, err := w.run(w.packet, n.name)
	if err != nil {
		return err
	}
	return w.tell(trace)
}

// passesOn tells where an agent connects to, and begins the leg of that connection.
func (w *way) passesOn(n *node, service string, src netip.Addr, to netip.AddrPort, what string) {
	if !w.beyond || w.node != n.name {
		w.next(n.name, w.src, w.dst)
		w.beyond = true
	}
	w.step(api.StepHost, service, "%s: the agent of node %s takes it at its NodePort %s, and connects from %s to %s, %s",
		service, n.name, w.target(w.dst), src, to, what)
	w.passedOn = fmt.Sprintf("the agent of node %s passes the answer on, from %s to %s", n.name, w.target(w.dst),
		w.target(netip.AddrPortFrom(w.src, w.packet.SrcPort)))
	w.next(n.name, src, to)
}

// metAgent says whether a pod's packet has come to its own node's host for a NodePort, and tells of it: the node's
// switch does not know the address, or has chosen it as a Service's endpoint.
func (w *way) metAgent(host string) (met bool, err error) {
	n, there := w.nodes[host]
	if !there || w.packet.Reply || !n.isPod(w.src) || !n.owns(w.dst.Addr()) {
		return false, nil
	}
	port, err := w.nodePortAt(w.dst, w.packet.Protocol)
	if port == nil || err != nil {
		return false, err
	}
	return true, w.askHost(n)
}

// choosesItself tells of a NodePort with externalTrafficPolicy Local, of whose endpoints the agent itself chooses: for
// its host among all, and for others among those of its node.
func (w *way) choosesItself(n *node, service string, endpoints []netip.AddrPort) error {
	endpoints, err := w.withoutLoops(n, endpoints)
	if err != nil {
		return err
	}
	here := slices.DeleteFunc(slices.Clone(endpoints), func(at netip.AddrPort) bool { return !n.holds(at.Addr()) })
	switch host := n.owns(w.src); {
	case len(endpoints) == 0 && host:
		return w.connect(n, service, netip.Addr{}, w.hostVIP(), "as it knows no endpoint to choose")
	case len(here) == 0 && !host:
		w.listens(n, service)
		w.end(api.Refused, fmt.Sprintf("%s has no ready endpoint on node %s, and serves clients at %s by those of their "+
			"node alone (Local): its agent refuses the client", service, n.name, w.target(w.dst)), comeByAnother)
		return nil
	case host:
		w.endpoints = endpoints
	default:
		w.endpoints = here
	}
	if len(here) == 0 {
		return w.toNodeOf(n, service, endpoints[0])
	}
	to, src := here[0], w.dst.Addr()
	if n.facts.OS == contract.Windows {
		src = netip.Addr{}
	}
	const what = "an endpoint on this node (Local)"
	if !n.owns(to.Addr()) {
		return w.connect(n, service, src, to, what)
	}
	w.passesOn(n, service, cmp.Or(src, to.Addr()), to, what)
	w.beyond, w.served = true, true
	w.end(api.Arrives, hostReceives(n.name), "")
	return nil
}

// withoutLoops are endpoints that are no NodePorts of a node's host itself, which its agent does not choose.
func (w *way) withoutLoops(n *node, endpoints []netip.AddrPort) (list []netip.AddrPort, err error) {
	for _, at := range endpoints {
		var port *nodePort
		if n.owns(at.Addr()) {
			if port, err = w.nodePortAt(at, w.packet.Protocol); err != nil {
				return nil, err
			}
		}
		if port == nil {
			list = append(list, at)
		}
	}
	return list, nil
}

// toNodeOf tells of an agent that asks the node of an endpoint for it.
func (w *way) toNodeOf(n *node, service string, endpoint netip.AddrPort) error {
	for _, other := range w.nodes {
		to := other.ofFamily(endpoint.Addr())
		if other.name == n.name || !other.holds(endpoint.Addr()) || !to.IsValid() {
			continue
		}
		w.passesOn(n, service, n.ofFamily(endpoint.Addr()), netip.AddrPortFrom(to, w.dst.Port()),
			fmt.Sprintf("the NodePort of node %s, which has the endpoint %s (Local)", other.name, endpoint))
		w.beyond = true
		return w.come(other)
	}
	return w.connect(n, service, netip.Addr{}, w.hostVIP(), "as the endpoint is on no node")
}

// alongHost follows the answer along a leg outside of OVN: the host has it, or its agent passes it on.
func (w *way) alongHost(l *leg) {
	if w.node = l.node; len(w.steps) == 0 {
		w.answer(l, l.src)
		w.start(end{text: "the host of node " + l.node})
	}
	if l.passedOn != "" {
		w.step(api.StepHost, "", "%s", l.passedOn)
	}
	switch {
	case w.onward:
	case w.q.from.Kind == api.AddressEnd:
		w.end(api.Arrives, fmt.Sprintf("it leaves the cluster from %s to %s; the way beyond is not traced",
			l.asked().Addr(), netip.AddrPortFrom(l.packet.Src, l.packet.SrcPort)), "")
	default:
		w.end(api.Arrives, hostReceives(l.node), "")
	}
}
