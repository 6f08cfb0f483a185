package hns

import (
	"net/netip"
	"slices"
)

// endpoints are those of all networks.
type endpoints []*Endpoint

// check refuses an endpoint of a network whose GUID or name is taken, and addresses and policies that HNS refuses.
func (all endpoints) check(n *Network, e *Endpoint) Error {
	for _, o := range all {
		if sameID(o.ID, e.ID) || e.Name != "" && o.Name == e.Name {
			return ErrObjectExists
		}
	}
	if err := all.checkAddresses(n, e); err != 0 {
		return err
	}
	return all.checkPolicies(e, e.Policies)
}

// checkAddresses refuses what HNS does: an address outside of the network's subnets, where it has
// any, and one that another endpoint of the network has.
func (all endpoints) checkAddresses(n *Network, e *Endpoint) Error {
	subnets := n.prefixes()
	for _, c := range e.IPConfigurations {
		address, err := netip.ParseAddr(c.IPAddress)
		if err != nil || int(c.PrefixLength) > address.BitLen() {
			return ErrInvalidIP
		}
		if len(subnets) > 0 && !slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.Contains(address) }) {
			return ErrInvalidIP
		}
		for _, o := range all {
			if sameID(o.HostComputeNetwork, n.ID) && slices.ContainsFunc(o.IPConfigurations, func(oc IPConfig) bool {
				return oc.IPAddress == address.String()
			}) {
				return ErrAddressReserved
			}
		}
	}
	return 0
}
