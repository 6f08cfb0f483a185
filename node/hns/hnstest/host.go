package hnstest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/hostnet"
)

// LocalAddress is what an adapter has that came by hand: usable, to stay.
func LocalAddress(prefix string) hostnet.Address {
	return hostnet.Address{Prefix: netip.MustParsePrefix(prefix), Usable: true}
}

func (m *Machine) Adapters() ([]hostnet.Adapter, error) {
	if err := m.suffer("Adapters"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := []hostnet.Adapter{}
	for _, a := range m.adapters {
		if a.disabled {
			continue
		}
		one := a.Adapter
		one.Addresses = slices.Clone(a.Addresses)
		found = append(found, one)
	}
	return found, nil
}

func (m *Machine) Routes(a hostnet.Adapter) ([]hostnet.Route, error) {
	if err := m.suffer("Routes"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if own := m.byLUID(a); own != nil {
		return slices.Clone(own.routes), nil
	}
	return []hostnet.Route{}, nil
}

var errNoAdapter = errors.New("element not found")

func (m *Machine) change(call string, a hostnet.Adapter, change func(*adapter)) error {
	m.mu.Lock()
	m.calls = append(m.calls, call)
	m.mu.Unlock()
	if err := m.suffer(call); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.byLUID(a)
	if own == nil || m.taken(own) {
		return errNoAdapter
	}
	change(own)
	m.notify()
	return nil
}

func (m *Machine) byLUID(a hostnet.Adapter) *adapter {
	return one(m.adapters, func(o *adapter) bool { return o.LUID == a.LUID })
}

// taken says whether a switch has the adapter: Windows' own stack is not bound to it then.
func (m *Machine) taken(a *adapter) bool {
	holds := func(n *network) bool { return n.Adapter == a.Alias && !n.switchless }
	return a.Kind == hostnet.Physical && (slices.ContainsFunc(m.networks, holds) || slices.ContainsFunc(m.left, holds))
}

func (m *Machine) AddAddress(a hostnet.Adapter, p netip.Prefix) error {
	return m.change("AddAddress", a, func(own *adapter) {
		own.Addresses = append(own.Addresses, hostnet.Address{Prefix: p, Usable: true})
	})
}

func (m *Machine) DeleteAddress(a hostnet.Adapter, p netip.Prefix) error {
	return m.change("DeleteAddress", a, func(own *adapter) {
		own.Addresses = slices.DeleteFunc(own.Addresses, func(o hostnet.Address) bool { return o.Prefix == p })
	})
}

func (m *Machine) AddRoute(a hostnet.Adapter, r hostnet.Route) error {
	return m.change("AddRoute", a, func(own *adapter) {
		same := func(o hostnet.Route) bool { return o.Destination == r.Destination && o.NextHop == r.NextHop }
		if !slices.ContainsFunc(own.routes, same) {
			own.routes = append(own.routes, r)
		}
	})
}

func (m *Machine) DeleteRoute(a hostnet.Adapter, r hostnet.Route) error {
	return m.change("DeleteRoute", a, func(own *adapter) {
		own.routes = slices.DeleteFunc(own.routes, func(o hostnet.Route) bool {
			return o.Destination == r.Destination && o.NextHop == r.NextHop
		})
	})
}

func (m *Machine) SetNeighbour(a hostnet.Adapter, address netip.Addr, mac net.HardwareAddr) error {
	return m.change("SetNeighbour", a, func(own *adapter) {
		if own.neighbours == nil {
			own.neighbours = map[netip.Addr]string{}
		}
		own.neighbours[address] = mac.String()
	})
}

func (m *Machine) SetDNS(a hostnet.Adapter, dns hostnet.DNS) error {
	return m.change("SetDNS", a, func(own *adapter) { own.DNS = dns })
}

func (m *Machine) SetMTU(a hostnet.Adapter, mtu int) error {
	return m.change("SetMTU", a, func(own *adapter) { own.MTU = mtu })
}

func (m *Machine) Isolate(a hostnet.Adapter) error {
	return m.change("Isolate", a, func(own *adapter) { own.isolated = true })
}

func (m *Machine) Enable(a hostnet.Adapter) error {
	return m.change("Enable", a, func(own *adapter) { own.Up = true })
}

func (m *Machine) EnableNamed(alias string) error {
	m.mu.Lock()
	own := m.adapter(alias)
	m.mu.Unlock()
	if own == nil {
		return errNoAdapter
	}
	return m.change("EnableNamed", own.Adapter, func(own *adapter) { own.disabled, own.Up = false, true })
}

func (m *Machine) SetMAC(a hostnet.Adapter, mac net.HardwareAddr) error {
	return m.change("SetMAC", a, func(own *adapter) { own.MAC = slices.Clone(mac) })
}

func (m *Machine) SoftwareRSC(context.Context, string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.RSC, nil
}

// EnableSoftwareRSC returns success and does nothing, as a PowerShell without the module may.
func (m *Machine) EnableSoftwareRSC(context.Context, string) error { return nil }

func (m *Machine) Watch(ctx context.Context, changed func()) error {
	told := signal.New()
	m.mu.Lock()
	m.changed = append(m.changed, told)
	m.mu.Unlock()
	changed()
	for {
		select {
		case <-told:
			changed()
		case <-ctx.Done():
			return nil
		}
	}
}

// Isolated says whether the host was kept from forwarding by the adapter.
func (m *Machine) Isolated(alias string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.adapter(alias)
	return a != nil && a.isolated
}
