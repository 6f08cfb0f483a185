package services

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/loadbalancer"
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
func (b *Part) Behind(kind string, at netip.AddrPort, door Door) (found Behind, ok bool) {
	on, node := b.nodeSet(), b.nodes.At(door.Node)
	var variables map[string]string
	if node != nil {
		variables = node.TemplateVariables()
	}
	for _, name := range slices.Sorted(maps.Keys(b.all)) {
		s := b.all[name]
		if s.object == nil || s.object.Ignored {
			continue
		}
		object, _ := b.claims.Arbitrate(name, s.object)
		ask := func(to loadbalancer.Size) (found Behind, ok bool) {
			object := object.First(to.Ports)
			served := loadbalancer.At(object, objects.Protocol(kind), s.slices, on, to.Endpoints, door.attachPoint(), door.Node)
			i := slices.IndexFunc(served, func(one loadbalancer.Served) bool { return expand(one.At, variables) == at })
			if i < 0 {
				return found, false
			}
			one := served[i]
			found = Behind{Service: name, Port: object.PortName(objects.Protocol(kind), at.Port(), one.NodePort),
				NodePort: one.NodePort, Silent: one.Silent}
			for _, to := range one.Endpoints {
				found.Endpoints = append(found.Endpoints, unalias(to, node))
			}
			return found, true
		}
		if _, ok := ask(loadbalancer.SizeOf(object, s.slices)); ok {
			_, to := loadbalancer.Rows(object, s.slices, on)
			return ask(to)
		}
	}
	return found, false
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

// Holders says which Services have which ports for clients that come by a door: by the code that makes their rows. More
// than one has a port where two load balancers would.
func (b *Part) Holders(door Door) map[Port][]Holder {
	on, node, found := b.nodeSet(), b.nodes.At(door.Node), map[Port][]Holder{}
	if node == nil {
		return found
	}
	variables := node.TemplateVariables()
	for name, s := range b.all {
		if s.object == nil || s.object.Ignored {
			continue
		}
		object, _ := b.claims.Arbitrate(name, s.object)
		for _, kind := range []objects.Protocol{"tcp", "udp", "sctp"} {
			most := loadbalancer.SizeOf(object, s.slices).Endpoints
			for _, one := range loadbalancer.At(object, kind, s.slices, on, most, door.attachPoint(), door.Node) {
				if at := expand(one.At, variables); at.IsValid() {
					found[Port{string(kind), at}] = append(found[Port{string(kind), at}], Holder{Kind: "Service", Name: name})
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
