package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"
)

// HCSShim is the [Service] by hcsshim: HCN's second API, and HNS's first for switch extensions, which
// the second has no call for.
type HCSShim struct{}

// NewHCSShim fails where Windows has no HNS. It has to be asked before the first call: hcsshim's error
// constructor (hcn/hcnerrors.go, new) panics over a library that is not there.
func NewHCSShim() (HCSShim, error) {
	for _, name := range []string{"computenetwork.dll", "vmcompute.dll"} {
		if err := windows.NewLazySystemDLL(name).Load(); err != nil {
			return HCSShim{}, fmt.Errorf("this Windows has no Host Networking Service (install the feature Containers and "+
				"restart: Install-WindowsFeature Containers -Restart): %w", err)
		}
	}
	return HCSShim{}, nil
}

func (HCSShim) Version() (Version, error) {
	globals, err := hcn.GetGlobals()
	if err != nil {
		return Version{}, fmt.Errorf("read the version of HNS: %w", classify(err))
	}
	return Version(globals.Version), nil
}

// repeated makes a list again that failed because an object of it went away meanwhile: hcsshim
// enumerates the IDs first and then opens one after the other.
func repeated[T any](list func() ([]T, error)) ([]T, error) {
	for attempt := 0; ; attempt++ {
		items, err := list()
		if err = classify(err); !errors.Is(err, ErrNotFound) || attempt == 5 {
			return items, err
		}
	}
}

func (HCSShim) Networks() ([]Network, error) {
	found, err := repeated(hcn.ListNetworks)
	if err != nil {
		return nil, err
	}
	networks := make([]Network, 0, len(found))
	for _, n := range found {
		networks = append(networks, fromNetwork(n))
	}
	return networks, nil
}

func fromNetwork(n hcn.HostComputeNetwork) Network {
	network := Network{ID: n.Id, Name: n.Name, Type: string(n.Type)}
	for _, policy := range n.Policies {
		var setting hcn.NetAdapterNameNetworkPolicySetting
		if policy.Type == hcn.NetAdapterName && json.Unmarshal(policy.Settings, &setting) == nil {
			network.Adapter = setting.NetworkAdapterName
		}
	}
	for _, ipam := range n.Ipams {
		for _, s := range ipam.Subnets {
			prefix, err := netip.ParsePrefix(s.IpAddressPrefix)
			if err != nil {
				continue // a network of somebody else's may have whatever HNS lets it
			}
			subnet := Subnet{Prefix: prefix}
			for _, route := range s.Routes {
				if hop, err := netip.ParseAddr(route.NextHop); err == nil {
					subnet.Gateway = hop
				}
			}
			network.Subnets = append(network.Subnets, subnet)
		}
	}
	return network
}

func (HCSShim) CreateNetwork(n Network) (Network, error) {
	adapter, err := json.Marshal(hcn.NetAdapterNameNetworkPolicySetting{NetworkAdapterName: n.Adapter})
	if err != nil {
		return Network{}, err
	}
	ipam := hcn.Ipam{Type: "Static"}
	for _, s := range n.Subnets {
		ipam.Subnets = append(ipam.Subnets, hcn.Subnet{
			IpAddressPrefix: s.Prefix.String(),
			Routes:          []hcn.Route{{NextHop: s.Gateway.String(), DestinationPrefix: everywhere(s.Gateway)}},
		})
	}
	created, err := (&hcn.HostComputeNetwork{
		Name: n.Name, Type: hcn.NetworkType(n.Type), Ipams: []hcn.Ipam{ipam}, SchemaVersion: hcn.V2SchemaVersion(),
		Policies: []hcn.NetworkPolicy{{Type: hcn.NetAdapterName, Settings: adapter}},
	}).Create()
	if err != nil {
		return Network{}, classify(err)
	}
	return fromNetwork(*created), nil
}

func everywhere(family netip.Addr) string {
	if family.Is4() {
		return "0.0.0.0/0"
	}
	return "::/0"
}

func (HCSShim) DeleteNetwork(id string) error {
	return classify((&hcn.HostComputeNetwork{Id: bareID(id)}).Delete())
}

func (HCSShim) EnableExtension(network, extension string) error {
	request, err := json.Marshal(map[string]any{"Extensions": []map[string]any{{"Id": extension, "IsEnabled": true}}})
	if err != nil {
		return err
	}
	_, err = hcsshim.HNSNetworkRequest("POST", bareID(network), string(request))
	return classify(err)
}

func (HCSShim) Endpoints() ([]Endpoint, error) {
	found, err := repeated(hcn.ListEndpoints)
	return fromEndpoints(found), err
}

func (HCSShim) EndpointsNamed(name string) ([]Endpoint, error) {
	filter, err := json.Marshal(map[string]string{"Name": name})
	if err != nil {
		return nil, err
	}
	found, err := repeated(func() ([]hcn.HostComputeEndpoint, error) {
		return hcn.ListEndpointsQuery(hcn.HostComputeQuery{SchemaVersion: hcn.V2SchemaVersion(), Filter: string(filter)})
	})
	return fromEndpoints(found), err
}

func fromEndpoints(found []hcn.HostComputeEndpoint) []Endpoint {
	endpoints := make([]Endpoint, 0, len(found))
	for _, e := range found {
		endpoints = append(endpoints, fromEndpoint(e))
	}
	return endpoints
}

func fromEndpoint(e hcn.HostComputeEndpoint) Endpoint {
	endpoint := Endpoint{
		ID: e.Id, Name: e.Name, Network: e.HostComputeNetwork, Namespace: e.HostComputeNamespace,
		DNS: DNS{Domain: e.Dns.Domain, Servers: e.Dns.ServerList, Search: e.Dns.Search, Options: e.Dns.Options},
	}
	endpoint.MAC, _ = net.ParseMAC(e.MacAddress)
	for _, ip := range e.IpConfigurations {
		if address, err := netip.ParseAddr(ip.IpAddress); err == nil {
			endpoint.Addresses = append(endpoint.Addresses, netip.PrefixFrom(address, int(ip.PrefixLength)))
		}
	}
	for _, route := range e.Routes {
		if hop, err := netip.ParseAddr(route.NextHop); err == nil {
			endpoint.Gateways = append(endpoint.Gateways, hop)
		}
	}
	return endpoint
}

func (HCSShim) CreateEndpoint(e Endpoint) (Endpoint, error) {
	settings := &hcn.HostComputeEndpoint{
		Name: e.Name, HostComputeNetwork: bareID(e.Network), SchemaVersion: hcn.V2SchemaVersion(),
		// HNS writes MAC addresses with hyphens.
		MacAddress: strings.ToUpper(strings.ReplaceAll(e.MAC.String(), ":", "-")),
		Dns:        hcn.Dns{Domain: e.DNS.Domain, ServerList: e.DNS.Servers, Search: e.DNS.Search, Options: e.DNS.Options},
	}
	for _, address := range e.Addresses {
		settings.IpConfigurations = append(settings.IpConfigurations, hcn.IpConfig{IpAddress: address.Addr().String(),
			PrefixLength: uint8(address.Bits())})
	}
	for _, hop := range e.Gateways {
		settings.Routes = append(settings.Routes, hcn.Route{NextHop: hop.String(), DestinationPrefix: everywhere(hop)})
	}
	created, err := settings.Create()
	if err != nil {
		return Endpoint{}, classify(err)
	}
	return fromEndpoint(*created), nil
}

func (HCSShim) DeleteEndpoint(id string) error {
	return classify((&hcn.HostComputeEndpoint{Id: bareID(id)}).Delete())
}

func (HCSShim) Namespace(id string) (Namespace, error) {
	found, err := hcn.GetNamespaceByID(bareID(id))
	if err != nil {
		return Namespace{}, classify(err)
	}
	namespace := Namespace{ID: found.Id, Compartment: found.NamespaceId}
	for _, resource := range found.Resources {
		var data hcn.NamespaceResourceEndpoint // a container's has the same shape
		if err := json.Unmarshal(resource.Data, &data); err != nil {
			return Namespace{}, fmt.Errorf("read a resource of namespace %s: %w", id, err)
		}
		switch resource.Type {
		case hcn.NamespaceResourceTypeEndpoint:
			namespace.Endpoints = append(namespace.Endpoints, data.Id)
		case hcn.NamespaceResourceTypeContainer:
			namespace.Containers = append(namespace.Containers, data.Id)
		}
	}
	return namespace, nil
}

func (HCSShim) Attach(namespace, endpoint string) error {
	return classify(hcn.AddNamespaceEndpoint(bareID(namespace), bareID(endpoint)))
}

func (HCSShim) Detach(namespace, endpoint string) error {
	return classify(hcn.RemoveNamespaceEndpoint(bareID(namespace), bareID(endpoint)))
}

// codes are the HRESULTs that mean one of the package's errors. hcn.IsNotFoundError knows only some
// of them, and what the first API returns is but text, which ends with the code or the system's words.
var codes = []struct {
	code windows.Handle
	text string
	err  error
}{
	{windows.HCN_E_NETWORK_NOT_FOUND, "network was not found", ErrNotFound},
	{windows.HCN_E_ENDPOINT_NOT_FOUND, "endpoint was not found", ErrNotFound},
	{0x80070490, "Element not found", ErrNotFound},
	{windows.HCN_E_NETWORK_ALREADY_EXISTS, "network with this name already exists", ErrExists},
	{windows.HCN_E_ENDPOINT_ALREADY_ATTACHED, "", ErrExists},
	{windows.HCN_E_ENDPOINT_NAMESPACE_ALREADY_EXISTS, "", ErrExists},
	{0x80071392, "object already exists", ErrExists}, // ERROR_OBJECT_ALREADY_EXISTS
	{windows.HCN_E_SWITCH_EXTENSION_NOT_FOUND, "switch extension does not exist", ErrNoExtension},
	{windows.HCN_E_INVALID_IP, "", ErrAddressTaken},
	{windows.HCN_E_ADDR_INVALID_OR_RESERVED, "", ErrAddressTaken},
	{windows.HCN_E_INVALID_POLICY, "", ErrPolicy},
	{windows.HCN_E_INVALID_POLICY_TYPE, "", ErrPolicy},
	{windows.HCN_E_MAPPING_NOT_SUPPORTED, "", ErrPolicy},
	{windows.HCN_E_REQUEST_UNSUPPORTED, "", ErrPolicy},
}

func classify(err error) error {
	if err == nil {
		return nil
	}
	if hcn.IsNotFoundError(err) {
		return fmt.Errorf("%w (%w)", ErrNotFound, err)
	}
	for _, known := range codes {
		code := uint32(known.code)
		if code>>16 == 0x8007 { // an error of Win32's in an HRESULT's form, which hcsshim undoes
			code &= 0xffff
		}
		text := err.Error()
		if hcn.CheckErrorWithCode(err, hcn.ErrorCode(code)) || strings.Contains(text, fmt.Sprintf("(0x%x)", code)) ||
			known.text != "" && strings.Contains(text, known.text) {
			return fmt.Errorf("%w (%w)", known.err, err)
		}
	}
	return err
}
