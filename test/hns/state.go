package hns

import (
	"encoding/json"
	"maps"
	"slices"
)

// State is what `hnsemu ctl state` prints.
type State struct {
	Networks      []NetworkState
	Endpoints     []EndpointState
	Namespaces    []*Namespace
	LoadBalancers []*LoadBalancer `json:",omitempty"`
	Devices       any
	DNS           []InterfaceDNS `json:",omitempty"`
	Calls         map[string]int
	Faults        map[string]any `json:",omitempty"`
	Stopped       bool           `json:",omitempty"`
}

// NetworkState is a network with its switch.
type NetworkState struct {
	*Network
	Adapter    string         `json:",omitempty"`
	VNIC       ManagementVNIC `json:",omitzero"`
	Extensions []Extension
	HostConfig HostConfig
}

// EndpointState is an endpoint with its vNIC.
type EndpointState struct {
	*Endpoint
	// Netns is where its vNIC is; empty while it has none.
	Netns string `json:",omitempty"`
	MTU   int    `json:",omitempty"`
}

func (c *console) state([]string) (string, error) {
	c.system.mu.Lock()
	defer c.system.mu.Unlock()
	objects := &c.system.objects
	state := State{Networks: []NetworkState{}, Endpoints: []EndpointState{}, Namespaces: objects.Namespaces,
		LoadBalancers: objects.LoadBalancers, Devices: c.system.plane.Devices(), Calls: c.calls.counted(),
		Faults: c.calls.faults(), Stopped: c.system.isStopped()}
	maps.Copy(state.Faults, c.system.faults.view())
	for _, n := range objects.Networks {
		state.Networks = append(state.Networks, NetworkState{n, n.Adapter, n.VNIC, n.Extensions, n.Host})
	}
	vnics := c.system.vnics()
	for _, e := range objects.Endpoints {
		one := EndpointState{Endpoint: e, MTU: e.MTU}
		for _, v := range vnics {
			if v.Endpoint == e.ID {
				one.Netns = v.Netns
			}
		}
		state.Endpoints = append(state.Endpoints, one)
	}
	state.DNS = slices.Collect(maps.Values(c.ipHelper.dns))
	text, err := json.MarshalIndent(state, "", "  ")
	return string(text), err
}
