package settings

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ipam"
)

// sharedGateway reads the keys of the shared gateway, nil when there must be none.
func (c Config) sharedGateway(s *Settings) (*contract.Gateway, error) {
	if len(c.SharedGatewayAddresses) == 0 {
		if len(c.SharedGatewayNextHops) > 0 {
			return nil, errors.New("shared-gateway-addresses: is empty while shared-gateway-next-hops is not; give " +
				"the gateway's own addresses, like 203.0.113.10/24")
		}
		return nil, nil
	}
	g := &contract.Gateway{Network: c.SharedGatewayNetwork}
	var errs []error
	if !contract.NetworkName.MatchString(g.Network) {
		errs = append(errs, fmt.Errorf("shared-gateway-network: %q is not a name of letters, digits, '.', '_' and "+
			"'-'; give the gateway-network of the gateway nodes' agents", g.Network))
	}
	for _, text := range c.SharedGatewayAddresses {
		address, err := s.sharedAddress(text)
		switch {
		case err != nil:
			errs = append(errs, err)
		case ipam.Family(g.Addresses, address.Addr()) != nil:
			errs = append(errs, fmt.Errorf("shared-gateway-addresses: %q holds more than one address of a family; "+
				"keep one IPv4 and one IPv6 address at most",
				strings.Join(c.SharedGatewayAddresses, ",")))
		default:
			g.Addresses = append(g.Addresses, address)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.SortFunc(g.Addresses, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }) // IPv4 first
	g.MAC = contract.MAC(contract.Addrs(g.Addresses)...).String()
	for _, text := range c.SharedGatewayNextHops {
		next, err := netip.ParseAddr(strings.TrimSpace(text))
		on := ipam.Family(g.Addresses, next)
		switch {
		case err != nil || next.Zone() != "" || next.Is4In6():
			errs = append(errs, fmt.Errorf("shared-gateway-next-hops: %q is not an IP address; write it like "+
				"203.0.113.1", text))
		case on == nil || !on.Contains(next) || next == on.Addr():
			errs = append(errs, fmt.Errorf("shared-gateway-next-hops: %s is not another address in a subnet of "+
				"shared-gateway-addresses %s", next, ipam.Join(g.Addresses)))
		case slices.Contains(g.NextHops, next):
			errs = append(errs, fmt.Errorf("shared-gateway-next-hops: %s is there twice", next))
		default:
			g.NextHops = append(g.NextHops, next)
		}
	}
	for _, address := range g.Addresses {
		of := func(next netip.Addr) bool { return next.Is4() == address.Addr().Is4() }
		if !slices.ContainsFunc(g.NextHops, of) && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("shared-gateway-next-hops: %q has none in the subnet of %s; give the "+
				"router's address there", strings.Join(c.SharedGatewayNextHops, ","), address))
		}
	}
	return g, errors.Join(errs...)
}

// sharedAddress reads one address of the shared gateway.
func (s *Settings) sharedAddress(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil || p.Addr().Is4In6() {
		return p, fmt.Errorf("shared-gateway-addresses: %q is not an address with the length of its subnet; write "+
			"it like 203.0.113.10/24", text)
	}
	addr := p.Addr()
	last := p.Addr().Is4() && ipam.HostBits(p) > 1 && addr == ipam.Nth(p, 1<<ipam.HostBits(p)-1)
	switch {
	case ipam.HostBits(p) > 0 && addr == p.Masked().Addr(), last, !addr.IsGlobalUnicast():
		return p, fmt.Errorf("shared-gateway-addresses: %s is no host's address; give a free one of the subnet, "+
			"like %s", p, ipam.Nth(p, 10))
	case ipam.Family(s.Pods, addr) == nil:
		return p, fmt.Errorf("shared-gateway-addresses: %s has an address family that pod-cidrs %s lacks; drop it "+
			"or add a pod range of that family", p, ipam.Join(s.Pods))
	}
	for _, inside := range slices.Concat(s.Pods, s.Services, s.Joins) {
		if inside.Overlaps(p.Masked()) {
			return p, fmt.Errorf("shared-gateway-addresses: the subnet of %s overlaps with %s, which is the "+
				"cluster's own; the gateway's addresses are outside", p, inside)
		}
	}
	return p, nil
}
