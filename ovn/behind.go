package ovn

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// Door is where a client's packet for a Service comes to a load balancer.
type Door struct {
	Node string
	// Outside: by the node's gateway router. Otherwise on the node's switch, as what its pods and its host send.
	Outside bool
}

func (d Door) attachPoint() loadbalancer.AttachPoint {
	if d.Outside {
		return loadbalancer.OnRouters
	}
	return loadbalancer.OnSwitches
}

// Behind is what a client gets at an address and port of a Service's.
type Behind struct {
	Service  string // whose it is, as namespace/name
	Port     string // the name of the Service's port, which may be ""
	NodePort bool   // the port is a NodePort, at an address of a node
	// Endpoints are one of which each connection gets, sorted; none: the client is refused or, if Silent, has no answer.
	Endpoints []netip.AddrPort
	Silent    bool
}

// Behind says what clients that come by a door get at an address and port: by the code that makes the rows of the
// Service that has it. ok is false where no Service has it there.
func (r *Rehearsal) Behind(kind string, at netip.AddrPort, door Door) (b Behind, ok bool) {
	c := r.cluster
	on, node := c.services.nodeSet(), c.nodes.At(door.Node)
	var variables map[string]string
	if node != nil {
		variables = node.TemplateVariables()
	}
	for _, name := range slices.Sorted(maps.Keys(c.services.all)) {
		s := c.services.all[name]
		if s.object == nil || s.object.Ignored {
			continue
		}
		object, _ := c.claims.Arbitrate(name, s.object)
		ask := func(to loadbalancer.Size) (Behind, bool) {
			object := object.First(to.Ports)
			served := loadbalancer.At(object, objects.Protocol(kind), s.slices, on, to.Endpoints, door.attachPoint(), door.Node)
			i := slices.IndexFunc(served, func(one loadbalancer.Served) bool { return expand(one.At, variables) == at })
			if i < 0 {
				return b, false
			}
			one := served[i]
			b := Behind{Service: name, Port: object.PortName(objects.Protocol(kind), at.Port(), one.NodePort),
				NodePort: one.NodePort, Silent: one.Silent}
			for _, to := range one.Endpoints {
				b.Endpoints = append(b.Endpoints, unalias(to, node))
			}
			return b, true
		}
		if _, ok := ask(loadbalancer.SizeOf(object, s.slices)); ok {
			_, to := loadbalancer.Rows(object, s.slices, on)
			return ask(to)
		}
	}
	return b, false
}

// Port is one of an address, as clients ask for it.
type Port struct {
	Protocol string // "tcp", "udp" or "sctp"
	At       netip.AddrPort
}

// Holder is whose a port is: a Service's, or a pod's as a hostPort, which leads To it.
type Holder struct {
	Kind, Name string // the name is namespace/name
	To         netip.AddrPort
}

// Holders says who has which ports for clients that come by a door: by the code that makes the rows of Services, and by
// the rows of the node's pods. More than one has a port where two load balancers would.
func (r *Rehearsal) Holders(door Door) map[Port][]Holder {
	c, found := r.cluster, map[Port][]Holder{}
	on, node := c.services.nodeSet(), c.nodes.At(door.Node)
	if node == nil {
		return found
	}
	variables := node.TemplateVariables()
	for name, s := range c.services.all {
		if s.object == nil || s.object.Ignored {
			continue
		}
		object, _ := c.claims.Arbitrate(name, s.object)
		for _, kind := range []objects.Protocol{"tcp", "udp", "sctp"} {
			most := loadbalancer.SizeOf(object, s.slices).Endpoints
			for _, one := range loadbalancer.At(object, kind, s.slices, on, most, door.attachPoint(), door.Node) {
				if at := expand(one.At, variables); at.IsValid() {
					found[Port{string(kind), at}] = append(found[Port{string(kind), at}], Holder{Kind: "Service", Name: name})
				}
			}
		}
	}
	for name := range c.pods.On(door.Node) {
		for _, row := range r.rows[northbound.PodOwner(name)].Rows {
			if lb, ok := row.Model.(*nb.LoadBalancer); ok {
				for text, to := range lb.Vips {
					at := Port{*lb.Protocol, netip.MustParseAddrPort(text)} // as hostPorts has written it
					found[at] = append(found[at], Holder{"Pod", name, netip.MustParseAddrPort(to)})
				}
			}
		}
	}
	return found
}

// expand is an address and port as a load balancer has it, with a node's variables; the zero one where it has none.
func expand(at string, variables map[string]string) netip.AddrPort {
	if variable, ok := strings.CutPrefix(at, "^"); ok {
		name, port, _ := strings.Cut(variable, ":")
		at = net.JoinHostPort(variables[name], port)
	}
	parsed, _ := netip.ParseAddrPort(at) // the zero one of a variable that the node does not have
	return parsed
}

// unalias is an endpoint with the host's own address in place of its alias.
func unalias(at netip.AddrPort, node *topology.Node) netip.AddrPort {
	if node == nil || node.Facts.Gateway == nil || at.Addr() != contract.OfFamily(contract.HostAliases, at.Addr()) {
		return at
	}
	for _, own := range contract.Addrs(node.Facts.Gateway.Addresses) {
		if own.Is4() == at.Addr().Is4() {
			return netip.AddrPortFrom(own, at.Port())
		}
	}
	return at
}
