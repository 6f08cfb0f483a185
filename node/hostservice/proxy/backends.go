package proxy

import (
	"net/netip"
	"runtime"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/rendezvous"
)

// Backend is where the connections to one endpoint are made.
type Backend struct {
	Endpoint netip.Addr
	// At is the endpoint itself, or what leads to it: a NodePort of its node, or an address that OVN balances.
	At netip.AddrPort
	// Local: the endpoint is on this node, and At is itself.
	Local bool
}

// Backends are those of a Service with externalTrafficPolicy Local. A connection of the host itself is not external: it
// goes to all endpoints, as with policy Cluster, but they must see the node's address.
type Backends struct {
	// List has all endpoints that serve, in their order; none: they are not known, or there are none.
	List []Backend
	// Sticky: a client has one endpoint.
	Sticky bool
}

func (b *Backends) equal(o *Backends) bool {
	if b == nil || o == nil || b == o {
		return b == o
	}
	return b.Sticky == o.Sticky && slices.Equal(b.List, o.List)
}

func without(list []Backend, at netip.AddrPort) []Backend {
	return slices.DeleteFunc(slices.Clone(list), func(b Backend) bool { return b.At == at })
}

// compareFor orders backends by how much their endpoints weigh for a client. The client's endpoint changes when that
// one goes, or when one that weighs more comes, and not for others.
func compareFor(client netip.Addr, a, b Backend) int {
	text := func(addr netip.Addr) string { return string(addr.AsSlice()) }
	return rendezvous.ForClients.Compare(text(client), text(a.Endpoint), text(b.Endpoint))
}

// source is the address that an endpoint on this node must see, which is the one that the client asked; the zero
// one where the system chooses. Its answer comes back by the management port, whatever its owner has for a
// gateway. A Windows host would send from an address by the adapter that has it, which leads elsewhere.
func (b Backend) source(asked netip.Addr) netip.Addr {
	if !b.Local || asked.IsLoopback() || runtime.GOOS == contract.Windows {
		return netip.Addr{}
	}
	return asked
}
