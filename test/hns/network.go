package hns

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
)

var networkTypes = []string{"NAT", "Transparent", "L2Bridge", "L2Tunnel", "ICS", "Private", "Overlay"}

// external are the types whose switch has a physical adapter.
var external = []string{"Transparent", "L2Bridge", "L2Tunnel", "Overlay"}

// checkNetwork refuses what HNS does: a network of a type that it does not have, one whose GUID or name is taken, and a
// subnet that is no prefix.
func (o *objects) checkNetwork(n *Network) Error {
	if !slices.Contains(networkTypes, n.Type) {
		return ErrInvalidNetworkType
	}
	if slices.ContainsFunc(o.Networks, func(has *Network) bool { return sameID(has.ID, n.ID) || has.Name == n.Name }) {
		return ErrNetworkExists
	}
	return checkSubnets(n.Ipams)
}

func checkSubnets(ipams []IPAM) Error {
	for _, ipam := range ipams {
		for _, subnet := range ipam.Subnets {
			if subnet.IPAddressPrefix == "" {
				continue
			}
			if _, err := netip.ParsePrefix(subnet.IPAddressPrefix); err != nil {
				return ErrInvalidIP
			}
		}
	}
	return 0
}

// modify changes a network's policies or name servers, or the extensions of its switch.
func (n *Network) modify(m modification) Error {
	switch m.ResourceType {
	case "Policy":
		var settings struct{ Policies []Policy }
		if json.Unmarshal(m.Settings, &settings) != nil {
			return ErrInvalidJSON
		}
		n.Policies = changePolicies(n.Policies, settings.Policies, m.RequestType)
		return 0
	case "DNS":
		if json.Unmarshal(m.Settings, &n.DNS) != nil {
			return ErrInvalidJSON
		}
		return 0
	case "Extension":
		var settings struct{ Extensions []Extension }
		if json.Unmarshal(m.Settings, &settings) != nil {
			return ErrInvalidJSON
		}
		return n.setExtensions(settings.Extensions)
	}
	return ErrRequestUnsupported
}

// setExtensions changes those that are named. A switch has one forwarding extension: Open vSwitch's
// and Azure's VFP exclude each other.
func (n *Network) setExtensions(extensions []Extension) Error {
	for _, e := range extensions {
		if n.extension(e.ID) == nil {
			return ErrExtensionNotFound
		}
	}
	for _, e := range extensions {
		n.extension(e.ID).IsEnabled = e.IsEnabled
	}
	return 0
}

// prefixes returns the subnets of a network.
func (n *Network) prefixes() []netip.Prefix {
	var prefixes []netip.Prefix
	for _, ipam := range n.Ipams {
		for _, subnet := range ipam.Subnets {
			if p, err := netip.ParsePrefix(subnet.IPAddressPrefix); err == nil {
				prefixes = append(prefixes, p.Masked())
			}
		}
	}
	return prefixes
}

// formatMAC is a MAC as HNS writes it.
func formatMAC(mac string) string { return strings.ToUpper(strings.ReplaceAll(mac, ":", "-")) }
