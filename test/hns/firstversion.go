package hns

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
)

// firstVersion is the first version of the interface: HNSCall with a method, a path and a JSON object. A failure is
// Success false and a text in the answer; the call itself succeeds.
type firstVersion struct{ system *system }

type networkV1 struct {
	ID                 string `json:"ID"`
	Name               string
	Type               string
	NetworkAdapterName string      `json:",omitempty"`
	SourceMac          string      `json:",omitempty"`
	ManagementIP       string      `json:",omitempty"`
	Subnets            []subnetV1  `json:",omitempty"`
	Extensions         []Extension `json:",omitempty"`
	SwitchGUID         string      `json:"SwitchGuid,omitempty"`
	State              int
	Flags              uint32 `json:",omitempty"`
}

type subnetV1 struct {
	AddressPrefix  string `json:",omitempty"`
	GatewayAddress string `json:",omitempty"`
}

// States of an endpoint (hcsshim, internal/hns/hnsendpoint.go).
const (
	stateCreated         = 1
	stateAttachedSharing = 3
)

type endpointV1 struct {
	ID                 string `json:"ID"`
	Name               string
	VirtualNetwork     string
	VirtualNetworkName string `json:",omitempty"`
	MacAddress         string
	IPAddress          string `json:",omitempty"`
	PrefixLength       uint8  `json:",omitempty"`
	IPv6Address        string `json:",omitempty"`
	IPv6PrefixLength   uint8  `json:",omitempty"`
	GatewayAddress     string `json:",omitempty"`
	GatewayAddressV6   string `json:",omitempty"`
	DNSServerList      string `json:",omitempty"`
	DNSSuffix          string `json:",omitempty"`
	Namespace          *struct {
		ID string
	} `json:",omitempty"`
	SharedContainers []string `json:",omitempty"`
	State            int
}

func (f firstVersion) call(body string) Reply {
	parts := strings.SplitN(body, "\n", 3)
	if len(parts) < 3 {
		return Reply{Status: ErrInvalidJSON}
	}
	result, err := f.request(parts[0], strings.FieldsFunc(parts[1], func(r rune) bool { return r == '/' }), parts[2])
	if err != 0 {
		return output(map[string]any{"Success": false, "Error": err.Error(), "ErrorCode": uint32(err)})
	}
	if result == nil {
		return output(map[string]any{"Success": true})
	}
	return output(map[string]any{"Success": true, "Output": result})
}

func (f firstVersion) request(method string, path []string, body string) (any, Error) {
	collection, id := "", ""
	if len(path) > 0 {
		collection = path[0]
	}
	if len(path) > 1 {
		id = path[1]
	}
	switch {
	case collection == "globals" && id == "version" && method == "GET":
		return hnsVersion, 0
	case collection == "networks" && len(path) <= 2:
		return f.networkRequest(method, id, body)
	case collection == "endpoints" && len(path) <= 2:
		return f.endpointRequest(method, id, body)
	case collection == "endpoints" && len(path) == 3:
		// Attaching to a container by its ID is the way before namespaces; Open vSwitch networks do not go it.
		return nil, ErrRequestUnsupported
	}
	return nil, ErrElementNotFound
}

func (f firstVersion) networkRequest(method, id, body string) (any, Error) {
	if id == "" {
		switch method {
		case "GET":
			list := []networkV1{}
			for _, n := range f.system.objects.Networks {
				list = append(list, showNetwork(n))
			}
			return list, 0
		case "POST":
			return f.createNetworkV1(body)
		}
		return nil, ErrRequestUnsupported
	}
	n := f.system.objects.network(id)
	if n == nil {
		return nil, ErrNetworkNotFound
	}
	switch method {
	case "GET":
		return showNetwork(n), 0
	case "POST":
		var change struct{ Extensions []Extension }
		if json.Unmarshal([]byte(body), &change) != nil {
			return nil, ErrInvalidJSON
		}
		if err := n.setExtensions(change.Extensions); err != 0 {
			return nil, err
		}
		f.system.keep()
		return showNetwork(n), 0
	case "DELETE":
		err := f.system.objects.remove(kindNetwork, n.ID)
		f.system.keep()
		return nil, err
	}
	return nil, ErrRequestUnsupported
}

func (f firstVersion) createNetworkV1(body string) (any, Error) {
	var v networkV1
	if json.Unmarshal([]byte(body), &v) != nil {
		return nil, ErrInvalidJSON
	}
	n := &Network{ID: v.ID, Name: v.Name, Type: v.Type, Flags: v.Flags}
	if v.NetworkAdapterName != "" {
		settings, _ := json.Marshal(map[string]string{"NetworkAdapterName": v.NetworkAdapterName})
		n.Policies = []Policy{{Type: "NetAdapterName", Settings: settings}}
	}
	for _, subnet := range v.Subnets {
		n.Ipams = append(n.Ipams, IPAM{Type: "Static", Subnets: []Subnet{{
			IPAddressPrefix: subnet.AddressPrefix,
			Routes:          []Route{{NextHop: subnet.GatewayAddress, DestinationPrefix: anyPrefix(subnet.GatewayAddress)}},
		}}})
	}
	id, err := f.system.addNetwork("", n)
	if err != 0 {
		return nil, err
	}
	f.system.keep()
	return showNetwork(f.system.objects.network(id)), 0
}

func anyPrefix(gateway string) string {
	if address, err := netip.ParseAddr(gateway); err == nil && address.Is6() {
		return "::/0"
	}
	return "0.0.0.0/0"
}

func showNetwork(n *Network) networkV1 {
	v := networkV1{ID: n.ID, Name: n.Name, Type: n.Type, NetworkAdapterName: n.Adapter, SourceMac: formatMAC(n.Host.MAC),
		Extensions: n.Extensions, SwitchGUID: n.Health.Extra.SwitchGUID, State: 1, Flags: n.Flags}
	for _, a := range n.Host.Addresses {
		if a.Addr().Is4() {
			v.ManagementIP = a.String()
			break
		}
	}
	for _, ipam := range n.Ipams {
		for _, subnet := range ipam.Subnets {
			one := subnetV1{AddressPrefix: subnet.IPAddressPrefix}
			if len(subnet.Routes) > 0 {
				one.GatewayAddress = subnet.Routes[0].NextHop
			}
			v.Subnets = append(v.Subnets, one)
		}
	}
	return v
}

func (f firstVersion) endpointRequest(method, id, body string) (any, Error) {
	if id == "" {
		switch method {
		case "GET":
			list := []endpointV1{}
			for _, e := range f.system.objects.Endpoints {
				list = append(list, f.showEndpoint(e))
			}
			return list, 0
		case "POST":
			return f.createEndpointV1(body)
		}
		return nil, ErrRequestUnsupported
	}
	e := f.system.objects.endpoint(id)
	if e == nil {
		return nil, ErrEndpointNotFound
	}
	switch method {
	case "GET":
		return f.showEndpoint(e), 0
	case "DELETE":
		f.system.objects.removeEndpoint(e)
		f.system.keep()
		return nil, 0
	}
	return nil, ErrRequestUnsupported
}

func (f firstVersion) createEndpointV1(body string) (any, Error) {
	var v endpointV1
	if json.Unmarshal([]byte(body), &v) != nil {
		return nil, ErrInvalidJSON
	}
	e := &Endpoint{ID: v.ID, Name: v.Name, HostComputeNetwork: v.VirtualNetwork, MacAddress: v.MacAddress}
	for _, c := range []IPConfig{{v.IPAddress, v.PrefixLength}, {v.IPv6Address, v.IPv6PrefixLength}} {
		if c.IPAddress != "" {
			e.IPConfigurations = append(e.IPConfigurations, c)
		}
	}
	for _, gateway := range []string{v.GatewayAddress, v.GatewayAddressV6} {
		if gateway != "" {
			e.Routes = append(e.Routes, Route{NextHop: gateway, DestinationPrefix: anyPrefix(gateway)})
		}
	}
	e.DNS = DNS{Domain: v.DNSSuffix, ServerList: strings.FieldsFunc(v.DNSServerList, func(r rune) bool {
		return r == ','
	})}
	id, err := f.system.addEndpoint("", e)
	if err != 0 {
		return nil, err
	}
	f.system.keep()
	return f.showEndpoint(f.system.objects.endpoint(id)), 0
}

func (f firstVersion) showEndpoint(e *Endpoint) endpointV1 {
	v := endpointV1{ID: e.ID, Name: e.Name, VirtualNetwork: e.HostComputeNetwork, MacAddress: e.MacAddress,
		DNSServerList: strings.Join(e.DNS.ServerList, ","), DNSSuffix: e.DNS.Domain, State: stateCreated}
	if n := f.system.objects.network(e.HostComputeNetwork); n != nil {
		v.VirtualNetworkName = n.Name
	}
	for _, c := range e.IPConfigurations {
		if strings.Contains(c.IPAddress, ":") {
			v.IPv6Address, v.IPv6PrefixLength = c.IPAddress, c.PrefixLength
		} else {
			v.IPAddress, v.PrefixLength = c.IPAddress, c.PrefixLength
		}
	}
	for _, r := range e.Routes {
		switch r.DestinationPrefix {
		case "0.0.0.0/0":
			v.GatewayAddress = r.NextHop
		case "::/0":
			v.GatewayAddressV6 = r.NextHop
		}
	}
	space := f.system.objects.namespace(e.HostComputeNamespace)
	if space == nil {
		return v
	}
	v.Namespace = &struct{ ID string }{space.ID}
	if space.Started {
		v.State = stateAttachedSharing
		for _, r := range slices.DeleteFunc(slices.Clone(space.Resources), func(r Resource) bool {
			return r.Type != "Container"
		}) {
			v.SharedContainers = append(v.SharedContainers, r.Data.ID)
		}
	}
	return v
}
