package claims

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
)

// hosts knows nodes by all addresses of their hosts and gateways, and what stays the hosts' own.
type hosts struct {
	settings   *settings.Settings
	nodes      Nodes
	apiServers map[netip.AddrPort]bool // as the Service default/kubernetes has them

	at        map[netip.Addr]map[string]struct{}
	of        map[string][]netip.Addr       // sorted
	listeners map[string]contract.Listeners // as they were when Services were looked at last
}

func newHosts(s *settings.Settings, nodes Nodes) hosts {
	return hosts{settings: s, nodes: nodes, apiServers: map[netip.AddrPort]bool{},
		at: map[netip.Addr]map[string]struct{}{}, of: map[string][]netip.Addr{},
		listeners: map[string]contract.Listeners{}}
}

// update takes in a node's addresses and who listens there. touched are the addresses where that makes a difference,
// and heard says that the same daemons listen as before.
func (b *hosts) update(n *topology.Node) (touched []netip.Addr, heard bool) {
	var now []netip.Addr
	if n.Object != nil {
		now = n.HostAddresses()
		if n.Facts.Gateway != nil {
			now = append(now, contract.Addrs(n.Facts.Gateway.Addresses)...)
		}
		slices.SortFunc(now, netip.Addr.Compare)
		now = slices.Compact(now)
	}
	was := b.of[n.Name]
	heard = slices.Equal(b.listeners[n.Name], n.Facts.Listeners)
	if heard && slices.Equal(was, now) {
		return nil, true
	}
	if b.listeners[n.Name] = n.Facts.Listeners; len(n.Facts.Listeners) == 0 {
		delete(b.listeners, n.Name)
	}
	for _, addr := range was {
		part.Leave(b.at, addr, n.Name)
	}
	for _, addr := range now {
		part.Enter(b.at, addr, n.Name)
	}
	if b.of[n.Name] = now; len(now) == 0 {
		delete(b.of, n.Name)
	}
	return slices.Concat(was, now), heard
}

// listener is the node, the first by name, that has an address and a daemon that listens there; "" is none.
func (b *hosts) listener(protocol string, at netip.AddrPort) (node string) {
	for name := range b.at[at.Addr()] {
		if b.nodes.At(name).Listens(protocol, at) && (node == "" || name < node) {
			node = name
		}
	}
	return node
}

// rules are what stays the hosts' own.
func (b *hosts) rules() outside.Hosts {
	return outside.Hosts{Ports: b.settings.HostPorts, Open: b.settings.HostExternals, Ranges: b.settings.Hosts,
		APIServers: b.apiServers,
		Nodes:      func(addr netip.Addr) bool { return len(b.at[addr]) > 0 },
		Listening:  func(protocol string, at netip.AddrPort) bool { return b.listener(protocol, at) != "" }}
}

// ownerName says for people whose an address is; "" is nobody's.
func (b *hosts) ownerName(owner outside.Owner, addr netip.Addr) string {
	switch owner {
	case outside.Node:
		return "Node " + slices.Min(slices.Collect(maps.Keys(b.at[addr])))
	case outside.APIServer:
		return "the API server"
	case outside.Host:
		return "a host (host-cidrs, ovn-northbound)"
	}
	return ""
}

// taken says whose an address is that a Service asks for and may not have.
func (b *hosts) taken(s *objects.Service, addr netip.Addr) outside.Owner {
	return b.rules().Deny(addr, slices.Contains(s.Ingress, addr))
}
