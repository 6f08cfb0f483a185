package ovn

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
)

// hostBook knows nodes by all addresses of their hosts and gateways.
type hostBook struct {
	at        map[netip.Addr]map[string]struct{}
	of        map[string][]netip.Addr       // sorted
	listeners map[string]contract.Listeners // as they were when Services were looked at last
}

func newHostBook() hostBook {
	return hostBook{at: map[netip.Addr]map[string]struct{}{}, of: map[string][]netip.Addr{},
		listeners: map[string]contract.Listeners{}}
}

// updateHosts takes in a node's addresses and who listens there, and has the Services looked at again that want
// what has come or gone.
func (b *serviceBook) updateHosts(n *nodeState) {
	var now []netip.Addr
	if n.object != nil {
		now = n.hostAddresses()
		if n.facts.Gateway != nil {
			now = append(now, contract.Addrs(n.facts.Gateway.Addresses)...)
		}
		slices.SortFunc(now, netip.Addr.Compare)
		now = slices.Compact(now)
	}
	was := b.hosts.of[n.name]
	heard := slices.Equal(b.hosts.listeners[n.name], n.facts.Listeners)
	if heard && slices.Equal(was, now) {
		return
	}
	if b.hosts.listeners[n.name] = n.facts.Listeners; len(n.facts.Listeners) == 0 {
		delete(b.hosts.listeners, n.name)
	}
	for _, addr := range was {
		leave(b.hosts.at, addr, n.name)
	}
	for _, addr := range now {
		enter(b.hosts.at, addr, n.name)
	}
	if b.hosts.of[n.name] = now; len(now) == 0 {
		delete(b.hosts.of, n.name)
	}
	for _, addr := range slices.Concat(was, now) {
		b.touchClaims(addr)
		if !heard || len(n.facts.Listeners) > 0 { // what a Service has no more may be a pod's, on another node with this address
			for name := range b.claims.at[addr] {
				b.pods.touchHostPorts(b.claims.of[name])
			}
		}
	}
}

// listens says whether a daemon of a node listens at an address of its host. A gateway router with addresses of its own
// is not the host.
func (n *nodeState) listens(protocol string, at netip.AddrPort) bool {
	return n.facts.Listeners.Have(protocol, at) && n.object != nil && slices.Contains(n.hostAddresses(), at.Addr())
}

// listener is the node, the first by name, that has an address and a daemon that listens there; "" is none.
func (b *serviceBook) listener(protocol string, at netip.AddrPort) (node string) {
	for name := range b.hosts.at[at.Addr()] {
		if b.nodes.at(name).listens(protocol, at) && (node == "" || name < node) {
			node = name
		}
	}
	return node
}

// hostRules are what stays the hosts' own.
func (b *serviceBook) hostRules() outside.Hosts {
	return outside.Hosts{Ports: b.settings.hostPorts, Open: b.settings.hostExternals, Ranges: b.settings.hosts, APIServers: b.apiServers,
		Nodes:     func(addr netip.Addr) bool { return len(b.hosts.at[addr]) > 0 },
		Listening: func(protocol string, at netip.AddrPort) bool { return b.listener(protocol, at) != "" }}
}

// ownerName says for people whose an address is; "" is nobody's.
func (b *serviceBook) ownerName(owner outside.Owner, addr netip.Addr) string {
	switch owner {
	case outside.Node:
		return "that of Node " + slices.Min(slices.Collect(maps.Keys(b.hosts.at[addr])))
	case outside.APIServer:
		return "the API server's"
	case outside.Host:
		return "a host's (host-cidrs, ovn-northbound)"
	}
	return ""
}

// hostTaken says whose an address is that a Service asks for and may not have.
func (b *serviceBook) hostTaken(s *service, addr netip.Addr) outside.Owner {
	return b.hostRules().Deny(addr, slices.Contains(s.ingress, addr))
}

// hostSettings reads the keys about hosts. Those of the Northbound are the cluster's central hosts.
func (c Config) hostSettings(s *settings) error {
	ports, err := contract.ParseHostPorts(c.HostPorts)
	if err == nil && len(ports) == 0 {
		err = errors.New("host-ports: is empty: Services could have ssh's port and the API server's; leave the key out, or give the ports that are hosts' own")
	}
	errs := []error{err}
	s.hostPorts = ports
	if !slices.Equal(c.HostPorts, contract.DefaultHostPorts) {
		s.toldHostPorts = c.HostPorts
	}
	for key, list := range map[string]struct {
		texts []string
		to    *[]netip.Prefix
	}{"host-cidrs": {c.HostCIDRs, &s.hosts}, "host-external-ip-cidrs": {c.HostExternalIPCIDRs, &s.hostExternals}} {
		for _, text := range list.texts {
			p, err := netip.ParsePrefix(strings.TrimSpace(text))
			if err != nil || p != p.Masked() || p.Addr().Is4In6() {
				errs = append(errs, fmt.Errorf("%s: %q is not a CIDR; write it like 192.0.2.0/24 or 192.0.2.7/32", key, text))
				continue
			}
			*list.to = append(*list.to, p)
		}
	}
	for _, endpoint := range c.Northbound {
		_, rest, _ := strings.Cut(endpoint, ":")
		host, _, err := net.SplitHostPort(rest)
		if addr, err2 := netip.ParseAddr(host); err == nil && err2 == nil && !addr.IsLoopback() {
			s.hosts = append(s.hosts, netip.PrefixFrom(addr.Unmap().WithZone(""), addr.Unmap().BitLen()))
		}
	}
	return errors.Join(errs...)
}
