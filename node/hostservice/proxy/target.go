package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// Target is where the connections of a socket go.
type Target struct {
	// To is the address of a Service, or of a pod.
	To netip.AddrPort
	// Direct: To is a pod, with which its connections end.
	Direct bool
	// Backends are those of a Service with externalTrafficPolicy Local; nil for other targets. To then leads to all
	// endpoints of the Service.
	Backends *Backends
	// Restricted: the target serves the clients in Ranges, and no others but the host.
	Restricted bool
	Ranges     []netip.Prefix
	// Returns are clients that are the cluster's routers: what they bring was for an endpoint that is this socket, and
	// may have gone out by it, or is a pod's.
	Returns []netip.Addr
	// Clients tells the host from pods and from others; nil: nobody is a pod, and the host has its loopback alone.
	Clients *Clients
	// Owner is the object that asks for the socket, and Field says where it does. Both are for the log.
	Owner fmt.Stringer
	Field string
}

func (t Target) equal(o Target) bool {
	return t.To == o.To && t.Direct == o.Direct && t.Restricted == o.Restricted && slices.Equal(t.Ranges, o.Ranges) &&
		t.Owner == o.Owner && t.Field == o.Field && slices.Equal(t.Returns, o.Returns) && t.Clients.equal(o.Clients) &&
		t.Backends.equal(o.Backends)
}

// refuses says why a client may not ask an address of the host's; "" if it may, as the host itself always does.
// No pod may: its endpoint would see the host, which no policy refuses. Pods are served by their node's switch, at
// the addresses that it knows.
func (t Target) refuses(client, asked netip.Addr) (reason string) {
	switch {
	case !isRemote(client, asked):
		return ""
	case t.Clients.isPod(client):
		return failedPod
	case t.Restricted && !contain(t.Ranges, client):
		return failedRange
	}
	return ""
}

// backendsFor are where a client's connections may go; none, and nothing goes in circles, if it comes from the cluster
// itself: somebody has made a socket of the host's the endpoint of a Service, perhaps of that which the socket is for.
// With policy Local one that is not the host itself goes to the node's own endpoints, as in OVN. So nothing goes in
// circles between nodes either that differ on where endpoints are.
func (t Target) backendsFor(client netip.Addr) []Backend {
	switch {
	case slices.Contains(t.Returns, client):
		return nil
	case t.Backends == nil:
		return []Backend{{At: t.To}}
	case !t.Clients.isHost(client):
		return slices.DeleteFunc(slices.Clone(t.Backends.List), func(b Backend) bool { return !b.Local })
	case len(t.Backends.List) == 0:
		return []Backend{{At: t.To}}
	}
	return t.Backends.List
}

// leads says whether a client's datagrams may go on to where they go.
func (t Target) leads(client netip.Addr, to netip.AddrPort) bool {
	return slices.ContainsFunc(t.backendsFor(client), func(b Backend) bool { return b.At == to })
}

// choose takes one of several backends for a client, and leaves those that are elsewhere.
func (t Target) choose(client netip.Addr, list []Backend) (chosen Backend, rest []Backend) {
	if t.Backends != nil && t.Backends.Sticky {
		chosen = slices.MaxFunc(list, func(a, b Backend) int { return compareFor(client, a, b) })
	} else {
		chosen = list[rand.IntN(len(list))]
	}
	return chosen, without(list, chosen.At)
}
