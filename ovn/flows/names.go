package flows

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
)

// Names are those of addresses: pods, nodes and routers by address, and Services by address, port and protocol.
type Names struct {
	ends     map[netip.Addr]api.FlowEnd
	services map[frontend]api.FlowService
	// inside are the ranges of pods, Services and routers.
	inside []netip.Prefix
}

// frontend is where a Service is asked. The address of a NodePort is none: each node has it.
type frontend struct {
	protocol string
	address  netip.Addr
	port     uint16
}

// NewNames knows the ports of a network and the addresses of nodes. Services are added.
func NewNames(topology *api.NetworkTopology, nodes []*corev1.Node) *Names {
	n := &Names{ends: map[netip.Addr]api.FlowEnd{}, services: map[frontend]api.FlowService{}}
	for i := range nodes {
		n.addNode(nodes[i])
	}
	for i := range topology.Routers {
		n.addRouter(&topology.Routers[i])
	}
	for i := range topology.Nodes {
		n.addPorts(&topology.Nodes[i])
	}
	return n
}

// addNode takes what a Node says of its host.
func (n *Names) addNode(o *corev1.Node) {
	end := api.FlowEnd{Kind: api.NodeEnd, Name: o.Name}
	for _, a := range o.Status.Addresses {
		n.add(a.Address, end)
	}
	facts, _, _ := contract.Parse[contract.NodeFacts](o.Annotations, contract.NodeFactsAnnotation)
	for _, addr := range facts.Addresses {
		n.ends[addr] = end
	}
	network, _, _ := contract.Parse[contract.NodeNetwork](o.Annotations, contract.NodeNetworkAnnotation)
	for _, ranges := range [][]netip.Prefix{network.ClusterCIDRs, network.ServiceCIDRs, network.JoinCIDRs} {
		for _, p := range ranges {
			if !slices.Contains(n.inside, p) {
				n.inside = append(n.inside, p)
			}
		}
	}
}

// addPorts takes the ports on a node. A gateway with the host's own addresses is the node.
func (n *Names) addPorts(node *api.NodeTopology) {
	if node.Gateway != nil {
		n.addRouter(node.Gateway)
	}
	if node.Host != nil {
		for _, text := range node.Host.Addresses {
			n.add(text, api.FlowEnd{Kind: api.NodeEnd, Name: node.Name})
		}
	}
	for _, p := range node.Pods {
		for _, text := range p.Addresses {
			n.add(text, api.FlowEnd{Kind: api.PodEnd, Namespace: p.Namespace, Name: p.Name, Node: node.Name})
		}
	}
}

func (n *Names) addRouter(r *api.RouterTopology) {
	for _, port := range r.Ports {
		for _, text := range port.Networks {
			p, err := netip.ParsePrefix(text)
			if _, taken := n.ends[p.Addr()]; err == nil && !taken {
				n.ends[p.Addr()] = api.FlowEnd{Kind: api.GatewayEnd, Name: r.Name}
			}
		}
	}
}

func (n *Names) add(text string, end api.FlowEnd) {
	if addr, err := netip.ParseAddr(text); err == nil {
		n.ends[addr.Unmap()] = end
	}
}

// AddService takes the addresses and ports of a Service.
func (n *Names) AddService(s *corev1.Service) {
	texts := slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs)
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		texts = append(texts, ingress.IP)
	}
	named := api.FlowService{Namespace: s.Namespace, Name: s.Name}
	for _, port := range s.Spec.Ports {
		protocol := string(port.Protocol)
		for _, text := range texts {
			if addr, err := netip.ParseAddr(text); err == nil { // a headless Service has "None"
				n.services[frontend{protocol, addr.Unmap(), uint16(port.Port)}] = named
			}
		}
		if port.NodePort != 0 {
			n.services[frontend{protocol: protocol, port: uint16(port.NodePort)}] = named
		}
	}
}

// end names who has an address. What each node has for itself is the node's that has told of it.
func (n *Names) end(at netip.AddrPort, node string) api.FlowEnd {
	end, known := n.ends[at.Addr()]
	switch {
	case known:
	case isPerNode(at.Addr()):
		end = api.FlowEnd{Kind: api.NodeEnd, Name: node}
	case n.isInside(at.Addr()):
		end.Kind = api.AddressEnd
	default:
		end.Kind = api.OutsideEnd
	}
	end.Address, end.Port = at.Addr().String(), int(at.Port())
	return end
}

func (n *Names) isInside(addr netip.Addr) bool {
	return slices.ContainsFunc(n.inside, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// service names the Service that was asked. A NodePort counts at addresses of nodes and their gateways alone.
func (n *Names) service(protocol string, at netip.AddrPort) *api.FlowService {
	service, known := n.services[frontend{protocol, at.Addr(), at.Port()}]
	end, isEnd := n.ends[at.Addr()]
	if !known && (isEnd && end.Kind != api.PodEnd || isPerNode(at.Addr())) {
		service = n.services[frontend{protocol: protocol, port: at.Port()}]
	}
	service.Address, service.Port = at.Addr().String(), int(at.Port())
	return &service
}
