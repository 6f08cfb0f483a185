package hns

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
)

var networkTypes = []string{"NAT", "Transparent", "L2Bridge", "L2Tunnel", "ICS", "Private", "Overlay"}

// external are the types whose switch has a physical adapter.
var external = []string{"Transparent", "L2Bridge", "L2Tunnel", "Overlay"}

func (s *Service) createNetwork(id, body string) (string, Error) {
	n := &Network{}
	if json.Unmarshal([]byte(body), n) != nil {
		return "", ErrInvalidJSON
	}
	return s.addNetwork(id, n)
}

func (s *Service) addNetwork(id string, n *Network) (string, Error) {
	n.ID = newID(id, n.ID)
	if n.Type == "" {
		n.Type = "NAT" // the zero of HNS's enumeration, see getNetwork in hcsshim's hcn/hcnnetwork.go
	}
	if !slices.Contains(networkTypes, n.Type) {
		return "", ErrInvalidNetworkType
	}
	if slices.ContainsFunc(s.objects.Networks, func(o *Network) bool { return sameID(o.ID, n.ID) || o.Name == n.Name }) {
		return "", ErrNetworkExists
	}
	if err := checkSubnets(n.Ipams); err != 0 {
		return "", err
	}
	if slices.Contains(external, n.Type) {
		if err := s.takeAdapter(n); err != 0 {
			return "", err
		}
	}
	n.Health = Health{Extra: HealthExtra{SwitchGUID: n.ID}}
	n.SchemaVersion = schemaVersion
	n.Extensions = []Extension{
		{ID: "E7C3B2F0-F3C5-48DF-AF2B-10FED6D72E7A", Name: "Microsoft Windows Filtering Platform"},
		{ID: "E9B59CFA-2BE1-4B21-828F-B6FBDBDDC017", Name: "Microsoft Azure VFP Switch Extension"},
		{ID: "EA24CD6C-D17A-4348-9190-09F0D5BE83DD", Name: "Microsoft NDIS Capture", IsEnabled: true},
	}
	if !s.config.NoDriver && !s.faults.driverMissing() {
		n.Extensions = append(n.Extensions, Extension{ID: OVSExtension, Name: "Open vSwitch Extension"})
	}
	s.objects.Networks = append(s.objects.Networks, n)
	return n.ID, 0
}

// takeAdapter finds the adapter that the network's policy names.
func (s *Service) takeAdapter(n *Network) Error {
	var named struct{ NetworkAdapterName string }
	for _, p := range n.Policies {
		if p.Type == "NetAdapterName" && json.Unmarshal(p.Settings, &named) != nil {
			return ErrInvalidPolicy
		}
	}
	adapter, has, err := s.config.DataPlane.Adapter(named.NetworkAdapterName)
	if err != nil {
		var code Error
		if errors.As(err, &code) {
			return code
		}
		return ErrGeneral
	}
	// An adapter that is a switch's external port has no protocol of the host's bound to it any more.
	if slices.ContainsFunc(s.objects.Networks, func(o *Network) bool { return o.Adapter == adapter }) {
		return ErrAdapterNotFound
	}
	n.Adapter, n.Host = adapter, has
	n.VNIC = ManagementVNIC{Name: adapter, Device: ManagementDevice(adapter)}
	return 0
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

func (s *Service) modifyNetwork(n *Network, m modification) Error {
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
		return setExtensions(n, settings.Extensions)
	}
	return ErrRequestUnsupported
}

// setExtensions changes those that are named. A switch has one forwarding extension: Open vSwitch's
// and Azure's VFP exclude each other.
func setExtensions(n *Network, extensions []Extension) Error {
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

func changePolicies(have, change []Policy, request string) []Policy {
	switch request {
	case "Add":
		return append(have, change...)
	case "Remove":
		return slices.DeleteFunc(have, func(p Policy) bool {
			return slices.ContainsFunc(change, func(c Policy) bool { return samePolicy(p, c) })
		})
	case "Update", "Refresh":
		return change
	}
	return have
}

func samePolicy(a, b Policy) bool {
	var x, y any
	_, _ = json.Unmarshal(a.Settings, &x), json.Unmarshal(b.Settings, &y)
	one, _ := json.Marshal(x)
	other, _ := json.Marshal(y)
	return a.Type == b.Type && string(one) == string(other)
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
