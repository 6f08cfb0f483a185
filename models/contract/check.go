package contract

import (
	"errors"
	"fmt"
	"net/netip"
)

// The checks want plain addresses: netip reads an empty text as no address, and takes zones and IPv4 addresses dressed
// as IPv6. Both sides derive other addresses of them, and OVN's matches, where a zone, which may be any text, would be
// read as more of the expression.

func (n NodeNetwork) check() error {
	for i, subnet := range n.PodCIDRs {
		if subnet.IsValid() && !subnet.Contains(ManagementAddress(subnet)) {
			return fmt.Errorf("podCIDRs[%d]: %v has no room for the router and the node's host", i, subnet)
		}
	}
	if n.Connections < 0 {
		return fmt.Errorf("connections: %d is less than none", n.Connections)
	}
	return errors.Join(checkPrefixes("podCIDRs", n.PodCIDRs), checkPrefixes("clusterCIDRs", n.ClusterCIDRs),
		checkPrefixes("serviceCIDRs", n.ServiceCIDRs), checkPrefixes("joinCIDRs", n.JoinCIDRs),
		checkAddrs("sharedGateways", n.SharedGateways),
		checkPrefixes("hostExternalIPs", n.HostExternalIPs), checkPrefixes("hosts", n.Hosts))
}

func (f NodeFacts) check() error {
	err := checkAddrs("addresses", f.Addresses)
	for i, l := range f.Listeners {
		if wrong := l.check(); wrong != nil { // JSON's null
			err = errors.Join(err, fmt.Errorf("listeners[%d]: %w", i, wrong))
		}
	}
	if f.Gateway == nil {
		return err
	}
	return errors.Join(err, checkPrefixes("gateway.addresses", f.Gateway.Addresses), checkAddrs("gateway.nextHops",
		f.Gateway.NextHops))
}

func (p PodNetwork) check() error {
	return errors.Join(checkPrefixes("addresses", p.Addresses), checkAddrs("gateways", p.Gateways))
}

func checkPrefixes(field string, list []netip.Prefix) error { return checkAddrs(field, Addrs(list)) }

func checkAddrs(field string, list []netip.Addr) error {
	for i, a := range list {
		if !a.IsValid() || a.Zone() != "" || a.Is4In6() {
			return fmt.Errorf("%s[%d]: address %q is empty, has a zone or is an IPv4 address dressed as IPv6", field, i, a)
		}
	}
	return nil
}
