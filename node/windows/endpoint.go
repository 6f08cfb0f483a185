package windows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/platform"
)

// CreateEndpoint: the HNS endpoint is attached to the sandbox. Windows makes its adapter when the
// sandbox's first container starts.
func (w *Platform) CreateEndpoint(ctx context.Context, e platform.Endpoint) error {
	network, err := w.ownNetwork(ctx)
	if err != nil {
		return err
	}
	stale := func(other hns.Endpoint) bool { return w.stale(ctx, other) }
	_, err = w.hns.EnsureEndpoint(ctx, endpointOf(e, network.ID), stale)
	if errors.Is(err, hns.ErrNotFound) {
		if exists, gone := w.SandboxExists(e.Sandbox); gone == nil && !exists {
			return fmt.Errorf("%w: %w", platform.ErrNoSandbox, err)
		}
		w.forgetUplink() // then it is the network that HNS does not know
	}
	return err
}

// stale says of an endpoint that is in a pod's way whether it is a remnant: one of weft's whose sandbox
// is gone, or that never came to one.
func (w *Platform) stale(ctx context.Context, other hns.Endpoint) bool {
	if !cni.IsHostInterface(other.Name) {
		return false
	}
	if other.Namespace == "" {
		return true
	}
	_, err := w.hns.Namespace(ctx, other.Namespace)
	return errors.Is(err, hns.ErrNotFound)
}

// ownNetwork is the HNS network as EnsureUplink has found it.
func (w *Platform) ownNetwork(ctx context.Context) (hns.Network, error) {
	if network := w.lastSeen().network; network.ID != "" {
		return network, nil
	}
	network, err := w.hns.Network(ctx, w.config.Network)
	if errors.Is(err, hns.ErrNotFound) {
		return hns.Network{}, fmt.Errorf("the node's HNS network %s does not exist yet", w.config.Network)
	}
	return network, err
}

func endpointOf(e platform.Endpoint, network string) hns.Endpoint {
	return hns.Endpoint{
		Name: e.Device, Network: network, Namespace: e.Sandbox, MAC: e.MAC, Addresses: e.Addresses, Gateways: e.Gateways,
		DNS: hns.DNS{Domain: e.DNS.Domain, Servers: e.DNS.Nameservers, Search: e.DNS.Search, Options: e.DNS.Options},
	}
}

// EndpointArrived asks Windows for the adapter, in all compartments, and not HNS: a namespace tells that
// it has a container some time before that container's adapter is on the switch.
func (w *Platform) EndpointArrived(_ context.Context, e platform.Endpoint) (bool, error) {
	_, arrived, err := w.adapterOf(e)
	return arrived, err
}

func (w *Platform) adapterOf(e platform.Endpoint) (hostnet.Adapter, bool, error) {
	adapters, err := w.host.Adapters()
	if err != nil {
		return hostnet.Adapter{}, false, fmt.Errorf("list the host's adapters: %w", err)
	}
	adapter, ok := hostnet.Endpoint(adapters, e.Device, e.MAC)
	return adapter, ok, nil
}

// ConfigureEndpoint sets the MTU, for which an HNS endpoint has no field. Addresses and routes are HNS's
// own to set.
func (w *Platform) ConfigureEndpoint(ctx context.Context, e platform.Endpoint) error {
	endpoint, err := w.attached(ctx, e)
	if err != nil {
		return err
	}
	adapter, arrived, err := w.adapterOf(e)
	if err != nil {
		return err
	}
	if !arrived {
		return fmt.Errorf("the adapter of HNS endpoint %s is not there yet", endpoint.Name)
	}
	if adapter.MTU == e.MTU {
		return nil
	}
	if err := w.host.SetMTU(adapter, e.MTU); err != nil {
		return fmt.Errorf("set MTU %d of adapter %q of pod %s: %w", e.MTU, adapter.Alias, e.Label, err)
	}
	return nil
}

// attached returns e's HNS endpoint, which is attached to e's sandbox; [platform.ErrNoSandbox].
func (w *Platform) attached(ctx context.Context, e platform.Endpoint) (hns.Endpoint, error) {
	namespace, err := w.hns.Namespace(ctx, e.Sandbox)
	if errors.Is(err, hns.ErrNotFound) {
		return hns.Endpoint{}, fmt.Errorf("%w: %w", platform.ErrNoSandbox, err)
	}
	if err != nil {
		return hns.Endpoint{}, err
	}
	endpoint, err := w.hns.EndpointNamed(ctx, e.Device)
	if err != nil {
		return hns.Endpoint{}, err
	}
	if !hns.SameID(endpoint.Namespace, e.Sandbox) &&
		!slices.ContainsFunc(namespace.Endpoints, func(id string) bool { return hns.SameID(id, endpoint.ID) }) {
		return hns.Endpoint{}, fmt.Errorf("HNS endpoint %s of pod %s is not attached to namespace %s", endpoint.Name,
			e.Label, e.Sandbox)
	}
	return endpoint, nil
}

func (w *Platform) CheckEndpoint(ctx context.Context, e platform.Endpoint) error {
	endpoint, err := w.attached(ctx, e)
	if err != nil {
		return err
	}
	if !bytes.Equal(endpoint.MAC, e.MAC) {
		return fmt.Errorf("HNS endpoint %s has MAC %v instead of %v", endpoint.Name, endpoint.MAC, e.MAC)
	}
	for _, address := range e.Addresses {
		if !slices.Contains(endpoint.Addresses, address) {
			return fmt.Errorf("HNS endpoint %s lacks address %v", endpoint.Name, address)
		}
	}
	for _, gateway := range e.Gateways {
		if !slices.Contains(endpoint.Gateways, gateway) {
			return fmt.Errorf("HNS endpoint %s lacks the default route by %v", endpoint.Name, gateway)
		}
	}
	adapter, arrived, err := w.adapterOf(e)
	if err != nil {
		return err
	}
	if !arrived {
		return fmt.Errorf("the adapter of HNS endpoint %s is not there", endpoint.Name)
	}
	if e.MTU != 0 && adapter.MTU != e.MTU {
		return fmt.Errorf("adapter %q has MTU %d instead of %d", adapter.Alias, adapter.MTU, e.MTU)
	}
	return nil
}

func (w *Platform) DeleteEndpoint(ctx context.Context, device string) error {
	return w.hns.DeleteEndpoint(ctx, device)
}

// EnsureManagement configures the adapter that Open vSwitch has made for its internal port.
func (w *Platform) EnsureManagement(m platform.Management) error {
	adapters, err := w.host.Adapters()
	if err != nil {
		return fmt.Errorf("list the host's adapters: %w", err)
	}
	adapter, ok := hostnet.Named(adapters, m.Device)
	if !ok {
		if adapter, err = w.enableNamed(m.Device); err != nil {
			return fmt.Errorf("management adapter %s: %w", m.Device, err)
		}
	}
	if err := w.ensureManagement(adapter, m); err != nil {
		return fmt.Errorf("management adapter %s: %w", m.Device, err)
	}
	return nil
}

// enablePeriod is the least time between attempts at an adapter that may not exist: a command takes seconds.
const enablePeriod = 10 * time.Second

// enableNamed looks for an adapter that Open vSwitch has made and Windows does not list: create_wmi_port of its
// lib/wmi.c disables what it makes, to rename it.
func (w *Platform) enableNamed(name string) (hostnet.Adapter, error) {
	w.mu.Lock()
	soon := time.Since(w.enabled) < enablePeriod
	if !soon {
		w.enabled = time.Now()
	}
	w.mu.Unlock()
	if soon {
		return hostnet.Adapter{}, platform.ErrNoDevice
	}
	if err := w.host.EnableNamed(name); err != nil {
		return hostnet.Adapter{}, fmt.Errorf("%w, or cannot be enabled: %w", platform.ErrNoDevice, err)
	}
	adapters, err := w.host.Adapters()
	if err != nil {
		return hostnet.Adapter{}, fmt.Errorf("list the host's adapters: %w", err)
	}
	adapter, ok := hostnet.Named(adapters, name)
	if !ok {
		return hostnet.Adapter{}, platform.ErrNoDevice
	}
	return adapter, nil
}

// ensureUp: an adapter is up when Windows says so, whatever the call for it has returned.
func (w *Platform) ensureUp(adapter hostnet.Adapter) (hostnet.Adapter, error) {
	if adapter.Up {
		return adapter, nil
	}
	if err := w.host.Enable(adapter); err != nil {
		return adapter, fmt.Errorf("enable it: %w", err)
	}
	adapters, err := w.host.Adapters()
	if err != nil {
		return adapter, fmt.Errorf("list the host's adapters: %w", err)
	}
	now, ok := hostnet.Named(adapters, adapter.Alias)
	if !ok || !now.Up {
		return adapter, fmt.Errorf("it was enabled and is not up: see `Get-NetAdapter -Name %s`", adapter.Alias)
	}
	return now, nil
}

func (w *Platform) ensureManagement(adapter hostnet.Adapter, m platform.Management) error {
	var err error
	if adapter, err = w.ensureUp(adapter); err != nil {
		return err
	}
	if adapter, err = w.ensureMAC(adapter, m.MAC); err != nil {
		return err
	}
	if adapter, err = w.ensureUp(adapter); err != nil { // Windows restarts it for another MAC address
		return err
	}
	if adapter.MTU != m.MTU {
		if err := w.host.SetMTU(adapter, m.MTU); err != nil {
			return fmt.Errorf("set MTU %d: %w", m.MTU, err)
		}
	}
	if err := w.host.Isolate(adapter); err != nil {
		return fmt.Errorf("keep the host from forwarding by it: %w", err)
	}
	if err := w.ensureAddresses(adapter, m.Addresses); err != nil {
		return err
	}
	return w.ensureRoutes(adapter, m)
}

// ensureMAC: Open vSwitch for Windows does not set the MAC of the adapters that it makes, although its
// database has it.
func (w *Platform) ensureMAC(adapter hostnet.Adapter, mac net.HardwareAddr) (hostnet.Adapter, error) {
	if bytes.Equal(adapter.MAC, mac) {
		return adapter, nil
	}
	if err := w.host.SetMAC(adapter, mac); err != nil {
		return adapter, fmt.Errorf("set MAC %v: %w", mac, err)
	}
	adapters, err := w.host.Adapters()
	if err != nil {
		return adapter, err
	}
	now, ok := hostnet.Named(adapters, adapter.Alias)
	if !ok {
		return adapter, fmt.Errorf("it went away when it got MAC %v: %w", mac, platform.ErrNoDevice)
	}
	if !bytes.Equal(now.MAC, mac) {
		return adapter, fmt.Errorf("it has MAC %v and does not take %v", now.MAC, mac)
	}
	return now, nil
}

// ensureAddresses gives the adapter the addresses it lacks and takes others, except for link-local ones.
func (w *Platform) ensureAddresses(adapter hostnet.Adapter, wanted []netip.Prefix) error {
	have := map[netip.Prefix]bool{}
	for _, a := range adapter.Addresses {
		if slices.Contains(wanted, a.Prefix) {
			have[a.Prefix] = true
			continue
		}
		if a.Prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		if err := w.host.DeleteAddress(adapter, a.Prefix); err != nil {
			return fmt.Errorf("remove address %v: %w", a.Prefix, err)
		}
	}
	for _, prefix := range wanted {
		if have[prefix] {
			continue
		}
		if err := w.host.AddAddress(adapter, prefix); err != nil {
			return fmt.Errorf("add address %v: %w", prefix, err)
		}
	}
	return nil
}

// ensureRoutes owns all routes by the adapter that have a next hop. Windows has no source in a route: it
// takes the adapter's own address, of which there is one for each family.
func (w *Platform) ensureRoutes(adapter hostnet.Adapter, m platform.Management) error {
	have, err := w.host.Routes(adapter)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	same := func(r hostnet.Route, route platform.Route) bool {
		return r.Destination == route.Destination && r.NextHop == route.NextHop
	}
	for _, r := range have {
		if slices.ContainsFunc(m.Routes, func(route platform.Route) bool { return same(r, route) }) ||
			!m.Superfluous(r.Destination) {
			continue
		}
		if err := w.host.DeleteRoute(adapter, r); err != nil {
			return fmt.Errorf("remove route %v by %v: %w", r.Destination, r.NextHop, err)
		}
	}
	for _, route := range m.Routes {
		if slices.ContainsFunc(have, func(r hostnet.Route) bool { return same(r, route) }) {
			continue
		}
		if err := w.host.AddRoute(adapter,
			hostnet.Route{Destination: route.Destination, NextHop: route.NextHop}); err != nil {
			return fmt.Errorf("add route %v by %v: %w", route.Destination, route.NextHop, err)
		}
	}
	return nil
}
