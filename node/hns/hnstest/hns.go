package hnstest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
)

// HNS implements [hns.Service].
type HNS struct {
	state *state
	calls *calls
}

// enter begins a call: a fault may hold it or end it. If it does not, the state is locked until leave.
func (h *HNS) enter(call string) (leave func(), err error) {
	if err := h.calls.begin(call); err != nil {
		return func() {}, err
	}
	h.state.mu.Lock()
	return h.state.mu.Unlock, nil
}

func (h *HNS) Version() (hns.Version, error) {
	leave, err := h.enter("Version")
	defer leave()
	return hns.Version{Major: 15, Minor: 2}, err
}

func (h *HNS) Networks() ([]hns.Network, error) {
	leave, err := h.enter("Networks")
	defer leave()
	if err != nil {
		return nil, err
	}
	found := []hns.Network{}
	for _, n := range h.state.networks {
		found = append(found, n.Network)
	}
	return found, nil
}

// CreateNetwork takes the adapter for its switch and gives the host one of its own there, with the
// adapter's MAC and, where Windows moves them, its addresses, routes and resolvers.
func (h *HNS) CreateNetwork(n hns.Network) (hns.Network, error) {
	leave, err := h.enter("CreateNetwork")
	defer leave()
	if err != nil {
		return hns.Network{}, err
	}
	if slices.ContainsFunc(h.state.networks, func(o *network) bool { return o.Name == n.Name }) {
		return hns.Network{}, fmt.Errorf("network %s: %w", n.Name, hns.ErrExists)
	}
	uplink := h.state.adapters.named(n.Adapter)
	has := func(o *network) bool { return o.Adapter == n.Adapter }
	if uplink == nil || uplink.Kind != hostnet.Physical || slices.ContainsFunc(h.state.left, has) ||
		slices.ContainsFunc(h.state.networks, has) {
		return hns.Network{}, fmt.Errorf("adapter %q: %w", n.Adapter, hns.ErrNotFound)
	}
	n.ID = h.state.newID()
	h.state.networks = append(h.state.networks, &network{Network: n})
	if n.Type != hns.Transparent {
		return n, nil
	}
	host := uplink.Adapter
	host.Alias, host.Kind = vNICAlias(n.Adapter), hostnet.Virtual
	routes := uplink.routes
	uplink.Addresses, uplink.routes, uplink.DNS = nil, nil, hostnet.DNS{}
	if !h.state.Moves {
		host.Addresses, host.DNS, routes = nil, hostnet.DNS{}, nil
	}
	h.state.adapters.add(host, n.ID, routes...).friendly = n.Adapter
	return n, nil
}

func (h *HNS) DeleteNetwork(id string) error {
	leave, err := h.enter("DeleteNetwork")
	defer leave()
	if err != nil {
		return err
	}
	n := h.state.network(id)
	if n == nil {
		return hns.ErrNotFound
	}
	h.state.removeNetwork(n)
	return nil
}

func (h *HNS) Switch(id string) (hns.Switch, error) {
	leave, err := h.enter("Switch")
	defer leave()
	if err != nil {
		return hns.Switch{}, err
	}
	n := h.state.network(id)
	if n == nil {
		return hns.Switch{}, hns.ErrNotFound
	}
	s := hns.Switch{Adapter: n.Adapter, Extensions: []hns.Extension{{ID: "E7C3B2F0-F3C5-48DF-AF2B-10FED6D72E7A",
		Name: "Microsoft Windows Filtering Platform"}}}
	if h.state.Driver {
		s.Extensions = append(s.Extensions, hns.Extension{ID: strings.ToLower(OVSExtension), Name: "Open vSwitch Extension",
			Enabled: n.extension && !hns.SameID(n.driver, h.state.Other)})
	}
	if h.state.Other != "" {
		s.Extensions = append(s.Extensions, hns.Extension{ID: h.state.Other, Name: "Another Open vSwitch",
			Enabled: n.extension && hns.SameID(n.driver, h.state.Other)})
	}
	return s, nil
}

func (h *HNS) EnableExtension(id, extension string) error {
	leave, err := h.enter("EnableExtension")
	defer leave()
	if err != nil {
		return err
	}
	n := h.state.network(id)
	switch {
	case n == nil:
		return hns.ErrNotFound
	case !h.state.installed(extension):
		return hns.ErrNoExtension
	}
	n.extension, n.driver = !h.state.Disobeys, extension
	h.state.adapters.notify()
	return nil
}

func (h *HNS) Endpoints() ([]hns.Endpoint, error) {
	leave, err := h.enter("Endpoints")
	defer leave()
	if err != nil {
		return nil, err
	}
	return h.matching(func(*hns.Endpoint) bool { return true }), nil
}

func (h *HNS) EndpointsNamed(name string) ([]hns.Endpoint, error) {
	leave, err := h.enter("EndpointsNamed")
	defer leave()
	if err != nil {
		return nil, err
	}
	return h.matching(func(e *hns.Endpoint) bool { return e.Name == name }), nil
}

func (h *HNS) matching(match func(*hns.Endpoint) bool) []hns.Endpoint {
	found := []hns.Endpoint{}
	for _, e := range h.state.endpoints {
		if match(e) {
			found = append(found, *e)
		}
	}
	return found
}

func (h *HNS) CreateEndpoint(e hns.Endpoint) (hns.Endpoint, error) {
	leave, err := h.enter("CreateEndpoint")
	defer leave()
	if err != nil {
		return hns.Endpoint{}, err
	}
	n := h.state.network(e.Network)
	if n == nil {
		return hns.Endpoint{}, hns.ErrNotFound
	}
	if slices.ContainsFunc(h.state.endpoints, func(o *hns.Endpoint) bool { return o.Name == e.Name }) {
		return hns.Endpoint{}, fmt.Errorf("endpoint %s: %w", e.Name, hns.ErrExists)
	}
	for _, address := range e.Addresses {
		if !slices.ContainsFunc(n.Subnets, func(s hns.Subnet) bool { return s.Prefix.Contains(address.Addr()) }) {
			return hns.Endpoint{}, hns.ErrAddressTaken
		}
	}
	for _, other := range h.state.endpoints {
		if slices.ContainsFunc(other.Addresses, func(p netip.Prefix) bool { return slices.Contains(e.Addresses, p) }) {
			return hns.Endpoint{}, hns.ErrAddressTaken
		}
	}
	e.ID = h.state.newID()
	h.state.endpoints = append(h.state.endpoints, &e)
	return e, nil
}

func (h *HNS) DeleteEndpoint(id string) error {
	leave, err := h.enter("DeleteEndpoint")
	defer leave()
	if err != nil {
		return err
	}
	e := h.state.endpoint(id)
	if e == nil {
		return hns.ErrNotFound
	}
	h.state.removeEndpoint(e)
	return nil
}

func (h *HNS) Namespace(id string) (hns.Namespace, error) {
	leave, err := h.enter("Namespace")
	defer leave()
	if err != nil {
		return hns.Namespace{}, err
	}
	n := h.state.namespace(id)
	if n == nil {
		return hns.Namespace{}, hns.ErrNotFound
	}
	return n.Namespace, nil
}

func (h *HNS) Attach(space, endpoint string) error {
	leave, err := h.enter("Attach")
	defer leave()
	if err != nil {
		return err
	}
	n, e := h.state.namespace(space), h.state.endpoint(endpoint)
	switch {
	case n == nil || e == nil:
		return hns.ErrNotFound
	case strings.Trim(e.Namespace, "0-") != "": // zeros are Windows' word for none
		return hns.ErrExists
	}
	e.Namespace = n.ID
	n.Endpoints = append(slices.Clone(n.Endpoints), e.ID)
	if len(n.Containers) > 0 {
		h.state.plug(n, e)
	}
	return nil
}

func (h *HNS) Detach(space, endpoint string) error {
	leave, err := h.enter("Detach")
	defer leave()
	if err != nil {
		return err
	}
	e := h.state.endpoint(endpoint)
	if e == nil || h.state.namespace(space) == nil || !hns.SameID(e.Namespace, space) {
		return hns.ErrNotFound
	}
	h.state.detach(e)
	return nil
}
