package ovn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
)

// hostBook knows nodes by all addresses of their hosts and gateways.
type hostBook struct {
	at map[netip.Addr]map[string]struct{}
	of map[string][]netip.Addr // sorted
}

func newHostBook() hostBook {
	return hostBook{at: map[netip.Addr]map[string]struct{}{}, of: map[string][]netip.Addr{}}
}

// updateHosts takes in a node's addresses, and has the Services looked at again that want those that have come or
// gone.
func (c *cluster) updateHosts(n *nodeState) {
	var now []netip.Addr
	if n.object != nil {
		now = n.hostAddresses()
		if n.facts.Gateway != nil {
			now = append(now, contract.Addrs(n.facts.Gateway.Addresses)...)
		}
		slices.SortFunc(now, netip.Addr.Compare)
		now = slices.Compact(now)
	}
	was := c.hosts.of[n.name]
	if slices.Equal(was, now) {
		return
	}
	for _, addr := range was {
		leave(c.hosts.at, addr, n.name)
	}
	for _, addr := range now {
		enter(c.hosts.at, addr, n.name)
	}
	if c.hosts.of[n.name] = now; len(now) == 0 {
		delete(c.hosts.of, n.name)
	}
	for _, addr := range slices.Concat(was, now) {
		c.touchClaims(addr)
	}
}

// hostAt says whose an address is that hosts have; "" is none's.
func (c *cluster) hostAt(addr netip.Addr) string {
	if names := c.hosts.at[addr]; len(names) > 0 {
		first := ""
		for name := range names {
			if first == "" || name < first {
				first = name
			}
		}
		return "that of Node " + first
	}
	for at := range c.apiServers {
		if at.Addr() == addr {
			return "the API server's"
		}
	}
	if i := slices.IndexFunc(c.settings.hosts, func(p netip.Prefix) bool { return p.Contains(addr) }); i >= 0 {
		return "a host's (host-cidrs, ovn-northbound)"
	}
	return ""
}

// hostTaken says whose an address is that a Service asks for by spec.externalIPs alone and may not have; "" is
// none's. Whoever may write Services writes that field, while a load balancer's address is what its controller says.
func (c *cluster) hostTaken(s *service, addr netip.Addr) string {
	if slices.Contains(s.ingress, addr) || slices.ContainsFunc(c.settings.hostExternals, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return ""
	}
	return c.hostAt(addr)
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
