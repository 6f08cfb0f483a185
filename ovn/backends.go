package ovn

import (
	"net/netip"
	"slices"
	"strings"
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
	slices.SortFunc(list, backend.compare)
	return once(list)
}

// once keeps of backends that are sorted the first of each address and port. Its node is known if one of them says it.
func once(list []backend) []backend {
	var kept []backend
	for i, b := range list {
		if i == 0 || b.at != kept[len(kept)-1].at {
			kept = append(list[:len(kept)], b)
		} else if last := &kept[len(kept)-1]; last.node == "" {
			last.node = b.node
		}
	}
	return kept
}

// serviceEndpoints finds what is behind a Service's ports: once for each, however many addresses have it. What
// it gives is not to be changed.
type serviceEndpoints struct {
	from    []*slice
	without func(node string) bool // whose endpoints are left out; nil: nobody's
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
			list = slices.DeleteFunc(list, func(b backend) bool { return e.without(b.node) })
		}
		e.known[key] = list
	}
	return list
}

// compare orders by address and port; of those that say the same endpoint, the best comes first.
func (b backend) compare(o backend) int {
	if c := b.at.Compare(o.at); c != 0 {
		return c
	}
	if c := o.rank() - b.rank(); c != 0 {
		return c
	}
	return strings.Compare(b.node, o.node)
}

func (b backend) rank() int {
	switch {
	case b.ready:
		return 2
	case b.serving && b.terminating:
		return 1
	}
	return 0
}

// choose takes the endpoints that get traffic, as kube-proxy does: those that are ready; if there is
// none, those that still serve while they terminate. The list stays in order.
func choose(list []backend, publishNotReady bool) []backend {
	if publishNotReady {
		return list
	}
	best := 1
	for _, b := range list {
		best = max(best, b.rank())
	}
	if !slices.ContainsFunc(list, func(b backend) bool { return b.rank() != best }) {
		return list
	}
	var chosen []backend
	for _, b := range list {
		if b.rank() == best {
			chosen = append(chosen, b)
		}
	}
	return chosen
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
