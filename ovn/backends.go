package ovn

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/endpointslice"
)

// backend is an endpoint as a Service's port has it.
type backend struct {
	at                          netip.AddrPort
	node                        string
	ready, serving, terminating bool
	zones, nodes                hints
}

// backends are the endpoints of a Service's port. The number of a named target port is the slice's:
// endpoints that differ in it are in different slices. An endpoint that moves from one slice to
// another is in both for a while.
func backends(port servicePort, ipv6 bool, from []*slice) []backend {
	var list []backend
	for _, s := range from {
		if s.ignored || s.ipv6 != ipv6 {
			continue
		}
		for _, p := range s.ports {
			if p.name != port.name || p.protocol != port.protocol {
				continue
			}
			list = slices.Grow(list, len(s.endpoints))
			for _, e := range s.endpoints {
				list = append(list, backend{netip.AddrPortFrom(e.addr, p.port), e.node, e.ready, e.serving, e.terminating, e.zones, e.nodes})
			}
		}
	}
	return endpointslice.Once(list, (*backend).look)
}

// serviceEndpoints finds what is behind a Service's ports: once for each, however many addresses have it. What
// it gives is not to be changed.
type serviceEndpoints struct {
	from    []*slice
	without func(backend) bool // endpoints that are left out; nil: none
	known   map[endpointsKey][]backend
}

type endpointsKey struct {
	port servicePort
	ipv6 bool
}

func (e *serviceEndpoints) of(port servicePort, ipv6 bool) []backend {
	key := endpointsKey{port, ipv6}
	list, known := e.known[key]
	if !known {
		list = backends(port, ipv6, e.from)
		if e.without != nil {
			list = slices.DeleteFunc(list, e.without)
		}
		e.known[key] = list
	}
	return list
}

// look is an [endpointslice.Look].
func (b *backend) look() (at netip.AddrPort, node *string, c endpointslice.Conditions) {
	return b.at, &b.node, endpointslice.Conditions{Ready: b.ready, Serving: b.serving, Terminating: b.terminating}
}

// choose takes the endpoints that get traffic. The list stays in order.
func choose(list []backend, publishNotReady bool) []backend {
	return endpointslice.Choose(list, (*backend).look, publishNotReady)
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
