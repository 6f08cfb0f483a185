package ovn

import (
	"cmp"
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

// behind is what slices say of a Service's endpoints, put in order once for all of its ports.
type behind struct {
	endpoints [2][]sliced // IPv4 and IPv6, by address
	numbers   map[slicePort]uint16
}

// sliced is an endpoint of a slice, slicePort a port of one.
type sliced struct {
	of *slice
	*endpoint
}

type slicePort struct {
	of       *slice
	name     string
	protocol protocol
}

func behindService(from []*slice) *behind {
	all := &behind{numbers: map[slicePort]uint16{}}
	for _, s := range from {
		if s.ignored {
			continue
		}
		for _, p := range s.ports {
			all.numbers[slicePort{s, p.name, p.protocol}] = p.port
		}
		list := &all.endpoints[family2(!s.ipv6)]
		*list = slices.Grow(*list, len(s.endpoints))
		for i := range s.endpoints {
			*list = append(*list, sliced{s, &s.endpoints[i]})
		}
	}
	for _, list := range all.endpoints {
		slices.SortStableFunc(list, func(a, b sliced) int { return a.addr.Compare(b.addr) })
	}
	return all
}

// backends are the endpoints of a Service's port. The number of a named target port is the slice's:
// endpoints that differ in it are in different slices. An endpoint that moves from one slice to
// another is in both for a while.
func (all *behind) backends(port servicePort, ipv6 bool) []backend {
	from := all.endpoints[family2(!ipv6)]
	list := make([]backend, 0, len(from))
	for _, e := range from {
		if number, ok := all.numbers[slicePort{e.of, port.name, port.protocol}]; ok {
			list = append(list, backend{netip.AddrPortFrom(e.addr, number), e.node, e.ready, e.serving, e.terminating, e.zones, e.nodes})
		}
	}
	return endpointslice.Once(list, (*backend).look)
}

// serviceEndpoints finds what is behind a Service's ports: once for each, however many addresses have it. What
// it gives is not to be changed.
type serviceEndpoints struct {
	*behind
	without func(backend) bool // endpoints that are left out; nil: none
	most    int                // endpoints of a port
	known   map[endpointsKey][]backend
}

// first takes so many of the endpoints, before all those that get traffic. The list stays in order.
func first(list []backend, most int) []backend {
	if len(list) <= most {
		return list
	}
	rank := func(b backend) int {
		switch {
		case b.ready:
			return 0
		case b.serving:
			return 1
		}
		return 2
	}
	left := slices.SortedStableFunc(slices.Values(list), func(a, b backend) int { return cmp.Compare(rank(a), rank(b)) })[:most]
	slices.SortFunc(left, func(a, b backend) int { return a.at.Compare(b.at) })
	return left
}

type endpointsKey struct {
	port servicePort
	ipv6 bool
}

func (e *serviceEndpoints) of(port servicePort, ipv6 bool) []backend {
	key := endpointsKey{port, ipv6}
	list, known := e.known[key]
	if !known {
		list = e.backends(port, ipv6)
		if e.without != nil {
			list = slices.DeleteFunc(list, e.without)
		}
		list = first(list, e.most)
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
