package loadbalancer

import (
	"net/netip"

	"github.com/weftnet/weft/models/endpointslice"
	"github.com/weftnet/weft/ovn/objects"
)

// backend is an endpoint as a Service's port has it.
type backend struct {
	at                          netip.AddrPort
	node                        string
	ready, serving, terminating bool
	zones, nodes                objects.Hints
}

// behind is what slices say of a Service's endpoints.
type behind struct {
	*endpointslice.Behind[endpointsKey, objects.Endpoint]
}

func behindService(from []*objects.EndpointSlice) behind {
	all := behind{endpointslice.NewBehind[endpointsKey]((*objects.Endpoint).Look)}
	for _, s := range from {
		if s.Ignored {
			continue
		}
		list := make([]*objects.Endpoint, len(s.Endpoints))
		for i := range s.Endpoints {
			list[i] = &s.Endpoints[i]
		}
		all.Add(list, func(yield func(endpointsKey, uint16) bool) {
			for _, p := range s.Ports {
				if !yield(endpointsKey{p.Name, p.Protocol, s.IPv6}, p.Port) {
					return
				}
			}
		})
	}
	return all
}

// endpointsKey finds the endpoints of a Service's port. The number of a named target port is the slice's: endpoints
// that differ in it are in different slices.
type endpointsKey struct {
	name     string
	protocol objects.Protocol
	ipv6     bool
}

func keyOfEndpoints(port objects.ServicePort, ipv6 bool) endpointsKey {
	return endpointsKey{port.Name, port.Protocol, ipv6}
}

// serviceEndpoints finds what is behind a Service's ports: once for each, however many addresses have it. What
// it gives is not to be changed.
type serviceEndpoints struct {
	behind
	without func(at netip.AddrPort, node string) bool // endpoints that are left out; nil: none
	most    int                                       // endpoints of a port
	known   map[endpointsKey][]backend
}

func (e *serviceEndpoints) of(port objects.ServicePort, ipv6 bool) []backend {
	key := keyOfEndpoints(port, ipv6)
	list, known := e.known[key]
	if !known {
		list = e.first(key)
		e.known[key] = list
	}
	return list
}

func (e *serviceEndpoints) first(key endpointsKey) []backend {
	var without func(endpointslice.Endpoint[objects.Endpoint]) bool
	if e.without != nil {
		without = func(b endpointslice.Endpoint[objects.Endpoint]) bool { return e.without(b.At, b.Node) }
	}
	chosen := e.First(key, e.most, without)
	list := make([]backend, len(chosen))
	for i, b := range chosen {
		list[i] = backend{b.At, b.Node, b.Of.Ready, b.Of.Serving, b.Of.Terminating, b.Of.Zones, b.Of.Nodes}
	}
	return list
}

// conditions are the endpoint's.
func (b *backend) conditions() endpointslice.Conditions {
	return endpointslice.Conditions{Ready: b.ready, Serving: b.serving, Terminating: b.terminating}
}

// choose takes the endpoints that get traffic. The list stays in order.
func choose(list []backend, publishNotReady bool) []backend {
	return endpointslice.Choose(list, (*backend).conditions, publishNotReady)
}

// addresses is the value of a VIP in a load balancer.
func addresses(list []backend) string {
	text := make([]byte, 0, 24*len(list))
	for i, b := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = b.at.AppendTo(text)
	}
	return string(text)
}
