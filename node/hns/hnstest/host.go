package hnstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/node/hostnet"
)

// Host is the host's networking: [hostnet.Host], except for what Hyper-V manages.
type Host struct {
	state *state
	calls *calls
}

var errNoAdapter = errors.New("element not found")

// LocalAddress is what an adapter has that came by hand: usable, to stay.
func LocalAddress(prefix string) hostnet.Address {
	return hostnet.Address{Prefix: netip.MustParsePrefix(prefix), Usable: true}
}

func (h *Host) Adapters() ([]hostnet.Adapter, error) {
	if err := h.calls.suffer("Adapters"); err != nil {
		return nil, err
	}
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	found := []hostnet.Adapter{}
	for _, a := range h.state.adapters.list {
		if a.disabled {
			continue
		}
		one := a.Adapter
		one.Addresses = slices.Clone(a.Addresses)
		found = append(found, one)
	}
	return found, nil
}

func (h *Host) Routes(a hostnet.Adapter) ([]hostnet.Route, error) {
	if err := h.calls.suffer("Routes"); err != nil {
		return nil, err
	}
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	if own := h.state.adapters.byLUID(a.LUID); own != nil {
		return slices.Clone(own.routes), nil
	}
	return []hostnet.Route{}, nil
}

func (h *Host) change(call string, a hostnet.Adapter, change func(*adapter)) error {
	if err := h.calls.begin(call); err != nil {
		return err
	}
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	own := h.state.adapters.byLUID(a.LUID)
	if own == nil || h.state.taken(own) {
		return errNoAdapter
	}
	change(own)
	h.state.adapters.notify()
	return nil
}

func (h *Host) AddAddress(a hostnet.Adapter, p netip.Prefix) error {
	return h.change("AddAddress", a, func(own *adapter) {
		own.Addresses = append(own.Addresses, hostnet.Address{Prefix: p, Usable: true})
	})
}

func (h *Host) DeleteAddress(a hostnet.Adapter, p netip.Prefix) error {
	return h.change("DeleteAddress", a, func(own *adapter) {
		own.Addresses = slices.DeleteFunc(own.Addresses, func(o hostnet.Address) bool { return o.Prefix == p })
	})
}

func (h *Host) AddRoute(a hostnet.Adapter, r hostnet.Route) error {
	return h.change("AddRoute", a, func(own *adapter) {
		same := func(o hostnet.Route) bool { return o.Destination == r.Destination && o.NextHop == r.NextHop }
		if !slices.ContainsFunc(own.routes, same) {
			own.routes = append(own.routes, r)
		}
	})
}

func (h *Host) DeleteRoute(a hostnet.Adapter, r hostnet.Route) error {
	return h.change("DeleteRoute", a, func(own *adapter) {
		own.routes = slices.DeleteFunc(own.routes, func(o hostnet.Route) bool {
			return o.Destination == r.Destination && o.NextHop == r.NextHop
		})
	})
}

func (h *Host) SetNeighbour(a hostnet.Adapter, address netip.Addr, mac net.HardwareAddr) error {
	return h.change("SetNeighbour", a, func(own *adapter) {
		if own.neighbours == nil {
			own.neighbours = map[netip.Addr]string{}
		}
		own.neighbours[address] = mac.String()
	})
}

func (h *Host) SetDNS(a hostnet.Adapter, dns hostnet.DNS) error {
	return h.change("SetDNS", a, func(own *adapter) { own.DNS = dns })
}

func (h *Host) SetMTU(a hostnet.Adapter, mtu int) error {
	return h.change("SetMTU", a, func(own *adapter) { own.MTU = mtu })
}

// InCompartment: the host's own is 1, and every other is that of a namespace.
func (h *Host) InCompartment(compartment uint32, do func() error) error {
	if err := h.calls.begin("InCompartment"); err != nil {
		return err
	}
	if !h.state.hasCompartment(compartment) {
		return fmt.Errorf("enter network compartment %d: there is none", compartment)
	}
	return do()
}

func (h *Host) Isolate(a hostnet.Adapter) error {
	return h.change("Isolate", a, func(own *adapter) { own.isolated = true })
}

func (h *Host) Enable(a hostnet.Adapter) error {
	return h.change("Enable", a, func(own *adapter) { own.Up = true })
}

func (h *Host) EnableNamed(alias string) error {
	h.state.mu.Lock()
	named := h.state.adapters.named(alias)
	h.state.mu.Unlock()
	if named == nil {
		return errNoAdapter
	}
	own := hostnet.Adapter{LUID: named.LUID}
	return h.change("EnableNamed", own, func(own *adapter) { own.disabled, own.Up = false, true })
}

func (h *Host) SetMAC(a hostnet.Adapter, mac net.HardwareAddr) error {
	return h.change("SetMAC", a, func(own *adapter) { own.MAC = slices.Clone(mac) })
}

func (h *Host) Rename(a hostnet.Adapter, alias string) error {
	h.state.mu.Lock()
	taken := h.state.adapters.named(alias)
	h.state.mu.Unlock()
	if taken != nil && taken.LUID != a.LUID {
		return errAliasUsed
	}
	return h.change("Rename", a, func(own *adapter) { own.Alias = alias })
}

func (h *Host) Watch(ctx context.Context, changed func()) error {
	h.state.mu.Lock()
	told := h.state.adapters.watch()
	h.state.mu.Unlock()
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
