package claims

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
)

// Arbiter decides who has which address and port outside of the cluster, of Services, pods' host ports and the hosts
// themselves.
type Arbiter struct {
	settings *settings.Settings
	services Services
	pods     Pods
	pools    Pools
	book     book
	hosts    hosts
}

// New knows of no Service and no host yet.
func New(s *settings.Settings, nodes Nodes, services Services, pods Pods, pools Pools) *Arbiter {
	return &Arbiter{settings: s, services: services, pods: pods, pools: pools, book: newBook(), hosts: newHosts(s, nodes)}
}

// Update takes in what a Service wants; it is nil when it is gone. touched are the Services for which that makes a
// difference. changed are the claims that it has come to, or wants no more, or has by another right.
func (a *Arbiter) Update(name string, object *objects.Service) (touched map[string]struct{}, changed []objects.Claim) {
	was, before := a.book.of[name], a.book.as[name]
	now, as := object.Claims(), rightsOf(name, object)
	touched = a.book.update(name, now, as)
	if before != nil && !before.equal(as) {
		return touched, slices.Concat(was, now)
	}
	return touched, changedClaims(was, now)
}

// UpdateHosts takes in a node's addresses and who listens there. touched are the addresses where that makes a
// difference, and heard says that the same daemons listen as before.
func (a *Arbiter) UpdateHosts(n *topology.Node) (touched []netip.Addr, heard bool) {
	return a.hosts.update(n)
}

// UpdateAPIServers takes in where the API servers are. changed are where they have been and are now, nil if that is
// the same.
func (a *Arbiter) UpdateAPIServers(now map[netip.AddrPort]bool) (changed []netip.AddrPort) {
	before := a.hosts.apiServers
	if maps.Equal(now, before) {
		return nil
	}
	a.hosts.apiServers = now
	return slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(now)))
}

// APIServers are where the API servers are.
func (a *Arbiter) APIServers() iter.Seq[netip.AddrPort] { return maps.Keys(a.hosts.apiServers) }

// Told takes in what a Service's owner was told that it does not get: nil, that it has all it wants.
func (a *Arbiter) Told(name string, d *objects.Rejection) { a.book.tell(name, d) }

// Wanting are the Services that have a claim, whoever gets it.
func (a *Arbiter) Wanting(c objects.Claim) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, one := range a.book.by[c] {
			if !yield(one.name) {
				return
			}
		}
	}
}

// WantingAt are the Services that want something of an address. Of the zero one these are node ports.
func (a *Arbiter) WantingAt(addr netip.Addr) iter.Seq[string] { return maps.Keys(a.book.at[addr]) }

// Claims are what a Service wants, sorted.
func (a *Arbiter) Claims(name string) []objects.Claim { return a.book.of[name] }

// Has says whether a Service has a port of a node's address: as a NodePort, for its health check, or
// because the address is one of the Service's own.
func (a *Arbiter) Has(wanted objects.Claim) bool {
	for _, one := range []objects.Claim{wanted, wanted.Everywhere()} {
		name, ok := a.holder(one)
		if !ok || !a.book.wants(name, one) || a.reserved(one) != outside.Nobody {
			continue
		}
		if s := a.services.Service(name); a.hosts.taken(s, one.Addr) == outside.Nobody && s.HasAt(one, wanted.Addr) {
			return true
		}
	}
	return false
}

// IsHosts says whether an address is a host's, or one that hosts keep.
func (a *Arbiter) IsHosts(addr netip.Addr) bool {
	return a.hosts.rules().At(addr) != outside.Nobody
}

// HostsKeep says whether an address and port stays the hosts' own.
func (a *Arbiter) HostsKeep(protocol string, at netip.AddrPort) bool {
	return a.hosts.rules().Keep(protocol, at) != outside.Nobody
}

// Balanced says whether an address and port is one that a load balancer of a Service's or pod's has.
func (a *Arbiter) Balanced(at objects.Claim) bool {
	inside := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(at.Addr) })
	}
	switch {
	case inside(a.settings.Pods):
		return false
	case inside(a.settings.Services), len(a.book.by[at]) > 0:
		return true
	}
	_, own := a.services.NodePortsAt(at.Addr)
	return own && (len(a.book.by[objects.Claim{Port: at.Port, Protocol: at.Protocol}]) > 0 ||
		a.pods.WantsHostPort(at.Protocol, at.Port))
}

// holder is who has a claim of those that want it, if anybody has: whoever has the address from an
// AddressPool, else the first with a right to it.
func (a *Arbiter) holder(wanted objects.Claim) (name string, ok bool) {
	if name, ok := a.heldBy(wanted.Addr); ok {
		return name, true
	}
	if list := a.book.by[wanted]; len(list) > 0 {
		return list[0].name, true
	}
	return "", false
}

// heldBy is who has an address from an AddressPool, and so all its ports. A host's address is no pool's, whatever a
// Service's status says: load balancers' controllers give it to many Services, each with other ports, and who has one
// of these the hosts' agents know, which know of no pools.
func (a *Arbiter) heldBy(addr netip.Addr) (name string, ok bool) {
	name, ok = a.pools.Holder(addr)
	return name, ok && a.hosts.rules().At(addr) == outside.Nobody
}
